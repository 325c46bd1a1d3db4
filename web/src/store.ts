// What the page knows, and what can be done with it. Views read it with usePage and are drawn anew when it changes.
import { useEffect, useReducer } from "preact/hooks";
import { get, post, Refused, told } from "./api";
import { type Act, type Answer, newKey, Queue } from "./queue";
import { Rows } from "./rows";
import type { Cause, Decision, Filter, Job, Order, Run, State } from "./types";

export const NO_FILTER: Filter = {
  group: "", given: "", suggested: "", decision: "", seen: "", low: "", high: "", disagrees: "", differs: "", text: "",
  id: "", failure: "", copies: "",
};

export interface Notice {
  text: string;
  bad: boolean;
}

const SEEN_AFTER = 700; // milliseconds on screen

class Page {
  run: Run | null = null;
  state: State | null = null;
  job: Job | null = null;
  ended: Job | null = null; // the job that ended last while this tab looked
  notice: Notice | null = null;
  fatal = "";
  filter: Filter = { ...NO_FILTER };
  order: Order = "rank";
  down = false;
  at = 0;
  anchor: number | null = null;
  listening = true;
  readonly rows = new Rows(() => this.drawn());
  private queue: Queue | null = null;
  private newest: State | null = null; // that was heard of
  private drawers = new Set<() => void>();
  private seen = new Set<number>();
  private looked = 0;
  private fading = 0;

  // --- drawing ---

  subscribe(draw: () => void): () => void {
    this.drawers.add(draw);
    return () => this.drawers.delete(draw);
  }

  drawn(): void {
    this.drawers.forEach((draw) => draw());
  }

  say(text: string, bad = false): void {
    this.notice = { text, bad };
    clearTimeout(this.fading);
    if (!bad) this.fading = setTimeout(() => this.hush(), 6000);
    this.drawn();
  }

  hush(): void {
    this.notice = null;
    this.drawn();
  }

  // --- the start ---

  async open(): Promise<void> {
    const listed = this.reorder();
    try {
      this.run = await get<Run>("api/run");
    } catch (error) {
      this.fatal = told(error);
      this.drawn();
      return;
    }
    this.take(this.run);
    document.title = `${this.run.name}: review`;
    this.queue = new Queue(`amends:${this.run.folder}`, {
      answered: (acts, answer) => this.answered(acts, answer),
      refused: (acts, error) => this.refused(acts, error),
      moved: () => this.drawn(),
    });
    this.listen();
    await listed;
    setInterval(() => void this.flushSeen(), 2000);
    addEventListener("pagehide", () => void this.flushSeen());
  }

  private listen(): void {
    const events = new EventSource("api/events");
    events.addEventListener("state", (event) => this.heard(JSON.parse((event as MessageEvent<string>).data) as State));
    events.addEventListener("job", (event) => this.working(JSON.parse((event as MessageEvent<string>).data) as Job));
    events.onopen = () => {
      this.listening = true;
      this.queue?.again();
      this.drawn();
    };
    events.onerror = () => {
      this.listening = false;
      this.drawn();
      if (events.readyState === EventSource.CLOSED) setTimeout(() => this.listen(), 3000);
    };
  }

  /** Another tab, another tool, or this tab's own change on its way back. */
  private heard(state: State): void {
    const before = this.state?.told?.when;
    if (state.version >= (this.newest?.version ?? 0)) this.newest = state;
    if (this.waiting === 0 && state.version > (this.state?.version ?? 0)) {
      this.take(state);
      void this.rows.reload();
    }
    if (state.told && state.told.when !== before && this.state) {
      this.say(state.told.error ?? state.told.text, state.told.error !== null);
    }
    this.drawn();
  }

  private working(job: Job): void {
    const was = this.job?.number === job.number ? this.job.state : null;
    this.job = job.state === "running" ? job : null;
    if (job.state !== "running" && was === "running") this.ended = job;
    this.drawn();
  }

  take(state: State): void {
    this.state = {
      version: state.version, cut: state.cut, counts: state.counts, undo: state.undo, redo: state.redo,
      person: state.person, told: state.told,
    };
  }

  // --- what was done, and what came of it ---

  get waiting(): number {
    return this.queue?.waiting ?? 0;
  }

  get link(): "saved" | "saving" | "away" | "closed" {
    if (this.queue?.closed) return "closed";
    if (this.queue?.away || !this.listening) return "away";
    return this.waiting ? "saving" : "saved";
  }

  act(act: Act): void {
    this.queue?.add(act);
  }

  private answered(acts: Act[], answer: Answer): void {
    const own = acts.every((act) => act.path === "api/decide" && act.body.indices);
    if (this.waiting === 0) {
      const missed = this.newest !== null && this.newest.version > answer.version;
      this.take(missed && this.newest ? this.newest : answer);
      if (missed || !own || acts.length > 1) void this.rows.reload();
    }
    for (const fail of answer.failed ?? []) this.refusedOne(fail.error);
    if (answer.done) this.say(acts[0]?.path === "api/undo" ? `Undone: ${answer.done}` : `Done again: ${answer.done}`);
    this.drawn();
  }

