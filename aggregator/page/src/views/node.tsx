// One node: its budgets and operations, its machine beside its latency on one time axis, its
// connection to the broker, and its restarts.

import { useMemo, useState } from "preact/hooks";
import { now, path, useData } from "../api";
import type { Column } from "../chart/frame";
import { Lines, type Series } from "../chart/lines";
import type {
  HardwareHistory,
  HardwarePage,
  HistoryPage,
  Machine,
  MetricHistory,
  MetricsPage,
  NodePage,
  Point,
  ReadingHistory,
} from "../model";
import { Ago, Count, Facts, Figures, LabelList, Loading, Problem, Raw, Value } from "../parts";
import { State, Table, To, since } from "../parts";
import { RangePicker, useRange } from "../range";
import { bytes, format, number, percent, reading, shown, when } from "../units";
import { useUrl } from "../url";
import { Balance } from "./backpressure";
import { BudgetCard, inOrder } from "./budgets";
import { inWords, quantileOf, quantileSeries } from "./latency";
import { columnsOf, seriesOf, titleOf } from "./metrics";

export function Node() {
  const { params } = useUrl();
  const name = params.node ?? "";
  const url = `api/v1/nodes/${encodeURIComponent(name)}`;
  const { data, error } = useData<NodePage>(name ? url : null, 2);
  if (!name) return <p class="problem">The address must name a node.</p>;
  if (!data) return error ? <Problem error={error} what={name} /> : <Loading what={name} />;
  const { status } = data;
  const time = { from: params.from, to: params.to, last: params.last };
  return (
    <>
      <h1 tabIndex={-1}>Node {status.node}</h1>
      <Problem error={error} what="These figures are out of date" />
      <p class="fleet">
        <State of={status.presence} />
        <span>
          seen <Ago at={status.last_seen_seconds} now={now()} />
        </span>
        <LabelList of={status.labels} />
        {status.troubles.map((trouble) => (
          <span class="warn" key={trouble}>
            {trouble.replaceAll("_", " ")}
          </span>
        ))}
        <To view="alerts" find={status.node}>
          alerts
        </To>
        <To view="profiles" node={status.node} {...time}>
          profiles
        </To>
      </p>
      {status.machine && <p class="muted">{machine(status.machine)}</p>}
      <div class="cards">
        {inOrder(data.budgets, data.operations).map((budget) => {
          const row = data.operations.find((of) => of.operation === budget.operation);
          const window = row?.windows[budget.window];
          return (
            <BudgetCard
              key={budget.budget}
              budget={budget}
              window={window}
              at={data.at_seconds}
              node={status.node}
            />
          );
        })}
      </div>
      <Past key={name} node={data} />
      <Operations page={data} />
      <Connection page={data} />
      <Restarts page={data} />
      <Sensors node={name} />
    </>
  );
}

