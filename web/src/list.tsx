// A long list of which only the lines on screen exist.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props {
  total: number;
  line: number; // pixels of a line
  at: number; // the line that stays in sight
  label: string;
  draw: (i: number) => ComponentChildren;
  onShown: (first: number, last: number) => void;
}

const AROUND = 8; // lines drawn beyond the edges

export function LongList({ total, line, at, label, draw, onShown }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);

  useLayoutEffect(() => {
    const view = box.current;
    if (!view) return;
    const measure = new ResizeObserver(() => setHeight(view.clientHeight));
    measure.observe(view);
    return () => measure.disconnect();
  }, []);

  useLayoutEffect(() => {
    const view = box.current;
    if (!view) return;
    const y = at * line;
    if (y < view.scrollTop) view.scrollTop = y;
    else if (y + line > view.scrollTop + view.clientHeight) view.scrollTop = y + line - view.clientHeight;
  }, [at, line, total]);

  const first = Math.max(0, Math.floor(top / line) - AROUND);
  const last = Math.min(total - 1, Math.ceil((top + height) / line) + AROUND);
  useEffect(() => onShown(first, last), [first, last, total]);

  const lines = [];
  for (let i = first; i <= last; i++) lines.push(draw(i));
  return (
    <div
      ref={box}
      class="long"
      role="listbox"
      aria-label={label}
      aria-activedescendant={total ? `line-${at}` : undefined}
      tabIndex={0}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div class="whole" role="presentation" style={{ height: `${total * line}px` }}>
        <div class="lines" role="presentation" style={{ transform: `translateY(${first * line}px)` }}>
          {lines}
        </div>
      </div>
    </div>
  );
}
