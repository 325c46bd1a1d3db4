// What the server says.

export type Decision = "" | "remove" | "relabel" | "keep";

export interface Look {
  image?: string;
  text?: string;
  row?: number[];
  stands_out?: string[];
  values?: number[];
  deviations?: (number | null)[];
}

export interface Counts {
  total: number;
  seen: number;
  remove: number;
  relabel: number;
  keep: number;
  undecided: number;
  by_cut: number;
  removed: number;
  disagrees: number;
  marked: number;
}

export interface Told {
  when: string;
  n: number;
  text: string;
  error: string | null;
}

export interface State {
  version: number;
  cut: number;
  counts: Counts;
  undo: string | null;
  redo: string | null;
  person: string;
  told: Told | null;
}

export interface Named {
  name: string;
  n: number;
}

export interface Run extends State {
  name: string;
  folder: string;
  state: string;
  made: string;
  kind: "image" | "text" | "row" | "none";
  classes: string[];
  features: string[];
  columns: string[];
  groups: Named[];
  given: Named[];
  suggested: Named[];
  score: { low: number; high: number };
  train: number;
  total: number;
  pictures: boolean;
  repair: string;
}

export interface Cause {
  index: number;
  id: string;
  rank: number;
  score: number;
  given: string;
  predicted: string;
  predicted_after: string;
  p_given: number | null;
  p_given_after: number | null;
  suggested: string;
  group: string;
  conflicts_with: number[];
  decision: Decision;
  new_label: string;
  by: string;
  effective: Decision;
  seen: boolean;
  copies: number[];
  disagreement: number | null;
  own: Record<string, string>;
  look: Look;
}

export interface Failure {
  index: number;
  id: string;
  group: string;
  suspect: boolean;
  marked: boolean;
  label: string | null;
  predicted: string | null;
  predicted_after: string | null;
  causes: number;
  own: Record<string, string>;
  look: Look;
}

export interface Card extends Cause {
  failures: Failure[];
}

export interface FailureGroup {
  name: string;
  n: number;
  causes: number;
  suspects: number;
  marked: number;
}

export interface Failures {
  groups: FailureGroup[];
  total: number;
  offset: number;
  rows: Failure[];
}

export interface Line {
  id: number;
  when: string;
  by: string;
  text: string;
  n: number;
  kind: string;
  undone: boolean;
}

export interface CurveRow {
  by: string;
  removed: number;
  [accuracy: string]: number | string | null;
}

export interface Curve {
  rows: CurveRow[];
  chosen: number | null;
  cut: number;
}

export interface Estimate {
  above: number;
  unseen: number;
  sample: number;
  low: number | null;
  share: number | null;
  high: number | null;
  text: string;
}

export interface Wrong {
  what: string;
  where?: string;
  todo?: string;
}

export interface Job {
  number: number;
  kind: "repair" | "curve" | "patch";
  state: "running" | "done" | "failed" | "cancelled";
  started: string;
  ended: string | null;
  seconds: number;
  left: number | null;
  step: string;
  error: Wrong | null;
  repair: number | null;
  lines?: string[];
}

export interface Accuracy {
  before: number | null;
  after: number | null;
  n: number;
}

export interface Confusion {
  classes: string[];
  before: number[][];
  after: number[][];
}

export interface Part {
  n: number;
  before: number | null;
  after: number | null;
  fixed: number;
  broken: number;
  p_value: number | null;
}

export interface Metrics {
  verdict: string;
  reason: string;
  offer?: string;
  warnings: string[];
  intervals: Record<string, [number, number] | null>;
  changes: Record<string, [number, number] | null>;
  controls: Record<string, Record<string, number | null>>;
  curve: CurveRow[];
  groups: Record<string, Part>;
  classes: Record<string, Part>;
  harmed: string[];
  confusion?: Confusion | null;
  p_value: number | null;
  [key: string]: unknown;
}

export interface Shown {
  index: number;
  label: string | null;
  predicted: string | null;
  predicted_after: string | null;
  look: Look;
}

export interface Repair {
  number: number;
  name: string;
  made: string;
  verdict: string;
  reason: string;
  removed: number;
  relabelled: number;
  fixed: number;
  newly_broken: number;
  query: Accuracy;
  holdout: Accuracy;
  remaining: Accuracy | null;
  overall: Accuracy;
  accepted: boolean | null;
  note: string;
  by: string;
}

export interface PatchLayer {
  name: string;
  kind: string;
  rank: number | null;
  weights: number;
  bytes?: number;
  changed: number;
  moved: number;
}

export interface Patch {
  path: string;
  file: boolean; // whether it can be taken from here
  bytes: number;
  share: number | null;
  why?: string;
  judged: { verdict: string; overall: Accuracy };
  layers: PatchLayer[];
}

export interface Result extends Repair {
  patch: Patch | null;
  metrics: Metrics;
  fixed_rows: Shown[];
  broken_rows: Shown[];
  trained: number;
  marked: number;
}

export interface Comparison {
  settings: Record<string, [unknown, unknown]>;
  results: Record<string, [unknown, unknown]>;
  causes: { both: number; only_one: number[]; only_other: number[] };
}

export type Order = "rank" | "worth" | "spot" | "score" | "id" | "given" | "suggested" | "group" | "p_given" | "decided";

/** Which causes the list holds; an empty field asks for nothing. */
export interface Filter {
  group: string;
  given: string;
  suggested: string;
  decision: string;
  seen: string;
  low: string;
  high: string;
  disagrees: string;
  differs: string;
  text: string;
  id: string;
  failure: string;
  copies: string;
}