function Past({ node }: { node: NodePage }) {
  const { params, set } = useUrl();
  const range = useRange("15m");
  const [cursor, setCursor] = useState<number | null>(null);
  const [isOpen, setOpen] = useState(false);
  const names = node.operations.map((of) => of.operation);
  const jobs = node.operations.filter((of) => !of.own).map((of) => of.operation);
  const operation = params.operation ?? node.budgets[0]?.operation ?? jobs[0] ?? names[0];
  const { node: name } = node.status;
  const time = { ...range.query, step: range.step(1) };
  const limits = [
    ...new Set(node.budgets.filter((of) => of.operation === operation).map((of) => of.limit_ns)),
  ];
  const over = limits.map((ns) => `${ns}ns`).join(",") || undefined;
  const url = operation
    ? path("api/v1/query", { operation, node: name, ...time, quantiles: "0.5,0.9,0.99", over })
    : null;
  const history = useData<HistoryPage>(url, range.every, true);
  const hardwareUrl = path("api/v1/hardware/history", { node: name, ...time });
  const hardware = useData<HardwareHistory>(hardwareUrl, range.every, true);
  const metrics = useData<MetricsPage>("api/v1/metrics", 30).data?.metrics ?? [];
  const metricUrl = params.metric
    ? path("api/v1/query", { metric: params.metric, node: name, ...time })
    : null;
  const metric = useData<MetricHistory>(metricUrl, range.every, true);
  const page = history.data;
  const points = useMemo(() => fill(page), [page]);
  const columns = useMemo(() => points.map(({ from, to }) => ({ from, to })), [points]);
  const series = useMemo(() => quantileSeries(points.map((of) => of.point)), [points]);
  const readings = hardware.data?.nodes[0]?.readings ?? [];
  const answers: { error?: string }[] = [
    ...(page?.nodes ?? []),
    ...(hardware.data?.nodes ?? []),
    ...((params.metric && metric.data?.nodes) || []),
  ];
  const missing = answers.find((of) => of.error);
  const step = page?.step_seconds ?? 1;
  const axis = page && { from: page.from_seconds, to: page.to_seconds };
  return (
    <section>
      <h2>Latency and machine over time</h2>
      <div class="controls">
        <label>
          Operation{" "}
          <select
            value={operation}
            onChange={(event) => set({ operation: event.currentTarget.value })}
          >
            {operation && !names.includes(operation) && <option>{operation}</option>}
            {names.map((of) => (
              <option key={of}>{of}</option>
            ))}
          </select>
        </label>
        {metrics.length > 0 && (
          <label>
            Metric{" "}
            <select
              value={params.metric ?? ""}
              onChange={(event) => set({ metric: event.currentTarget.value || undefined })}
            >
              <option value="">none</option>
              {metrics.map((of) => (
                <option key={`${of.metric} ${of.kind}`}>{of.metric}</option>
              ))}
            </select>
          </label>
        )}
        <RangePicker range={range} />
      </div>
      <Problem error={history.error ?? hardware.error ?? metric.error} what="History of the node" />
      {missing?.error && (
        <p class="problem" role="alert">
          The node's answer is incomplete: {missing.error}
        </p>
      )}
      {!page && !history.error && <Loading what="history of the node" />}
      {page && axis && (
        <>
          <Lines
            {...axis}
            label={`Quantiles of ${operation} on ${name} over time`}
            title={`Quantiles of ${operation}`}
            columns={columns}
            series={series}
            json={[url]}
            about={operation ? { operation } : {}}
            kind="log"
            format={format(operation)}
            limits={limits.map((raw) => shown(operation, raw))}
            more={(n) => (points[n]?.point ? ` · ${inWords(operation, points[n].point)}` : "")}
            cursor={cursor}
            onCursor={setCursor}
            onZoom={range.zoom}
          />
          {params.metric && metric.data && (
            <Lines
              {...axis}
              label={`${titleOf(metric.data)} of ${name} over time`}
              title={titleOf(metric.data)}
              columns={columnsOf(metric.data)}
              series={seriesOf(metric.data)}
              json={[metricUrl]}
              format={number}
              height={120}
              cursor={cursor}
              onCursor={setCursor}
              onZoom={range.zoom}
            />
          )}
          {panels(readings, columns, step).map(({ title, unit, series, atLeast }) => (
            <Lines
              {...axis}
              key={title}
              label={`${title} of ${name} over time`}
              title={title}
              isBinary={unit?.startsWith("bytes")}
              columns={columns}
              series={series}
              format={(value) => reading(value, unit)}
              atLeast={atLeast}
              json={[hardwareUrl]}
              height={120}
              cursor={cursor}
              onCursor={setCursor}
              onZoom={range.zoom}
            />
          ))}
          {!hardware.data && !hardware.error && <Loading what="history of the machine" />}
          <Figures
            open={isOpen}
            onOpen={setOpen}
            caption={`${operation} on ${name} by time`}
            head={["from", "samples", "p50", "p90", "p99", "max", "complete"]}
            rows={points.map(({ from, point }) => [
              when(from),
              <Count of={point?.count ?? 0} />,
              ...[0.5, 0.9, 0.99].map((q) => <Value operation={operation} of={quantileOf(point, q)} />),
              <Value operation={operation} of={point?.max} />,
              percent(point?.completeness),
            ])}
          />
        </>
      )}
    </section>
  );
}

interface Slot extends Column {
  point?: Point;
}

/** A slot for each step of the range, with samples or without. */
function fill(page?: HistoryPage): Slot[] {
  if (!page) return [];
  const { from_seconds: start, to_seconds: end, step_seconds: step } = page;
  const found = new Map(page.points.map((of) => [Math.round(of.from_seconds * 10), of]));
  return Array.from({ length: Math.ceil((end - start) / step - 1e-6) }, (_, n) => {
    const from = start + n * step;
    return { from, to: from + step, point: found.get(Math.round(from * 10)) };
  });
}

