// The fleet by resource: the nodes that are worst now by time, from their own histories. A row is a
// node, a column a span of time, the colour its value; every name leads to its node.

import { useMemo, useState } from "preact/hooks";
import { allPages, path, useData } from "../api";
import { NodeMap } from "../chart/nodemap";
import type { HardwareHistory, HardwarePage, NodeReadings, ReadingHistory } from "../model";
import { Figures, Loading, Problem, To } from "../parts";
import { type Range, RangePicker, useRange } from "../range";
import { count, counted, reading } from "../units";
import { useUrl } from "../url";

/** Nodes that are asked for their histories: four times as many as an aggregator asks at once. */
const NODES_MAX = 64;
const COLUMNS = 60;
/** Pulses between two rankings, so that rows do not change places all the time. */
const RANK_EVERY = 30;

type Now = NodeReadings["readings"];

export interface Resource {
  title: string;
  /** What a value is. */
  what: string;
  sensors: string[];
  /** The sensor that the value is a share of. */
  total?: string;
  /** Whether what is left is reported, and not what is used. */
  isLeft?: boolean;
  /** Whether the sensors are counters, whose increase a second is the value. */
  isRate?: boolean;
}

export const RESOURCES: Record<string, Resource> = {
  cpu: { title: "CPU", what: "share of all CPU time in use", sensors: ["cpu_usage_ratio"] },
  memory: {
    title: "Memory",
    what: "share of the memory in use",
    sensors: ["memory_used_bytes"],
    total: "memory_total_bytes",
  },
  gpu: {
    title: "GPU",
    what: "use of the busiest GPU",
    sensors: ["gpu_utilization_ratio"],
  },
  disk: {
    title: "Disk",
    what: "used share of the fullest file system",
    sensors: ["disk_available_bytes"],
    total: "disk_total_bytes",
    isLeft: true,
  },
  network: {
    title: "Network",
    what: "bytes a second of all interfaces, received and sent",
    sensors: ["network_receive_bytes_total", "network_transmit_bytes_total"],
    isRate: true,
  },
};

export interface Row {
  node: string;
  /** By column; `null` without readings. */
  values: (number | null)[];
  now: number | null;
  error?: string;
}

const key = (labels: Record<string, string> = {}) =>
  Object.entries(labels).sort().map((pair) => pair.join("=")).join(" ");

/** Devices that belong to no resource of the machine. */
const isWanted = (labels: Record<string, string> = {}) => labels.interface !== "lo";

const worst = (values: number[]) => (values.length > 0 ? Math.max(...values) : null);

/** The present sizes by labels, such as that of each file system. */
function totals(of: Resource, readings: Now): Map<string, number> {
  const found = readings.filter((one) => one.sensor === of.total && one.value);
  return new Map(found.map((one) => [key(one.labels), one.value!]));
}

function share(of: Resource, value: number, total: number | undefined): number[] {
  if (!of.total) return [value];
  if (!total) return [];
  return [of.isLeft ? 1 - value / total : value / total];
}

/** How much of a resource a node uses now; of counters the sum, which ranks alone. */
export function valueNow(of: Resource, readings: Now): number | null {
  const sizes = totals(of, readings);
  const found = readings.filter(
    (one) => of.sensors.includes(one.sensor) && one.value !== null && isWanted(one.labels),
  );
  const values = found.flatMap((one) => share(of, one.value!, sizes.get(key(one.labels))));
  if (of.isRate) return values.length > 0 ? values.reduce((sum, n) => sum + n, 0) : null;
  return worst(values);
}

