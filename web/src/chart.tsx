// A curve over the number removed, with a cut that can be dragged. Each line has its own marker and dash, so colour is
// never needed to tell them apart.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { count } from "./numbers";

export type Mark = "circle" | "square" | "diamond" | "";

export interface Line {
  says: string;
  colour: "accent" | "warm" | "ink";
  dash: number[];
  mark: Mark;
  values: (number | null)[];
  low?: (number | null)[];
  high?: (number | null)[];
}

interface Props {
  title: string;
  x: number[];
  lines: Line[];
  cut: number | null;
  most: number;
  write: (value: number, digits: number) => string;
  onCut?: (cut: number) => void;
  onCutDone?: (cut: number) => void;
}

const HEIGHT = 290;
const colours = (): Record<string, string> => {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["accent", "warm", "ink", "soft", "rule", "grey", "paper"].map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
};

function points(u: uPlot, at: number, mark: Mark, fill: string, edge: string): void {
  const { ctx } = u;
  const ratio = devicePixelRatio || 1;
  const size = 4.2 * ratio;
  const xs = u.data[0];
  const ys = u.data[at] ?? [];
  ctx.save();
  ctx.fillStyle = fill;
  ctx.strokeStyle = edge;
  ctx.lineWidth = 1.2 * ratio;
  ys.forEach((y, i) => {
    if (y === null || y === undefined) return;
    const px = u.valToPos(xs[i] as number, "x", true);
    const py = u.valToPos(y, "y", true);
    ctx.beginPath();
    if (mark === "circle") ctx.arc(px, py, size, 0, 2 * Math.PI);
    else if (mark === "square") ctx.rect(px - size, py - size, 2 * size, 2 * size);
    else {
      const d = 1.5 * size;
      ctx.moveTo(px, py - d);
      ctx.lineTo(px + d, py);
      ctx.lineTo(px, py + d);
      ctx.lineTo(px - d, py);
      ctx.closePath();
    }
    ctx.fill();
    ctx.stroke();
  });
  ctx.restore();
}

/** A little more than what is shown, within what an accuracy can be. */
function around(low: number, high: number): [number, number] {
  const room = Math.max(0.005, 0.06 * (high - low));
  return [Math.max(low >= 0 ? 0 : low, low - room), Math.min(1, high + room)];
}

/** As many digits of a percentage as tell the ticks apart. */
const digits = (ticks: number[]): number => {
  const step = Math.abs((ticks[1] ?? 1) - (ticks[0] ?? 0)) * 100;
  return Math.min(3, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
};

function options(props: Props, width: number, drawn: () => void): uPlot.Options {
  const c = colours();
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  const marks: [number, Mark, string][] = [];
  for (const line of props.lines) {
    const colour = c[line.colour] ?? "#000";
    if (line.low && line.high) {
      bands.push({ series: [series.length + 1, series.length], fill: `${colour}26` });
      series.push({ stroke: "transparent", points: { show: false }, spanGaps: true });
      series.push({ stroke: "transparent", points: { show: false }, spanGaps: true });
    }
    marks.push([series.length, line.mark, colour]);
    series.push({ stroke: colour, width: 2, dash: line.dash, points: { show: false }, spanGaps: true });
  }
  const text = { font: "12px system-ui, sans-serif", stroke: c.soft ?? "#555", grid: { stroke: c.rule ?? "#ccc", width: 1 }, ticks: { stroke: c.rule ?? "#ccc", width: 1 } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false, range: [0, Math.max(1, props.most)] }, y: { range: (_u, low, high) => around(low, high) } },
    axes: [
      { ...text, size: 34, space: 60, label: "training examples removed", labelSize: 22, labelFont: text.font, labelGap: 2, values: (_u, at) => at.map((v) => count(v)) },
      { ...text, size: 60, values: (_u, at) => at.map((v) => props.write(v, digits(at))) },
    ],
    series,
    bands,
    hooks: { draw: [(u) => marks.forEach(([at, mark, colour]) => mark && points(u, at, mark, colour, c.paper ?? "#fff")), drawn] },
  };
}

function columns(props: Props): uPlot.AlignedData {
  const all: (number | null)[][] = [];
  for (const line of props.lines) {
    if (line.low && line.high) all.push(line.low, line.high);
    all.push(line.values);
  }
  return [props.x, ...all] as uPlot.AlignedData;
}

/** Where on the number line a pointer is, kept inside it. */
function under(u: uPlot, event: PointerEvent, most: number): number {
  const box = u.over.getBoundingClientRect();
  const value = u.posToVal(event.clientX - box.left, "x");
  return Math.round(Math.min(most, Math.max(0, value)));
}

export function Chart(props: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const line = useRef<HTMLDivElement | null>(null);
  const now = useRef(props);
  now.current = props;

  const moveLine = (): void => {
    const u = plot.current;
    if (!u || !line.current) return;
    const { cut } = now.current;
    line.current.hidden = cut === null;
    if (cut === null) return;
    line.current.style.left = `${u.valToPos(Math.min(cut, now.current.most), "x")}px`;
    const text = line.current.firstElementChild as HTMLElement;
    text.textContent = count(cut);
    text.className = cut > 0.8 * now.current.most ? "before" : "";
  };

  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const draw = (): void => {
      plot.current?.destroy();
      const u = new uPlot(options(now.current, box.clientWidth, moveLine), columns(now.current), box);
      plot.current = u;
      const bar = document.createElement("div");
      bar.className = "cut-line";
      bar.append(document.createElement("span"));
      u.over.append(bar);
      line.current = bar;
      let held = false;
      u.over.addEventListener("pointerdown", (event) => {
        if (!now.current.onCut) return;
        held = true;
        u.over.setPointerCapture(event.pointerId);
        now.current.onCut(under(u, event, now.current.most));
      });
      u.over.addEventListener("pointermove", (event) => held && now.current.onCut?.(under(u, event, now.current.most)));
      u.over.addEventListener("pointerup", (event) => {
        if (held) now.current.onCutDone?.(under(u, event, now.current.most));
        held = false;
      });
      u.over.addEventListener("pointercancel", () => {
        if (held) now.current.onCutDone?.(now.current.cut ?? 0);
        held = false;
      });
    };
    draw();
    const resized = new ResizeObserver(() => {
      if (plot.current && plot.current.width !== box.clientWidth) plot.current.setSize({ width: box.clientWidth, height: HEIGHT });
    });
    resized.observe(box);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [props.x, props.lines, props.most]);

  useEffect(moveLine, [props.cut]);

  return (
    <figure class="chart">
      <figcaption>{props.title}</figcaption>
      <div ref={place} class={props.onCut ? "plot drags" : "plot"} aria-hidden="true" />
    </figure>
  );
}

export function Legend({ lines, band }: { lines: Line[]; band: string }) {
  return (
    <ul class="legend">
      {lines.map((line) => (
        <li>
          <svg width="36" height="16" aria-hidden="true" class={`sample ${line.colour}`}>
            <line x1="1" x2="35" y1="8" y2="8" stroke-dasharray={line.dash.join(" ")} />
            {line.mark === "circle" && <circle cx="18" cy="8" r="4.2" />}
            {line.mark === "square" && <rect x="14" y="4" width="8" height="8" />}
            {line.mark === "diamond" && <polygon points="18,2 24,8 18,14 12,8" />}
          </svg>
          {line.says}
        </li>
      ))}
      {band && (
        <li>
          <svg width="36" height="16" aria-hidden="true" class="sample accent">
            <rect class="band" x="1" y="2" width="34" height="12" />
          </svg>
          {band}
        </li>
      )}
    </ul>
  );
}