interface Panel {
  title: string;
  unit: string | null;
  atLeast?: number;
  /** The sensors, in the order of their lines. */
  sensors: string[];
}

/** The first places to look when a machine slows its jobs down. */
const PANELS: Panel[] = [
  {
    title: "Processors",
    unit: "ratio",
    atLeast: 1,
    sensors: ["cpu_usage_ratio", "cpu_iowait_ratio", "cpu_steal_ratio"],
  },
  { title: "Processor clock", unit: "hertz", sensors: ["cpu_frequency_mean_hertz"] },
  {
    title: "Stalls for lack of a resource",
    unit: "ratio",
    atLeast: 0.1,
    sensors: ["pressure_some_ratio"],
  },
  { title: "Memory", unit: "bytes", sensors: ["memory_used_bytes", "memory_cached_bytes"] },
  {
    title: "Disks",
    unit: "bytes_per_second",
    sensors: ["disk_read_bytes_total", "disk_write_bytes_total"],
  },
  {
    title: "Network",
    unit: "bytes_per_second",
    sensors: ["network_receive_bytes_total", "network_transmit_bytes_total"],
  },
  {
    title: "GPUs",
    unit: "ratio",
    atLeast: 1,
    sensors: ["gpu_utilization_ratio", "gpu_memory_utilization_ratio"],
  },
  { title: "Temperature of GPUs", unit: "celsius", sensors: ["gpu_temperature_celsius"] },
  { title: "Power of GPUs", unit: "watts", sensors: ["gpu_power_watts"] },
];
const LINES_MAX = 6;

/** The panels that have readings. */
function panels(readings: ReadingHistory[], columns: Column[], step: number) {
  return PANELS.flatMap((panel) => {
    const found = panel.sensors.flatMap((sensor) => readings.filter((of) => of.sensor === sensor));
    // Loopback and idle devices do not explain a slow job.
    const lively = found.filter((of) => of.labels?.interface !== "lo" && isLively(of));
    const kept = (lively.length > 0 ? lively : found).slice(0, LINES_MAX);
    if (kept.length === 0) return [];
    return [{ ...panel, series: kept.map((of, n) => line(of, n, columns, step)) }];
  });
}

const isCounter = (sensor: string) => sensor.endsWith("_total");

function isLively({ sensor, points }: ReadingHistory): boolean {
  const [first, last] = [points[0], points.at(-1)];
  return !isCounter(sensor) || (first !== undefined && last!.max > first.min);
}

/** A counter's line is its increase a second; any other has its bounds in each column. */
function line(of: ReadingHistory, n: number, columns: Column[], step: number): Series {
  const values = Object.values(of.labels ?? {});
  const name = [of.sensor.replace(/_(total|ratio|bytes|bytes_total|hertz)$/, ""), ...values];
  const found = new Map(of.points.map((point) => [Math.round(point.from_seconds * 10), point]));
  const points = columns.map((column) => found.get(Math.round(column.from * 10)));
  const dash = [undefined, [6, 3], [2, 2], [8, 2, 2, 2], [1, 3], [12, 4]][n];
  const common = { name: name.join(" ").replaceAll("_", " "), colour: n, dash };
  if (!isCounter(of.sensor)) {
    return {
      ...common,
      values: points.map((point) => point?.mean ?? null),
      low: points.map((point) => point?.min ?? null),
      high: points.map((point) => point?.max ?? null),
    };
  }
  const rates = points.map((point, n) => {
    const before = points[n - 1];
    if (!point || !before) return null;
    // A counter that was reset has no rate there.
    return point.max >= before.max ? (point.max - before.max) / step : null;
  });
  return { ...common, values: rates };
}

function Operations({ page }: { page: NodePage }) {
  const windows = (of: NodePage["operations"][number]) => of.windows["1m"];
  return (
    <section class={stale(page)}>
      <h2>Operations in the last minute</h2>
      <LastSeen page={page} />
      <Table
        caption="Operations in the last minute"
        head={["operation", "samples", "p50", "p99", "mean", "max", "samples in total"]}
        rows={page.operations.map((of) => [
          of.operation,
          <Count of={windows(of)?.count ?? 0} />,
          <Raw operation={of.operation} of={windows(of)?.p50_ns ?? null} />,
          <Raw operation={of.operation} of={windows(of)?.p99_ns ?? null} />,
          <Raw operation={of.operation} of={windows(of)?.count ? windows(of)!.mean_ns : null} />,
          <Raw operation={of.operation} of={windows(of)?.count ? windows(of)!.max_ns : null} />,
          <Count of={of.total.count} />,
        ])}
      />
    </section>
  );
}

