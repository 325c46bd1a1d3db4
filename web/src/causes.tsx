// The list of causes, and the one to look at.
import { useState } from "preact/hooks";
import { Card } from "./card";
import { Dialog } from "./dialog";
import { EstimateLine } from "./estimate";
import { Badge, Picture } from "./example";
import { asked, Filters } from "./filters";
import { Key } from "./help";
import { type Binding, useKeys } from "./keys";
import { LongList } from "./list";
import { count, number, several } from "./numbers";
import { Relabel } from "./relabel";
import { page, usePage } from "./store";
import type { Cause } from "./types";

const LINE = 60; // pixels
const FAR = 10; // lines of PgDn

function Line({ i, row, here, chosen }: { i: number; row: Cause | undefined; here: boolean; chosen: boolean }) {
  const kind = page.run?.kind;
  const marks = `line${here ? " here" : ""}${chosen ? " chosen" : ""}${row?.seen ? " seen" : ""}`;
  return (
    <div
      id={`line-${i}`}
      key={i}
      class={marks}
      role="option"
      aria-selected={chosen}
      aria-posinset={i + 1}
      aria-setsize={page.total}
      onClick={(event) => page.go(i, event.shiftKey)}
    >
      {row ? (
        <>
          <span class="rank">{count(row.rank)}</span>
          {kind === "image" && row.look.image && <Picture src={row.look.image} says="" />}
          <span class="what">
            <span class="labels-of">
              <b>{row.given}</b>
              {row.suggested !== row.given && <span class="soft"> → {row.suggested}</span>}
              {row.copies.length > 0 && <span class="soft"> ×{row.copies.length + 1}</span>}
            </span>
            <span class="detail">{row.look.text ?? (row.id !== String(row.index) ? row.id : `train[${row.index}]`)}</span>
          </span>
          <span class="state-of">
            <Badge decision={row.decision} label={row.new_label} effective={row.effective} short />
            <span class="note number">
              {!row.decision && row.seen ? "seen · " : ""}
              {number(row.score)}
            </span>
          </span>
        </>
      ) : (
        <span class="note">…</span>
      )}
    </div>
  );
}

type Ask = "" | "relabel" | "full" | "all" | "all relabel";

function All({ onClose, onRelabel }: { onClose: () => void; onRelabel: () => void }) {
  const words = asked(page.filter);
  const which = words.length ? `${several(page.total, "cause")} fit the filter: ${words.join(", ")}.` : `No filter is on: this is about all ${several(page.total, "cause")}.`;
  const choose = (decision: string): void => {
    page.decideAll(decision);
    onClose();
  };
  const keys: Binding[] = [
    { keys: ["r"], says: "remove all", run: () => choose("remove") },
    { keys: ["k"], says: "keep all", run: () => choose("keep") },
    { keys: ["l"], says: "relabel all", run: onRelabel },
    { keys: ["c"], says: "clear the decisions of all", run: () => choose("clear") },
    { keys: ["Escape"], says: "close", run: onClose },
  ];
  useKeys("All in this filter", keys, true);
  return (
    <Dialog title="Decide about all of them" onClose={onClose}>
      <p>
        {which} One undo takes it back.
      </p>
      <p class="buttons">
        <button type="button" onClick={() => choose("remove")}>
          Remove all <Key of="r" />
        </button>
        <button type="button" onClick={() => choose("keep")}>
          Keep all <Key of="k" />
        </button>
        <button type="button" onClick={onRelabel}>
          Relabel all <Key of="l" />
        </button>
        <button type="button" onClick={() => choose("clear")}>
          Clear all <Key of="c" />
        </button>
      </p>
    </Dialog>
  );
}

function Actions({ row, n, onRelabel }: { row: Cause | undefined; n: number; onRelabel: () => void }) {
  const off = !row;
  return (
    <div class="actions" role="toolbar" aria-label={n > 1 ? `Decide about ${n} examples` : "Decide about this example"}>
      {n > 1 && <span class="range">{several(n, "example")}:</span>}
      <button type="button" class="remove" disabled={off} onClick={() => page.decide("remove")}>
        Remove <Key of="r" />
      </button>
      <button type="button" class="keep" disabled={off} onClick={() => page.decide("keep")}>
        Keep <Key of="k" />
      </button>
      <button type="button" class="relabel" disabled={off} onClick={onRelabel}>
        Relabel <Key of="l" />
      </button>
      <button type="button" class="skip" disabled={off} onClick={() => page.decide("skip")}>
        Skip <Key of="s" />
      </button>
    </div>
  );
}

