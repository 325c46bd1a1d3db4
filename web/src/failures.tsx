// From a failure to its causes.
import { useEffect, useState } from "preact/hooks";
import { get, told } from "./api";
import { forgetFailures } from "./card";
import { Badge, FailureTile } from "./example";
import { Key } from "./help";
import { useKeys } from "./keys";
import { count, several } from "./numbers";
import { newKey } from "./queue";
import { NO_FILTER, page, usePage } from "./store";
import type { Cause, Failure, FailureGroup, Failures as Page } from "./types";

const PAGE = 60;

function CausesOf({ failure }: { failure: Failure }) {
  const [rows, setRows] = useState<Cause[] | null>(null);
  const kind = page.run?.kind ?? "none";
  useEffect(() => {
    setRows(null);
    get<{ rows: Cause[] }>("api/causes", { failure: failure.index, limit: 12 }).then((answer) => setRows(answer.rows), () => setRows([]));
  }, [failure.index]);
  return (
    <>
      {rows === null && <p class="note">…</p>}
      <ul class={`tiles ${kind}`}>
        {rows?.map((row) => (
          <li>
            <FailureTile of={{ ...row, label: row.given, predicted: row.suggested === row.given ? null : row.suggested, predicted_after: null }} set="train" word="suggested" />
            <Badge decision={row.decision} label={row.new_label} effective={row.effective} short />
          </li>
        ))}
      </ul>
    </>
  );
}

function Opened({ failure, onMark, onReview }: { failure: Failure; onMark: () => void; onReview: () => void }) {
  return (
    <section class="opened" aria-label={`Failure ${failure.index}`}>
      <h2>Failure {failure.id}</h2>
      <div class={`failure-self ${page.run?.kind}`}>
        <FailureTile of={failure} features={page.run?.features ?? []} />
      </div>
      {failure.suspect && <p class="note">Its own label looks wrong: its neighbours that are right all have the label the model predicts.</p>}
      {failure.marked && <p class="note">You marked its label as wrong: the next repair does not search with it.</p>}
      <p class="buttons">
        {failure.causes > 0 && (
          <button type="button" class="main" onClick={onReview}>
            Review its {several(failure.causes, "cause")} <Key of="Enter" />
          </button>
        )}
        <button type="button" aria-pressed={failure.marked} onClick={onMark}>
          {failure.marked ? "Its label is right after all" : "Its own label is wrong"} <Key of="w" />
        </button>
      </p>
      {failure.causes > 0 ? (
        <>
          <h3>the strongest of its causes</h3>
          <CausesOf failure={failure} />
        </>
      ) : (
        <p class="note">Every training example conflicts with other failures more than with this one.</p>
      )}
    </section>
  );
}

const CHIPS = 8; // groups with a button of their own; the rest are in a list

function Groups({ groups, chosen, onChoose }: { groups: FailureGroup[]; chosen: string; onChoose: (name: string) => void }) {
  const first = groups.slice(0, groups.length > CHIPS + 1 ? CHIPS : undefined);
  const rest = groups.slice(first.length);
  return (
    <div class="chips" role="group" aria-label="Groups of failures">
      <button type="button" aria-pressed={chosen === ""} onClick={() => onChoose("")}>
        all <span class="soft">{count(groups.reduce((sum, one) => sum + one.n, 0))}</span>
      </button>
      {first.map((one) => (
        <button type="button" aria-pressed={chosen === one.name} onClick={() => onChoose(one.name)}>
          {one.name || "no group"} <span class="soft">{count(one.n)}</span>
          {one.suspects > 0 && <span class="soft"> · {several(one.suspects, "doubtful label")}</span>}
        </button>
      ))}
      {rest.length > 0 && (
        <select aria-label="Further groups" value={rest.some((one) => one.name === chosen) ? chosen : ""} onChange={(event) => onChoose(event.currentTarget.value)}>
          <option value="">{several(rest.length, "more group")}</option>
          {rest.map((one) => (
            <option value={one.name}>
              {one.name} ({count(one.n)})
            </option>
          ))}
        </select>
      )}
    </div>
  );
}

