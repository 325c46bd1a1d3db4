// What runs in a process of its own: begun, watched, and what became of it.
import { useEffect, useState } from "preact/hooks";
import { get, post, told } from "./api";
import { duration, sentence } from "./numbers";
import { page } from "./store";
import type { Job, Wrong } from "./types";

/** Begins a repair, a curve, or the patch of a repair. */
export function begin(what: { kind: Job["kind"]; repair?: number; learn?: boolean | null }): void {
  post<Job>("api/jobs", what).then(
    (job) => {
      page.ended = null;
      page.job = job;
      page.drawn();
    },
    (error) => page.say(told(error), true),
  );
}

/** Why nothing can be begun now, in words; empty where it can. */
export const hindered = (): string => (page.run?.repair ? sentence(page.run.repair) : page.job ? "Something is running: see Repair." : "");

/** A button that begins something, and the reason where it cannot. */
export function Begin({ what, says }: { what: Parameters<typeof begin>[0]; says: string }) {
  const why = hindered();
  return (
    <p class="buttons">
      <button type="button" disabled={why !== ""} onClick={() => begin(what)}>
        {says}
      </button>
      {why && <span class="note">{why}</span>}
    </p>
  );
}

/** What went wrong and what to do, in bold and plain. */
export function WrongWords({ of }: { of: Wrong }) {
  return (
    <p>
      <b>{sentence(of.what)}</b> {of.todo ? sentence(of.todo) : ""}
    </p>
  );
}

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

export function Ended({ job }: { job: Job }) {
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
          <WrongWords of={wrong} />
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