/** The value of each column: the worst of several devices, of counters the sum of their rates. */
export function valuesByTime(
  of: Resource,
  series: ReadingHistory[],
  now: Now,
  { from, to, step, columns }: { from: number; to: number; step: number; columns: number },
): (number | null)[] {
  const sizes = totals(of, now);
  const found: number[][] = Array.from({ length: columns }, () => []);
  for (const { sensor, labels, points } of series) {
    if (!of.sensors.includes(sensor) || !isWanted(labels)) continue;
    points.forEach((point, n) => {
      const at = found[Math.round((point.from_seconds - from) / step)];
      if (!at) return;
      if (!of.isRate) {
        at.push(...share(of, of.isLeft ? point.min : point.max, sizes.get(key(labels))));
        return;
      }
      const before = points[n - 1];
      // Two columns beside each other; a counter that was reset has no rate there.
      const isNext = before && point.from_seconds - before.from_seconds < 1.5 * step;
      // The newest column has not ended.
      const length = Math.min(step, to - point.from_seconds);
      if (isNext && point.max >= before.max && length >= 1) {
        at.push((point.max - before.max) / length);
      }
    });
  }
  const sum = (values: number[]) =>
    values.length > 0 ? values.reduce((all, n) => all + n, 0) : null;
  return found.map(of.isRate ? sum : worst);
}

