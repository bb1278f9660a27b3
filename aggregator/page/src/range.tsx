// The time range of a view, up to now or between two times; it is in the URL.

import { now } from "./api";
import { inputTime, span, when } from "./units";
import { href, useUrl } from "./url";

const PRESETS: [string, number][] = [
  ["5m", 300],
  ["15m", 900],
  ["1h", 3_600],
  ["6h", 21_600],
  ["1d", 86_400],
  ["7d", 604_800],
  ["30d", 2_592_000],
];
const STEPS = [
  1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200,
  86_400,
];
const COLUMNS_MAX = 240;

export interface Range {
  /** Parameters of the API. */
  query: Record<string, string>;
  from: number;
  to: number;
  /** Whether it ends now and moves on. */
  isLive: boolean;
  /** After how many pulses its data is requested again; 0 is never. */
  every: number;
  /** The duration of a column, at least `min` seconds. */
  step: (min: number) => string;
  zoom: (from: number, to: number) => void;
}

export function useRange(fallback = "15m"): Range {
  const { params, set } = useUrl();
  const [from, to] = [Number(params.from) / 1000, Number(params.to) / 1000];
  const isFixed = from > 0 && to > from;
  const found = PRESETS.find(([name]) => name === params.last);
  const [last, length] = found ?? PRESETS.find(([name]) => name === fallback)!;
  const seconds = isFixed ? to - from : length;
  const end = isFixed ? to : now();
  return {
    query: isFixed ? { from: from.toFixed(3), to: to.toFixed(3) } : { last },
    from: end - seconds,
    to: end,
    isLive: !isFixed || to > now(),
    every: isFixed && to < now() ? 0 : Math.max(2, Math.round(seconds / 300)),
    step: (min) => {
      const wanted = Math.max(min, seconds / COLUMNS_MAX);
      return `${STEPS.find((step) => step >= wanted) ?? Math.ceil(wanted / 86_400) * 86_400}s`;
    },
    zoom: (from, to) => {
      const [first, last] = [Math.round(from * 1000), Math.round(to * 1000)];
      if (last > first) set({ from: first, to: last, last: undefined });
    },
  };
}

export function RangePicker({ range }: { range: Range }) {
  const { params } = useUrl();
  const length = range.to - range.from;
  const fixed = !range.query.last;
  const shift = (by: number) => range.zoom(range.from + by * length, range.to + by * length);
  const onSubmit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const at = (name: string) => new Date(String(form.get(name))).getTime() / 1000;
    if (at("to") > at("from")) range.zoom(at("from"), at("to"));
  };
  return (
    <div class="range" role="group" aria-label="Time range">
      {PRESETS.map(([name]) => (
        <a
          key={name}
          href={href({ ...params, last: name, from: undefined, to: undefined })}
          aria-current={range.query.last === name ? "true" : undefined}
        >
          {name}
        </a>
      ))}
      <button type="button" onClick={() => shift(-0.5)} aria-label="Earlier">
        ←
      </button>
      <button type="button" onClick={() => shift(0.5)} aria-label="Later">
        →
      </button>
      <button
        type="button"
        onClick={() => range.zoom(range.from - length / 2, range.to + length / 2)}
      >
        Zoom out
      </button>
      <details class="between" key={location.search}>
        <summary>
          {fixed
            ? `${when(range.from)} to ${when(range.to, range.from)} (${span(length)})`
            : "From … to …"}
        </summary>
        {/* Defaults: a range that moves on would take back what is being entered. */}
        <form onSubmit={onSubmit}>
          <label>
            From{" "}
            <input
              name="from"
              type="datetime-local"
              step="1"
              defaultValue={inputTime(range.from)}
            />
          </label>
          <label>
            To{" "}
            <input name="to" type="datetime-local" step="1" defaultValue={inputTime(range.to)} />
          </label>
          <button>Show</button>
        </form>
      </details>
    </div>
  );
}