function GroupHead({ of }: { of: FailureGroup | undefined }) {
  if (!of) return null;
  return (
    <li class="group-head">
      <h2>{of.name || "no group"}</h2>
      <span class="note">
        {several(of.n, "failure")} · {several(of.causes, "cause")}
      </span>
    </li>
  );
}

export function Failures({ onReview }: { onReview: () => void }) {
  usePage();
  const [group, setGroup] = useState("");
  const [offset, setOffset] = useState(0);
  const [found, setFound] = useState<Page | null>(null);
  const [at, setAt] = useState(0);
  const version = page.state?.version;
  useEffect(() => {
    get<Page>("api/failures", { group, offset, limit: PAGE }).then(setFound, (error) => page.say(told(error), true));
  }, [group, offset, version]);
  const rows = found?.rows ?? [];
  const here = rows[Math.min(at, rows.length - 1)];
  const go = (to: number): void => {
    setAt(Math.min(Math.max(0, to), rows.length - 1));
    requestAnimationFrame(() => document.querySelector(".failure[aria-pressed=true]")?.scrollIntoView({ block: "nearest" }));
  };
  const mark = (): void => {
    if (!here) return;
    page.act({ path: "api/mark", body: { index: here.index, wrong: !here.marked, key: newKey() } });
    setFound((now) => now && { ...now, rows: now.rows.map((row) => (row.index === here.index ? { ...row, marked: !here.marked } : row)) });
    forgetFailures();
  };
  const review = (): void => {
    if (!here?.causes) return;
    void page.search({ ...NO_FILTER, failure: String(here.index) });
    onReview();
  };
  useKeys("Failures", [
    { keys: ["ArrowRight", "ArrowDown"], says: "next", run: () => go(at + 1), repeats: true },
    { keys: ["ArrowLeft", "ArrowUp"], says: "previous", run: () => go(at - 1), repeats: true },
    { keys: ["Enter"], says: "review its causes", run: review },
    { keys: ["w"], says: "its own label is wrong, or right after all", run: mark },
  ]);
  const choose = (name: string): void => {
    setGroup(name);
    setOffset(0);
    setAt(0);
  };
  const groups = found?.groups ?? [];
  return (
    <div class="failures">
      <h1>Failures</h1>
      <p class="soft">
        Those that were searched with. The others judge the repair, and are not shown before it. Choose one to see the training
        examples that pull against it.
      </p>
      {groups.length > 1 && <Groups groups={groups} chosen={group} onChoose={choose} />}
      <div class="two">
        <div>
          <ul class={`failure-list ${page.run?.kind}`}>
            {rows.map((failure, i) => (
              <>
                {group === "" && failure.group !== rows[i - 1]?.group && <GroupHead of={groups.find((one) => one.name === failure.group)} />}
                <li>
                  <button type="button" class="failure" aria-pressed={failure === here} onClick={() => setAt(i)}>
                    <FailureTile of={failure} features={[]} />
                    <span class="note">
                      {failure.causes ? several(failure.causes, "cause") : "no causes"}
                      {failure.marked ? " · label wrong" : failure.suspect ? " · label doubtful" : ""}
                    </span>
                  </button>
                </li>
              </>
            ))}
          </ul>
          {found && found.total > PAGE && (
            <p class="buttons">
              <button type="button" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))}>
                Back
              </button>
              <span class="note">
                {offset + 1} to {Math.min(offset + PAGE, found.total)} of {count(found.total)}
              </span>
              <button type="button" disabled={offset + PAGE >= found.total} onClick={() => setOffset(offset + PAGE)}>
                Further
              </button>
            </p>
          )}
        </div>
        {here && <Opened failure={here} onMark={mark} onReview={review} />}
      </div>
    </div>
  );
}
