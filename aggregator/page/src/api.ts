// Requests to the aggregator: the same API that scripts use. Times are the aggregator's; the
// browser's clock may be wrong, and is used for differences only.

import { useEffect, useRef, useState } from "preact/hooks";
import { useLive } from "./live";

/** A response that is not a success, with the reason in words. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

let ahead = 0;

/** Seconds since 1970 on the aggregator's clock. */
export const now = (): number => Date.now() / 1000 + ahead;

/** How far the aggregator's clock is ahead of this browser's, in seconds. */
export const clockAhead = (): number => ahead;

/** Takes over the aggregator's time of an answer or a pulse. */
export function noteTime({ at_seconds }: { at_seconds?: number }): void {
  if (at_seconds) ahead = at_seconds - Date.now() / 1000;
}

export type Query = Record<string, string | number | string[] | undefined>;

/** A path with its parameters; those that are undefined are left out. */
export function path(base: string, query: Query = {}): string {
  const pairs = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== "") pairs.append(key, String(one));
    }
  }
  const text = pairs.toString();
  return text ? `${base}?${text}` : base;
}

/** Names of runs are numbers above 2^53: those are kept as text where the browser can. */
function exact(_key: string, value: unknown, context?: { source?: string }): unknown {
  const isInexact = typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER;
  return isInexact ? (context?.source ?? value) : value;
}

const parse = JSON.parse as (text: string, reviver?: typeof exact) => unknown;

export async function get<T>(url: string, signal?: AbortSignal): Promise<T> {
  const response = await fetch(url, { signal, headers: { accept: "application/json" } });
  const text = await response.text();
  if (!response.ok) throw new Failure(response.status, text.trim() || response.statusText);
  if (!response.headers.get("content-type")?.startsWith("application/json")) return text as T;
  const page = (/(?<![\d.])\d{16}/.test(text) ? parse(text, exact) : parse(text)) as { at_seconds?: number };
  noteTime(page);
  return page as T;
}

/** Pages of nodes that one view reads: 64 nodes each. */
const PAGES_MAX = 32;

/** All pages of a list of nodes as one. */
export async function allPages<T extends { nodes: unknown[]; next?: string | null }>(
  url: string,
  signal?: AbortSignal,
): Promise<T> {
  const all = await get<T>(url, signal);
  let { next } = all;
  for (let n = 1; next && n < PAGES_MAX; n++) {
    const page = await get<T>(`${url}&after=${encodeURIComponent(next)}`, signal);
    all.nodes.push(...page.nodes);
    next = page.next;
  }
  return { ...all, next };
}

/** A change, with the token that is held in memory alone; what it has made, if that is returned. */
export async function change(
  method: "POST" | "DELETE",
  url: string,
  token: string,
  body?: unknown,
): Promise<unknown> {
  const headers: Record<string, string> = { authorization: `Bearer ${token}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(url, { method, headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Failure(response.status, text.trim() || response.statusText);
  return response.headers.get("content-type")?.startsWith("application/json") && parse(text);
}

export interface Loaded<T> {
  data?: T;
  error?: Error;
  /** Whether `data` is that of the wanted request, and not of the one before. */
  isCurrent: boolean;
  reload: () => void;
}

/** A failed request is retried after this many pulses, if its answer is requested once only. */
const RETRY = 5;

/**
 * The answer of a URL, requested every `every` pulses of the aggregator; 0 means once. After a slow
 * response the next request waits as long. With `keep`, the answer of the previous URL stays until
 * there is one of the new URL.
 */
export function useData<T>(
  url: string | null,
  every = 1,
  keep = false,
  load: (url: string, signal: AbortSignal) => Promise<T> = get,
): Loaded<T> {
  const { tick } = useLive();
  const [state, setState] = useState<{ url?: string; data?: T; error?: Error }>({});
  const [asked, setAsked] = useState(0);
  const busy = useRef<AbortController | null>(null);
  const last = useRef({ url: "", asked: 0, tick: -1, duration: 0 });
  const isCurrent = state.url === url;
  const error = isCurrent ? state.error : undefined;

  useEffect(() => {
    if (url === null) return;
    const before = last.current;
    const isNew = before.url !== url || before.asked !== asked;
    const pulses = every || (error ? RETRY : Infinity);
    const wait = Math.max(pulses, Math.ceil(before.duration / 500));
    if (!isNew && (busy.current || tick - before.tick < wait)) return;
    busy.current?.abort();
    const request = new AbortController();
    busy.current = request;
    const start = performance.now();
    last.current = { url, asked, tick, duration: isNew ? 0 : before.duration };
    load(url, request.signal)
      .then((data) => setState({ url, data }))
      .catch((error: Error) => {
        if (request.signal.aborted) return;
        // What was shown stays, unless it was about something else.
        setState((old) => (old.url === url ? { ...old, error } : { url, error }));
      })
      .finally(() => {
        if (busy.current !== request) return;
        busy.current = null;
        last.current.duration = performance.now() - start;
      });
  }, [url, every, tick, asked]);
  useEffect(() => () => busy.current?.abort(), []);

  const reload = () => setAsked((n) => n + 1);
  return { data: isCurrent || keep ? state.data : undefined, error, isCurrent, reload };
}
