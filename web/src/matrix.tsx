// Confusion matrices before, after, and what has changed: the same tables as in report.html.
import type { Confusion } from "./types";
import { count } from "./numbers";

const MOST = 14; // classes shown one by one; where there are more, those most often confused, and the others as one

type Matrix = number[][];
type Cell = { text: string; kind: string; strength: number };

const at = (m: Matrix, i: number, j: number): number => m[i]?.[j] ?? 0;

function fewer({ classes, before, after }: Confusion): { shown: Confusion; merged: number } {
  const n = classes.length;
  if (n <= MOST) return { shown: { classes, before, after }, merged: 0 };
  const wrong = classes.map((_, i) =>
    [before, after].reduce((sum, m) => sum + classes.reduce((s, _c, j) => s + (i === j ? 0 : at(m, i, j) + at(m, j, i)), 0), 0),
  );
  const order = classes.map((_, i) => i).sort((a, b) => (wrong[b] ?? 0) - (wrong[a] ?? 0));
  const kept = order.slice(0, MOST - 2).sort((a, b) => a - b);
  const place = new Map(kept.map((i, k) => [i, k]));
  const merge = (m: Matrix): Matrix => {
    const out = Array.from({ length: kept.length + 1 }, () => Array<number>(kept.length + 1).fill(0));
    m.forEach((row, i) =>
      row.forEach((value, j) => {
        const line = out[place.get(i) ?? kept.length] as number[];
        const column = place.get(j) ?? kept.length;
        line[column] = (line[column] ?? 0) + value;
      }),
    );
    return out;
  };
  const names = [...kept.map((i) => classes[i] as string), "others"];
  return { shown: { classes: names, before: merge(before), after: merge(after) }, merged: n - kept.length };
}

function counts(m: Matrix): (i: number, j: number) => Cell {
  const right = Math.max(1, ...m.map((row, i) => row[i] ?? 0));
  const wrong = Math.max(1, ...m.flatMap((row, i) => row.filter((_, j) => j !== i)));
  return (i, j) => {
    const value = at(m, i, j);
    return { text: count(value), kind: !value ? "zero" : i === j ? "right" : "wrong", strength: value / (i === j ? right : wrong) };
  };
}

function difference(before: Matrix, after: Matrix): (i: number, j: number) => Cell {
  const moved = after.map((row, i) => row.map((value, j) => value - at(before, i, j)));
  const most = Math.max(1, ...moved.flat().map(Math.abs));
  return (i, j) => {
    const value = at(moved, i, j);
    const kind = !value ? "zero" : value > 0 === (i === j) ? "better" : "worse";
    return { text: (value > 0 ? "+" : "") + count(value), kind, strength: Math.abs(value) / most };
  };
}

function Table({ title, names, cell }: { title: string; names: string[]; cell: (i: number, j: number) => Cell }) {
  const long = names.some((name) => String(name).length > 3);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`confusion matrix: ${title}`}>
      <table class={long ? "matrix long" : "matrix"}>
        <caption>{title}</caption>
        <thead>
          <tr>
            <td />
            {names.map((name) => (
              <th scope="col">
                <span>{name}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {names.map((name, i) => (
            <tr>
              <th scope="row">{name}</th>
              {names.map((_, j) => {
                const { text, kind, strength } = cell(i, j);
                return (
                  <td class={kind} style={kind === "zero" ? {} : { "--v": strength.toFixed(3) }}>
                    {text}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Matrices({ confusion }: { confusion: Confusion }) {
  const { shown, merged } = fewer(confusion);
  const { classes, before, after } = shown;
  return (
    <>
      <p class="soft">
        Holdout and remaining together: rows are the true class, columns the predicted one. In the difference, changes for
        the worse are hatched.
        {merged ? ` ${count(merged)} classes that are rarely confused are shown together as “others”.` : ""}
      </p>
      <div class="matrices">
        <Table title="Before" names={classes} cell={counts(before)} />
        <Table title="After" names={classes} cell={counts(after)} />
        <Table title="Difference" names={classes} cell={difference(before, after)} />
      </div>
    </>
  );
}
