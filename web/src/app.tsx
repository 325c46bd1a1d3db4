// The frame around the views: where one is, what is saved, what a key does.
import { useEffect, useState } from "preact/hooks";
import { Causes } from "./causes";
import { Failures } from "./failures";
import { Help, Key } from "./help";
import { History } from "./history";
import { named } from "./job";
import { useKeys } from "./keys";
import { inWords, Many } from "./many";
import { count, several } from "./numbers";
import { Repair } from "./repair";
import { Result } from "./result";
import { page, usePage } from "./store";

const VIEWS: [string, string][] = [
  ["causes", "Causes"],
  ["many", "How many"],
  ["failures", "Failures"],
  ["repair", "Repair"],
  ["history", "History"],
];

const place = (): string[] => location.hash.replace(/^#\/?/, "").split("/");

function useView(): [string, string | undefined, (view: string) => void] {
  const [[view = "", part], setPlace] = useState(place());
  useEffect(() => {
    const moved = (): void => setPlace(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const go = (to: string): void => {
    location.hash = `#/${to}`;
    setPlace(place());
    scrollTo(0, 0);
  };
  return [VIEWS.some(([name]) => name === view) ? view : "causes", part, go];
}

function Saved() {
  const { link, waiting } = page;
  const words: Record<typeof link, string> = {
    saved: "✓ Saved",
    saving: `Saving ${count(waiting)} …`,
    away: waiting ? `Not connected: ${several(waiting, "change")} kept here, and sent again` : "Not connected: trying again",
    closed: "This page is not open any more: open the address that amends review printed",
  };
  return (
    <span class={`saved ${link}`} role="status">
      {words[link]}
    </span>
  );
}

function Top({ view, go, onHelp }: { view: string; go: (view: string) => void; onHelp: () => void }) {
  const { run, state } = page;
  return (
    <header class="top">
      <div class="masthead">
        <span class="mark">amends</span>
        <span class="run">{run?.name}</span>
        <Saved />
        <button type="button" disabled={!state?.undo} onClick={() => page.undo()} title={state?.undo ? `Undo: ${state.undo}` : "Nothing to undo"}>
          Undo <Key of="u" />
        </button>
        <button type="button" disabled={!state?.redo} onClick={() => page.redo()} title={state?.redo ? `Redo: ${state.redo}` : "Nothing to redo"}>
          Redo
        </button>
        <button type="button" class="keys-button" onClick={onHelp}>
          Keys <Key of="?" />
        </button>
      </div>
      <div class="under">
        <nav aria-label="Views">
          <ul>
            {VIEWS.map(([name, title]) => (
              <li>
                <a href={`#/${name}`} aria-current={view === name ? "page" : undefined} onClick={() => go(name)}>
                  {title}
                  {name === "repair" && page.job ? " …" : ""}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        {state && (
          <p class="summary">
            {inWords(state.counts)}
            <span class="soft">
              {" · "}
              {count(state.counts.seen)} of {count(state.counts.total)} seen
            </span>
          </p>
        )}
      </div>
    </header>
  );
}

function Notice() {
  const { notice, ended } = page;
  const done = ended && place()[0] !== "repair" && place()[0] !== "many";
  return (
    <div class="notices" aria-live="polite">
      {notice && (
        <p class={notice.bad ? "notice bad" : "notice"}>
          {notice.bad ? "⚠ " : ""}
          {notice.text}
          <button type="button" class="plain" aria-label="Close this message" onClick={() => page.hush()}>
            ✕
          </button>
        </p>
      )}
      {done && (
        <p class="notice">
          {named(ended)} {ended.state === "done" ? "is done" : ended.state === "failed" ? "has failed" : "was cancelled"}.{" "}
          <a href={ended.kind === "curve" && ended.state === "done" ? "#/many" : "#/repair"}>See it</a>
        </p>
      )}
    </div>
  );
}

export function App() {
  usePage();
  const [view, part, go] = useView();
  const [help, setHelp] = useState(false);
  useKeys("Everywhere", [
    ...VIEWS.map(([name, title], i) => ({ keys: [String(i + 1)], says: `go to ${title}`, run: () => go(name) })),
    { keys: ["u", "Ctrl+z"], says: "undo", run: () => page.undo(), repeats: false },
    { keys: ["Shift+u", "Ctrl+Shift+z", "Ctrl+y"], says: "redo", run: () => page.redo() },
    { keys: ["?"], says: "this list", run: () => setHelp(true) },
  ]);
  if (page.fatal) {
    return (
      <main class="fatal">
        <p class="mark">amends</p>
        <h1>The page cannot be shown</h1>
        <p>{page.fatal}</p>
      </main>
    );
  }
  if (!page.run) return <p class="waiting">Loading …</p>;
  return (
    <>
      <button type="button" class="skip-link" onClick={() => document.getElementById("content")?.focus()}>
        Skip to the content
      </button>
      <Top view={view} go={go} onHelp={() => setHelp(true)} />
      <main id="content" class={`view ${view}-view`} tabIndex={-1}>
        {view === "causes" && <Causes />}
        {view === "many" && <Many />}
        {view === "failures" && <Failures onReview={() => go("causes")} />}
        {view === "repair" && (part === undefined || part === "" ? <Repair /> : <Result key={part} number={Number(part)} />)}
        {view === "history" && <History />}
      </main>
      <Notice />
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}
