// Numbers as text. Every latency has four significant digits, and the exact value is in the `value`
// of its element.

const UNITS: [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];

/** A time in seconds, such as `17.94 ms`. */
export function latency(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0 s";
  const [size, unit] = UNITS.find(([least]) => Math.abs(seconds) >= least) ?? [1e-9, "ns"];
  return `${Number((seconds / size).toPrecision(4))}\u00a0${unit}`;
}

export const nanos = (ns: number | null | undefined): string =>
  latency(ns === null || ns === undefined ? null : ns / 1e9);

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A count, exact: incarnations and the like come as text. */
export const count = (n: number | string): string =>
  typeof n === "string" ? n : grouped.format(n);

/** A ratio of 1, such as `97.3 %`. */
export function percent(ratio: number | null | undefined, digits = 1): string {
  return ratio === null || ratio === undefined ? "–" : `${(ratio * 100).toFixed(digits)} %`;
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let of = 0;
  let size = n;
  while (Math.abs(size) >= 1024 && of < units.length - 1) {
    size /= 1024;
    of += 1;
  }
  return `${Number(size.toPrecision(3))} ${units[of]}`;
}

/** A plain number with a few digits. */
export const number = (n: number): string =>
  Math.abs(n) >= 10_000 ? count(Math.round(n)) : String(Number(n.toPrecision(4)));

/** A length of time in words that are short: `3 min`, `2 h`. */
export function span(seconds: number): string {
  const of = Math.abs(seconds);
  if (of < 1) return latency(seconds);
  if (of < 120) return `${Math.round(seconds)} s`;
  if (of < 7_200) return `${Math.round(seconds / 60)} min`;
  if (of < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
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
      return `${number(value)} °C`;
    case "hertz":
      return `${number(value / 1e6)} MHz`;
    case "watts":
      return `${number(value)} W`;
    case "joules":
      return `${number(value)} J`;
    default:
      return unit ? `${number(value)} ${unit}` : number(value);
  }
}
