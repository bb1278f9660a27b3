// Profiles that the aggregator has ordered: their list, and the flame graph of one, or of what it
// has more than another.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { now, path, useData } from "../api";
import { COLOURS } from "../flame/colour";
import { Graph } from "../flame/graph";
import type { FlameGraph, Frame, FunctionRow } from "../flame/tree";
import { functions, place, shareFound } from "../flame/tree";
import { KINDS, type ProfileRow, type ProfilesPage } from "../model";
import { Ago, Facts, LabelList, Loading, Problem, State, Table, To } from "../parts";
import { type Range, RangePicker, useRange } from "../range";
import { Change, useToken } from "../token";
import { bytes, count, counted, latency, number, percent, span, when } from "../units";
import { go, href, useUrl } from "../url";

/** Functions in the table. */
const LISTED = 50;
/** Milliseconds in which the graph is painted: an effect alone comes before it. */
const AFTER_GRAPH = 50;

const SHARES = ["itself", "of all", "with what it calls", "of all"];

/** Of nodes that record all the time an hour is added up within a second. */
const PAST_SECONDS_MAX = 86_400;
const STATES = ["running", "waiting", "gil", "all"];

const hasProfile = ({ state }: ProfileRow) => state === "kept" || state === "torn";

function subject({ node, nodes, state }: ProfileRow) {
  if (!nodes) return node;
  return state === "running" ? counted(nodes.asked, "node") : `${nodes.answered} of ${nodes.asked} nodes`;
}

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
            onInput={(event) => set({ node: event.currentTarget.value.trim() }, true)}
          />
        </label>
        {rule && (
          <a class="button" href={href({ ...params, rule: undefined })}>
            Ordered by {rule} ×
          </a>
        )}
      </div>
      <Past {...{ range, node }} />
      <h2>Captures</h2>
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
                {subject(of)}
              </To>
            ) : (
              subject(of)
            ),
            of.kept_as ? `${of.kind}, ${of.kept_as}` : of.kind,
            <State of={of.state} />,
            <time>{when(of.start_seconds)}</time>,
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

/** Adds up what the chosen nodes have recorded in the chosen range, and shows it. */
function Past({ range, node }: { range: Range; node?: string }) {
  const token = useToken();
  const [failed, setFailed] = useState<Error>();
  const [from, to] = [Math.floor(range.from), Math.ceil(range.to)];
  const onSubmit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const pid = Number(form.get("pid")) || undefined;
    const sent = token.send("POST", "api/v1/profiles", { kind: "past", node, pid, from, to });
    sent.then((of) => go({ view: "profile", id: (of as ProfileRow).id }), setFailed);
  };
  const isLong = to - from > PAST_SECONDS_MAX;
  return (
    <section>
      <h2>Where the time of a past range went</h2>
      {isLong && (
        <p>
          Choose a range of at most a day, such as{" "}
          <To view="profiles" node={node} last="1h">
            the last hour
          </To>
          .
        </p>
      )}
      {!isLong && !token.value && <Change what="To see its functions" />}
      {!isLong && token.value && (
        <form class="controls" onSubmit={onSubmit}>
          <label>
            Process <input name="pid" type="number" min="1" placeholder="all" />
          </label>
          <button>
            Show {node || "all nodes"} from {when(from)} to {when(to, from)}
          </button>
        </form>
      )}
      <Problem error={failed} what="The past" />
    </section>
  );
}

/** What was selected, and which process that was. */
function Process({ of }: { of: ProfileRow }) {
  const { pid, command } = of.facts;
  if ((of.kind === "past" || of.kind === "continuous") && !pid) return <>all</>;
  return (
    <>
      {command || of.operation} {pid > 0 && `(pid ${pid})`} <LabelList of={of.labels} />
    </>
  );
}

