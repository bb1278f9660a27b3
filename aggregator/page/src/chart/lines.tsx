// Several values over time, with what lies between their bounds.

import { useCallback, useMemo } from "preact/hooks";
import { when } from "../units";
import { type Column, Frame, type Colours, type Geometry } from "./frame";
import { limitLines } from "./heatmap";
import { type Source, time } from "./files";
import { linearScale, logScale } from "./scale";

export interface Series {
  name: string;
  /** Index of its colour. */
  colour: number;
  /** Lengths of dashes, so that no line is known by its colour alone. */
  dash?: number[];
  values: (number | null)[];
  /** The minimum and the maximum within each column. */
  low?: (number | null)[];
  high?: (number | null)[];
}

interface Props extends Source {
  label: string;
  title: string;
  from: number;
  to: number;
  columns: Column[];
  series: Series[];
  format: (value: number) => string;
  kind?: "log" | "linear";
  /** The top of a linear axis is not below it. */
  atLeast?: number;
  isBinary?: boolean;
  limits?: number[];
  height?: number;
  more?: (column: number) => string;
  cursor: number | null;
  onCursor: (seconds: number | null) => void;
  onZoom?: (from: number, to: number) => void;
}

export function Lines(props: Props) {
  const { columns, series, format, kind = "linear", limits = [], more, height = 180 } = props;
  const scale = useMemo(() => {
    const all = series.flatMap((of) => [...of.values, ...(of.low ?? []), ...(of.high ?? [])]);
    const held = [...all, ...limits];
    return kind === "log" ? logScale(held) : linearScale(held, props.atLeast, props.isBinary);
  }, [series, kind, limits.join(), props.atLeast]);

  const draw = useCallback(
    (context: CanvasRenderingContext2D, at: Geometry, of: Colours) => {
      const x = columns.map((column) => at.x((column.from + column.to) / 2));
      for (const one of series) {
        const colour = of.series[one.colour]!;
        band(context, at, x, one, colour);
        line(context, at, x, one, colour);
      }
      limitLines(context, at, of, limits);
    },
    [columns, series, scale, limits.join()],
  );
  const read = (n: number) => {
    const of = columns[n]!;
    const parts = series.map((one) => {
      const value = one.values[n];
      return `${one.name} ${value === null || value === undefined ? "–" : format(value)}`;
    });
    return `${when(of.from)} to ${when(of.to, of.from)} · ${parts.join(" · ")}${more?.(n) ?? ""}`;
  };
  const table = () => {
    const lines = series.flatMap(({ name, values, low, high }) => [
      { name, values },
      ...(low ? [{ name: `${name} min`, values: low }] : []),
      ...(high ? [{ name: `${name} max`, values: high }] : []),
    ]);
    return {
      head: ["from", "to", ...lines.map((of) => of.name)],
      rows: columns.map(({ from, to }, n) => [
        time(from),
        time(to),
        ...lines.map((of) => of.values[n]),
      ]),
    };
  };
  return (
    <Frame {...props} scale={scale} height={height} draw={draw} read={read} table={table}>
      <p class="legend">
        {series.map((one) => (
          <span key={one.name}>
            <svg class="key" viewBox="0 0 24 8" aria-hidden="true">
              <line
                x1="0"
                y1="4"
                x2="24"
                y2="4"
                class={`series-${one.colour + 1}`}
                stroke-dasharray={one.dash?.join(" ")}
              />
            </svg>
            {one.name}
          </span>
        ))}
        {limits.length > 0 && <span class="limit-key">limit {limits.map(format).join(", ")}</span>}
      </p>
    </Frame>
  );
}

function band(
  context: CanvasRenderingContext2D,
  at: Geometry,
  x: number[],
  { low, high }: Series,
  colour: string,
) {
  if (!low || !high) return;
  context.fillStyle = colour;
  context.globalAlpha = 0.22;
  x.forEach((middle, n) => {
    const [a, b] = [low[n], high[n]];
    if (a === null || b === null || a === undefined || b === undefined) return;
    const width = n > 0 ? middle - x[n - 1]! : (x[1] ?? middle + 4) - middle;
    const top = at.y(b);
    context.fillRect(middle - width / 2, top, width, Math.max(at.y(a) - top, 1));
  });
  context.globalAlpha = 1;
}

/** A column without a value is a gap, and one alone between two gaps a dot. */
function line(
  context: CanvasRenderingContext2D,
  at: Geometry,
  x: number[],
  { values, dash }: Series,
  colour: string,
) {
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 1.75;
  context.lineJoin = "round";
  context.setLineDash(dash ?? []);
  context.beginPath();
  let isDrawing = false;
  const has = (n: number) => values[n] !== null && values[n] !== undefined;
  x.forEach((middle, n) => {
    if (!has(n)) {
      isDrawing = false;
      return;
    }
    const y = at.y(values[n]!);
    if (isDrawing) context.lineTo(middle, y);
    else context.moveTo(middle, y);
    if (!isDrawing && !has(n + 1)) context.fillRect(middle - 1.5, y - 1.5, 3, 3);
    isDrawing = true;
  });
  context.stroke();
  context.setLineDash([]);
}
