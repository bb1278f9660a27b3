// Profiles that the aggregator has ordered: their list, and the flame graph of one, or of what it
// has more than another.

import { useMemo } from "preact/hooks";
import { now, path, useData } from "../api";
import { Graph } from "../flame/graph";
import { type FlameGraph, type Frame, functions, place, shareFound } from "../flame/tree";
import type { ProfileRow, ProfilesPage } from "../model";
import { Ago, Facts, LabelList, Loading, Problem, State, Table, To } from "../parts";
import { bytes, count, latency, number, percent, span, when } from "../units";
import { useUrl } from "../url";

/** Functions in the table. */
const LISTED = 50;

const hasProfile = ({ state }: ProfileRow) => state === "kept" || state === "torn";

export function Profiles() {
  const { data, error } = useData<ProfilesPage>("api/v1/profiles", 3);
  if (!data) return error ? <Problem error={error} what="Profiles" /> : <Loading what="profiles" />;
  return (
    <>
      <h1 tabIndex={-1}>Profiles</h1>
      <Problem error={error} what="These profiles are out of date" />
      {data.profiles.length === 0 && (
        <p>
          No profiles yet. <code>plimsoll profile cpu --node NODE -o FILE</code> takes one, and so
          does an alert with <code>profiles.on_breach</code>.
        </p>
      )}
      {data.profiles.length > 0 && (
        <Table
          caption="Profiles"
          numbers={6}
          head={["node", "state", "time", "process", "ordered by", "reason", "samples", "size"]}
          rows={data.profiles.map((of) => [
            hasProfile(of) ? (
              <To view="profile" id={of.id}>
                {of.node}
              </To>
            ) : (
              of.node
            ),
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
  const graph = useData<FlameGraph>(isKept ? path(`${base}/flame.json`, { minus }) : null, 0);
  if (!data) return error ? <Problem error={error} what="Profile" /> : <Loading what="profile" />;
  const { facts, peer } = data;
  return (
    <>
      <h1 tabIndex={-1}>
        Profile of {data.node} {when(data.start_seconds, now())}
      </h1>
      <Problem error={error} what="This is out of date" />
      <Facts
        of={[
          ["state", <State of={data.state} />],
          ["reason", data.reason ?? "–"],
          ["time", <Ago at={data.start_seconds} now={now()} />],
          ["process", <Process of={data} />],
          ["seconds", `${span(data.seconds)} at ${count(data.hz)} Hz`],
          ["samples", count(facts.samples)],
          ["torn or lost", `${count(facts.torn)} or ${count(facts.lost)}`],
          ["taken by", `${facts.rung || "–"} ${facts.python && `Python ${facts.python}`}`],
          ["for more", facts.fix || "–"],
        ]}
      />
      {isKept && (
        <p class="controls">
          <a href={`${base}/pprof`}>Download pprof</a>
          <a href={path(`${base}/svg`, { minus })}>Download SVG</a>
          {peer && (
            <To view="profile" id={id} minus={minus ? undefined : peer}>
              {minus ? "Without the difference" : "Difference from its peer"}
            </To>
          )}
        </p>
      )}
      <Problem error={graph.error} what="Flame graph" />
      {isKept && !graph.data && !graph.error && <Loading what="flame graph" />}
      {graph.data && <Flame graph={graph.data} />}
    </>
  );
}

function Flame({ graph: { kind, unit, root } }: { graph: FlameGraph }) {
  const { params, set } = useUrl();
  const frames = useMemo(() => place(root), [root]);
  const rows = useMemo(() => functions(root), [root]);
  const wanted = (params.search ?? "").trim().toLowerCase();
  const found = useMemo(() => {
    const isFound = ({ node: { name, file } }: Frame) =>
      wanted !== "" && `${name} ${file}`.toLowerCase().includes(wanted);
    return new Set(frames.slice(1).filter(isFound));
  }, [frames, wanted]);

  const isDifference = root.delta !== undefined;
  const inUnit = (of: number) =>
    unit === "nanoseconds" ? latency(of / 1e9) : `${number(of)} ${unit}`;
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
        <span class="muted">Enter or click: zoom; Esc: all; arrows: move</span>
      </div>
      <Graph {...{ frames, found, label, figures }} />
      <h2>Functions</h2>
      <Table
        caption="Functions"
        head={["function", ...(isDifference ? ["more", "culprit", "peer"] : ["itself", "of all"])]}
        rows={rows.slice(0, LISTED).map(({ name, file, self, delta }) => [
          `${name} ${file && `(${file})`}`,
          ...(isDifference
            ? [signed(delta), ...sides(self, delta)]
            : [value(self), percent(self / (root.value || 1))]),
        ])}
      />
      {rows.length > LISTED && <p class="muted">{count(rows.length - LISTED)} more functions</p>}
    </section>
  );
}
