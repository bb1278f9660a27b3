// Profiles that the aggregator has ordered: their list, and the flame graph of one, or of what it
// has more than another.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { now, path, useData } from "../api";
import { Graph } from "../flame/graph";
import { type Frame, type FlameGraph, functions, matches } from "../flame/tree";
import { place, shareFound } from "../flame/tree";
import type { ProfileRow, ProfilesPage } from "../model";
import { Ago, Facts, LabelList, Loading, Problem, State, Table, To } from "../parts";
import { bytes, count, latency, number, percent, span, when } from "../units";
import { href, useUrl } from "../url";

/** Functions in the table. */
const LISTED = 50;
/** What a thread may do, as in the API. */
const STATES = {
  "": "all",
  running: "running",
  waiting: "waiting",
  gil: "waiting for the GIL",
};

const name = (of: ProfileRow) => `${of.node} ${when(of.start_seconds, now())}`;

export function Profiles() {
  const { data, error } = useData<ProfilesPage>("api/v1/profiles", 3);
  const [chosen, choose] = useState<[string, string]>(["", ""]);
  const profiles = data?.profiles ?? [];
  const kept = profiles.filter((of) => of.has_profile);
  const [id, minus] = [chosen[0] || kept[0]?.id || "", chosen[1] || kept[1]?.id || ""];
  const pick = (label: string, value: string, set: (id: string) => void) => (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => set(event.currentTarget.value)}>
        {kept.map((of) => (
          <option key={of.id} value={of.id}>
            {name(of)}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <h1 tabIndex={-1}>Profiles</h1>
      <Problem error={error} what={data ? "These profiles are out of date" : "Profiles"} />
      {!data && !error && <Loading what="profiles" />}
      {data && profiles.length === 0 && (
        <p>
          No profiles yet. <code>plimsoll profile cpu --node NODE -o FILE</code> takes one, and so
          does an alert with <code>profiles.on_breach</code>.
        </p>
      )}
      {kept.length > 1 && (
        <div class="controls">
          {pick("Subtract", minus, (of) => choose([id, of]))}
          {pick("from", id, (of) => choose([of, minus]))}
          <a class="button" href={href({ view: "profile", id, minus })}>
            Show the difference
          </a>
        </div>
      )}
      {profiles.length > 0 && (
        <Table
          caption="Profiles"
          numbers={6}
          head={["node", "state", "time", "process", "ordered by", "reason", "samples", "size"]}
          rows={profiles.map((of) => [
            of.has_profile ? (
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
            of.has_profile ? count(of.facts.samples) : "–",
            of.has_profile ? bytes(of.bytes) : "–",
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
  const { params, set } = useUrl();
  const { id = "", minus, state } = params;
  const base = `api/v1/profiles/${encodeURIComponent(id)}`;
  const { data, error } = useData<ProfileRow>(id ? base : null, 3);
  const isKept = data?.has_profile;
  const tree = path(`${base}/flame.json`, { minus, state });
  const graph = useData<FlameGraph>(isKept ? tree : null, 0);
  if (!data) return error ? <Problem error={error} what="Profile" /> : <Loading what="profile" />;
  const { facts, peer } = data;
  return (
    <>
      <h1 tabIndex={-1}>Profile of {name(data)}</h1>
      <Problem error={error} what="This is out of date" />
      <Facts
        of={[
          ["state", <State of={data.state} />],
          ["reason", data.reason ?? "–"],
          [
            "time",
            <>
              {when(data.start_seconds)} (<Ago at={data.start_seconds} now={now()} />)
            </>,
          ],
          ["process", <Process of={data} />],
          ["seconds", `${span(data.seconds)} at ${count(data.hz)} Hz`],
          ["samples", count(facts.samples)],
          ["torn or lost", `${count(facts.torn)} or ${count(facts.lost)}`],
          ["taken by", `${facts.rung || "–"} ${facts.python && `Python ${facts.python}`}`],
          ...(facts.advice ? ([["for more", facts.advice]] as [string, string][]) : []),
        ]}
      />
      <p class="controls">
        {isKept && (
          <>
            <label>
              Threads{" "}
              <select value={state} onChange={(of) => set({ state: of.currentTarget.value })}>
                {Object.entries(STATES).map(([word, text]) => (
                  <option key={word} value={word}>
                    {text}
                  </option>
                ))}
              </select>
            </label>
            {!minus && <a href={`${base}/pprof`}>Download pprof</a>}
            <a href={path(`${base}/svg`, { minus, state })} download={`${data.node}.svg`}>
              Download SVG
            </a>
          </>
        )}
        {minus ? (
          <>
            <To view="profile" id={id}>
              Without the difference
            </To>
            <To view="profile" id={minus}>
              The profile that is subtracted
            </To>
          </>
        ) : (
          peer && (
            <To view="profile" id={id} minus={peer}>
              Difference from its peer
            </To>
          )
        )}
      </p>
      <Problem error={graph.error} what="Flame graph" />
      {isKept && !graph.data && !graph.error && <Loading what="flame graph" />}
      {graph.data && <Flame graph={graph.data} />}
    </>
  );
}

function Flame({ graph }: { graph: FlameGraph }) {
  const { params, set } = useUrl();
  const field = useRef<HTMLInputElement>(null);
  const { root } = graph;
  const frames = useMemo(() => place(root), [root]);
  const rows = useMemo(() => functions(root), [root]);
  const wanted = (params.search ?? "").trim().toLowerCase();
  const found = useMemo(
    () => new Set(frames.filter(({ node, depth }) => depth > 0 && matches(node, wanted))),
    [frames, wanted],
  );
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "/" || (event.target as Element).closest("input, select")) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);

  const isDifference = root.delta !== undefined;
  const value = (of: number) =>
    (graph.unit === "nanoseconds"
      ? latency(of / 1e9)
      : graph.unit === "bytes"
        ? bytes(of)
        : `${number(of)} ${graph.unit}`) + (isDifference ? "/s" : "");
  const signed = (of: number) => `${of > 0 ? "+" : ""}${value(of)}`;
  const sides = (mean: number, delta: number) => [mean + delta / 2, mean - delta / 2].map(value);
  const figures = ({ node, width }: Frame) => {
    const { delta } = node;
    if (delta === undefined) {
      return `${value(node.value)} (${percent(width)}), itself ${value(node.self)}`;
    }
    const [culprit, peer] = sides(node.value, delta);
    return `${signed(delta)}: culprit ${culprit}, peer ${peer}`;
  };
  const ofRow = (of: (typeof rows)[number]) =>
    isDifference
      ? [signed(of.selfDelta), ...sides(of.self, of.selfDelta), signed(of.totalDelta)]
      : [value(of.self), percent(of.self / (root.value || 1)), value(of.total)];
  const label = `Flame graph of ${graph.kind}`;
  if (frames.length === 1) return <p>No samples.</p>;
  return (
    <section>
      <h2>{isDifference ? "Difference" : label}</h2>
      <div class="controls">
        <label>
          Search{" "}
          <input
            ref={field}
            type="search"
            value={params.search ?? ""}
            onInput={(event) => set({ search: event.currentTarget.value }, true)}
          />
        </label>
        <output>
          {wanted && `${percent(shareFound(frames, found))} in ${count(found.size)} of `}
          {count(frames.length - 1)} places
        </output>
        <span class="muted">Enter or click: zoom; Esc: all; arrows: move; /: search</span>
      </div>
      <Graph {...{ graph, frames, found, label, figures }} />
      <h2>Functions</h2>
      <Table
        caption="Functions"
        head={[
          "function",
          ...(isDifference
            ? ["more itself", "culprit", "peer", "more in all"]
            : ["itself", "of all", "with what it calls"]),
        ]}
        rows={rows.slice(0, LISTED).map((of) => [
          <button type="button" class="link" onClick={() => set({ search: of.name }, true)}>
            {of.name} {of.file && `(${of.file})`}
          </button>,
          ...ofRow(of),
        ])}
      />
      {rows.length > LISTED && <p class="muted">{count(rows.length - LISTED)} more functions</p>}
    </section>
  );
}
