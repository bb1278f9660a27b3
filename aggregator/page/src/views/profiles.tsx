// Profiles that the aggregator has ordered: their list, and the flame graph of one, or of what it
// has more than another.

import { useEffect, useMemo, useState } from "preact/hooks";
import { now, path, useData } from "../api";
import { COLOURS } from "../flame/colour";
import { Graph } from "../flame/graph";
import type { FlameGraph, FlameNode, Frame, FunctionRow } from "../flame/tree";
import { functions, place, shareFound } from "../flame/tree";
import { KINDS, type ProfileRow, type ProfilesPage } from "../model";
import { Ago, Facts, LabelList, Loading, Problem, State, Table, To } from "../parts";
import { RangePicker, useRange } from "../range";
import { bytes, count, latency, number, percent, span, when } from "../units";
import { href, useUrl } from "../url";

/** Functions in the table. */
const LISTED = 50;

const SHARES = ["itself", "of all", "with what it calls", "of all"];

const hasProfile = ({ state }: ProfileRow) => state === "kept" || state === "torn";

export function Profiles() {
  const { params, set } = useUrl();
  const range = useRange("30d");
  const { kind, node, rule } = params;
  const url = path("api/v1/profiles", { kind, node, rule, ...range.query });
  const { data, error } = useData<ProfilesPage>(url, 3, true);
  const isFiltered = kind || node || rule || params.from || params.last;
  return (
    <>
      <h1 tabIndex={-1}>Profiles</h1>
      <RangePicker range={range} />
      <div class="controls">
        <label>
          Kind{" "}
          <select value={kind ?? ""} onChange={(event) => set({ kind: event.currentTarget.value })}>
            <option value="">all</option>
            {KINDS.map((of) => (
              <option key={of}>{of}</option>
            ))}
          </select>
        </label>
        <label>
          Node{" "}
          <input
            type="search"
            value={node ?? ""}
            onChange={(event) => set({ node: event.currentTarget.value.trim() })}
          />
        </label>
        {rule && (
          <a class="button" href={href({ ...params, rule: undefined })}>
            Ordered by {rule} ×
          </a>
        )}
      </div>
      <Problem error={error} what={data ? "These profiles are out of date" : "Profiles"} />
      {!data && !error && <Loading what="profiles" />}
      {data?.profiles.length === 0 && (isFiltered ? <p>None fits.</p> : <p>No profiles yet.</p>)}
      {data && data.profiles.length > 0 && (
        <Table
          caption="Profiles"
          numbers={7}
          head={[
            "node",
            "kind",
            "state",
            "time",
            "process",
            "ordered by",
            "reason",
            "samples",
            "size",
          ]}
          rows={data.profiles.map((of) => [
            hasProfile(of) ? (
              <To view="profile" id={of.id}>
                {of.node}
              </To>
            ) : (
              of.node
            ),
            of.kept_as ? `${of.kind}, ${of.kept_as}` : of.kind,
            <State of={of.state} />,
            when(of.start_seconds),
            <Process of={of} />,
            of.rule ?? "hand",
            of.reason ?? "–",
            hasProfile(of) ? count(of.facts.samples) : "–",
            hasProfile(of) ? bytes(of.bytes) : "–",
          ])}
        />
      )}
      <p class="muted">
        <code>plimsoll profile cpu --node {node || "NODE"} --job OPERATION -o flame.svg</code> takes
        one, and so does an alert with <code>profiles.on_breach</code>.
      </p>
    </>
  );
}

/** What was selected, and which process that was. */
function Process({ of }: { of: ProfileRow }) {
  const { pid, command } = of.facts;
  return (
    <>
      {command || of.operation} {pid > 0 && `(pid ${pid})`} <LabelList of={of.labels} />
    </>
  );
}

export function Profile() {
  const { id = "", minus } = useUrl().params;
  const base = `api/v1/profiles/${encodeURIComponent(id)}`;
  const { data, error } = useData<ProfileRow>(id ? base : null, 3);
  const isKept = data && hasProfile(data);
  const isTrace = data?.kind === "trace";
  const tree = isKept && !isTrace ? path(`${base}/flame.json`, { minus }) : null;
  const graph = useData<FlameGraph>(tree, 0);
  // Not drawn again with each pulse: it is large.
  const flame = useMemo(() => graph.data && <Flame graph={graph.data} />, [graph.data]);
  if (!data) return error ? <Problem error={error} what="Profile" /> : <Loading what="profile" />;
  const { facts } = data;
  return (
    <>
      <h1 tabIndex={-1}>
        {isTrace ? "Trace" : "Profile"} of {data.node} {when(data.start_seconds, now())}
      </h1>
      <Problem error={error} what="This is out of date" />
      <Facts
        of={[
          ["kind", data.kind],
          ["state", <State of={data.state} />],
          ["reason", data.reason ?? "–"],
          ["kept as", data.kept_as ?? "–"],
          ["time", <Ago at={data.start_seconds} now={now()} />],
          ["process", <Process of={data} />],
          ["seconds", `${span(data.seconds)} at ${count(data.hz)} Hz`],
          ["samples", count(facts.samples)],
          ["torn or lost", `${count(facts.torn)} or ${count(facts.lost)}`],
          ["taken by", `${facts.rung || "–"} ${facts.python && `Python ${facts.python}`}`],
          ["for more", facts.fix || "–"],
        ]}
      />
      {isKept && isTrace && (
        <p>
          <a href={`${base}/trace`}>Download the trace</a>, then open the file in ui.perfetto.dev or
          chrome://tracing.
        </p>
      )}
      {isKept && !isTrace && (
        <p class="controls">
          <a href={`${base}/pprof`}>Download pprof</a>
          <a href={path(`${base}/flamegraph.svg`, { minus })}>Download SVG</a>
          <Minus of={data} />
        </p>
      )}
      <Problem error={graph.error} what="Flame graph" />
      {tree && !graph.data && !graph.error && <Loading what="flame graph" />}
      {flame}
    </>
  );
}

