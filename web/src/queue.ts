// What a person did, in order, until the server has it. Each has a key of its own, so that one that is sent twice
// counts once; what waits outlives a reload of the tab.
import { Away, post, Refused } from "./api";
import type { State } from "./types";

export interface Decide {
  indices?: number[];
  filter?: Record<string, string>;
  decision: string;
  new_label?: string;
  key: string;
}

export type Act =
  | { path: "api/decide"; body: Decide }
  | { path: "api/undo" | "api/redo"; body: { key: string } }
  | { path: "api/cut"; body: { cut: number; key: string } }
  | { path: "api/mark"; body: { index: number; wrong: boolean; key: string } }
  | { path: "api/accept"; body: { repair: number; accepted: boolean | null; note: string; key: string } }
  | { path: "api/restore"; body: { to: number; key: string } };

export interface Answer extends State {
  indices?: number[];
  changed?: number;
  done?: string;
  failed?: { key: string; error: unknown }[];
}

export interface Listener {
  answered: (acts: Act[], answer: Answer) => void;
  refused: (acts: Act[], error: unknown) => void;
  moved: () => void; // how many wait, or whether the server is there, has changed
}

const MOST = 400; // decisions in one request
const PAUSES = [500, 1000, 2000, 5000]; // milliseconds before the next try

export const newKey = (): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
};

export class Queue {
  away = false;
  closed = false;
  private acts: Act[] = [];
  private sending = false;
  private tries = 0;

  constructor(
    private readonly name: string,
    private readonly listener: Listener,
  ) {
    try {
      this.acts = JSON.parse(sessionStorage.getItem(name) ?? "[]") as Act[];
    } catch {
      this.acts = [];
    }
    if (this.acts.length) void this.send();
  }

  get waiting(): number {
    return this.acts.length;
  }

  add(act: Act): void {
    this.acts.push(act);
    this.keep();
    void this.send();
  }

  /** Try now, not after the pause. */
  again(): void {
    this.closed = false;
    void this.send();
  }

  private keep(): void {
    try {
      if (this.acts.length) sessionStorage.setItem(this.name, JSON.stringify(this.acts));
      else sessionStorage.removeItem(this.name);
    } catch {
      // no room: what waits is lost if the tab is closed now, and only then
    }
    this.listener.moved();
  }

  /** The next act alone, or as many decisions as stand at the front. */
  private next(): { acts: Act[]; path: string; body: unknown } {
    const first = this.acts[0] as Act;
    if (first.path !== "api/decide") return { acts: [first], path: first.path, body: first.body };
    const end = this.acts.findIndex((act) => act.path !== "api/decide");
    const acts = this.acts.slice(0, Math.min(MOST, end < 0 ? this.acts.length : end));
    if (acts.length === 1) return { acts, path: first.path, body: first.body };
    return { acts, path: first.path, body: { decisions: acts.map((act) => act.body) } };
  }

  private async send(): Promise<void> {
    if (this.sending) return;
    this.sending = true;
    while (this.acts.length && !this.closed) {
      const { acts, path, body } = this.next();
      try {
        const answer = await post<Answer>(path, body);
        this.done(acts.length);
        this.listener.answered(acts, answer);
      } catch (error) {
        const broken = error instanceof Refused && error.status >= 500 && this.tries < PAUSES.length;
        if (error instanceof Away || broken) {
          await this.pause();
        } else if (error instanceof Refused && error.status === 403) {
          this.closed = true;
          this.listener.moved();
        } else {
          this.done(acts.length);
          this.listener.refused(acts, error);
        }
      }
    }
    this.sending = false;
  }

  private done(n: number): void {
    this.acts.splice(0, n);
    this.away = false;
    this.tries = 0;
    this.keep();
  }

  private async pause(): Promise<void> {
    this.away = true;
    this.listener.moved();
    const milliseconds = PAUSES[Math.min(this.tries++, PAUSES.length - 1)] as number;
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
  }
}
