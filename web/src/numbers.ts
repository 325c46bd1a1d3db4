// Numbers as a person reads them: the same forms as in report.html.

type Given = number | null | undefined;

const there = (value: Given): value is number => value !== null && value !== undefined && Number.isFinite(value);
const minus = (text: string): string => text.replace("-", "−");

export const count = (value: Given): string => (there(value) ? minus(Math.trunc(value).toLocaleString("en-US")) : "–");

export const number = (value: Given, digits = 2): string => (there(value) ? minus(value.toFixed(digits)) : "–");

export const share = (value: Given, digits = 1): string => (there(value) ? `${minus((100 * value).toFixed(digits))}%` : "–");

export function probability(value: Given): string {
  if (!there(value)) return "–";
  if (value > 0 && value < 0.001) return "<0.001";
  if (value > 0.999 && value < 1) return ">0.999";
  return value.toFixed(3);
}

/** In percentage points, with its sign. */
export function change(before: Given, after: Given): string {
  if (!there(before) || !there(after)) return "–";
  const points = 100 * (after - before);
  if (Math.abs(points) < 0.05) return "±0.0";
  return (points > 0 ? "+" : "") + minus(points.toFixed(1));
}

/** A value of a table, short. */
export const cell = (value: number): string => minus(String(Number(value.toPrecision(4))));

export function several(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Seconds as "3 s", "2 min 10 s", "1 h 5 min". */
export function duration(seconds: Given): string {
  if (!there(seconds)) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** With a capital and a full stop. */
export function sentence(text: string): string {
  const said = text.trim();
  if (!said) return "";
  return said.charAt(0).toUpperCase() + said.slice(1) + (/[.!?]$/.test(said) ? "" : ".");
}