/** Chooses the profile that is subtracted: any other one of this kind, its peer first. */
function Minus({ of: { id, kind, peer } }: { of: ProfileRow }) {
  const { params, set } = useUrl();
  const all = useData<ProfilesPage>(path("api/v1/profiles", { kind, limit: 1_000 }), 0).data;
  const others = (all?.profiles ?? []).filter((of) => of.id !== id && hasProfile(of));
  const isFirst = (of: ProfileRow) => Number(of.id === peer || of.id === params.minus);
  others.sort((a, b) => isFirst(b) - isFirst(a));
  return (
    <label>
      Difference from{" "}
      <select
        value={params.minus ?? ""}
        onChange={(event) => set({ minus: event.currentTarget.value })}
      >
        <option value="">none</option>
        {others.map((of) => (
          <option key={of.id} value={of.id}>
            {of.id === peer && "its peer "}
            {of.kept_as ?? of.node} {when(of.start_seconds, now())}
          </option>
        ))}
      </select>
    </label>
  );
}

function Flame({ graph: { kind, unit, root } }: { graph: FlameGraph }) {
  const { params, set } = useUrl();
  const frames = useMemo(() => place(root), [root]);
  const wanted = (params.search ?? "").trim().toLowerCase();
  const found = useMemo(() => {
    const isFound = ({ node: { name, file } }: Frame) =>
      wanted !== "" && `${name} ${file}`.toLowerCase().includes(wanted);
    return new Set(frames.slice(1).filter(isFound));
  }, [frames, wanted]);

  const isDifference = root.delta !== undefined;
  const inUnit = (of: number) => {
    if (unit === "nanoseconds") return latency(of / 1e9);
    return unit === "bytes" ? bytes(of) : `${number(of)} ${unit}`;
  };
  const value = (of: number) => inUnit(of) + (isDifference ? "/s" : "");
  const signed = (of: number) => `${of > 0 ? "+" : ""}${value(of)}`;
  const sides = (mean: number, delta: number) => [mean + delta / 2, mean - delta / 2].map(value);
  const figures = ({ node, width }: Frame) => {
    if (node.delta === undefined) {
      return `${value(node.value)} (${percent(width)}), itself ${value(node.self)}`;
    }
    const [culprit, peer] = sides(node.value, node.delta);
    return `${signed(node.delta)}: culprit ${culprit}, peer ${peer}`;
  };
  const isIcicle = params.graph !== "flame";
  const colour = COLOURS.find((of) => of === params.colour) ?? COLOURS[0];
  const label = isDifference ? "Difference" : `Flame graph of ${kind}`;
  if (frames.length === 1) return <p>No samples.</p>;
  return (
    <section>
      <h2>{label}</h2>
      <div class="controls">
        <label>
          Search{" "}
          <input
            type="search"
            value={params.search ?? ""}
            onInput={(event) => set({ search: event.currentTarget.value }, true)}
          />
        </label>
        <output>
          {wanted && `${percent(shareFound(frames[0]!, found))} in ${count(found.size)} of `}
          {count(frames.length - 1)} places
        </output>
        <button
          type="button"
          aria-pressed={!isIcicle}
          onClick={() => set({ graph: isIcicle ? "flame" : undefined }, true)}
        >
          Callers below
        </button>
        {!isDifference && (
          <label>
            Colour{" "}
            <select
              value={colour}
              onChange={(event) => set({ colour: event.currentTarget.value }, true)}
            >
              {COLOURS.map((of) => (
                <option key={of}>{of}</option>
              ))}
            </select>
          </label>
        )}
        <span class="muted">Enter or click: zoom; Esc: all; arrows: move</span>
      </div>
      <Graph {...{ frames, found, label, figures, colour, isIcicle }} />
      <h2>Functions</h2>
      <Functions
        root={root}
        head={["function", ...(isDifference ? ["more", "culprit", "peer"] : SHARES)]}
        cells={({ self, total, delta }) =>
          isDifference
            ? [signed(delta), ...sides(self, delta)]
            : [self, total].flatMap((of) => [value(of), percent(of / (root.value || 1))])
        }
      />
    </section>
  );
}

interface FunctionsProps {
  root: FlameNode;
  head: string[];
  cells: (of: FunctionRow) => string[];
}

/** The table, which is added up once the graph is on the screen. */
function Functions({ root, head, cells }: FunctionsProps) {
  const [isDue, setDue] = useState(false);
  useEffect(() => setDue(true), []);
  const rows = useMemo(() => (isDue ? functions(root) : []), [root, isDue]);
  return (
    <>
      <Table
        caption="Functions"
        head={head}
        rows={rows.slice(0, LISTED).map((of) => [
          `${of.name} ${of.file && `(${of.file})`}`,
          ...cells(of),
        ])}
      />
      {rows.length > LISTED && <p class="muted">{count(rows.length - LISTED)} more functions</p>}
    </>
  );
}
