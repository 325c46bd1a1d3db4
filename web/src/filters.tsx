// Which causes the list holds, and in which order.
import { useEffect, useRef, useState } from "preact/hooks";
import { count, several } from "./numbers";
import { NO_FILTER, page } from "./store";
import type { Filter, Named, Order } from "./types";

const ORDERS: [Order, string][] = [
  ["rank", "most harmful first"],
  ["worth", "worth a look first"],
  ["p_given", "least likely label first"],
  ["id", "by id"],
  ["given", "by given label"],
  ["suggested", "by suggestion"],
  ["group", "by group"],
  ["decided", "last decided first"],
];

const DECISIONS: [string, string][] = [
  ["", "any"],
  ["none", "undecided"],
  ["decided", "decided by a person"],
  ["remove", "removed by a person"],
  ["relabel", "relabelled"],
  ["keep", "kept"],
  ["cut", "removed by the cut"],
];

function Choice({ label, value, all, onChange }: { label: string; value: string; all: [string, string][]; onChange: (value: string) => void }) {
  return (
    <label>
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {all.map(([name, says]) => (
          <option value={name}>{says}</option>
        ))}
      </select>
    </label>
  );
}

const named = (all: Named[]): [string, string][] => [["", "any"], ...all.map(({ name, n }): [string, string] => [name, `${name || "none"} (${count(n)})`])];
const YES: [string, string][] = [["", "any"], ["yes", "yes"], ["no", "no"]];

/** What the filter asks for, in words. */
export function asked(filter: Filter): string[] {
  const said: [keyof Filter, (value: string) => string][] = [
    ["group", (v) => `group ${v}`],
    ["given", (v) => `given ${v}`],
    ["suggested", (v) => `suggested ${v}`],
    ["decision", (v) => (DECISIONS.find(([name]) => name === v) ?? ["", v])[1]],
    ["seen", (v) => (v === "yes" ? "seen" : "not seen")],
    ["low", (v) => `score from ${v}`],
    ["high", (v) => `score to ${v}`],
    ["disagrees", () => "decided other than the tool would"],
    ["differs", (v) => (v === "yes" ? "suggested differs" : "suggested is the same")],
    ["text", (v) => `“${v}”`],
    ["id", (v) => `id ${v}`],
    ["failure", (v) => `conflicts with failure ${v}`],
    ["copies", () => "copies one by one"],
  ];
  return said.filter(([name]) => filter[name]).map(([name, says]) => says(filter[name]));
}

export function Filters({ open, setOpen }: { open: boolean; setOpen: (open: boolean) => void }) {
  const { run, filter } = page;
  const [text, setText] = useState(filter.text);
  const first = useRef(true);
  useEffect(() => setText(filter.text), [filter.text]);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    const waiting = setTimeout(() => text !== page.filter.text && void page.search({ text }), 250);
    return () => clearTimeout(waiting);
  }, [text]);
  if (!run) return null;
  const set = (change: Partial<Filter>): void => void page.search(change);
  const words = asked(filter);
  return (
    <div class="filters">
      <div class="search">
        <input
          id="search"
          class="field"
          type="search"
          placeholder="Text or id"
          aria-label="Search in text and ids"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
          }}
        />
        <button type="button" aria-expanded={open} aria-controls="more-filters" onClick={() => setOpen(!open)}>
          Filter {words.length ? `(${words.length})` : ""}
        </button>
      </div>
      <label class="order">
        <span class="hidden">Order</span>
        <select value={page.order} onChange={(event) => void page.sort(event.currentTarget.value as Order)}>
          {ORDERS.map(([name, says]) => (
            <option value={name}>{says}</option>
          ))}
        </select>
      </label>
      {open && (
        <div id="more-filters" class="more">
          <Choice label="Decision" value={filter.decision} all={DECISIONS} onChange={(decision) => set({ decision })} />
          <Choice label="Seen" value={filter.seen} all={YES} onChange={(seen) => set({ seen })} />
          {run.groups.length > 1 && <Choice label="Group" value={filter.group} all={named(run.groups)} onChange={(group) => set({ group })} />}
          <Choice label="Given label" value={filter.given} all={named(run.given)} onChange={(given) => set({ given })} />
          <Choice label="Suggested" value={filter.suggested} all={named(run.suggested)} onChange={(suggested) => set({ suggested })} />
          <Choice label="Suggestion differs" value={filter.differs} all={YES} onChange={(differs) => set({ differs })} />
          <Choice label="Decided against the tool" value={filter.disagrees} all={[["", "any"], ["yes", "yes"]]} onChange={(disagrees) => set({ disagrees })} />
          <Choice label="Near copies" value={filter.copies} all={[["", "as one"], ["all", "one by one"]]} onChange={(copies) => set({ copies })} />
          <label>
            <span>Score from</span>
            <input class="field" type="number" step="any" value={filter.low} onChange={(event) => set({ low: event.currentTarget.value })} />
          </label>
          <label>
            <span>Score to</span>
            <input class="field" type="number" step="any" value={filter.high} onChange={(event) => set({ high: event.currentTarget.value })} />
          </label>
        </div>
      )}
      <p class="found" aria-live="polite">
        {several(page.total, "cause")}
        {words.length > 0 && (
          <>
            {": "}
            {words.join(", ")}{" "}
            <button type="button" class="link" onClick={() => void page.search(NO_FILTER)}>
              show all
            </button>
          </>
        )}
      </p>
    </div>
  );
}