  private refusedOne(error: unknown): void {
    const wrong = error as { what?: string; todo?: string };
    this.say([wrong.what, wrong.todo].filter(Boolean).join("; "), true);
  }

  private refused(acts: Act[], error: unknown): void {
    const nothing = error instanceof Refused && error.status === 409;
    this.say(told(error), !nothing);
    if (acts.some((act) => act.path === "api/decide")) void this.rows.reload();
    this.drawn();
  }

  // --- the list ---

  /** The order of the list, asked for anew; nothing else moves it. */
  async reorder(stay: number | null = null): Promise<void> {
    const asked = { order: this.order, down: this.down ? 1 : undefined, ...this.filter };
    try {
      const { indices } = await get<{ indices: number[] }>("api/order", asked);
      const at = stay === null ? 0 : indices.indexOf(stay);
      this.rows.put(indices);
      this.at = Math.max(0, at);
      this.anchor = null;
    } catch (error) {
      this.say(told(error), true);
    }
    this.drawn();
  }

  /** The list with the decisions since; what is worth a look is weighed again. */
  async anew(): Promise<void> {
    if (this.order === "worth") await post<State>("api/worth", {}).catch((error) => this.say(told(error), true));
    await this.reorder(this.here ?? null);
  }

  search(filter: Partial<Filter>): Promise<void> {
    this.filter = { ...this.filter, ...filter };
    return this.reorder();
  }

  sort(order: Order, down = false): Promise<void> {
    this.order = order;
    this.down = down;
    return this.reorder();
  }

  get total(): number {
    return this.rows.order.length;
  }

  get here(): number | undefined {
    return this.rows.order[this.at];
  }

  /** Both ends of what the next decision is about. */
  get span(): [number, number] {
    if (this.anchor === null) return [this.at, this.at];
    return [Math.min(this.anchor, this.at), Math.max(this.anchor, this.at)];
  }

  go(to: number, holding = false): void {
    const at = Math.min(Math.max(0, to), Math.max(0, this.total - 1));
    this.anchor = holding ? (this.anchor ?? this.at) : null;
    this.at = at;
    this.looked = Date.now();
    this.drawn();
  }

  /** The card has been on screen for a while. */
  look(index: number): void {
    const since = this.looked;
    setTimeout(() => {
      if (this.looked === since && this.here === index && document.visibilityState === "visible") this.markSeen(index);
    }, SEEN_AFTER);
  }

  private markSeen(index: number): void {
    if (this.rows.get(index)?.seen) return;
    this.seen.add(index);
    this.rows.change([index], () => ({ seen: true }));
    this.drawn();
  }

  private async flushSeen(): Promise<void> {
    if (!this.seen.size) return;
    const indices = [...this.seen];
    this.seen.clear();
    try {
      const state = await post<State>("api/seen", { indices });
      if (this.waiting === 0) this.take(state);
      this.drawn();
    } catch {
      indices.forEach((index) => this.seen.add(index));
    }
  }

  // --- decisions ---

  /** About the line here, or the range; then on to the next line. */
  decide(decision: Decision | "skip" | "clear", newLabel = ""): void {
    const [first, last] = this.span;
    const indices = this.rows.order.slice(first, last + 1);
    if (!indices.length) return;
    if (first === last && this.decided(this.rows.at(first), decision, newLabel)) {
      this.go(last + 1);
      return;
    }
    this.act({ path: "api/decide", body: { indices, decision, key: newKey(), ...(newLabel ? { new_label: newLabel } : {}) } });
    this.change(indices, decision, newLabel);
    this.go(last + 1);
  }

  private decided(row: Cause | undefined, decision: string, newLabel: string): boolean {
    return row !== undefined && row.decision !== "" && row.decision === decision && row.new_label === newLabel;
  }

  decideAll(decision: string, newLabel = ""): void {
    const filter = Object.fromEntries(Object.entries(this.filter).filter(([, value]) => value)) as Record<string, string>;
    this.act({ path: "api/decide", body: { filter, decision, key: newKey(), ...(newLabel ? { new_label: newLabel } : {}) } });
    this.drawn();
  }

  /** Shown at once, before the server has answered. */
  private change(indices: number[], decision: Decision | "skip" | "clear", newLabel: string): void {
    const cut = this.state?.cut ?? 0;
    const both = indices.flatMap((index) => [index, ...(this.rows.get(index)?.copies ?? [])]);
    this.rows.change(both, (row: Cause) => {
      if (decision === "skip") return { seen: true };
      const by_cut: Decision = row.rank <= cut ? "remove" : "";
      if (decision === "clear") return { decision: "", new_label: "", by: "", effective: by_cut };
      const effective: Decision = decision === "keep" ? "" : decision;
      return { decision, new_label: decision === "relabel" ? newLabel : "", effective, seen: true };
    });
  }

  undo(): void {
    this.act({ path: "api/undo", body: { key: newKey() } });
  }

  redo(): void {
    this.act({ path: "api/redo", body: { key: newKey() } });
  }
}

export const page = new Page();

export function usePage(): Page {
  const [, draw] = useReducer((n: number) => n + 1, 0);
  useEffect(() => page.subscribe(() => draw(undefined)), []);
  return page;
}
