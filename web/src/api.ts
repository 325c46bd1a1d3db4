// Talking to the server. Addresses are relative, so that the page works behind any path.
import type { Wrong } from "./types";

export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly wrong: Wrong,
  ) {
    super(wrong.what);
  }
}

/** The server cannot be reached: what was to be said is said again later. */
export class Away extends Error {}

export const CLOSED = "This page is not open any more. Open the address that amends review printed.";

async function answered<T>(path: string, asked: RequestInit): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...asked });
  } catch {
    throw new Away("not connected");
  }
  if (answer.ok) return (await answer.json()) as T;
  let wrong: Wrong = { what: `The server answered ${answer.status}` };
  try {
    const said = ((await answer.json()) as { error?: Wrong | string }).error;
    wrong = typeof said === "string" ? { what: said } : (said ?? wrong);
  } catch {
    // not JSON: the number says what there is to say
  }
  if (answer.status === 403) wrong = { what: CLOSED };
  throw new Refused(answer.status, wrong);
}

type Asked = Record<string, string | number | undefined>;

export function query(asked: Asked): string {
  const said = Object.entries(asked).filter(([, value]) => value !== undefined && value !== "");
  return new URLSearchParams(said.map(([name, value]) => [name, String(value)])).toString();
}

export function get<T>(path: string, asked: Asked = {}): Promise<T> {
  const words = query(asked);
  return answered<T>(words ? `${path}?${words}` : path, { method: "GET" });
}

export function post<T>(path: string, body: unknown): Promise<T> {
  return answered<T>(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

export function upload<T>(path: string, file: File): Promise<T> {
  return answered<T>(path, { method: "POST", headers: { "Content-Type": "text/csv" }, body: file });
}

/** One line a person understands. */
export function told(error: unknown): string {
  if (error instanceof Refused) return [error.wrong.what, error.wrong.todo].filter(Boolean).join("; ");
  if (error instanceof Away) return "Not connected: is amends review still running?";
  return error instanceof Error ? error.message : String(error);
}
