// The rows of the list: an order that stands still, and the few rows that are on screen or near it.
import { get } from "./api";
import type { Cause } from "./types";

const ASK = 100; // rows in one request
const KEEP = 1200; // rows in memory

export class Rows {
  order: number[] = [];
  private known = new Map<number, Cause>();
  private asked = new Set<number>();
  private shown: [number, number] = [0, 0];
  private generation = 0;
  private touched = new Map<number, number>(); // rows changed here, and when: an older answer is older news
  private clock = 0;

  constructor(private readonly drawn: () => void) {}

  put(order: number[]): void {
    this.order = order;
    this.shown = [0, Math.min(40, order.length)];
    void this.fetch();
  }

  get(index: number): Cause | undefined {
    return this.known.get(index);
  }

  at(place: number): Cause | undefined {
    const index = this.order[place];
    return index === undefined ? undefined : this.known.get(index);
  }

  change(indices: number[], how: (row: Cause) => Partial<Cause>): void {
    for (const index of indices) {
      const row = this.known.get(index);
      this.touched.set(index, ++this.clock);
      if (row) this.known.set(index, { ...row, ...how(row) });
    }
  }

  /** These places are on screen. */
  need(first: number, last: number): void {
    this.shown = [first, last];
    void this.fetch();
  }

  /** What is on screen is asked for again; the rest is forgotten. */
  async reload(): Promise<void> {
    const places = this.order.slice(this.shown[0], this.shown[1] + 1);
    const near = new Set(places);
    for (const index of this.known.keys()) if (!near.has(index)) this.known.delete(index);
    this.generation++;
    this.asked.clear();
    await this.ask(places);
  }

  /** What is on screen first, then what is near it. */
  private async fetch(): Promise<void> {
    const [first, last] = this.shown;
    const missing = (from: number, to: number): number[] =>
      this.order.slice(Math.max(0, from), to).filter((index) => !this.known.has(index) && !this.asked.has(index));
    const urgent = missing(first, last + 1);
    if (urgent.length) await this.ask(urgent);
    const near = missing(first - ASK / 2, last + ASK / 2);
    const edge = last + ASK / 2 >= this.order.length;
    if (near.length >= ASK / 4 || (near.length && edge)) await this.ask(near);
  }

  private async ask(indices: number[]): Promise<void> {
    const generation = this.generation;
    for (let i = 0; i < indices.length; i += ASK) {
      const some = indices.slice(i, i + ASK);
      const before = this.clock;
      some.forEach((index) => this.asked.add(index));
      try {
        const { rows } = await get<{ rows: Cause[] }>("api/rows", { indices: some.join(",") });
        const news = rows.filter((row) => !this.known.has(row.index) || (this.touched.get(row.index) ?? 0) <= before);
        if (generation === this.generation) news.forEach((row) => this.known.set(row.index, row));
      } catch {
        // asked again when the list moves
      }
      some.forEach((index) => this.asked.delete(index));
      this.forget();
      this.drawn();
    }
  }

  private forget(): void {
    if (this.known.size <= KEEP) return;
    const near = new Set(this.order.slice(Math.max(0, this.shown[0] - KEEP / 3), this.shown[1] + KEEP / 3));
    for (const index of this.known.keys()) if (!near.has(index)) this.known.delete(index);
  }
}