const stale = ({ status }: NodePage) => (status.presence === "up" ? undefined : "stale");

/** As in reports and commands. */
function machine(of: Machine): string {
  const driver = of.gpu_driver && `driver ${of.gpu_driver}`;
  const gpus = Object.entries(of.gpus).map(([model, n]) => `${n} x ${model}`);
  const words = [
    gpus.join(", ") + (driver && gpus.length ? ` (${driver})` : (driver ?? "")),
    of.cpu,
    of.cores === null ? null : `${of.cores} cores`,
    of.memory_bytes === null ? null : bytes(of.memory_bytes),
    of.kernel && `kernel ${of.kernel}`,
    of.os,
  ];
  return words.filter(Boolean).join(", ");
}

/** States that the figures below are the last ones that the node sent. */
const LastSeen = ({ page }: { page: NodePage }) =>
  stale(page) ? (
    <p class="since">○ no data since {since(page.status.last_seen_seconds)}</p>
  ) : null;

function Connection({ page }: { page: NodePage }) {
  const { status, outbox: of } = page;
  const { outbox } = of;
  return (
    <section class={stale(page)}>
      <h2>Connection to the broker</h2>
      <LastSeen page={page} />
      <Facts
        of={[
          ["round trip", <Value of={status.round_trip_seconds} />],
          ["from node to merge", <Value of={status.delay_seconds} />],
          ["clock ahead", <Value of={status.clock_ahead_seconds} />],
          ["circuit breaker", of.breaker ? <State of={of.breaker} /> : "none"],
          ["pressure", percent(outbox.pressure)],
          ["depth now", <Count of={outbox.depth} />],
          ["max depth", <Count of={outbox.depth_max} />],
          ["published", <Count of={outbox.published} />],
          ["confirmed", <Count of={outbox.confirmed} />],
          ["unconfirmed", <Count of={outbox.unconfirmed} />],
          ["rerouted", <Count of={outbox.rerouted} />],
          ["dropped", <Count of={outbox.dropped} />],
          ["version", status.version || "unknown"],
        ]}
      />
      <Balance ledger={status.ledger} />
    </section>
  );
}

function Restarts({ page }: { page: NodePage }) {
  const end = (run: NodePage["entry"]["runs"][number]) =>
    run.left_in_order ? "left normally" : run.ended ? "ended" : "running";
  return (
    <section>
      <h2>Restarts</h2>
      <Table
        caption="Restarts"
        numbers={2}
        head={[
          "started",
          "state",
          "last sequence number",
          "missing",
          "duplicates",
          "recorded",
          "merged",
        ]}
        rows={page.entry.runs.map((run) => [
          <time title={`incarnation ${run.incarnation}`}>
            {when(Number(run.incarnation) / 1e9)}
          </time>,
          end(run),
          <Count of={run.newest_seq} />,
          <Count of={run.missing_seqs} />,
          <Count of={run.duplicates} />,
          <Count of={run.ledger.recorded} />,
          <Count of={run.ledger.merged} />,
        ])}
      />
    </section>
  );
}

function Sensors({ node }: { node: string }) {
  const [isOpen, setOpen] = useState(false);
  const { data, error } = useData<HardwarePage>(
    isOpen ? path("api/v1/hardware", { node }) : null,
    2,
  );
  const readings = data?.nodes[0]?.readings ?? [];
  const receivedAt = data?.nodes[0]?.received_at_seconds;
  const value = (of: (typeof readings)[number]) =>
    of.value === null ? (
      <span class="muted">{of.reason ?? of.state}</span>
    ) : (
      <data value={String(of.value)}>{reading(of.value, of.unit)}</data>
    );
  return (
    <section>
      <details onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
        <summary>All sensors now</summary>
        <Problem error={error} what="Sensors" />
        {isOpen && receivedAt && <p class="muted">Received {since(receivedAt)}.</p>}
        {isOpen && data && (
          <Table
            caption="Sensors"
            numbers={2}
            head={["sensor", "labels", "value"]}
            rows={readings.map((of) => [of.sensor, <LabelList of={of.labels} />, value(of)])}
          />
        )}
      </details>
    </section>
  );
}
