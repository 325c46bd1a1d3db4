// Start a repair, watch it run, and compare those that were made.
import { useEffect, useState } from "preact/hooks";
import { get, post, told } from "./api";
import { Key } from "./help";
import { when } from "./history";
import { useKeys } from "./keys";
import { inWords } from "./many";
import { count, duration, sentence, several, share } from "./numbers";
import { page, usePage } from "./store";
import type { Comparison, Job, Repair as Made } from "./types";
import { Glyph } from "./verdict";

/** Seconds that go on between two messages of the server. */
function useClock(job: Job | null): { since: number; left: number | null } {
  const [, tick] = useState(0);
  const [at, setAt] = useState(Date.now());
  useEffect(() => setAt(Date.now()), [job]);
  useEffect(() => {
    if (!job) return;
    const clock = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(clock);
  }, [job?.number]);
  const passed = (Date.now() - at) / 1000;
  return { since: (job?.seconds ?? 0) + passed, left: job?.left == null ? null : Math.max(0, job.left - passed) };
}

const RUNNING: Record<Job["kind"], string> = { repair: "Repairing", curve: "Making the curve", patch: "Making the patch" };

/** What a job was about. */
export const named = (job: Job): string => {
  const of = job.repair === null ? "The repair" : job.repair === 0 ? "The run itself" : `Repair ${job.repair}`;
  return job.kind === "curve" ? "The curve" : job.kind === "patch" ? `The patch of ${of.charAt(0).toLowerCase()}${of.slice(1)}` : of;
};

export function Running({ job }: { job: Job }) {
  const { since, left } = useClock(job);
  const [cancelling, setCancelling] = useState(false);
  const done = left === null ? null : since / Math.max(since + left, 1e-9);
  const cancel = (): void => {
    setCancelling(true);
    post<Job>(`api/jobs/${job.number}/cancel`, {}).catch((error) => {
      setCancelling(false);
      page.say(told(error), true);
    });
  };
  return (
    <section class="running" aria-label="Running now">
      <h2>{RUNNING[job.kind]}</h2>
      <progress {...(done === null ? {} : { value: done, max: 1 })} aria-label="How far it is" />
      <p>
        <span role="status">{sentence(job.step || "starting")}</span> <span class="number">{duration(since)}</span>
        {left !== null && <span class="soft number">, about {duration(left)} left</span>}
      </p>
      <p class="soft">You can close this page: it goes on. The original model and data are never overwritten.</p>
      <p class="buttons">
        <button type="button" onClick={cancel} disabled={cancelling}>
          {cancelling ? "Stopping …" : "Cancel"}
        </button>
      </p>
    </section>
  );
}

const ENDED: Record<string, string> = { done: "It is done.", failed: "It failed.", cancelled: "It was cancelled. Nothing was changed." };

function Ended({ job }: { job: Job }) {
  const [lines, setLines] = useState<string[] | null>(null);
  const wrong = job.error;
  return (
    <section class={`ended ${job.state}`} aria-live="polite" aria-label="What ran last">
      <h2>{named(job)}</h2>
      <p>
        {job.state === "failed" ? "✕ " : job.state === "done" ? "✓ " : ""}
        {ENDED[job.state]}
      </p>
      {wrong && (
        <>
          <p>
            <b>{sentence(wrong.what)}</b> {wrong.todo ? sentence(wrong.todo) : ""}
          </p>
          {wrong.where && <p class="note">{wrong.where}</p>}
        </>
      )}
      <p class="buttons">
        {job.state === "done" && job.repair !== null && (
          <a class="button main" href={`#/repair/${job.repair}`}>
            See the result
          </a>
        )}
        {job.state === "done" && job.kind === "curve" && (
          <a class="button main" href="#/many">
            See the curve
          </a>
        )}
        {job.state === "failed" && lines === null && (
          <button type="button" class="link" onClick={() => get<Job>(`api/jobs/${job.number}`).then((full) => setLines(full.lines ?? []), () => setLines([]))}>
            What it said
          </button>
        )}
      </p>
      {lines && <pre tabIndex={0}>{lines.join("\n") || "Nothing."}</pre>}
    </section>
  );
}

function Start() {
  const [learn, setLearn] = useState("");
  const counts = page.state?.counts;
  const why = page.run?.repair ?? "";
  const nothing = !counts || counts.removed === 0;
  const start = (): void => {
    if (why || nothing || page.job || page.waiting) return;
    post<Job>("api/jobs", { kind: "repair", learn: learn === "" ? null : learn === "yes" }).then(
      (job) => {
        page.ended = null;
        page.job = job;
        page.drawn();
      },
      (error) => page.say(told(error), true),
    );
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
          <div class="scroll" tabIndex={0} role="region" aria-label="What differs">
            <table>
              <caption class="hidden">What differs</caption>
              <thead>
                <tr>
                  <th scope="col" />
                  <th scope="col" class="number">
                    {name(one)}
                  </th>
                  <th scope="col" class="number">
                    {name(other)}
                  </th>
                </tr>
              </thead>
              <tbody>
                {[...Object.entries(found.results ?? {}), ...Object.entries(found.settings)].map(([key, [a, b]]) => (
                  <tr>
                    <th scope="row">{RESULTS[key] ?? key}</th>
                    <td class="number">{words(a)}</td>
                    <td class="number">{words(b)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </section>
  );
}

function List({ repairs }: { repairs: Made[] }) {
  return (
    <section>
      <h2>Repairs so far</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Repairs so far">
        <table class="repairs">
          <caption class="hidden">Repairs so far</caption>
          <thead>
            <tr>
              <th scope="col">repair</th>
              <th scope="col">verdict</th>
              <th scope="col" class="number">
                removed
              </th>
              <th scope="col" class="number">
                fixed
              </th>
              <th scope="col" class="number">
                newly broken
              </th>
              <th scope="col" class="number">
                overall
              </th>
              <th scope="col">you</th>
              <th scope="col">made</th>
            </tr>
          </thead>
          <tbody>
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
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function Repair() {
  usePage();
  const [repairs, setRepairs] = useState<Made[]>([]);
  const [last, setLast] = useState<Job | null>(null);
  useEffect(() => {
    get<{ rows: Made[] }>("api/repairs").then((answer) => setRepairs(answer.rows), (error) => page.say(told(error), true));
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
