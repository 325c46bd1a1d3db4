// One repair: its verdict, before and after, what it fixed and broke, and whether a person accepts it.
import { useEffect, useState } from "preact/hooks";
import { get, told } from "./api";
import { FailureTile } from "./example";
import { Curves, CurveTable } from "./many";
import { Matrices } from "./matrix";
import { change, count, probability, sentence, several, share } from "./numbers";
import { PatchOf } from "./patch";
import { newKey } from "./queue";
import { page, usePage } from "./store";
import { Table } from "./table";
import type { Part, Repair, Result as Whole, Shown } from "./types";
import { BeforeAfter, Figures, Verdict } from "./verdict";

function Warnings({ lines }: { lines: string[] }) {
  if (!lines.length) return null;
  return (
    <aside class="warnings" aria-label="Warnings">
      <h3>{lines.length === 1 ? "Warning" : "Warnings"}</h3>
      <ul>
        {lines.map((line) => {
          const [what = "", ...more] = line.split("; ");
          return (
            <li>
              {sentence(what)} <span>{more.length ? sentence(more[more.length - 1] ?? "") : ""}</span>
            </li>
          );
        })}
      </ul>
    </aside>
  );
}

const TILES = 12; // examples that are shown at once
const ROWS = 10; // lines of a table

function Changed({ title, rows, n, set }: { title: string; rows: Shown[]; n: number; set: string }) {
  const kind = page.run?.kind ?? "none";
  const [whole, setWhole] = useState(false);
  const shown = whole ? rows : rows.slice(0, TILES);
  return (
    <div>
      <h3>
        {title}: {count(n)}
      </h3>
      {n === 0 && <p class="note">None.</p>}
      <ul class={`tiles same ${kind}`}>
        {shown.map((row) => (
          <li>
            <FailureTile of={row} set={set} />
          </li>
        ))}
      </ul>
      {shown.length < rows.length && (
        <button type="button" onClick={() => setWhole(true)}>
          Show {count(rows.length)}
        </button>
      )}
      {shown.length === rows.length && rows.length < n && <p class="note">{several(rows.length, "example")} of {count(n)} are shown; metrics.json lists all.</p>}
    </div>
  );
}

function PartTable({ title, rows, harmed }: { title: string; rows: [string, Part][]; harmed: string[] }) {
  return (
    <Table title={title} heads={["", "n", "before", "after", "change (points)", "fixed", "broken", "p"]}>
      {rows.map(([name, part]) => (
        <tr>
          <th scope="row">
            {name || "no group"} {harmed.includes(name) && <span class="harmed">▼ fell beyond chance</span>}
          </th>
          <td class="number">{count(part.n)}</td>
          <td class="number">{share(part.before)}</td>
          <td class="number">{share(part.after)}</td>
          <td class="number">{change(part.before, part.after)}</td>
          <td class="number">{count(part.fixed)}</td>
          <td class="number">{count(part.broken)}</td>
          <td class="number">{probability(part.p_value)}</td>
        </tr>
      ))}
    </Table>
  );
}

/** What moved most first; where there are many, the others are folded away. */
function Parts({ title, of, harmed }: { title: string; of: Record<string, Part>; harmed: string[] }) {
  const all = Object.entries(of);
  if (all.length < 2) return null;
  const many = all.length > ROWS + 2;
  const moved = ([, part]: [string, Part]): number => part.fixed + part.broken;
  const rows = many ? [...all].sort((a, b) => Number(harmed.includes(b[0])) - Number(harmed.includes(a[0])) || moved(b) - moved(a) || b[1].n - a[1].n) : all;
  return (
    <section>
      <h2>{title}</h2>
      <PartTable title={title} rows={many ? rows.slice(0, ROWS) : rows} harmed={harmed} />
      {many && (
        <details>
          <summary>{count(rows.length - ROWS)} more, in which less has moved</summary>
          <PartTable title={`${title}, the others`} rows={rows.slice(ROWS)} harmed={harmed} />
        </details>
      )}
    </section>
  );
}

const SAID = new Map<boolean | null, string>([[true, "Accepted"], [false, "Rejected"], [null, "Not decided yet"]]);

