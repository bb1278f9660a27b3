// All nodes by headroom: there can be thousands of rows; only visible ones are in the document.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { now, useData } from "../api";
import type { Headroom } from "../model";
import { Ago, AlertBadge, Count, LabelList, Loading, Problem, Raw, State, To } from "../parts";
import { count, counted, percent } from "../units";
import { href, useUrl } from "../url";

/** The height of a row, as in the style. */
const ROW = 2.25 * parseFloat(getComputedStyle(document.documentElement).fontSize);
/** Rows beyond the edges, so that scrolling shows no gaps. */
const BEYOND = 10;

type Key = (of: Headroom) => number | string;

const PRESENCE = ["up", "silent", "left"];
const ALERTS = ["firing", "pending", "resolved", "inactive"];
const SORTS: Record<string, { name: string; key: Key; hint: string }> = {
  node: { name: "node", key: (of) => of.node, hint: "by name" },
  presence: { name: "state", key: (of) => PRESENCE.indexOf(of.presence), hint: "by state" },
  headroom: { name: "headroom", key: (of) => of.least?.headroom ?? 2, hint: "lowest first" },
  alert: { name: "alerts", key: (of) => ALERTS.indexOf(of.alert), hint: "firing first" },
  depth: { name: "depth", key: (of) => -of.outbox_depth, hint: "deepest first" },
  dropped: { name: "dropped", key: (of) => -of.dropped, hint: "most first" },
  seen: { name: "last seen", key: (of) => of.last_seen_seconds, hint: "longest ago first" },
};

interface Wanted {
  text: string;
  presence?: string;
  /** `key=value`, or only the key for nodes without this label. */
  label?: string;
}

export function matches(of: Headroom, { text, presence, label }: Wanted): boolean {
  if (presence && of.presence !== presence) return false;
  if (label) {
    const [key = "", value] = label.split(/=(.*)/s);
    if ((of.labels[key] ?? "") !== (value ?? "")) return false;
  }
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const known = [of.node, ...Object.entries(of.labels).map((pair) => pair.join("="))];
  return words.every((word) => known.some((one) => one.toLowerCase().includes(word)));
}

const reports = (of: Headroom): boolean => of.presence === "up";

export function Nodes() {
  const { params, set } = useUrl();
  const { data, error } = useData<{ nodes: Headroom[] }>("api/v1/headroom", 3);
  const [text, setText] = useState(params.find ?? "");
  const sort = SORTS[params.sort ?? ""] ? params.sort! : "headroom";
  const isDown = params.order === "reversed";
  const all = data?.nodes ?? [];
  useEffect(() => {
    const timer = setTimeout(() => set({ find: text }, true), 250);
    return () => clearTimeout(timer);
  }, [text]);

  useEffect(() => setText(params.find ?? ""), [params.find]);

  const shown = useMemo(() => {
    const { key } = SORTS[sort]!;
    const wanted = { text, presence: params.presence, label: params.label };
    const found = all.filter((of) => matches(of, wanted)).map((of) => ({ of, key: key(of) }));
    // Names come in order, and sorting is stable.
    found.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    if (isDown) found.reverse();
    return found.map(({ of }) => of);
  }, [all, sort, isDown, text, params.presence, params.label]);

  const keys = useMemo(
    () => [...new Set(all.flatMap((of) => Object.keys(of.labels)))].sort(),
    [all],
  );
  return (
    <>
      <h1 tabIndex={-1}>Nodes</h1>
      <div class="controls">
        <label>
          Find{" "}
          <input
            type="search"
            value={text}
            placeholder="name or label=value"
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <label>
          State{" "}
          <select
            value={params.presence ?? ""}
            onChange={(event) => set({ presence: event.currentTarget.value })}
          >
            <option value="">all</option>
            {PRESENCE.map((of) => (
              <option key={of}>{of}</option>
            ))}
          </select>
        </label>
        <label>
          Group by{" "}
          <select
            value={params.group ?? ""}
            onChange={(event) => set({ group: event.currentTarget.value })}
          >
            <option value="">nothing</option>
            {keys.map((key) => (
              <option key={key}>{key}</option>
            ))}
          </select>
        </label>
        {params.label && (
          <button type="button" onClick={() => set({ label: undefined })}>
            {params.label} ✕<span class="unseen"> remove this filter</span>
          </button>
        )}
        <output class="muted" aria-live="polite">
          {data &&
            `${count(shown.length)} of ${counted(all.length, "node")} listed, ` +
              `${count(all.filter(reports).length)} reporting`}
        </output>
      </div>
      <Problem error={error} what={data ? "These figures are out of date" : "Nodes"} />
      {!data && !error && <Loading what="nodes" />}
      {data && all.length === 0 && <p>No node has sent a message yet.</p>}
      {params.group && <Groups nodes={shown} label={params.group} />}
      {shown.length > 0 && (
        <Rows
          nodes={shown}
          sort={sort}
          isDown={isDown}
          onSort={(by) =>
            set({ sort: by, order: by === sort && !isDown ? "reversed" : undefined }, true)
          }
        />
      )}
    </>
  );
}

