// A repair as a small file beside the model: how large it is, which layers it moves, and how much of each.
import { Begin, Running, WrongWords } from "./job";
import { count, sentence, several, share } from "./numbers";
import { page } from "./store";
import { Table } from "./table";
import type { Job, Patch, Result } from "./types";

const MOST = 12; // layers that are shown at once

const HEADS = ["layer", "stored as", "weights", "bytes", "changed", "how far"];

function Layers({ layers }: { layers: Patch["layers"] }) {
  return (
    <Table title="The layers it moves" heads={HEADS} numbers={HEADS.slice(2)}>
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
    </Table>
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
  const ours = (job: Job | null): Job | null => (job?.kind === "patch" && job.repair === result.number ? job : null);
  const running = ours(page.job);
  const failed = ours(page.ended)?.error;
  return (
    <section class="patch">
      <h2>The patch</h2>
      {result.patch ? (
        <Made patch={result.patch} />
      ) : running ? (
        <Running job={running} />
      ) : (
        <>
          <p class="soft">
            The repair as a small file that is put on the original weights, and taken off again to the bit. It says which layers
            move, and how far.
          </p>
          {failed && <WrongWords of={failed} />}
          <Begin what={{ kind: "patch", repair: result.number }} says="Make the patch" />
        </>
      )}
    </section>
  );
}
