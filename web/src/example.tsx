// An example as a person sees it: its picture, its text, or the columns in which it stands out.
import { useEffect, useState } from "preact/hooks";
import type { Failure, Look, Shown } from "./types";
import { cell } from "./numbers";

const SETTLED = 100; // milliseconds without a move before a larger picture is asked for

/** A thumbnail. Where a size is asked for, it comes in the place of the thumbnail as soon as it is there. */
export function Picture({ src, says, size }: { src: string; says: string; size?: "card" | "full" }) {
  const [gone, setGone] = useState("");
  const [sharp, setSharp] = useState("");
  useEffect(() => {
    if (!size) return;
    const larger = new Image();
    larger.onload = () => setSharp(larger.src);
    const waiting = setTimeout(() => (larger.src = `${src}?size=${size}`), SETTLED);
    return () => {
      clearTimeout(waiting);
      larger.onload = null;
    };
  }, [src, size]);
  const address = sharp.endsWith(`${src}?size=${size}`) ? sharp : src;
  if (gone === address) return <span class="picture missing">no picture</span>;
  return <img class="picture" src={address} alt={says} decoding="async" onError={() => setGone(address)} />;
}

function Row({ look, features }: { look: Look; features: string[] }) {
  const [whole, setWhole] = useState(false);
  const names = whole ? features : (look.stands_out ?? []);
  const values = whole ? (look.row ?? []) : (look.values ?? []);
  const more = features.length > 0 && (look.row?.length ?? 0) === features.length && features.length > (look.stands_out?.length ?? 0);
  return (
    <div class="columns">
      <table class="row">
        <caption>{whole ? "all columns" : "what stands out"}</caption>
        <tbody>
          {names.map((name, i) => {
            const far = whole ? null : (look.deviations?.[i] ?? null);
            return (
              <tr>
                <th scope="row">{name}</th>
                <td class="number">{values[i] === undefined ? "–" : cell(values[i])}</td>
                <td class="number soft">{far === null ? "" : `${far > 0 ? "+" : "−"}${Math.abs(far).toFixed(1)} sd`}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {more && (
        <button type="button" class="link" onClick={() => setWhole(!whole)}>
          {whole ? "only what stands out" : `all ${features.length} columns`}
        </button>
      )}
    </div>
  );
}

interface Props {
  look: Look;
  says: string;
  size?: "card";
  features?: string[];
}

export function Appearance({ look, says, size, features = [] }: Props) {
  if (look.image) return <Picture src={look.image} says={says} {...(size ? { size } : {})} />;
  if (look.text !== undefined) return <blockquote>{look.text}</blockquote>;
  if (look.stands_out?.length || look.row?.length) return <Row look={look} features={features} />;
  return <p class="note">This example cannot be shown here.</p>;
}

/** An example of the failures or of remaining, with its label and what the model predicts. */
export function Told({ of, set, word }: { of: Failure | Shown; set: string; word: string }) {
  const said = [of.predicted, of.predicted_after].filter((word) => word !== null && word !== "");
  return (
    <span class="told">
      {of.label !== null && <b>{of.label}</b>}
      {said.length > 0 && (
        <span class="said">
          <span class="word">{word} </span>
          {said.join(" → ")}
        </span>
      )}
      <span class="place">
        {set}[{of.index}]
      </span>
    </span>
  );
}

interface Tile {
  of: Failure | Shown;
  set?: string;
  features?: string[];
  word?: string; // what the second label is
}

export function FailureTile({ of, set = "failures", features = [], word = "predicted" }: Tile) {
  const says = `${set} ${of.index}${of.label === null ? "" : `, label ${of.label}`}`;
  return (
    <>
      <Appearance look={of.look} says={says} features={features} />
      <Told of={of} set={set} word={word} />
    </>
  );
}

const SIGNS: Record<string, [string, string]> = {
  remove: ["✕", "removed"],
  relabel: ["↻", "relabelled"],
  keep: ["✓", "kept"],
};

/** What was decided, by a person or by the cut, in a sign and a word. */
export function Badge({ decision, label, effective, short }: { decision: string; label: string; effective: string; short?: boolean }) {
  const known = SIGNS[decision];
  if (known) {
    return (
      <span class={`badge ${decision}`}>
        <span aria-hidden="true">{known[0]}</span> {decision === "relabel" && label ? (short ? label : `relabelled ${label}`) : known[1]}
      </span>
    );
  }
  if (effective === "remove") {
    return (
      <span class="badge cut">
        <span aria-hidden="true">┄</span> {short ? "by the cut" : "removed by the cut"}
      </span>
    );
  }
  return <span class="badge none">{short ? "" : "undecided"}</span>;
}
