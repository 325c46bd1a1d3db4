// How many to remove: the curve beside its controls, and a cut that can be dragged.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, told } from "./api";
import { Chart, Legend, type Line } from "./chart";
import { EstimateLine } from "./estimate";
import { Key } from "./help";
import { Begin } from "./job";
import { useKeys } from "./keys";
import { count, several, share } from "./numbers";
import { newKey } from "./queue";
import { page, usePage } from "./store";
import { Table } from "./table";
import type { Counts, Curve, CurveRow } from "./types";

type Style = Pick<Line, "says" | "colour" | "dash" | "mark">;

const STYLES: Record<string, Style> = {
  nothing: { says: "control: nothing removed", colour: "ink", dash: [2, 4], mark: "" },
  random: { says: "control: as many removed at random", colour: "warm", dash: [6, 4], mark: "square" },
  causes: { says: "causes removed", colour: "accent", dash: [], mark: "circle" },
};

const value = (row: CurveRow | undefined, name: string): number | null => {
  const found = row?.[name];
  return typeof found === "number" ? found : null;
};

/** One panel: each way to choose as a line over all numbers that were tried. */
export function lines(rows: CurveRow[], name: string): { x: number[]; lines: Line[] } {
  const there = rows.filter((row) => row.by in STYLES && value(row, name) !== null);
  const x = [...new Set([0, ...there.map((row) => row.removed)])].sort((a, b) => a - b);
  const nothing = there.find((row) => row.by === "nothing");
  const made = Object.entries(STYLES)
    .filter(([by]) => there.some((row) => row.by === by))
    .map(([by, style]): Line => {
      const find = (removed: number): CurveRow | undefined =>
        by === "nothing" || removed === 0 ? (nothing ?? there.find((row) => row.by === by && row.removed === removed)) : there.find((row) => row.by === by && row.removed === removed);
      const column = (key: string): (number | null)[] => x.map((removed) => value(find(removed), key));
      const banded = there.some((row) => row.by === by && value(row, `${name}_low`) !== null);
      return { ...style, values: column(name), ...(banded ? { low: column(`${name}_low`), high: column(`${name}_high`) } : {}) };
    });
  return { x, lines: made };
}

export function Curves({ rows, cut, onCut, onCutDone, chosen }: { rows: CurveRow[]; cut: number | null; onCut?: (n: number) => void; onCutDone?: (n: number) => void; chosen?: number | null }) {
  const judged = rows.some((row) => value(row, "holdout") !== null) ? "holdout" : "query";
  const panels = useMemo(
    () =>
      [
        { name: judged, title: `Accuracy on ${judged} failures`, ...lines(rows, judged) },
        { name: "remaining", title: "Accuracy on remaining", ...lines(rows, "remaining") },
      ].filter((panel) => panel.lines.length),
    [rows, judged],
  );
  const most = Math.max(1, ...rows.map((row) => row.removed));
  const moves = onCut && onCutDone ? { onCut, onCutDone } : {};
  return (
    <>
      <div class="curves">
        {panels.map((panel) => (
          <Chart title={panel.title} x={panel.x} lines={panel.lines} cut={cut} most={most} write={share} {...moves} />
        ))}
      </div>
      <Legend lines={panels[0]?.lines ?? []} band="lowest to highest refit" />
      {chosen ? <p class="note">The tool would remove {count(chosen)}.</p> : null}
    </>
  );
}

export function CurveTable({ rows }: { rows: CurveRow[] }) {
  const names = ["query", "holdout", "guard", "remaining"].filter((name) => rows.some((row) => value(row, name) !== null));
  return (
    <details>
      <summary>The curve as a table</summary>
      <Table title="Accuracy for every number removed that was tried, lowest and highest refit in brackets" shown heads={["by", "removed", ...names]} numbers={["removed", ...names]}>
        {rows.map((row) => (
          <tr>
            <th scope="row">{row.by}</th>
            <td class="number">{count(row.removed)}</td>
            {names.map((name) => (
              <td class="number">
                {share(value(row, name))}
                {value(row, `${name}_low`) !== null && (
                  <span class="soft">
                    {" "}
                    ({share(value(row, `${name}_low`))} to {share(value(row, `${name}_high`))})
                  </span>
                )}
              </td>
            ))}
          </tr>
        ))}
      </Table>
    </details>
  );
}

/** "412 removed, 37 of them by you, 5 relabelled by you, 12 kept by you" */
export function inWords(counts: Counts): string {
  const gone = counts.removed - counts.relabel;
  const all = gone > 0 && counts.remove === gone;
  const said = [`${count(gone)} removed${all ? " by you" : ""}`];
  if (counts.by_cut) said.push(`${counts.remove ? count(counts.remove) : "none"} of them by you`);
  if (counts.relabel) said.push(`${count(counts.relabel)} relabelled by you`);
  said.push(`${count(counts.keep)} kept by you`);
  return said.join(", ");
}

