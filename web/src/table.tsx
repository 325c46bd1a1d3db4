// A table that scrolls on its own where the window is narrow.
import type { ComponentChildren } from "preact";

interface Asked {
  title: string; // read aloud, and shown where `shown` says so
  heads: ComponentChildren[];
  numbers?: ComponentChildren[]; // those of the heads that stand over numbers
  kind?: string;
  shown?: boolean;
  children: ComponentChildren;
}

export function Table({ title, heads, numbers = heads, kind = "", shown = false, children }: Asked) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={title}>
      <table class={kind}>
        <caption class={shown ? "" : "hidden"}>{title}</caption>
        <thead>
          <tr>
            {heads.map((head) => (
              <th scope="col" class={numbers.includes(head) ? "number" : ""}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
