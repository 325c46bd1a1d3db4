// A new label by its first letters. The suggestion is filled in, and stands only once Enter is pressed.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Dialog } from "./dialog";
import { several } from "./numbers";

interface Props {
  classes: string[];
  suggested: string;
  given: string;
  n: number;
  onChoose: (label: string) => void;
  onClose: () => void;
}

const SHOWN = 12;

/** Classes that begin with what was typed, then those that hold it. */
export function fitting(classes: string[], typed: string): string[] {
  const small = typed.trim().toLowerCase();
  const begins = classes.filter((name) => name.toLowerCase().startsWith(small));
  const holds = classes.filter((name) => !name.toLowerCase().startsWith(small) && name.toLowerCase().includes(small));
  const exact = begins.filter((name) => name.toLowerCase() === small);
  return [...exact, ...begins.filter((name) => !exact.includes(name)), ...holds];
}

export function Relabel({ classes, suggested, given, n, onChoose, onClose }: Props) {
  const field = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState(suggested);
  const [edited, setEdited] = useState(false);
  const [at, setAt] = useState(0);
  const numbers = classes.length === 0;
  const all = [...classes.filter((name) => name === suggested), ...classes.filter((name) => name !== suggested)];
  const found = numbers ? [] : edited ? fitting(classes, typed) : all;
  const chosen = numbers ? typed.trim() : (found[at] ?? "");
  const empty = !edited && !suggested && at === 0; // nothing was suggested, typed or pointed at
  const good = numbers ? chosen !== "" && Number.isFinite(Number(chosen)) : chosen !== "" && !empty;

  useLayoutEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);

  const pressed = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown" && empty) setEdited(true);
    else if (event.key === "ArrowDown") setAt(Math.min(at + 1, Math.min(found.length, SHOWN) - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (event.key === "Enter" && good) onChoose(chosen);
    else return;
    event.preventDefault();
  };

  return (
    <Dialog title={n > 1 ? `A new label for ${several(n, "example")}` : "A new label"} onClose={onClose}>
      <p class="note">
        {n > 1 || !given ? "" : `The label given is ${given}. `}
        {suggested ? `The suggestion is ${suggested}; type to choose another.` : numbers ? "Type a number." : "Type the first letters of a class."}
      </p>
      <input
        ref={field}
        class="field"
        type="text"
        value={typed}
        inputMode={numbers ? "decimal" : "text"}
        autocomplete="off"
        spellcheck={false}
        role={numbers ? undefined : "combobox"}
        aria-label="New label"
        aria-expanded={numbers ? undefined : true}
        aria-controls={numbers ? undefined : "labels"}
        aria-activedescendant={numbers || !found.length ? undefined : `label-${at}`}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setEdited(true);
          setAt(0);
        }}
        onKeyDown={pressed}
      />
      {!numbers && (
        <ul id="labels" class="labels" role="listbox" aria-label="Classes">
          {found.slice(0, SHOWN).map((name, i) => (
            <li id={`label-${i}`} role="option" aria-selected={i === at && !empty} onClick={() => onChoose(name)}>
              {name}
              {name === suggested && <span class="soft"> suggested</span>}
              {name === given && n === 1 && <span class="soft"> given</span>}
            </li>
          ))}
        </ul>
      )}
      {!numbers && !found.length && <p class="note">No class has these letters.</p>}
      {found.length > SHOWN && <p class="note">{several(found.length - SHOWN, "more class", "more classes")}: type on.</p>}
      <p class="buttons">
        <button type="button" class="main" disabled={!good} onClick={() => good && onChoose(chosen)}>
          Relabel {good ? `as ${chosen}` : ""} <kbd>Enter</kbd>
        </button>
        <button type="button" onClick={onClose}>
          Cancel <kbd>Esc</kbd>
        </button>
      </p>
    </Dialog>
  );
}
