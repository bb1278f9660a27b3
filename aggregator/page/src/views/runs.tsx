// All runs, one run, and two runs compared: the shift of each quantile with its interval.

import { useMemo, useState } from "preact/hooks";
import { now, path, useData } from "../api";
import { type Bucket, Distributions } from "../chart/distributions";
import type {
  Change,
  ComparedRate,
  Comparison,
  HistoryPage,
  RunFigures,
  RunPage,
  RunRow,
} from "../model";
import { Ago, Count, Facts, LabelList, Loading, Problem, Raw, State, Value } from "../parts";
import { Table, To } from "../parts";
import { count, counted, number, percent, shown, span, when } from "../units";
import { href, useUrl } from "../url";
import { MetricsOfRun } from "./metrics";
import { SharesOfRun } from "./shares";

export function Runs() {
  const { params } = useUrl();
  const { data, error } = useData<{ runs: RunRow[] }>("api/v1/runs", 3);
  const [a, setA] = useState(params.a ?? "");
  const [b, setB] = useState(params.b ?? "");
  const runs = data?.runs ?? [];
  const [newest, before] = runs;
  const pick = (label: string, value: string, set: (name: string) => void) => (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => set(event.currentTarget.value)}>
        {runs.map((run) => (
          <option key={run.name}>{run.name}</option>
        ))}
      </select>
    </label>
  );
  const [from, to] = [a || before?.name || "", b || newest?.name || ""];
  return (
    <>
      <h1 tabIndex={-1}>Runs</h1>
      <Problem error={error} what={data ? "These runs are out of date" : "Runs"} />
      {!data && !error && <Loading what="runs" />}
      {data && runs.length === 0 && (
        <p>
          No runs yet. <code>plimsoll run --name NAME -- COMMAND</code> starts one, and so does a
          client that names its run.
        </p>
      )}
      {runs.length > 1 && (
        <div class="controls">
          {pick("Compare", from, setA)}
          {pick("with", to, setB)}
          <a class="button" href={href({ view: "compare", a: from, b: to })}>
            Compare
          </a>
        </div>
      )}
      {runs.length > 0 && (
        <Table
          caption="Runs"
          numbers={6}
          head={["run", "state", "started", "duration", "by", "labels", "exit code", "nodes"]}
          rows={runs.map((run) => [
            <To view="run" run={run.name}>
              {run.name}
            </To>,
            <State of={run.state === "ended" && run.exit_code ? "failed" : run.state} />,
            when(run.begun_seconds),
            span((run.ended_seconds ?? now()) - run.begun_seconds),
            run.by ?? "a job",
            <LabelList of={run.labels} />,
            run.exit_code ?? "–",
            `${count(run.nodes.length)}${run.has_more_nodes ? " or more" : ""}`,
          ])}
        />
      )}
    </>
  );
}

export function Run() {
  const { params } = useUrl();
  const name = params.run ?? "last";
  const { data, error } = useData<RunPage>(`api/v1/runs/${encodeURIComponent(name)}`, 5);
  if (!data) return error ? <Problem error={error} what="Run" /> : <Loading what="run" />;
  const end = data.ended_seconds ?? now();
  const range = { from: Math.floor(data.begun_seconds * 1000), to: Math.ceil(end * 1000) };
  const at = (of: RunPage["operations"][number], quantile: number) =>
    of.quantiles.find((found) => found.quantile === quantile)?.value;
  const group = data.by_label ? { rollup: "run", value: data.name } : {};
  return (
    <>
      <h1 tabIndex={-1}>Run {data.name}</h1>
      <Problem error={error} what="These figures are out of date" />
      <Facts
        of={[
          ["state", <State of={data.state} />],
          [
            "started",
            <>
              {when(data.begun_seconds)} (<Ago at={data.begun_seconds} now={now()} />)
            </>,
          ],
          ["duration", span(end - data.begun_seconds)],
          ["exit code", data.exit_code ?? "–"],
          ["started by", data.by ?? "a job"],
          ["samples", data.by_label ? `labelled run=${data.name}` : "all from start to end"],
          ["complete", percent(data.completeness)],
          ["labels", <LabelList of={data.labels} />],
        ]}
      />
      <p>
        <To view="profiles" {...range}>
          Profiles of its time
        </To>
      </p>
      {data.no_history && <p class="problem">{data.no_history}</p>}
      {data.not_kept && <p class="problem">{data.not_kept}.</p>}
      <Table
        caption={`Operations of ${data.name}`}
        head={[
          "operation",
          "samples",
          "mean",
          "p50",
          "p90",
          "p99",
          "p99.9",
          "max",
          "over budget",
        ]}
        rows={data.operations.map((of) => [
          <To view="latency" operation={of.operation} {...range} {...group}>
            {of.operation}
          </To>,
          <Count of={of.count} />,
          <Value operation={of.operation} of={of.mean} />,
          ...[0.5, 0.9, 0.99, 0.999].map((quantile) => <Value operation={of.operation} of={at(of, quantile)} />),
          <Value operation={of.operation} of={of.max} />,
          of.over_budget.map((over) => `${percent(over.share)} of ${over.budget}`).join(", ") ||
            "–",
        ])}
      />
      {data.operations_omitted > 0 && <p>{counted(data.operations_omitted, "more operation")}</p>}
      <SharesOfRun run={data.name} />
      <MetricsOfRun run={data.name} from={data.begun_seconds} to={end} />
      <h2>Nodes</h2>
      <p class="fleet">
        {data.nodes.map((node) => (
          <To key={node} view="node" node={node} {...range}>
            {node}
          </To>
        ))}
        {data.has_more_nodes && "and more"}
      </p>
    </>
  );
}