function bindings(ask: (what: Ask) => void, setOpen: (how: (open: boolean) => boolean) => void): Binding[] {
  const relabel = (): void => {
    if (page.total) ask("relabel");
  };
  return [
    { keys: ["r"], says: "remove", run: () => page.decide("remove") },
    { keys: ["k"], says: "keep", run: () => page.decide("keep") },
    { keys: ["l"], says: "relabel: type the first letters, then Enter", run: relabel },
    { keys: ["s"], says: "skip: seen, not decided", run: () => page.decide("skip") },
    { keys: ["c"], says: "clear the decision", run: () => page.decide("clear") },
    { keys: ["ArrowDown", "ArrowRight"], says: "next; decides nothing", run: () => page.go(page.at + 1), repeats: true },
    { keys: ["ArrowUp", "ArrowLeft"], says: "previous", run: () => page.go(page.at - 1), repeats: true },
    { keys: ["PageDown"], says: `${FAR} further`, run: () => page.go(page.at + FAR), repeats: true },
    { keys: ["PageUp"], says: `${FAR} back`, run: () => page.go(page.at - FAR), repeats: true },
    { keys: ["Home"], says: "first", run: () => page.go(0) },
    { keys: ["End"], says: "last", run: () => page.go(page.total - 1) },
    { keys: ["Shift+ArrowDown"], says: "a range: one more below", run: () => page.go(page.at + 1, true), repeats: true },
    { keys: ["Shift+ArrowUp"], says: "a range: one more above", run: () => page.go(page.at - 1, true), repeats: true },
    { keys: ["Shift+PageDown"], says: `a range: ${FAR} more below`, run: () => page.go(page.at + FAR, true), repeats: true },
    { keys: ["Shift+PageUp"], says: `a range: ${FAR} more above`, run: () => page.go(page.at - FAR, true), repeats: true },
    { keys: ["Shift+End"], says: "a range: to the end", run: () => page.go(page.total - 1, true) },
    { keys: ["Escape"], says: "give up the range", run: () => page.go(page.at) },
    { keys: ["a"], says: "decide about all in this filter", run: () => ask("all") },
    { keys: ["f"], says: "the picture in full size, and back", run: () => ask("full") },
    { keys: ["/"], says: "search in text and ids", run: () => document.getElementById("search")?.focus() },
    { keys: ["g"], says: "show or hide the filters", run: () => setOpen((open) => !open) },
    { keys: ["n"], says: "the list anew, with the decisions since", run: () => void page.anew() },
  ];
}

export function Causes() {
  usePage();
  const [ask, setAsk] = useState<Ask>("");
  const [open, setOpen] = useState(false);
  useKeys("Causes", bindings(setAsk, setOpen));
  const [first, last] = page.span;
  const row = page.rows.at(page.at);
  const close = (): void => setAsk("");
  return (
    <div class="causes">
      <aside aria-label="List of causes">
        <Filters open={open} setOpen={setOpen} />
        <LongList
          total={page.total}
          line={LINE}
          at={page.at}
          label="Causes"
          onShown={(a, b) => page.rows.need(a, b)}
          draw={(i) => <Line i={i} row={page.rows.at(i)} here={i === page.at} chosen={i >= first && i <= last} />}
        />
      </aside>
      <div class="desk">
        {row ? <Card of={row} onFull={() => setAsk("full")} /> : <Nothing />}
        <Actions row={row} n={last - first + 1} onRelabel={() => setAsk("relabel")} />
        <EstimateLine />
      </div>
      {ask === "relabel" && (
        <Relabel
          classes={page.run?.classes ?? []}
          suggested={row?.suggested ?? ""}
          given={row?.given ?? ""}
          n={last - first + 1}
          onClose={close}
          onChoose={(label) => {
            close();
            page.decide("relabel", label);
          }}
        />
      )}
      {ask === "all relabel" && (
        <Relabel
          classes={page.run?.classes ?? []}
          suggested=""
          given=""
          n={page.total}
          onClose={close}
          onChoose={(label) => {
            close();
            page.decideAll("relabel", label);
          }}
        />
      )}
      {ask === "all" && <All onClose={close} onRelabel={() => setAsk("all relabel")} />}
      {row && ask === "full" && <Full row={row} onClose={close} />}
    </div>
  );
}

function Full({ row, onClose }: { row: Cause; onClose: () => void }) {
  useKeys("Full size", [{ keys: ["f", "Escape"], says: "close", run: onClose }], true);
  return (
    <Dialog title={`train[${row.index}], given ${row.given}`} onClose={onClose} wide>
      {row.look.image ? (
        <Picture src={row.look.image} says={`training example ${row.index} in full size`} size="full" />
      ) : (
        <p>{row.look.text ?? "There is no picture of this example."}</p>
      )}
    </Dialog>
  );
}

function Nothing() {
  return (
    <div class="card large empty">
      <p>{page.total ? "Loading …" : "No cause fits the filter."}</p>
    </div>
  );
}
