// Everything that was decided: when, by whom, and the way back.
import { useEffect, useState } from "preact/hooks";
import { get, post, told, upload } from "./api";
import { count } from "./numbers";
import { newKey } from "./queue";
import { page, usePage } from "./store";
import { Table } from "./table";
import type { Line, State } from "./types";

const PAGE = 100;

export const when = (iso: string): string => {
  const at = new Date(iso);
  return Number.isNaN(at.getTime()) ? iso : at.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
};

function Person() {
  const [name, setName] = useState(page.state?.person ?? "");
  const save = (): void => {
    post<State>("api/person", { name }).then(
      (state) => {
        page.take(state);
        page.say(name ? `Your decisions are signed ${name} from now on` : "Your decisions are not signed any more");
      },
      (error) => page.say(told(error), true),
    );
  };
  return (
    <form
      class="inline"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <label>
        <span>Your name, if you want it beside your decisions</span>
        <input class="field" type="text" maxLength={100} value={name} autocomplete="name" onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <button type="submit">Use it</button>
    </form>
  );
}

function Files() {
  const send = (file: File | undefined): void => {
    if (!file) return;
    upload<State & { changed: number }>("api/upload", file).then(
      (answer) => {
        page.take(answer);
        void page.rows.reload();
        page.say(`${count(answer.changed)} decisions taken in from ${file.name}`);
      },
      (error) => page.say(told(error), true),
    );
  };
  return (
    <div class="inline">
      <a class="button" href="export/causes.csv" download>
        Save causes.csv
      </a>
      <label class="button">
        Take in decisions from a CSV
        <input
          type="file"
          accept=".csv,text/csv"
          class="hidden"
          onChange={(event) => {
            send(event.currentTarget.files?.[0]);
            event.currentTarget.value = "";
          }}
        />
      </label>
    </div>
  );
}

export function History() {
  usePage();
  const [rows, setRows] = useState<Line[]>([]);
  const [total, setTotal] = useState(0);
  const [offset, setOffset] = useState(0);
  const version = page.state?.version;
  useEffect(() => {
    get<{ total: number; rows: Line[] }>("api/trail", { offset, limit: PAGE }).then(
      (answer) => {
        setRows(answer.rows);
        setTotal(answer.total);
      },
      (error) => page.say(told(error), true),
    );
  }, [version, offset]);
  const signed = rows.some((line) => line.by);
  const restore = (to: number): void => page.act({ path: "api/restore", body: { to, key: newKey() } });
  return (
    <div class="history">
      <h1>History</h1>
      <p class="soft">Every change, the newest first. Going back to a line is a change like the others, and can be undone.</p>
      <Person />
      <Files />
      {rows.length === 0 ? (
        <p class="note">Nothing has been decided yet.</p>
      ) : (
        <Table title="History of decisions" heads={["what", ...(signed ? ["by"] : []), "when", <span class="hidden">go back</span>]} numbers={[]}>
          {rows.map((line, i) => (
            <tr class={line.undone ? "undone" : ""}>
              <th scope="row">
                {line.text}
                {line.undone && <span class="soft"> (undone)</span>}
              </th>
              {signed && <td>{line.by || "–"}</td>}
              <td>{when(line.when)}</td>
              <td>
                {offset + i > 0 && (
                  <button type="button" class="link" onClick={() => restore(line.id)}>
                    back to here
                  </button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <p class="buttons">
        {total > PAGE && (
          <>
            <button type="button" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))}>
              Newer
            </button>
            <button type="button" disabled={offset + PAGE >= total} onClick={() => setOffset(offset + PAGE)}>
              Older
            </button>
            <span class="note">
              {count(offset + 1)} to {count(Math.min(offset + PAGE, total))} of {count(total)}
            </span>
          </>
        )}
        {total > 0 && (
          <button type="button" onClick={() => restore(0)}>
            As it was at first
          </button>
        )}
      </p>
    </div>
  );
}
