// One operation over time: exact counts as a heatmap, with quantiles and samples below it.

import { useMemo, useRef, useState } from "preact/hooks";
import { now, path, useData } from "../api";
import type { Source } from "../chart/files";
import { HeatmapChart } from "../chart/heatmap";
import { Lines, type Series } from "../chart/lines";
import type { Heatmap, HistoryPage, OperationsPage, Point, Summary } from "../model";
import { Count, Counted, Figures, Loading, Problem, Value } from "../parts";
import { RangePicker, useRange } from "../range";
import { count, format, noun, number, percent, shown as toShown, span, when } from "../units";
import { useUrl } from "../url";

const QUANTILES = [0.5, 0.9, 0.99];
/** The finest slots of the fleet's history. */
const SLOT = 10;

export function Latency() {
  const { params, set } = useUrl();
  const range = useRange("1h");
  const known = useData<OperationsPage>("api/v1/operations", 30);
  const summary = useData<Summary>("metrics/summary?nodes=0", 10);
  const operation = params.operation ?? known.data?.operations[0];
  const group = params.rollup && params.value ? { rollup: params.rollup, value: params.value } : {};
  const budgets = summary.data?.budgets.filter((of) => of.operation === operation) ?? [];
  const limits = [...new Set(budgets.map((of) => of.limit_ns))];
  // Without the limits the first query would not count what is over them.
  const isReady = operation && (summary.data ?? summary.error);
  const asked = isReady
    ? { operation, ...range.query, ...group, step: range.step(SLOT) }
    : undefined;
  const over = limits.map((ns) => `${ns}ns`).join(",") || undefined;
  const quantiles = QUANTILES.join(",");
  const mapUrl = asked ? path("api/v1/heatmap", { ...asked, bands: 60 }) : null;
  const pageUrl = asked ? path("api/v1/query", { ...asked, quantiles, over }) : null;
  const map = useData<Heatmap>(mapUrl, range.every, true);
  const page = useData<HistoryPage>(pageUrl, range.every, true);
  // Both charts show one range; the previous one stays until both answers of the new one are there.
  const held = useRef<{ about: string; map: Heatmap; page: HistoryPage } | null>(null);
  const about = JSON.stringify([operation, group]);
  if (map.isCurrent && page.isCurrent && map.data && page.data) {
    held.current = { about, map: map.data, page: page.data };
  }
  const shown = held.current?.about === about ? held.current : undefined;
  const error = known.error ?? map.error ?? page.error;
  const names = known.data?.operations ?? [];
  const groups = known.data?.groups.filter((of) => of.operation === operation) ?? [];
  const choose = (text: string) => {
    const at = text.indexOf("\u0000");
    const of = at < 0 ? {} : { rollup: text.slice(0, at), value: text.slice(at + 1) };
    set({ rollup: undefined, value: undefined, ...of });
  };
  return (
    <>
      <h1 tabIndex={-1}>Latency{operation ? ` of ${operation}` : ""}</h1>
      <div class="controls">
        <label>
          Operation{" "}
          <select
            value={operation}
            onChange={(event) =>
              set({ operation: event.currentTarget.value, rollup: undefined, value: undefined })
            }
          >
            {operation && !names.includes(operation) && <option>{operation}</option>}
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          Scope{" "}
          <select
            value={params.rollup ? `${params.rollup}\u0000${params.value}` : ""}
            onChange={(event) => choose(event.currentTarget.value)}
          >
            <option value="">the fleet</option>
            {groups
              .filter((of) => of.values.length === 1)
              .map(({ rollup, values: [value] }) => (
                <option key={`${rollup} ${value}`} value={`${rollup}\u0000${value}`}>
                  {rollup} {value || "(none)"}
                </option>
              ))}
          </select>
        </label>
        <RangePicker range={range} />
      </div>
      <Problem error={error} what="History" />
      {known.data && names.length === 0 && !operation && (
        <p>
          No operation has been stored yet: slots of 10 s are stored when they end.
        </p>
      )}
      {shown && (
        <Charts
          map={shown.map}
          page={shown.page}
          limits={limits.map((raw) => toShown(operation, raw))}
          zoom={range.zoom}
          ofMap={{ json: [mapUrl], about: { operation: shown.page.operation } }}
          ofPage={{ json: [pageUrl], about: { operation: shown.page.operation } }}
        />
      )}
      {operation && !error && !shown && <Loading what="history" />}
    </>
  );
}

interface ChartsProps {
  map: Heatmap;
  page: HistoryPage;
  limits: number[];
  zoom: (from: number, to: number) => void;
  ofMap: Source;
  ofPage: Source;
}

