// When to stop looking: what those that nobody has seen would likely be.
import { useEffect, useState } from "preact/hooks";
import { get } from "./api";
import { sentence } from "./numbers";
import { page, usePage } from "./store";
import type { Estimate } from "./types";

/** Asked for again a moment after the last change. */
function useEstimate(): Estimate | null {
  usePage();
  const [estimate, setEstimate] = useState<Estimate | null>(null);
  const version = page.state?.version ?? 0;
  useEffect(() => {
    const waiting = setTimeout(() => {
      get<Estimate>("api/estimate").then(setEstimate, () => undefined);
    }, 400);
    return () => clearTimeout(waiting);
  }, [version]);
  return estimate;
}

export function EstimateLine() {
  const estimate = useEstimate();
  if (!estimate) return <p class="estimate note">…</p>;
  const worth = page.order === "worth" || page.order === "spot";
  return (
    <p class="estimate note" aria-live="polite">
      {sentence(estimate.text)}{" "}
      {!worth && estimate.above > 0 && (
        <button type="button" class="link" onClick={() => void page.sort("worth")}>
          Show what is worth a look first
        </button>
      )}
    </p>
  );
}
