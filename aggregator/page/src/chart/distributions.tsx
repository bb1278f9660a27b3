// Two distributions over one axis of values: the share of samples in each band, and the table.

import { useMemo, useState } from "preact/hooks";
import { Count, Figures } from "../parts";
import { column, format, noun, percent } from "../units";
import { ChartFigure, type Source } from "./files";
import { logScale, position, ticks, valueAt } from "./scale";

export interface Bucket {
  lower: number;
  upper: number;
  count: number;
}

interface Props extends Source {
  label: string;
  names: [string, string];
  buckets: [Bucket[], Bucket[]];
  limits: number[];
  operation: string;
}

const BANDS = 48;
const [WIDTH, HEIGHT, BOTTOM] = [960, 180, 22];

export function Distributions({ label, names, buckets, limits, operation, json }: Props) {
  const text = format(operation);
  const [isOpen, setOpen] = useState(false);
  const all = buckets.flat();
  const scale = useMemo(
    () => logScale([...all.flatMap((of) => [of.lower, of.upper]), ...limits]),
    [buckets],
  );
  const sums = useMemo(
    () =>
      buckets.map((of) => {
        const bands = new Array<number>(BANDS).fill(0);
        for (const { lower, upper, count } of of) {
          const middle = Math.sqrt(Math.max(lower, scale.min) * upper);
          const band = Math.floor(position(scale, middle) * BANDS);
          bands[Math.min(Math.max(band, 0), BANDS - 1)]! += count;
        }
        return bands;
      }),
    [buckets, scale],
  );
  const totals = sums.map((bands) => bands.reduce((sum, n) => sum + n, 0) || 1);
  const shares = sums.map((bands, n) => bands.map((count) => count / totals[n]!));
  const most = Math.max(...shares.flat(), 1e-6);
  const x = (value: number) => position(scale, value) * WIDTH;
  const y = (share: number) => (1 - share / most) * (HEIGHT - BOTTOM - 8) + 8;
  const steps = (of: number[]) =>
    of
      .map(
        (share, n) =>
          `${n ? "L" : "M"}${(n / BANDS) * WIDTH} ${y(share)}H${((n + 1) / BANDS) * WIDTH}`,
      )
      .join("");
  const ends = Array.from({ length: BANDS + 1 }, (_, n) => valueAt(scale, n / BANDS));
  const table = () => ({
    head: [column(operation, "lower"), column(operation, "upper"), ...names],
    rows: ends.slice(0, -1).map((lower, n) => [lower, ends[n + 1], ...sums.map((of) => of[n])]),
  });
  return (
    <ChartFigure title={label} json={json} table={table}>
      <svg class="distributions" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
        {ticks(scale, 10).map((value) => (
          <g key={value}>
            <line class="axis" x1={x(value)} x2={x(value)} y1="0" y2={HEIGHT - BOTTOM} />
            <text x={x(value)} y={HEIGHT - 5}>
              {text(value)}
            </text>
          </g>
        ))}
        {limits.map((limit) => (
          <line key={limit} class="limit" x1={x(limit)} x2={x(limit)} y1="0" y2={HEIGHT - BOTTOM} />
        ))}
        {shares.map((of, n) => (
          <path
            key={n}
            class={`series-${n + 1}`}
            d={steps(of)}
            stroke-dasharray={n ? "7 3" : undefined}
          />
        ))}
      </svg>
      <p class="legend">
        {names.map((name, n) => (
          <span key={name}>
            <svg class="key" viewBox="0 0 24 8" aria-hidden="true">
              <line
                x2="24"
                y1="4"
                y2="4"
                class={`series-${n + 1}`}
                stroke-dasharray={n ? "7 3" : undefined}
              />
            </svg>
            {name}
          </span>
        ))}
        <span>y: share of samples, up to {percent(most)}; x: {noun(operation)}</span>
      </p>
      <Figures
        open={isOpen}
        onOpen={setOpen}
        caption={label}
        head={[noun(operation), ...names]}
        rows={ends.slice(0, -1).map((lower, n) => [
          `${text(lower)} to ${text(ends[n + 1])}`,
          ...sums.map((bands, of) => (
            <>
              <Count of={bands[n]!} /> ({percent(bands[n]! / totals[of]!)})
            </>
          )),
        ])}
      />
    </ChartFigure>
  );
}
