// What came of a repair, in a sign, a word and four numbers: as in report.html.
import type { Accuracy, Metrics, Result } from "./types";
import { change, count, sentence, share } from "./numbers";

const GLYPHS: Record<string, string> = {
  repaired: "M8 16.5l5.2 5.2L24.5 10.4",
  "partly repaired": "M16 5a11 11 0 0 1 0 22z",
  "not repaired": "M9.5 16h13",
};

export function Glyph({ verdict }: { verdict: string }) {
  return (
    <svg viewBox="0 0 32 32" class={`glyph ${verdict.split(" ")[0]}`} aria-hidden="true">
      <circle cx="16" cy="16" r="14" />
      <path d={GLYPHS[verdict] ?? ""} />
    </svg>
  );
}

export function Verdict({ of }: { of: Result }) {
  const { verdict, reason, offer } = of.metrics;
  return (
    <div class="verdict">
      <Glyph verdict={verdict} />
      <div>
        <h2 class="said-so">{verdict.charAt(0).toUpperCase() + verdict.slice(1)}</h2>
        <p class="reason">{sentence(reason)}</p>
        {verdict === "not repaired" && <p class="reason">The model is returned unchanged, and nothing is removed.</p>}
        {offer && <p class="reason">{sentence(offer)}</p>}
      </div>
    </div>
  );
}

export function Figures({ of }: { of: Result }) {
  const judged: [string, Accuracy] = of.holdout.n ? ["holdout", of.holdout] : ["query", of.query];
  const rest = of.remaining;
  return (
    <ul class="figures">
      <li>
        <b>{share(judged[1].after)}</b>
        <span>
          accuracy on {count(judged[1].n)} {judged[0]} failures{judged[0] === "holdout" ? `: ${count(of.fixed)} fixed` : ""}
        </span>
      </li>
      <li>
        <b>{rest ? count(of.newly_broken) : "not judged"}</b>
        <span>{rest ? `of ${count(rest.n)} examples that were right are newly broken` : "no remaining examples were given"}</span>
      </li>
      <li>
        <b>
          {share(of.overall.before)} → {share(of.overall.after)}
        </b>
        <span>overall accuracy, before and after</span>
      </li>
      <li>
        <b>{count(of.removed)}</b>
        <span>
          of {count(of.trained)} training examples removed{of.relabelled ? `, ${count(of.relabelled)} of them with a new label` : ""}
        </span>
      </li>
    </ul>
  );
}

const at = (value: number): string => `${(2 + 96 * Math.min(Math.max(value, 0), 1)).toFixed(2)}%`;

function Dumbbell({ before, after, interval, says }: { before: number; after: number; interval: [number, number] | null; says: string }) {
  return (
    <svg class="dumbbell" role="img" width="100%" height="34" aria-label={says}>
      {[0, 0.25, 0.5, 0.75, 1].map((v) => (
        <line class="tick" x1={at(v)} x2={at(v)} y1="4" y2="30" />
      ))}
      <line class="track" x1={at(0)} x2={at(1)} y1="17" y2="17" />
      <line class="moved" x1={at(before)} x2={at(after)} y1="17" y2="17" />
      {interval && (
        <>
          <line class="interval" x1={at(interval[0])} x2={at(interval[1])} y1="17" y2="17" />
          <line class="interval-end" x1={at(interval[0])} x2={at(interval[0])} y1="10" y2="24" />
          <line class="interval-end" x1={at(interval[1])} x2={at(interval[1])} y1="10" y2="24" />
        </>
      )}
      <circle class="before" cx={at(before)} cy="17" r="5" />
      <circle class="after" cx={at(after)} cy="17" r="6" />
    </svg>
  );
}

const SETS: [string, string][] = [
  ["query", "failures searched with"],
  ["holdout", "failures that only judge"],
  ["remaining", "right examples that only judge"],
  ["overall", "holdout and remaining together"],
];

export function BeforeAfter({ metrics }: { metrics: Metrics }) {
  const rows = SETS.map(([name, what]) => ({ name, what, row: metrics[name] as Accuracy | null })).filter(({ row }) => row && row.n && row.before !== null && row.after !== null);
  return (
    <>
      <ul class="dumbbells">
        {rows.map(({ name, what, row }) => {
          const { before, after } = row as { before: number; after: number };
          const interval = metrics.intervals[name] ?? null;
          const told = interval ? `, 95% interval ${share(interval[0])} to ${share(interval[1])}` : "";
          return (
            <li>
              <span class="name">
                <b>{name}</b>
                <span class="soft">{what}</span>
              </span>
              <Dumbbell before={before} after={after} interval={interval} says={`${name}: ${share(before)} before, ${share(after)} after${told}`} />
              <span class="number">
                {share(before)} → <b>{share(after)}</b>
                <span class="interval-words">
                  {interval ? `${share(interval[0])} to ${share(interval[1])}` : ""}
                </span>
                <span class="hidden">{change(before, after)} points</span>
              </span>
            </li>
          );
        })}
      </ul>
      <p class="note signs">
        <span class="sign before">○</span> before <span class="sign after">●</span> after, with its 95% interval
      </p>
    </>
  );
}
