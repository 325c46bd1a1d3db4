// Start a repair, and compare those that were made.
import { useEffect, useState } from "preact/hooks";
import { get, told } from "./api";
import { Key } from "./help";
import { when } from "./history";
import { begin, Ended, Running } from "./job";
import { useKeys } from "./keys";
import { inWords } from "./many";
import { count, sentence, several, share } from "./numbers";
import { page, usePage } from "./store";
import { Table } from "./table";
import type { Comparison, Job, Repair as Made } from "./types";
import { Glyph } from "./verdict";

function Start() {
  const [learn, setLearn] = useState("");
  const counts = page.state?.counts;
  const why = page.run?.repair ?? "";
  const nothing = !counts || counts.removed === 0;
  const start = (): void => {
    if (why || nothing || page.job || page.waiting) return;
    begin({ kind: "repair", learn: learn === "" ? null : learn === "yes" });
  };
  useKeys("Repair", [{ keys: ["Shift+r"], says: "start the repair", run: start }]);
  return (
    <section class="start" aria-label="Start a repair">
      <p class="lead">{counts ? inWords(counts) : "…"}</p>
      {nothing && (
        <p>
          Nothing is to be removed yet. Decide about some <a href="#/causes">causes</a>, or set a <a href="#/many">cut</a>.
        </p>
      )}
      {counts && counts.marked > 0 && <p class="soft">Left out of the search, with a wrong label of their own: {several(counts.marked, "failure")}.</p>}
      {why && <p class="reason">{sentence(why)}</p>}
      <label class="choice">
        <span>Learn from the failures too</span>
        <select value={learn} onChange={(event) => setLearn(event.currentTarget.value)}>
          <option value="">the tool decides</option>
          <option value="yes">yes</option>
          <option value="no">no, only forget</option>
        </select>
      </label>
      <p class="buttons">
        <button type="button" class="main big" disabled={nothing || why !== "" || page.job !== null || page.waiting > 0} onClick={start}>
          Repair <Key of="Shift+r" />
        </button>
        <span class="note">A copy of the model forgets them, and is judged with failures nobody has searched with. The original stays as it is.</span>
      </p>
    </section>
  );
}

/** A value of a run as a person reads it: an accuracy before and after, a number, a word. */
function words(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return Number.isInteger(value) ? count(value) : value.toFixed(4);
  if (typeof value !== "object") return String(value);
  if ("before" in value && "after" in value) return `${share(value.before as number | null)} → ${share(value.after as number | null)}`;
  return JSON.stringify(value);
}

const RESULTS: Record<string, string> = { newly_broken: "newly broken" };

function Compare({ repairs }: { repairs: Made[] }) {
  const [one, setOne] = useState(repairs[1]?.number ?? 0);
  const [other, setOther] = useState(repairs[0]?.number ?? 0);
  const [found, setFound] = useState<Comparison | null>(null);
  useEffect(() => {
    setFound(null);
    if (one !== other) get<Comparison>("api/compare", { one, other }).then(setFound, (error) => page.say(told(error), true));
  }, [one, other]);
  const name = (n: number): string => (n === 0 ? "the run" : `repair ${n}`);
  const pick = (label: string, value: number, set: (n: number) => void) => (
    <label>
      <span class="hidden">{label}</span>
      <select value={String(value)} onChange={(event) => set(Number(event.currentTarget.value))}>
        {repairs.map((made) => (
          <option value={String(made.number)}>{name(made.number)}</option>
        ))}
      </select>
    </label>
  );
  return (
    <section>
      <h2>Compare two</h2>
      <p class="inline">
        {pick("The one", one, setOne)} with {pick("The other", other, setOther)}
      </p>
      {found && (
        <>
          <p>
            {count(found.causes.both)} removed by both, {count(found.causes.only_one.length)} only by {name(one)},{" "}
            {count(found.causes.only_other.length)} only by {name(other)}.
          </p>
          <Table title="What differs" heads={["", name(one), name(other)]}>
            {[...Object.entries(found.results ?? {}), ...Object.entries(found.settings)].map(([key, [a, b]]) => (
              <tr>
                <th scope="row">{RESULTS[key] ?? key}</th>
                <td class="number">{words(a)}</td>
                <td class="number">{words(b)}</td>
              </tr>
            ))}
          </Table>
        </>
      )}
    </section>
  );
}

const HEADS = ["repair", "verdict", "removed", "fixed", "newly broken", "overall", "you", "made"];

function List({ repairs }: { repairs: Made[] }) {
  return (
    <section>
      <h2>Repairs so far</h2>
      <Table title="Repairs so far" kind="repairs" heads={HEADS} numbers={HEADS.slice(2, 6)}>
        {repairs.map((made) => (
          <tr>
            <th scope="row">
              <a href={`#/repair/${made.number}`}>{made.number === 0 ? "the run itself" : `Repair ${made.number}`}</a>
            </th>
            <td class="with-glyph">
              <Glyph verdict={made.verdict} />
              {made.verdict}
            </td>
            <td class="number">{count(made.removed)}</td>
            <td class="number">{count(made.fixed)}</td>
            <td class="number">{made.remaining ? count(made.newly_broken) : "–"}</td>
            <td class="number">
              {share(made.overall.before)} → {share(made.overall.after)}
            </td>
            <td>{made.accepted === null ? "open" : made.accepted ? "✓ accepted" : "✕ rejected"}</td>
            <td>{when(made.made)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

export function Repair() {
  usePage();
  const [repairs, setRepairs] = useState<Made[]>([]);
  const [last, setLast] = useState<Job | null>(null);
  useEffect(() => {
    get<{ rows: Made[] }>("api/repairs").then((answer) => setRepairs(answer.rows), (error) => page.say(told(error), true));
  }, [page.ended?.number, page.state?.version]);
  useEffect(() => {
    get<{ rows: Job[] }>("api/jobs").then((answer) => {
      const newest = answer.rows[0];
      if (newest?.state === "running") {
        page.job = newest;
        page.drawn();
      } else setLast(newest ?? null);
    }, () => undefined);
  }, [page.ended?.number]);
  const newest = [...repairs].sort((a, b) => b.number - a.number);
  const ended = page.ended ?? last;
  return (
    <div class="repair">
      <h1>Repair</h1>
      {page.job ? <Running job={page.job} /> : <Start />}
      {!page.job && ended && <Ended job={ended} />}
      {newest.length > 0 && <List repairs={newest} />}
      {newest.length > 1 && <Compare repairs={newest} />}
    </div>
  );
}
