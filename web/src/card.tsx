// One cause, beside the failures it conflicts with.
import { useEffect, useState } from "preact/hooks";
import { get } from "./api";
import { Appearance, Badge, FailureTile, Picture } from "./example";
import { number, probability, several } from "./numbers";
import { page } from "./store";
import type { Card as Full, Cause, Failure } from "./types";

const SETTLED = 60; // milliseconds without a move before the failures are asked for
const known = new Map<number, Failure[]>();

/** The failures of a cause; nothing while keys come fast, so that nothing jumps. */
function useFailures(index: number | undefined): Failure[] | null {
  const [failures, setFailures] = useState<[number, Failure[]] | null>(null);
  useEffect(() => {
    if (index === undefined) return;
    const before = known.get(index);
    if (before) {
      setFailures([index, before]);
      return;
    }
    const waiting = setTimeout(async () => {
      try {
        const card = await get<Full>(`api/causes/${index}`);
        if (known.size > 200) known.clear();
        known.set(index, card.failures);
        setFailures([index, card.failures]);
      } catch {
        setFailures([index, []]);
      }
    }, SETTLED);
    return () => clearTimeout(waiting);
  }, [index]);
  return failures && failures[0] === index ? failures[1] : null;
}

export const forgetFailures = (): void => known.clear();

function Facts({ of }: { of: Cause }) {
  return (
    <dl class="facts">
      <dt>given</dt>
      <dd>
        <b>{of.given}</b>
      </dd>
      <dt>predicted</dt>
      <dd>
        {of.predicted}
        {of.predicted_after && of.predicted_after !== of.predicted ? ` → ${of.predicted_after}` : ""}
      </dd>
      <dt>suggested</dt>
      <dd>{of.suggested === of.given ? "the given label" : <b>{of.suggested}</b>}</dd>
      <dt title="probability of the given label, before and once the failures are learned">p(given)</dt>
      <dd>
        {probability(of.p_given)} → {probability(of.p_given_after)}
      </dd>
      <dt>score</dt>
      <dd>
        {number(of.score)}
      </dd>
      {of.group && (
        <>
          <dt>group</dt>
          <dd>{of.group}</dd>
        </>
      )}
      {of.disagreement !== null && of.disagreement >= 0.05 && (
        <>
          <dt title="how far apart the methods rank it: 0 they agree, 1 they do not">disagreement</dt>
          <dd>{number(of.disagreement)}</dd>
        </>
      )}
      {Object.entries(of.own).filter(([, value]) => value !== "" && value !== of.id && value !== of.look.text).map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </>
      ))}
    </dl>
  );
}

function Copies({ of }: { of: Cause }) {
  if (!of.copies.length) return null;
  const shown = of.copies.slice(0, 8);
  return (
    <div class="copies-of">
      <h3>{several(of.copies.length, "near copy", "near copies")}, decided together</h3>
      {of.look.image ? (
        <ul class="small-pictures">
          {shown.map((index) => (
            <li>
              <Picture src={`api/pictures/train/${index}.png`} says={`near copy, training example ${index}`} />
            </li>
          ))}
        </ul>
      ) : (
        <p class="note">{shown.map((index) => `train[${index}]`).join(", ")}</p>
      )}
      {of.copies.length > shown.length && <p class="note">and {of.copies.length - shown.length} more</p>}
    </div>
  );
}

function Against({ index, n }: { index: number; n: number }) {
  const failures = useFailures(index);
  const kind = page.run?.kind ?? "none";
  return (
    <div class="against">
      <h3>it conflicts with these failures</h3>
      {failures === null && n > 0 && <p class="note">…</p>}
      {(n === 0 || failures?.length === 0) && <p class="note">With none of those searched with.</p>}
      <ul class={`beside ${kind}`}>
        {failures?.map((failure) => (
          <li class={failure.marked ? "marked" : ""}>
            <FailureTile of={failure} features={page.run?.features ?? []} />
            {failure.marked && <span class="note">label marked as wrong</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}

export function Card({ of, onFull }: { of: Cause; onFull: () => void }) {
  const kind = page.run?.kind ?? "none";
  useEffect(() => page.look(of.index), [of.index]);
  const says = `training example ${of.index}, given label ${of.given}, suggested ${of.suggested}`;
  return (
    <article class={`card large ${kind}`} tabIndex={0} aria-label={`Cause of rank ${of.rank}`}>
      <header>
        <span class="rank">{of.rank}</span>
        <span class="soft">train[{of.index}]</span>
        {of.id !== String(of.index) && <span class="soft named">{of.id}</span>}
        <span class="fill" />
        {of.seen && !of.decision && <span class="badge none">seen</span>}
        <Badge decision={of.decision} label={of.new_label} effective={of.effective} />
        {of.by && <span class="soft">by {of.by}</span>}
      </header>
      <div class="pair">
        <div class="self">
          <h3>should the model forget this training example?</h3>
          {of.look.image ? (
            <button type="button" class="picture-button" onClick={onFull} aria-label="Show the picture in full size">
              <Appearance look={of.look} says={says} size="card" />
            </button>
          ) : (
            <Appearance look={of.look} says={says} features={page.run?.features ?? []} />
          )}
          <Facts of={of} />
          <Copies of={of} />
        </div>
        <Against index={of.index} n={of.conflicts_with.length} />
      </div>
    </article>
  );
}