/** What the counts would be with another cut, while it is dragged. */
function usePreview(cut: number): Counts | null {
  const [counts, setCounts] = useState<[number, Counts] | null>(null);
  const version = page.state?.version;
  useEffect(() => {
    if (cut === page.state?.cut) return;
    const waiting = setTimeout(() => {
      get<{ counts: Counts }>("api/counts", { cut }).then((answer) => setCounts([cut, answer.counts]), () => undefined);
    }, 40);
    return () => clearTimeout(waiting);
  }, [cut, version]);
  return counts && counts[0] === cut ? counts[1] : null;
}

export function Many() {
  usePage();
  const [curve, setCurve] = useState<Curve | null>(null);
  const [cut, setCut] = useState(page.state?.cut ?? 0);
  const dragging = useRef(false);
  const saved = page.state?.cut ?? 0;
  const preview = usePreview(cut);
  useEffect(() => {
    get<Curve>("api/curve").then(setCurve, (error) => page.say(told(error), true));
  }, [page.ended?.number]);
  useEffect(() => {
    if (!dragging.current) setCut(saved);
  }, [saved]);
  const rows = curve?.rows ?? [];
  const total = page.run?.total ?? 0;
  const most = Math.max(1, ...rows.map((row) => row.removed), rows.length ? 0 : total);
  const drag = (to: number): void => {
    dragging.current = true;
    setCut(to);
  };
  const done = (to: number): void => {
    const kept = Math.round(Math.min(Math.max(0, to), total));
    dragging.current = false;
    setCut(kept);
    if (kept !== page.state?.cut) page.act({ path: "api/cut", body: { cut: kept, key: newKey() } });
  };
  const step = Math.max(1, Math.round(most / 100));
  useKeys("How many", [
    { keys: ["ArrowRight"], says: `the cut ${several(step, "example")} further`, run: () => done(cut + step), repeats: true },
    { keys: ["ArrowLeft"], says: `the cut ${several(step, "example")} back`, run: () => done(cut - step), repeats: true },
    { keys: ["0"], says: "no cut", run: () => done(0) },
  ]);
  const counts = cut === saved ? page.state?.counts : preview;
  return (
    <div class="many">
      <h1>How many to remove</h1>
      <p class="lead" aria-live="polite">
        {counts ? inWords(counts) : "…"}
      </p>
      <p class="soft">
        All undecided causes above the cut are removed with those you chose. What you decided yourself stays as you decided
        it, above the cut and below.
      </p>
      <div class="cutting">
        <label>
          <span>Cut</span>
          <input
            class="field"
            type="number"
            min={0}
            max={total}
            value={cut}
            onInput={(event) => drag(Number(event.currentTarget.value))}
            onChange={(event) => done(Number(event.currentTarget.value))}
          />
        </label>
        <label class="slider">
          <span class="hidden">Cut as a slider</span>
          <input
            type="range"
            min={0}
            max={most}
            value={Math.min(cut, most)}
            aria-valuetext={`${count(cut)} above the cut`}
            onInput={(event) => drag(Number(event.currentTarget.value))}
            onChange={(event) => done(Number(event.currentTarget.value))}
          />
        </label>
        <button type="button" disabled={cut === 0} onClick={() => done(0)}>
          No cut <Key of="0" />
        </button>
        {curve?.chosen ? (
          <button type="button" disabled={cut === curve.chosen} onClick={() => done(curve.chosen ?? 0)}>
            The tool’s: {count(curve.chosen)}
          </button>
        ) : null}
      </div>
      {rows.length > 0 ? (
        <>
          <p class="soft">
            Each point is the model after the treatment with that many examples removed, most harmful first. The controls are
            the same treatment with nothing removed and with as many removed at random. Drag the line to move the cut.
          </p>
          <Curves rows={rows} cut={cut} onCut={drag} onCutDone={done} />
          <CurveTable rows={rows} />
        </>
      ) : (
        curve ? <NoCurve /> : <p class="note">Loading the curve …</p>
      )}
      <h2>When to stop looking</h2>
      <EstimateLine />
    </div>
  );
}

function NoCurve() {
  return (
    <div class="offer">
      <p>
        There is no curve yet. It shows what each number removed would do to the failures and to what works, and takes about
        as long as several repairs. The cut works without it.
      </p>
      <Begin what={{ kind: "curve" }} says="Make the curve" />
    </div>
  );
}