export function Compare() {
  const { params } = useUrl();
  const { a = "", b = "" } = params;
  const url = a && b ? path("api/v1/runs/compare", { a, b }) : null;
  const { data, error, reload } = useData<Comparison>(url, 0);
  if (!url) return <p class="problem">The address must name two runs, a and b.</p>;
  return (
    <>
      <h1 tabIndex={-1}>
        {a} and {b}
      </h1>
      <Problem error={error} what="Comparison" />
      {!data && !error && <Loading what="comparison" />}
      {data && (
        <>
          <p class="fleet">
            <State of={data.verdict} />
            <span>
              {percent(data.confidence)} intervals; shifts under {percent(data.tolerance)} count as
              unchanged
            </span>
            {[...data.a_runs, ...data.b_runs].map((run) => (
              <To key={run} view="run" run={run}>
                {run}
              </To>
            ))}
            <a href={href({ view: "compare", a: b, b: a })}>Swap</a>
            <button type="button" onClick={reload}>
              Compare again
            </button>
          </p>
          {data.within_runs_only && (
            <p class="muted">Intervals hold within these runs only: {data.within_runs_only}.</p>
          )}
          <Rates of={data.rates ?? {}} names={[a, b]} />
          {Object.entries(data.operations).map(([operation, of]) => (
            <Shifts key={operation} operation={operation} of={of} names={[a, b]} />
          ))}
        </>
      )}
    </>
  );
}

/** The rate of each counter that both runs have. */
function Rates({ of, names }: { of: Record<string, ComparedRate>; names: [string, string] }) {
  const rates = Object.entries(of);
  if (rates.length === 0) return null;
  const changes = rates.flatMap(([, { change }]) => (change ? [change] : []));
  const widest = changes.flatMap((of) => [Math.abs(of.low), Math.abs(of.high), of.floor]);
  const most = Math.max(0.05, ...widest);
  return (
    <section>
      <h2>Rates</h2>
      <Table
        caption={`Rates of ${names[0]} and ${names[1]}`}
        words={[3]}
        head={["a second", ...names, `x: -${percent(most)} .. +${percent(most)}`, "change", "verdict"]}
        rows={rates.map(([name, { operation, a, b, change, verdict, reason }]) => [
          operation ? `${name}/s of ${operation}` : `${name}/s`,
          number(a),
          number(b),
          change ? <Whisker of={change} most={most} /> : "",
          change
            ? `${sign(change.estimate)} (${sign(change.low)} to ${sign(change.high)})`
            : (reason ?? "–"),
          <State of={verdict} />,
        ])}
      />
    </section>
  );
}

interface ShiftsProps {
  operation: string;
  of: Comparison["operations"][string];
  names: [string, string];
}

