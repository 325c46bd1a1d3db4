// Every key of the page in one place: what it does, and in which view. `?` lists them.
import { useLayoutEffect, useRef } from "preact/hooks";

export interface Binding {
  keys: string[]; // as KeyboardEvent.key says them; "Shift+ArrowDown", "Ctrl+z" with what is held
  says: string;
  run: () => void;
  repeats?: boolean; // a key that is held down goes on
  typing?: boolean; // also while a field has the focus
}

interface Layer {
  name: string;
  bindings: () => Binding[];
  modal: boolean;
}

const layers: Layer[] = [];

const FIELDS = new Set(["INPUT", "TEXTAREA", "SELECT"]);
const NOT_TEXT = new Set(["checkbox", "radio", "range", "button"]);

function types(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement && NOT_TEXT.has(target.type)) return false;
  return FIELDS.has(target.tagName) || target.isContentEditable;
}

/** A key with what is held beside it; letters in small, so that a caps lock changes nothing. */
export function named(event: KeyboardEvent): string {
  const key = event.key.length === 1 && event.key !== " " ? event.key.toLowerCase() : event.key === " " ? "Space" : event.key;
  const letter = key.length > 1 || /\p{L}/u.test(key);
  const held = [event.ctrlKey || event.metaKey ? "Ctrl" : "", event.altKey ? "Alt" : "", event.shiftKey && letter ? "Shift" : ""];
  return [...held.filter(Boolean), key].join("+");
}

function pressed(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const name = named(event);
  const typing = types(event.target);
  for (const layer of [...layers].reverse()) {
    const found = layer.bindings().find((b) => b.keys.includes(name) && (!typing || b.typing));
    if (found) {
      const presses = name === "Enter" || name === "Space";
      if (presses && event.target instanceof Element && event.target.closest("button, a, summary, [role=slider]")) return;
      event.preventDefault();
      if (!event.repeat || found.repeats) found.run();
      return;
    }
    if (layer.modal) return;
  }
  if (typing && name === "Escape") (event.target as HTMLElement).blur();
}

/** Once. A list that was opened with the mouse gives the keyboard back when something is chosen in it. */
export function listen(): void {
  let pointed = false;
  document.addEventListener("pointerdown", () => (pointed = true));
  document.addEventListener("keydown", (event) => {
    pointed = false;
    pressed(event);
  });
  document.addEventListener("change", (event) => {
    if (pointed && event.target instanceof HTMLSelectElement) event.target.blur();
  });
}

/** The keys of a part of the page, as long as it is there. A modal part hides the keys of what is under it. */
export function useKeys(name: string, bindings: Binding[], modal = false): void {
  const now = useRef(bindings);
  now.current = bindings;
  useLayoutEffect(() => {
    const layer: Layer = { name, bindings: () => now.current, modal };
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
    };
  }, [name, modal]);
}

/** All keys that work now, part by part; those of the list itself left out. */
export function allKeys(): { name: string; bindings: Binding[] }[] {
  return layers.filter((layer) => !layer.modal).map((layer) => ({ name: layer.name, bindings: layer.bindings() }));
}

const SIGNS: Record<string, string> = {
  ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc", Space: "Space", Home: "Home", End: "End",
  PageDown: "PgDn", PageUp: "PgUp", Enter: "Enter",
};

/** A key as it stands on a keyboard. */
export const keycap = (key: string): string =>
  key.split("+").map((part) => SIGNS[part] ?? (part.length === 1 ? part.toUpperCase() : part)).join(" ") || "+";
