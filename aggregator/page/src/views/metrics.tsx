// Counters and gauges of jobs: all with their values now, and one over time.

import { useMemo, useState } from "preact/hooks";
import { now, path, useData } from "../api";
import type { Column } from "../chart/frame";
import { Lines, type Series } from "../chart/lines";
import type { MetricHistory, MetricPoint, MetricsPage } from "../model";
import { Count, Figures, Loading, Problem, Table, To } from "../parts";
import { RangePicker, useRange } from "../range";
import { count, number, percent, span, when } from "../units";
import { useUrl } from "../url";

/** The finest slots of the history. */
const SLOT = 10;

export function Metrics() {
  const { params, set } = useUrl();
  const range = useRange("1h");
  const known = useData<MetricsPage>("api/v1/metrics", 10);
  const { metric } = params;
  const group = params.rollup && params.value ? { rollup: params.rollup, value: params.value } : {};
  const asked = metric && { metric, ...range.query, ...group, step: range.step(SLOT) };
  const url = asked ? path("api/v1/query", asked) : null;
  const page = useData<MetricHistory>(url, range.every, true);
  const groups = known.data?.groups.filter((of) => of.operation === metric) ?? [];
  const choose = (text: string) => {
    const [rollup, value] = text ? text.split("\u0000") : [];
    set({ rollup, value });
  };
  return (
    <>
      <h1 tabIndex={-1}>{metric ? `Metric ${metric}` : "Metrics"}</h1>
      {metric && (
        <div class="controls">
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
      )}
      <Problem error={metric ? page.error : known.error} what="Metrics" />
      {metric && page.data && <Chart page={page.data} zoom={range.zoom} url={url} />}
      {metric && !page.data && !page.error && <Loading what="history" />}
      {known.data && <List page={known.data} />}
      {!known.data && !known.error && <Loading what="metrics" />}
    </>
  );
}

function List({ page }: { page: MetricsPage }) {
  if (page.metrics.length === 0) {
    return (
      <p>
        No job sends counters or gauges. <code>plimsoll.count("name")</code> and{" "}
        <code>plimsoll.gauge("name", value)</code> do.
      </p>
    );
  }
  return (
    <Table
      caption="Metrics and their values now"
      numbers={2}
      head={["metric", "kind", "nodes", "sum", "mean", "least", "highest"]}
      rows={page.metrics.map(({ metric, kind, now }) => [
        <To view="metrics" metric={metric}>
          {metric}
        </To>,
        kind,
        now ? <Count of={now.nodes} /> : "–",
        ...[now?.sum, now?.mean, now?.min, now?.max].map((of) =>
          of === undefined ? "–" : number(of),
        ),
      ])}
    />
  );
}

interface ChartProps {
  page: MetricHistory;
  zoom: (from: number, to: number) => void;
  url: string | null;
}

function Chart({ page, zoom, url }: ChartProps) {
  const [cursor, setCursor] = useState<number | null>(null);
  const [isOpen, setOpen] = useState(false);
  const columns = useMemo(() => columnsOf(page), [page]);
  const series = useMemo(() => seriesOf(page), [page]);
  const title = titleOf(page);
  return (
    <>
      <p class="muted">
        {page.kind}, in columns of {span(page.step_seconds)}. History starts at{" "}
        {when(page.kept_from_seconds)}.
      </p>
      <Lines
        label={`${title} over time`}
        title={title}
        from={page.from_seconds}
        to={page.to_seconds}
        columns={columns}
        series={series}
        format={number}
        cursor={cursor}
        onCursor={setCursor}
        onZoom={zoom}
        json={[url]}
      />
      <Figures
        open={isOpen}
        onOpen={setOpen}
        caption={`${page.metric} by time`}
        head={["from", "values", ...heads(page), "complete"]}
        rows={page.points.map((point) => [
          when(point.from_seconds),
          count(point.count),
          ...cells(page, point),
          percent(point.completeness),
        ])}
      />
    </>
  );
}

export const columnsOf = ({ points }: MetricHistory): Column[] =>
  points.map((point) => ({ from: point.from_seconds, to: point.to_seconds }));

export const titleOf = ({ kind, metric }: MetricHistory): string =>
  kind === "counter" ? `${metric} a second` : metric;

export function seriesOf({ kind, operation, points }: MetricHistory): Series[] {
  // The newest column has hardly begun: a rate of one second would jump.
  const isWhole = (point: MetricPoint) => Math.min(point.to_seconds, now()) - point.from_seconds > 1;
  const of = (read: (point: MetricPoint) => number | undefined) =>
    points.map((point) => (isWhole(point) && point.count > 0 ? (read(point) ?? null) : null));
  if (kind === "gauge") {
    const [low, high] = [of((point) => point.min), of((point) => point.max)];
    return [{ name: "mean", colour: 0, values: of((point) => point.mean), low, high }];
  }
  const byWall = { name: "by wall time", colour: 0, values: of((point) => point.per_second) };
  if (!operation) return [byWall];
  const values = of((point) => point.per_operation_second);
  return [byWall, { name: `by the time of ${operation}`, colour: 1, dash: [6, 3], values }];
}

const heads = ({ kind, operation }: MetricHistory): string[] =>
  kind === "gauge"
    ? ["mean", "least", "highest"]
    : ["increase", "a second", ...(operation ? [`a second of ${operation}`] : [])];

function cells({ kind, operation }: MetricHistory, point: MetricPoint): string[] {
  const of = (value: number | undefined) => (value === undefined ? "–" : number(value));
  if (kind === "gauge") return [of(point.mean), of(point.min), of(point.max)];
  const rates = [of(point.sum), of(point.per_second)];
  return operation ? [...rates, of(point.per_operation_second)] : rates;
}

/** The metrics of a run, each over all of its time. */
export function MetricsOfRun({ run, from, to }: { run: string; from: number; to: number }) {
  const known = useData<MetricsPage>("api/v1/metrics", 10).data;
  const names = known?.groups.filter((of) => of.rollup === "run" && of.values[0] === run) ?? [];
  if (names.length === 0) return null;
  const range = { from: Math.floor(from * 1000), to: Math.ceil(to * 1000) };
  return (
    <>
      <h2>Metrics</h2>
      <ul class="metrics">
        {names.map(({ operation: metric }) => (
          <li key={metric}>
            <To view="metrics" metric={metric} rollup="run" value={run} {...range}>
              {metric}
            </To>{" "}
            <Whole metric={metric} run={run} from={from} to={to} />
          </li>
        ))}
      </ul>
    </>
  );
}

interface WholeProps {
  metric: string;
  run: string;
  from: number;
  to: number;
}

/** One metric over all of a run, in words. */
function Whole({ metric, run, from, to }: WholeProps) {
  const step = `${Math.max(10, Math.ceil((to - from) / 10) * 10 + 20)}s`;
  const asked = { metric, rollup: "run", value: run, from, to, step };
  const page = useData<MetricHistory>(path("api/v1/query", asked), 10).data;
  const point = page?.points.find((of) => of.count > 0);
  if (!page || !point) return null;
  if (page.kind === "gauge") {
    const [mean, min, max] = [point.mean, point.min, point.max].map((of) => number(of ?? 0));
    return <span>{`mean ${mean}, ${min} to ${max}`}</span>;
  }
  const byWall = `${number(point.per_second ?? 0)}/s`;
  const byTime = point.per_operation_second;
  return (
    <span>
      {byTime === undefined ? byWall : `${number(byTime)}/s of ${page.operation}, ${byWall} in all`}
    </span>
  );
}
