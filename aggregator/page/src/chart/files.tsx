// The figure of every chart, with links to it alone and to its data: as CSV what is drawn, as JSON
// the answers of the API that it is drawn from, both of the range that is shown.

import type { ComponentChildren } from "preact";
import { type Params, href, useUrl } from "../url";

export interface DrawnTable {
  head: string[];
  rows: (string | number | null | undefined)[][];
}

/** What a view states of a chart. */
export interface Source {
  /** Addresses of the API that have its data. */
  json?: (string | null | undefined)[];
  /** Parameters of its address that the view chose by itself. */
  about?: Params;
}

interface Props extends Source {
  /** Distinguishes it from other charts of its view. */
  title: string;
  /** The range that is shown, of a chart over time. */
  range?: { from: number; to: number };
  table: () => DrawnTable;
  children: ComponentChildren;
}

export function ChartFigure({ title, json = [], about, range, table, children }: Props) {
  const { params } = useUrl();
  const isAlone = params.chart === title;
  const [from, to] = [range?.from, range?.to].map((of) => of && Math.round(of * 1000));
  const fixed = range && { from, to, last: undefined };
  const download = () => save(`${title.replace(/[^\w.-]+/g, "_")}.csv`, csv(table()));
  const urls = json.filter((url) => url != null);
  return (
    <figure class={isAlone ? "chart alone" : "chart"}>
      {children}
      <p class="files">
        <button type="button" aria-label={`CSV of ${title}`} onClick={download}>
          CSV
        </button>
        {urls.map((url, n) => {
          const name = n > 0 ? `JSON ${n + 1}` : "JSON";
          return (
            <a
              key={n}
              href={absolute(url, range)}
              target="_blank"
              aria-label={`${name} of ${title}`}
            >
              {name}
            </a>
          );
        })}
        {isAlone ? (
          <a href={href({ ...params, chart: undefined })}>All of this view</a>
        ) : (
          <a
            href={href({ ...about, ...params, ...fixed, chart: title })}
            aria-label={`Only this chart: ${title}`}
          >
            Only this chart
          </a>
        )}
      </p>
    </figure>
  );
}

/** The address of the range that is shown, also tomorrow. */
function absolute(url: string, range: Props["range"]): string {
  const [base, query] = url.split("?");
  const pairs = new URLSearchParams(query);
  if (range && pairs.has("last")) {
    pairs.delete("last");
    pairs.set("from", range.from.toFixed(3));
    pairs.set("to", range.to.toFixed(3));
  }
  return `${base}?${pairs}`;
}

/** RFC 4180. */
function csv({ head, rows }: DrawnTable): string {
  return [head, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function cell(of: DrawnTable["rows"][number][number]): string {
  // Names come from jobs: a spreadsheet would compute a text with one of these in front.
  const text = typeof of === "string" && /^[=+\-@\t\r]/.test(of) ? `'${of}` : String(of ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function save(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A time in a file: UTC, to the millisecond. */
export const time = (seconds: number): string => new Date(seconds * 1000).toISOString();
