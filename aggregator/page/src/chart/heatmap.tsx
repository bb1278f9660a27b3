// Exact counts by time and latency. Colour goes with the logarithm of the count, in one order of
// lightness that colour-blind people see too; cells without samples have none.

import { useCallback, useMemo } from "preact/hooks";
import type { Heatmap } from "../model";
import { column, count, counted, format, when } from "../units";
import { Frame, LEFT, type Colours, type Geometry } from "./frame";
import { type Source, time } from "./files";
import { logScale } from "./scale";

/** Cividis (Nuñez, Anderton, Renslow 2018), from dark to light. */
const CIVIDIS = [
  [0, 34, 78],
  [18, 53, 112],
  [59, 73, 108],
  [87, 93, 109],
  [112, 113, 115],
  [138, 134, 120],
  [165, 156, 116],
  [195, 179, 105],
  [225, 204, 85],
  [254, 232, 56],
];

export function colour(share: number, isDark: boolean): string {
  const at = (isDark ? share : 1 - share) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(at), CIVIDIS.length - 2);
  const mix = [0, 1, 2].map((part) => {
    const [a, b] = [CIVIDIS[low]![part]!, CIVIDIS[low + 1]![part]!];
    return Math.round(a + (b - a) * (at - low));
  });
  return `rgb(${mix})`;
}

interface Props extends Source {
  map: Heatmap;
  label: string;
  title: string;
  /** Limits of budgets, as values are shown. */
  limits: number[];
  /** More text about a column. */
  more: (column: number) => string;
  cursor: number | null;
  onCursor: (seconds: number | null) => void;
  onZoom: (from: number, to: number) => void;
}

export function HeatmapChart({ map, limits, more, ...rest }: Props) {
  const text = format(map.operation);
  const { bands, counts, from_seconds: from, to_seconds: to, step_seconds: step } = map;
  const most = useMemo(() => Math.max(1, ...counts.map((column) => Math.max(0, ...column))), [map]);
  const scale = useMemo(
    () => logScale([...bands.flatMap((band) => [band.lower, band.upper]), ...limits]),
    [map, limits.join()],
  );
  const columns = useMemo(
    () =>
      counts.map((_, n) => ({ from: from + n * step, to: Math.min(from + (n + 1) * step, to) })),
    [map],
  );

  const draw = useCallback(
    (context: CanvasRenderingContext2D, at: Geometry, of: Colours) => {
      counts.forEach((column, n) => {
        const left = at.x(columns[n]!.from);
        const width = at.x(columns[n]!.to) - left;
        column.forEach((samples, band) => {
          if (samples === 0) return;
          const [low, high] = [at.y(bands[band]!.lower), at.y(bands[band]!.upper)];
          context.fillStyle = colour(Math.log1p(samples) / Math.log1p(most), of.isDark);
          // Half a pixel over: no seams between cells.
          context.fillRect(left, high - 0.5, width + 0.5, Math.max(low - high, 1) + 0.5);
        });
      });
      limitLines(context, at, of, limits);
    },
    [map, limits.join(), most],
  );

  const read = (n: number, value: number | null) => {
    const column = counts[n] ?? [];
    const of = columns[n]!;
    const total = column.reduce((sum, samples) => sum + samples, 0);
    const band = value === null ? -1 : bands.findIndex((band) => value <= band.upper);
    const found = bands[band];
    const time = `${when(of.from)} to ${when(of.to, of.from)}`;
    const cell =
      found && value !== null && value >= found.lower
        ? `${text(found.lower)} to ${text(found.upper)}: ${count(column[band] ?? 0)} of `
        : "";
    return `${time} · ${cell}${counted(total, "sample")}${more(n)}`;
  };
  const table = () => ({
    head: ["from", "to", ...["lower", "upper"].map((end) => column(map.operation, end)), "samples"],
    rows: columns.flatMap(({ from, to }, n) =>
      bands.flatMap(({ lower, upper }, band) => {
        const samples = counts[n]?.[band];
        return samples ? [[time(from), time(to), lower, upper, samples]] : [];
      }),
    ),
  });
  const middles = bands.map((band) => Math.sqrt(Math.max(band.lower, 1e-12) * band.upper));
  return (
    <Frame
      {...rest}
      from={from}
      to={to}
      columns={columns}
      scale={scale}
      format={text}
      height={320}
      draw={draw}
      read={read}
      stops={middles}
      table={table}
    >
      <p class="legend">
        <span>1 sample</span>
        <Ramp />
        <span>{counted(most, "sample")} in a cell</span>
        {limits.length > 0 && <span class="limit-key">limit {limits.map(text).join(", ")}</span>}
      </p>
    </Frame>
  );
}

export function Ramp() {
  const steps = Array.from({ length: 24 }, (_, n) => n / 23);
  return (
    <svg class="ramp" viewBox="0 0 24 1" preserveAspectRatio="none" aria-hidden="true">
      {steps.map((share, n) => (
        <g key={n}>
          <rect class="light-only" x={n} y="0" width="1.1" height="1" fill={colour(share, false)} />
          <rect class="dark-only" x={n} y="0" width="1.1" height="1" fill={colour(share, true)} />
        </g>
      ))}
    </svg>
  );
}

/** The load line: a line across, with the mark of Plimsoll at its left. */
export function limitLines(
  context: CanvasRenderingContext2D,
  at: Geometry,
  of: Colours,
  limits: number[],
) {
  context.lineWidth = 2;
  for (const limit of limits) {
    const y = at.y(limit);
    // A line in the colour of the surface below it keeps it visible on every cell.
    for (const [style, width] of [
      [of.surface, 4],
      [of.limit, 2],
    ] as const) {
      context.strokeStyle = style;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(0, y);
      context.lineTo(at.width, y);
      context.stroke();
      context.beginPath();
      context.arc(LEFT + 14, y, 6, 0, 2 * Math.PI);
      context.stroke();
    }
  }
}