/** The shift of each quantile with its interval; right of the middle is slower. */
function Shifts({ operation, of, names }: ShiftsProps) {
  const [a, b] = names;
  const changes = of.shifts.flatMap(({ change }) => (change ? [change] : []));
  const widest = changes.flatMap((of) => [Math.abs(of.low), Math.abs(of.high), of.floor]);
  const most = Math.max(0.05, ...widest);
  const samples = (extent: { samples: number } | null) => counted(extent?.samples ?? 0, "sample");
  return (
    <section>
      <h2>
        {operation} <State of={of.verdict} />
      </h2>
      <p class="muted">
        {samples(of.a)} of {a}, {samples(of.b)} of {b}
        {of.reason && `: ${of.reason}`}
      </p>
      {of.shifts.length > 0 && (
        <Table
          caption={`Shifts of ${operation} from ${a} to ${b}`}
          words={[3]}
          head={[
            "quantile",
            a,
            b,
            `x: -${percent(most)} .. +${percent(most)}`,
            "shift",
            "verdict",
          ]}
          rows={of.shifts.map(({ quantile, a_ns, b_ns, change }) => [
            quantileName(quantile),
            <Raw operation={operation} of={a_ns} />,
            <Raw operation={operation} of={b_ns} />,
            change ? <Whisker of={change} most={most} /> : "",
            change ? `${sign(change.estimate)} (${sign(change.low)} to ${sign(change.high)})` : "–",
            <State of={change?.verdict ?? "not_enough_data"} />,
          ])}
        />
      )}
      {of.a_runs || of.b_runs ? (
        <Each operation={operation} runs={[...(of.a_runs ?? []), ...(of.b_runs ?? [])]} />
      ) : (
        <Both operation={operation} names={names} limit={of.over_limit?.limit_ns} />
      )}
      {of.over_limit && (
        <p>
          Over the limit: {percent(of.over_limit.a)} before, {percent(of.over_limit.b)} after
          {of.over_limit.change && (
            <>
              {" "}
              <State of={of.over_limit.change.verdict} />
            </>
          )}
        </p>
      )}
    </section>
  );
}

/** The figures of each run of a side that has several. */
function Each({ operation, runs }: { operation: string; runs: RunFigures[] }) {
  const quantiles = runs[0]?.quantiles ?? [];
  return (
    <Table
      caption={`Runs of ${operation}`}
      head={["run", "samples", ...quantiles.map((of) => quantileName(of.quantile))]}
      rows={runs.map(({ run, samples, quantiles }) => [
        run,
        <Count of={samples} />,
        ...quantiles.map((of) => <Raw operation={operation} of={of.value_ns} />),
      ])}
    />
  );
}

const quantileName = (quantile: number) => `p${Number((quantile * 100).toPrecision(6))}`;

/** The samples of both runs, each from its start to its end. */
function Both({
  operation,
  names,
  limit,
}: {
  operation: string;
  names: [string, string];
  limit?: number;
}) {
  const [a, b] = [useSamples(operation, names[0]), useSamples(operation, names[1])];
  const buckets = useMemo<[Bucket[], Bucket[]] | null>(() => (a && b ? [a.buckets, b.buckets] : null), [a, b]);
  if (!buckets) return null;
  return (
    <Distributions
      label={`Distributions of ${operation} in ${names[0]} and ${names[1]}`}
      names={names}
      buckets={buckets}
      json={[a?.url, b?.url]}
      limits={limit ? [shown(operation, limit)] : []}
      operation={operation}
    />
  );
}

function useSamples(operation: string, name: string) {
  const run = useData<RunPage>(`api/v1/runs/${encodeURIComponent(name)}`, 0).data;
  const of = run?.operations.find((row) => row.operation === operation);
  const asked = run &&
    of && {
      operation,
      ...(run.by_label && { rollup: "run", value: name }),
      from: of.from_seconds,
      to: of.to_seconds,
      step: `${Math.max(10, Math.ceil(of.to_seconds - of.from_seconds))}s`,
      distribution: "true",
    };
  const url = asked ? path("api/v1/query", asked) : null;
  const page = useData<HistoryPage>(url, 0).data;
  return useMemo(() => {
    const buckets = page?.points.flatMap((point): Bucket[] => point.distribution ?? []);
    return buckets && { url, buckets };
  }, [page]);
}

const sign = (ratio: number) => `${ratio > 0 ? "+" : ""}${percent(ratio)}`;

/** The interval as a line, the estimate as a dot, the noise floor as a shade around zero. */
function Whisker({ of, most }: { of: Change; most: number }) {
  const x = (ratio: number) => 100 + (ratio / most) * 98;
  return (
    <svg class={`whisker ${of.verdict}`} viewBox="0 0 200 16" aria-hidden="true">
      <rect class="floor" x={x(-of.floor)} width={x(of.floor) - x(-of.floor)} height="16" />
      <line class="zero" x1="100" x2="100" y1="0" y2="16" />
      <line x1={x(of.low)} x2={x(of.high)} y1="8" y2="8" />
      <circle cx={x(of.estimate)} cy="8" r="4" />
    </svg>
  );
}