function Judgement({ of }: { of: Repair }) {
  const [note, setNote] = useState(of.note);
  useEffect(() => setNote(of.note), [of.number, of.note]);
  const judge = (accepted: boolean | null): void => {
    page.act({ path: "api/accept", body: { repair: of.number, accepted, note, key: newKey() } });
  };
  return (
    <section class="judgement" aria-label="Accept or reject">
      <h2>Do you accept it?</h2>
      <p aria-live="polite">
        <b>{SAID.get(of.accepted)}</b>
        {of.accepted !== null && of.by ? ` by ${of.by}` : ""}
        {of.note ? `: ${of.note}` : ""}
      </p>
      <label>
        <span>A note</span>
        <textarea class="field" rows={2} maxLength={2000} value={note} onInput={(event) => setNote(event.currentTarget.value)} />
      </label>
      <p class="buttons">
        <button type="button" class="main" aria-pressed={of.accepted === true} onClick={() => judge(true)}>
          Accept
        </button>
        <button type="button" aria-pressed={of.accepted === false} onClick={() => judge(false)}>
          Reject
        </button>
        {of.accepted !== null && (
          <button type="button" class="link" onClick={() => judge(null)}>
            Leave it open
          </button>
        )}
      </p>
    </section>
  );
}

function Exports({ number, patch }: { number: number; patch: boolean }) {
  const at = `export/repairs/${number}`;
  return (
    <section class="exports">
      <h2>Take it with you</h2>
      <p class="buttons">
        <a class="button" href={`${at}/weights`} download>
          Repaired weights
        </a>
        {patch && (
          <a class="button" href={`${at}/patch`} download>
            Patch
          </a>
        )}
        <a class="button" href={`${at}/data`} download>
          Cleaned data
        </a>
        <a class="button" href={`${at}/causes.csv`} download>
          causes.csv
        </a>
        <a class="button" href={`${at}/report.html`} target="_blank" rel="noopener">
          Report
        </a>
      </p>
    </section>
  );
}

export function Result({ number }: { number: number }) {
  usePage();
  const [result, setResult] = useState<Whole | null>(null);
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    let last = true;
    get<Whole>(`api/repairs/${number}`).then(
      (found) => last && setResult(found),
      (error) => last && setWrong(told(error)),
    );
    return () => {
      last = false;
    };
  }, [page.state?.version, page.ended?.number]);
  if (wrong) return <p class="reason">{sentence(wrong)}</p>;
  if (!result) return <p class="note">Loading …</p>;
  const { metrics } = result;
  return (
    <div class="result">
      <p class="crumb">
        <a href="#/repair">All repairs</a>
      </p>
      <h1>{number === 0 ? "The repair of the run" : `Repair ${number}`}</h1>
      <Verdict of={result} />
      <Figures of={result} />
      <Warnings lines={metrics.warnings} />
      <Judgement of={result} />
      <Exports number={number} patch={result.patch?.file ?? false} />
      <section>
        <h2>Before and after</h2>
        <BeforeAfter metrics={metrics} />
      </section>
      <section>
        <h2>Fixed and newly broken</h2>
        <p class="soft">Under each: its label, and what the model predicts, before → after.</p>
        <div class="two even">
          <Changed title="Fixed" rows={result.fixed_rows} n={result.fixed} set="failures" />
          <Changed title="Newly broken" rows={result.broken_rows} n={result.newly_broken} set="remaining" />
        </div>
      </section>
      {metrics.confusion && (
        <section>
          <h2>Confusion matrices</h2>
          <Matrices confusion={metrics.confusion} />
        </section>
      )}
      <PatchOf result={result} />
      <Parts title="By failure group" of={metrics.groups} harmed={[]} />
      <Parts title="By class" of={metrics.classes} harmed={metrics.harmed.map(String)} />
      {metrics.curve.length > 1 && (
        <section>
          <h2>How many were removed</h2>
          <Curves rows={metrics.curve} cut={result.removed || null} />
          <CurveTable rows={metrics.curve} />
        </section>
      )}
    </div>
  );
}
