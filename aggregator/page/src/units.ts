// Numbers as text: three significant digits and a space before the unit, as in alerts and commands
// (`figure.rs`). The exact value is in the `value` of its element.

const UNITS: [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A count, exact: incarnations and the like come as text. */
export const count = (n: number | string): string =>
  typeof n === "string" ? n : grouped.format(n);

/** A count with its noun: `1 sample`, `1,234 samples`. */
export const counted = (n: number, noun: string): string =>
  withUnit(count(n), n === 1 ? noun : `${noun}s`);

/** A plain number. */
export const number = (n: number): string =>
  Math.abs(n) >= 999.5 ? count(Math.round(n)) : String(Number(n.toPrecision(3)));

/** No line breaks between a number and its unit. */
const withUnit = (text: string, unit: string): string => `${text}\u00a0${unit}`;

/** A time in seconds, such as `17.9 ms`. */
export function latency(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return withUnit("0", "s");
  const size = Math.abs(seconds);
  // 999.6 ms is shown as 1 s.
  const [one, unit] = UNITS.find(([min]) => size >= 0.9995 * min) ?? [1e-9, "ns"];
  return withUnit(number(seconds / one), unit);
}

/** Whole numbers in one of what is shown, by what the operation's name ends with. */
const RAW: Record<string, number> = { ps: 1e12, bytes: 1, count: 1e3 };

const unitOf = (operation: string): string | undefined =>
  /:(ps|bytes|count)$/.exec(operation)?.[1];

/** A whole number of an operation as it is shown: seconds, bytes or a count. */
export const shown = (operation: string, raw: number): number =>
  raw / (RAW[unitOf(operation) ?? ""] ?? 1e9);

/** How values of an operation are written. */
export function format(operation: string): (value: number | null | undefined) => string {
  const unit = unitOf(operation);
  if (unit !== "bytes" && unit !== "count") return latency;
  const text = unit === "bytes" ? bytes : number;
  return (value) => (value === null || value === undefined ? "–" : text(value));
}

/** What an operation's values are, for headings. */
export const noun = (operation: string): string => {
  const unit = unitOf(operation);
  return unit === undefined || unit === "ps" ? "latency" : unit;
};

/** The unit of an operation's values, for the columns of a file. */
export const column = (operation: string, name: string): string => {
  const of = noun(operation);
  return `${name}_${of === "latency" ? "seconds" : of}`;
};

/** A whole number of an operation, in words. */
export const rawText = (operation: string, raw: number | null | undefined): string =>
  format(operation)(raw === null || raw === undefined ? null : shown(operation, raw));

/** A ratio of 1, such as `97.3 %`. What is not none or all is not shown as such. */
export function percent(ratio: number | null | undefined): string {
  if (ratio === null || ratio === undefined) return "–";
  const of = ratio * 100;
  if (of > 99 && of < 100) {
    return withUnit(of > 99.99 ? "over 99.99" : String(Number(of.toFixed(2))), "%");
  }
  return withUnit(of > 0 && of < 0.01 ? "under 0.01" : number(of), "%");
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let of = 0;
  let size = n;
  while (Math.abs(size) >= 1024 && of < units.length - 1) {
    size /= 1024;
    of += 1;
  }
  return withUnit(number(size), units[of]!);
}

/** An age or a duration, in whole units: `3 min`, `2 h`. */
export function span(seconds: number): string {
  const of = Math.abs(seconds);
  if (of < 1) return latency(seconds);
  if (of < 120) return withUnit(count(seconds), "s");
  if (of < 7_200) return withUnit(count(seconds / 60), "min");
  if (of < 172_800) return withUnit(count(seconds / 3_600), "h");
  return withUnit(count(seconds / 86_400), "d");
}

const two = (n: number) => String(n).padStart(2, "0");

/** Time of day in the reader's time zone, with the date unless it is that of `near`. */
export function when(seconds: number, near?: number): string {
  const at = new Date(seconds * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const day = (of: Date) => `${of.getFullYear()}-${two(of.getMonth() + 1)}-${two(of.getDate())}`;
  const isNear = near !== undefined && day(new Date(near * 1000)) === day(at);
  return isNear ? time : `${day(at)} ${time}`;
}

/** The value of an input of the type `datetime-local`. */
export const inputTime = (seconds: number): string => when(seconds).replace(" ", "T");

/** The unit of a sensor as text after its value. */
export function reading(value: number, unit: string | null): string {
  switch (unit) {
    case "bytes":
      return bytes(value);
    case "bytes_per_second":
      return `${bytes(value)}/s`;
    case "ratio":
      return percent(value);
    case "seconds":
      return value < 1e6 ? latency(value) : span(value);
    case "celsius":
      return withUnit(number(value), "°C");
    case "hertz":
      return withUnit(number(value / 1e6), "MHz");
    case "watts":
      return withUnit(number(value), "W");
    case "joules":
      return withUnit(number(value), "J");
    default:
      return unit ? withUnit(number(value), unit) : number(value);
  }
}