export function Profile() {
  const { params, set } = useUrl();
  const { id = "", minus } = params;
  const base = `api/v1/profiles/${encodeURIComponent(id)}`;
  const { data, error } = useData<ProfileRow>(id ? base : null, 3);
  const isKept = data && hasProfile(data);
  // Memory has no threads, and a client does not say what they did: the other one may be of one.
  const hasStates = data && data.kind !== "memory" && data.facts.rung !== "client";
  const state = hasStates ? (params.state ?? (minus ? "all" : STATES[0])) : undefined;
  const isTrace = data?.kind === "trace";
  const tree = isKept && !isTrace ? path(`${base}/flame.json`, { form: "columns", minus, state }) : null;
  const graph = useData<FlameGraph>(tree, 0);
  // Not drawn again with each pulse: it is large.
  const flame = useMemo(() => graph.data && <Flame graph={graph.data} />, [graph.data]);
  if (!data) return error ? <Problem error={error} what="Profile" /> : <Loading what="profile" />;
  const { facts, nodes, start_seconds: start } = data;
  const isPast = data.kind === "past";
  const missing = Object.entries(nodes?.missing ?? {}).map(([node, why]) => `${node}: ${why}`);
  const of: [string, ComponentChildren][] = [
    ["kind", data.kind],
    ["state", <State of={data.state} />],
    ["nodes without a profile", missing.join(", ")],
    ["nodes not asked", nodes?.left_out],
    ["reason", data.reason],
    ["kept as", data.kept_as],
    ["time", <Ago at={start} now={now()} />],
    ["process", <Process of={data} />],
    ["seconds", span(data.seconds) + (data.hz ? ` at ${count(data.hz)} Hz` : "")],
    ["samples", count(facts.samples)],
    ["torn or lost", `${count(facts.torn)} or ${count(facts.lost)}`],
    ["taken by", `${facts.rung} ${facts.python && `Python ${facts.python}`}`.trim()],
    ["for more", facts.advice],
  ];
  return (
    <>
      <h1 tabIndex={-1}>
        {isTrace ? "Trace" : "Profile"} of {subject(data)} {isPast && "from "}
        {when(start, now())}
        {isPast && ` to ${when(start + data.seconds, start)}`}
      </h1>
      {isPast && (
        <p>
          <To
            view="profiles"
            node={nodes ? undefined : data.node}
            from={start * 1_000}
            to={(start + data.seconds) * 1_000}
          >
            Choose another range, node or process
          </To>
        </p>
      )}
      <Problem error={error} what="This is out of date" />
      <Facts of={of.filter(([, value]) => value)} />
      {isKept && isTrace && (
        <p>
          <a href={`${base}/trace`}>Download the trace</a>, then open the file in ui.perfetto.dev or
          chrome://tracing.
        </p>
      )}
      {isKept && !isTrace && (
        <p class="controls">
          <a href={`${base}/pprof`}>Download pprof</a>
          <a href={path(`${base}/flamegraph.svg`, { minus, state })}>Download SVG</a>
          <Minus of={data} />
          {hasStates && (
            <label>
              Threads{" "}
              <select
                value={state}
                onChange={(event) => set({ state: event.currentTarget.value })}
              >
                {STATES.map((of) => (
                  <option key={of}>{of}</option>
                ))}
              </select>
            </label>
          )}
        </p>
      )}
      {data.state === "running" && <Loading what={isPast ? "what was recorded" : "its stacks"} />}
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
            {of.kept_as ?? subject(of)} {when(of.start_seconds, now())}
          </option>
        ))}
      </select>
    </label>
  );
}

function Flame({ graph }: { graph: FlameGraph }) {
  const { params, set } = useUrl();
  const { kind, unit, isDifference } = graph;
  const frames = useMemo(() => place(graph), [graph]);
  const wanted = (params.search ?? "").trim().toLowerCase();
  const found = useMemo(() => {
    const isFound = ({ node: { name, file } }: Frame) =>
      wanted !== "" && `${name} ${file}`.toLowerCase().includes(wanted);
    return new Set(frames.slice(1).filter(isFound));
  }, [frames, wanted]);

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
  if (frames.length === 1) return <p>No samples; threads in another state may have some.</p>;
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
      <Graph {...{ frames, found, label, figures, colour, isIcicle }} deltaMax={graph.deltaMax} />
      <h2>Functions</h2>
      <Functions
        of={graph}
        head={["function", ...(isDifference ? ["more", "culprit", "peer"] : SHARES)]}
        cells={({ self, total, delta }) =>
          isDifference
            ? [signed(delta), ...sides(self, delta)]
            : [self, total].flatMap((of) => [value(of), percent(of / (graph.value[0] || 1))])
        }
      />
    </section>
  );
}

interface FunctionsProps {
  of: FlameGraph;
  head: string[];
  cells: (of: FunctionRow) => string[];
}

/** The table, which is added up once the graph is on the screen. */
function Functions({ of, head, cells }: FunctionsProps) {
  const [isDue, setDue] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setDue(true), AFTER_GRAPH);
    return () => clearTimeout(timer);
  }, []);
  const rows = useMemo(() => (isDue ? functions(of) : []), [of, isDue]);
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