export function Resources() {
  const { params, set } = useUrl();
  const name = RESOURCES[params.resource ?? ""] ? params.resource! : "cpu";
  const of = RESOURCES[name]!;
  const range = useRange("15m");
  const { nodes, error, isLoading } = useNow(of);
  const up = nodes.filter((node) => node.presence === "up");
  const ranked = useMemo(
    () =>
      up
        .map(({ node, readings }) => ({ node, readings, now: valueNow(of, readings) }))
        .filter((node) => node.now !== null)
        .sort((a, b) => b.now! - a.now! || (a.node < b.node ? -1 : 1)),
    [nodes, name],
  );
  return (
    <>
      <h1 tabIndex={-1}>{of.title} of the fleet</h1>
      <div class="controls">
        <label>
          Resource{" "}
          <select value={name} onChange={(event) => set({ resource: event.currentTarget.value })}>
            {Object.entries(RESOURCES).map(([of, { title }]) => (
              <option key={of} value={of}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <RangePicker range={range} />
      </div>
      <Problem error={error} what="Readings of the nodes" />
      {isLoading && !error && <Loading what="readings of the nodes" />}
      {!isLoading && !error && ranked.length === 0 && (
        <p>
          {up.length === 0
            ? "No node reports now."
            : `None of ${counted(up.length, "node")} reads ${of.sensors[0]}.`}
        </p>
      )}
      {ranked.length > 0 && <Histories key={name} of={of} ranked={ranked} range={range} />}
    </>
  );
}

/** The present readings of all nodes, for their order and sizes. */
function useNow(of: Resource) {
  const [sensor, other] = of.total ? [of.sensors[0]!, of.total] : of.sensors;
  const ask = (sensor?: string) => (sensor ? path("api/v1/hardware", { sensor }) : null);
  const first = useData<HardwarePage>(ask(sensor), RANK_EVERY, false, allPages);
  const second = useData<HardwarePage>(ask(other), RANK_EVERY, false, allPages);
  const nodes = useMemo(() => {
    const more = new Map(second.data?.nodes.map((node) => [node.node, node.readings]));
    return (first.data?.nodes ?? []).map((node) => ({
      ...node,
      readings: [...node.readings, ...(more.get(node.node) ?? [])],
    }));
  }, [first.data, second.data]);
  const isLoading = !first.data || (other !== undefined && !second.data);
  return { nodes, error: first.error ?? second.error, isLoading };
}

interface HistoriesProps {
  of: Resource;
  /** All nodes that have the resource, the worst first. */
  ranked: { node: string; readings: Now }[];
  range: Range;
}

function Histories({ of, ranked, range }: HistoriesProps) {
  const shown = useMemo(() => ranked.slice(0, NODES_MAX), [ranked]);
  // In the order of names: another order of the same nodes is no other question.
  const node = shown.map((one) => one.node).sort();
  const step = range.step(Math.max(1, (range.to - range.from) / COLUMNS));
  const ask = (sensor?: string) =>
    sensor ? path("api/v1/hardware/history", { node, sensor, ...range.query, step }) : null;
  const every = range.every && Math.max(range.every, 5);
  const json = of.sensors.slice(0, 2).map(ask);
  const first = useData<HardwareHistory>(json[0] ?? null, every, true);
  const second = useData<HardwareHistory>(json[1] ?? null, every, true);
  const pages = useMemo(
    () => [first.data, second.data].filter((page) => page !== undefined),
    [first.data, second.data],
  );
  const error = first.error ?? second.error;
  return (
    <>
      <Problem error={error} what="Histories of the nodes" />
      {pages.length === 0 && !error && <Loading what="histories of the nodes" />}
      {pages.length > 0 && (
        <Heat
          of={of}
          shown={shown}
          all={ranked.length}
          pages={pages}
          zoom={range.zoom}
          json={json}
        />
      )}
    </>
  );
}

interface HeatProps {
  of: Resource;
  shown: { node: string; readings: Now }[];
  all: number;
  pages: HardwareHistory[];
  zoom: Range["zoom"];
  json: (string | null)[];
}

function Heat({ of, shown, all, pages, zoom, json }: HeatProps) {
  const [isOpen, setOpen] = useState(false);
  const { from_seconds: from, to_seconds: to, step_seconds: step } = pages[0]!;
  const columns = Math.max(1, Math.ceil((to - from) / step - 1e-6));
  const rows = useMemo<Row[]>(
    () =>
      shown.map(({ node, readings }) => {
        const found = pages.flatMap((page) => page.nodes.filter((one) => one.node === node));
        const series = found.flatMap((one) => one.readings);
        const values = valuesByTime(of, series, readings, { from, to, step, columns });
        const known = values.filter((value) => value !== null);
        return {
          node,
          values,
          now: of.isRate ? (known.at(-1) ?? null) : valueNow(of, readings),
          error: found.find((one) => one.error)?.error,
        };
      }),
    [pages, shown],
  );
  const without = rows.filter((row) => row.error);
  const text = (value: number | null) =>
    value === null ? "–" : reading(value, of.isRate ? "bytes_per_second" : "ratio");
  const exact = (value: number | null) =>
    value === null ? "–" : <data value={String(value)}>{text(value)}</data>;
  const most = of.isRate
    ? Math.max(1, ...rows.flatMap((row) => row.values.map((value) => value ?? 0)))
    : 1;
  const order = of.isRate ? "most bytes since their start" : "highest now";
  return (
    <>
      <p class="muted">
        {all > rows.length
          ? `The ${count(rows.length)} of ${counted(all, "node")} with the ${order}, worst first: `
          : `${counted(all, "node")}, worst first: `}
        {of.what}. Each cell has the {of.isRate ? "mean" : "worst"} of its time.
      </p>
      {without.length > 0 && (
        <p class="problem" role="alert">
          {count(without.length)} of {counted(rows.length, "node")} gave no whole history (
          {without.slice(0, 5).map((row) => row.node).join(", ")}
          {without.length > 5 && ", …"}): {without[0]!.error}
        </p>
      )}
      <NodeMap
        label={`${of.title} by node and time`}
        title={`${of.title}: ${of.what}`}
        rows={rows}
        from={from}
        to={to}
        step={step}
        most={most}
        format={text}
        onZoom={zoom}
        json={json}
      />
      <Figures
        open={isOpen}
        onOpen={setOpen}
        caption={`${of.title} by node`}
        head={["node", "now", "mean", "max"]}
        rows={rows.map((row) => {
          const known = row.values.filter((value) => value !== null);
          const sum = known.reduce((all, value) => all + value, 0);
          return [
            <To view="node" node={row.node}>
              {row.node}
            </To>,
            exact(row.now),
            exact(known.length > 0 ? sum / known.length : null),
            exact(worst(known)),
          ];
        })}
      />
    </>
  );
}