function Charts({ map, page, limits, zoom, ofMap, ofPage }: ChartsProps) {
  const [cursor, setCursor] = useState<number | null>(null);
  const [isOpen, setOpen] = useState(false);
  const points = useMemo(() => byColumn(map, page), [map, page]);
  const columns = useMemo(
    () => points.map(({ from, to }) => ({ from, to: Math.min(to, page.to_seconds) })),
    [points],
  );
  const total = points.reduce((sum, of) => sum + (of.point?.count ?? 0), 0);
  const series = useMemo(() => quantileSeries(points.map((of) => of.point)), [points]);
  const samples = useMemo<Series[]>(
    () => [
      {
        name: "samples per second",
        colour: 4,
        values: points.map(({ point, from, to }) => {
          // The newest column has not ended.
          const length = Math.min(to, now()) - from;
          return point && length > 1 ? point.count / length : null;
        }),
      },
    ],
    [points],
  );
  const more = (n: number) => {
    const point = points[n]?.point;
    return point ? ` · ${inWords(page.operation, point)}` : "";
  };
  const time = { from: map.from_seconds, to: map.to_seconds, cursor, onCursor: setCursor };
  return (
    <>
      <p class="muted">
        <Counted of={total} noun="sample" /> in columns of {span(map.step_seconds)}, exact
        {total === 0 && ": no samples in this range"}. History starts at{" "}
        {when(page.kept_from_seconds)}.
      </p>
      <HeatmapChart
        {...ofMap}
        map={map}
        label={`Heatmap of ${page.operation} by time and ${noun(page.operation)}`}
        title={`Samples by time and ${noun(page.operation)}`}
        limits={limits}
        more={more}
        cursor={cursor}
        onCursor={setCursor}
        onZoom={zoom}
      />
      <Lines
        {...time}
        {...ofPage}
        label={`Quantiles of ${page.operation} over time`}
        title="Quantiles"
        columns={columns}
        series={series}
        kind="log"
        format={format(page.operation)}
        limits={limits}
        onZoom={zoom}
      />
      <Lines
        {...time}
        {...ofPage}
        label={`Samples of ${page.operation} per second over time`}
        title="Samples per second"
        columns={columns}
        series={samples}
        format={number}
        height={100}
        onZoom={zoom}
      />
      <Figures
        open={isOpen}
        onOpen={setOpen}
        caption={`${page.operation} by time`}
        head={["from", "samples", "p50", "p90", "p99", "max", "over the limit", "complete"]}
        rows={points.map(({ from, point }) => [
          when(from),
          <Count of={point?.count ?? 0} />,
          ...QUANTILES.map((q) => <Value operation={page.operation} of={quantileOf(point, q)} />),
          <Value operation={page.operation} of={point?.max} />,
          point?.over.map((of) => count(of.over)).join(", ") || "–",
          percent(point?.completeness),
        ])}
      />
    </>
  );
}

export const quantileOf = (point: Point | undefined, quantile: number): number | null =>
  point?.quantiles.find((of) => of.quantile === quantile)?.value ?? null;

const DASHES: (number[] | undefined)[] = [undefined, [6, 3], [2, 2]];

export function quantileSeries(points: (Point | undefined)[]): Series[] {
  const lines = QUANTILES.map((quantile, n) => ({
    name: `p${quantile * 100}`,
    colour: n,
    dash: DASHES[n],
    values: points.map((point) => quantileOf(point, quantile)),
  }));
  const max = points.map((point) => point?.max ?? null);
  return [...lines, { name: "max", colour: 3, dash: [1, 3], values: max }];
}

export function inWords(operation: string, point: Point): string {
  const text = format(operation);
  const quantiles = point.quantiles.map((of) => `p${of.quantile * 100} ${text(of.value)}`);
  const over = point.over.map((of) => `${count(of.over)} over ${text(of.limit)}`);
  return [...quantiles, ...over].join(" · ");
}

interface Slot {
  from: number;
  to: number;
  point?: Point;
}

/** The points of a query by the columns of a heatmap: a column without samples has none. */
function byColumn(map: Heatmap, page: HistoryPage): Slot[] {
  const { from_seconds: start, step_seconds: step } = map;
  const found = new Map(page.points.map((point) => [Math.round(point.from_seconds * 10), point]));
  return map.counts.map((_, n) => {
    const from = start + n * step;
    return { from, to: from + step, point: found.get(Math.round(from * 10)) };
  });
}
