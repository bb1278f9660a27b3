// Axes: where a value lies, and which values are marked.

export interface Scale {
  kind: "log" | "linear";
  min: number;
  max: number;
  /** Whether marks are powers of two, as bytes are counted. */
  isBinary?: boolean;
}

/** Where the value lies: 0 at the minimum, 1 at the maximum. */
export function position(scale: Scale, value: number): number {
  const { kind, min, max } = scale;
  if (kind === "linear") return (value - min) / (max - min);
  return Math.log(Math.max(value, min / 10) / min) / Math.log(max / min);
}

/** The value at a position. */
export function valueAt(scale: Scale, position: number): number {
  const { kind, min, max } = scale;
  return kind === "linear" ? min + position * (max - min) : min * (max / min) ** position;
}

/** A scale that holds the values, with some room above them. */
export function logScale(values: Iterable<number | null | undefined>): Scale {
  let min = Infinity;
  let max = 0;
  for (const value of values) {
    if (!value || value < 0) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
  }
  if (max === 0) return { kind: "log", min: 1e-3, max: 1 };
  return { kind: "log", min: min / 1.15, max: Math.max(max * 1.15, min * 4) };
}

export function linearScale(
  values: Iterable<number | null | undefined>,
  atLeast = 0,
  isBinary = false,
): Scale {
  let max = atLeast;
  for (const value of values) max = Math.max(max, value ?? 0);
  return { kind: "linear", min: 0, max: max > 0 ? max * 1.08 : 1, isBinary };
}

/** At most about `most` marks. */
export function ticks(scale: Scale, most: number): number[] {
  const { kind, min, max } = scale;
  if (kind === "linear") {
    const raw = (max - min) / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    const decimal = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) ?? raw;
    const step = scale.isBinary ? 2 ** Math.ceil(Math.log2(raw)) : decimal;
    const first = Math.ceil(min / step);
    return Array.from({ length: Math.floor(max / step) - first + 1 }, (_, n) => (first + n) * step);
  }
  const decades = Math.log10(max / min);
  const steps = decades * 3 <= most ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / most));
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); power += every) {
    for (const step of steps) {
      const value = step * 10 ** power;
      if (value >= min && value <= max) found.push(value);
    }
  }
  return found;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600];

/** Times that are round in the reader's time zone, at most about `most`. */
export function timeTicks(from: number, to: number, most: number): number[] {
  const raw = (to - from) / Math.max(most, 1);
  const days = Math.ceil(raw / 86_400) * 86_400;
  const step = STEPS.find((step) => step >= raw) ?? (raw <= 43_200 ? 43_200 : days);
  const zone = new Date(from * 1000).getTimezoneOffset() * 60;
  const first = Math.ceil((from - zone) / step) * step + zone;
  const found: number[] = [];
  for (let at = first; at <= to; at += step) found.push(at);
  return found;
}