function Groups({ nodes, label }: { nodes: Headroom[]; label: string }) {
  const { params } = useUrl();
  const groups = new Map<string, Headroom[]>();
  for (const of of nodes) {
    const value = of.labels[label] ?? "";
    groups.set(value, [...(groups.get(value) ?? []), of]);
  }
  const lowest = (of: Headroom[]) =>
    Math.min(...of.filter(reports).map((node) => node.least?.headroom ?? Infinity));
  const sorted = [...groups].sort(([, a], [, b]) => lowest(a) - lowest(b));
  const number = (of: Headroom[], is: (node: Headroom) => boolean) => of.filter(is).length;
  return (
    <div class="scroll groups" tabIndex={0} role="region" aria-label={`Nodes by ${label}`}>
      <table>
        <caption class="unseen">Nodes by {label}</caption>
        <thead>
          <tr>
            <th scope="col">{label}</th>
            <th scope="col" class="number">
              nodes
            </th>
            <th scope="col" class="number">
              silent
            </th>
            <th scope="col" class="number">
              with firing alerts
            </th>
            <th scope="col" class="number">
              lowest headroom
            </th>
          </tr>
        </thead>
        <tbody>
          {sorted.map(([value, of]) => (
            <tr key={value}>
              <th scope="row">
                <a href={href({ ...params, label: value ? `${label}=${value}` : label })}>
                  {value || "(none)"}
                </a>
              </th>
              <td class="number">{count(of.length)}</td>
              <td class="number">{count(number(of, (node) => node.presence === "silent"))}</td>
              <td class="number">{count(number(of, (node) => node.alert === "firing"))}</td>
              <td class="number">{lowest(of) === Infinity ? "–" : percent(lowest(of))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface RowsProps {
  nodes: Headroom[];
  sort: string;
  isDown: boolean;
  onSort: (by: string) => void;
}

function Rows({ nodes, sort, isDown, onSort }: RowsProps) {
  const box = useRef<HTMLDivElement>(null);
  const [{ top, height }, setSight] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const element = box.current!;
    const look = () => setSight({ top: element.scrollTop, height: element.clientHeight });
    const resized = new ResizeObserver(look);
    resized.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      resized.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  const first = Math.max(0, Math.min(Math.floor(top / ROW), nodes.length) - BEYOND);
  const last = Math.min(nodes.length, Math.ceil((top + height) / ROW) + BEYOND);
  const at = now();
  const heads = Object.entries(SORTS).map(([by, { name, hint }]) => (
    <th
      key={by}
      scope="col"
      class={["depth", "dropped"].includes(by) ? "number" : undefined}
      aria-sort={by !== sort ? "none" : isDown ? "descending" : "ascending"}
    >
      <button type="button" title={hint} onClick={() => onSort(by)}>
        {name}
        <span aria-hidden="true">{by !== sort ? "" : isDown ? " ▾" : " ▴"}</span>
      </button>
    </th>
  ));
  return (
    <div class="scroll rows" ref={box} tabIndex={0} role="region" aria-label="Nodes">
      <table aria-rowcount={nodes.length + 1}>
        <caption class="unseen">Nodes by {SORTS[sort]!.name}</caption>
        <thead>
          <tr aria-rowindex={1}>
            {heads}
            <th scope="col">labels and troubles</th>
          </tr>
        </thead>
        <tbody>
          <Gap rows={first} />
          {nodes.slice(first, last).map((of, n) => (
            <Row key={of.node} of={of} index={first + n + 2} at={at} />
          ))}
          <Gap rows={nodes.length - last} />
        </tbody>
      </table>
    </div>
  );
}

const Gap = ({ rows }: { rows: number }) =>
  rows > 0 ? (
    <tr aria-hidden="true">
      <td colSpan={8} class="gap" style={{ height: `${rows * ROW}px` }} />
    </tr>
  ) : null;

function Row({ of, index, at }: { of: Headroom; index: number; at: number }) {
  return (
    <tr aria-rowindex={index} class={reports(of) ? undefined : "stale"}>
      <th scope="row">
        <To view="node" node={of.node}>
          {of.node}
        </To>
      </th>
      <td>
        <State of={of.presence} />
      </td>
      <td>
        {of.least && reports(of) ? (
          <Room of={of.least} />
        ) : (
          <span class="muted">{of.least ? "out of date" : "no samples"}</span>
        )}
      </td>
      <td>
        {of.alert === "inactive" ? (
          <span class="muted">–</span>
        ) : (
          <To view="alerts" find={of.node}>
            <AlertBadge of={{ state: of.alert, severity: of.alert_severity ?? "warning" }} />
          </To>
        )}
      </td>
      <td class="number">
        <Count of={of.outbox_depth} />
      </td>
      <td class="number">
        <Count of={of.dropped} />
      </td>
      <td>
        <Ago at={of.last_seen_seconds} now={at} />
      </td>
      <td class="wide">
        <LabelList of={of.labels} />
        {of.troubles?.map((trouble) => (
          <span class="warn" key={trouble}>
            {trouble.replaceAll("_", " ")}
          </span>
        ))}
      </td>
    </tr>
  );
}

function Room({ of }: { of: NonNullable<Headroom["least"]> }) {
  const used = Math.min(Math.max(1 - of.headroom, 0), 1.25) * 80;
  return (
    <span class="room">
      <svg viewBox="0 0 100 12" aria-hidden="true">
        <rect class="track" width="100" height="12" />
        <rect class={of.headroom < 0 ? "bar bad" : "bar"} width={used} height="12" />
        <line class="at-limit" x1="80" x2="80" y1="0" y2="12" />
      </svg>
      <data value={String(of.headroom)}>{percent(of.headroom)}</data>
      <span class="muted">
        {of.budget} <Raw operation={of.operation} of={of.value_ns} /> of <Raw operation={of.operation} of={of.limit_ns} />
      </span>
    </span>
  );
}
