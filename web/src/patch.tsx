// A repair as a small file beside the model: how large it is, which layers it moves, and how much of each.
import { post, told } from "./api";
import { Running } from "./repair";
import { count, sentence, several, share } from "./numbers";
import { page } from "./store";
import type { Job, Patch, Result } from "./types";

const MOST = 12; // layers that are shown at once

function Layers({ layers }: { layers: Patch["layers"] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="The layers it moves">
      <table>
        <caption class="hidden">The layers it moves</caption>
        <thead>
          <tr>
            <th scope="col">layer</th>
            <th scope="col">stored as</th>
            <th scope="col" class="number">
              weights
            </th>
            <th scope="col" class="number">
              bytes
            </th>
            <th scope="col" class="number">
              changed
            </th>
            <th scope="col" class="number">
              how far
            </th>
          </tr>
        </thead>
        <tbody>
          {layers.map((layer) => (
            <tr>
              <th scope="row">{layer.name}</th>
              <td>{layer.rank === null ? layer.kind : `rank ${layer.rank}`}</td>
              <td class="number">{count(layer.weights)}</td>
              <td class="number">{count(layer.bytes)}</td>
              <td class="number">{share(layer.changed)}</td>
              <td class="number">{share(layer.moved)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Made({ patch }: { patch: Patch }) {
  const of = patch.share === null ? "" : `, ${share(patch.share)} of the weights`;
  const rest = patch.layers.slice(MOST);
  return (
    <>
      <p>
        {count(patch.bytes)} bytes{of}; it moves {several(patch.layers.length, "layer")}.{" "}
        {patch.why ? `It is exact: ${sentence(patch.why)} ` : ""}
        With the patch as it is stored: {patch.judged.verdict}, overall accuracy {share(patch.judged.overall.after)}.
      </p>
      <Layers layers={patch.layers.slice(0, MOST)} />
      {rest.length > 0 && (
        <details>
          <summary>{several(rest.length, "more layer")}</summary>
          <Layers layers={rest} />
        </details>
      )}
      <p class="note">Changed: the share of its weights that move. How far: the size of the move beside that of the weights.</p>
    </>
  );
}

export function PatchOf({ result }: { result: Result }) {
  if (!result.patch && result.verdict === "not repaired") return null;
  const why = page.run?.repair ?? "";
  const ours = page.job?.kind === "patch" && page.job.repair === result.number;
  const failed = page.ended?.kind === "patch" && page.ended.repair === result.number ? page.ended.error : null;
  const start = (): void => {
    post<Job>("api/jobs", { kind: "patch", repair: result.number }).then(
      (job) => {
        page.ended = null;
        page.job = job;
        page.drawn();
      },
      (error) => page.say(told(error), true),
    );
  };
  return (
    <section class="patch">
      <h2>The patch</h2>
      {result.patch ? (
        <Made patch={result.patch} />
      ) : ours && page.job ? (
        <Running job={page.job} />
      ) : (
        <>
          <p class="soft">
            The repair as a small file that is put on the original weights, and taken off again to the bit. It says which layers
            move, and how far.
          </p>
          {failed && (
            <p>
              <b>✕ {sentence(failed.what)}</b> {failed.todo ? sentence(failed.todo) : ""}
            </p>
          )}
          <p class="buttons">
            <button type="button" disabled={page.job !== null || why !== ""} onClick={start}>
              Make the patch
            </button>
            {page.job && <span class="note">Something is running: see Repair.</span>}
            {why && <span class="note">{sentence(why)}</span>}
          </p>
        </>
      )}
    </section>
  );
}
