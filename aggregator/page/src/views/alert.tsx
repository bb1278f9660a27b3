// One alert: the evidence, the nodes to blame, the samples before and during it, and its runbook;
// it can be acknowledged and silenced here.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { now, path, useData } from "../api";
import { type Alert as Row, type Bar, nodeOf, type ProfileEvidence, type Worst } from "../model";
import { Ago, AlertBadge, Between, Count, Counted, Facts, LabelList, Loading } from "../parts";
import { Problem, Value, State, Table, To } from "../parts";
import { Change, useToken } from "../token";
import {
  count,
  counted,
  format,
  latency,
  noun,
  number,
  percent,
  reading,
  span,
  when,
} from "../units";
import { useUrl } from "../url";
import { Section, sectionOf } from "./runbook";

export function Alert() {
  const { params } = useUrl();
  const { rule = "", node = "", operation = "" } = params;
  const url = path("api/v1/alerts", { rule, node: node || undefined });
  const { data, error, reload } = useData<{ alerts: Row[] }>(rule ? url : null, 2);
  const alert = data?.alerts.find(
    (of) => nodeOf(of.scope) === node && (!operation || of.operation === operation),
  );
  const about = node || "the fleet";
  return (
    <>
      <h1 tabIndex={-1}>
        {rule} <span class="muted">of {about}</span>
      </h1>
      <Problem error={error} what={data ? "This is out of date" : "Alert"} />
      {!data && !error && <Loading what="alert" />}
      {data && !alert && (
        <p>
          This alert is not active: it has ended, or has not started. Below are links to its time,
          and its runbook.
        </p>
      )}
      {alert && <Active alert={alert} reload={reload} />}
      <Links alert={alert} />
      <Runbook runbook={alert ? alert.runbook : `#${rule}`} rule={rule} />
    </>
  );
}

/** Links to the time of the alert, which the link of a notification has. */
function Links({ alert }: { alert?: Row }) {
  const { params } = useUrl();
  const { node, operation } = params;
  const since = alert?.firing_since_seconds ?? alert?.since_seconds;
  const around = since !== undefined && {
    from: Math.round((since - 900) * 1000),
    to: Math.round(Math.max(since + 900, Math.min(now(), since + 7_200)) * 1000),
  };
  const time = params.from ? { from: params.from, to: params.to } : around || {};
  const isLatency = operation && !/^(sensor|counter|gauge):/.test(operation) && operation !== "-";
  return (
    <p class="fleet">
      {isLatency && (
        <To view="latency" operation={operation} {...time}>
          {operation} of the fleet at that time
        </To>
      )}
      {node && (
        <To view="node" node={node} operation={isLatency ? operation : undefined} {...time}>
          {node} at that time
        </To>
      )}
      <To view="profiles" node={node} {...time}>
        profiles of that time
      </To>
    </p>
  );
}

function Active({ alert, reload }: { alert: Row; reload: () => void }) {
  const { context } = alert;
  const since = alert.firing_since_seconds ?? alert.since_seconds;
  return (
    <>
      <p class="judged">
        <AlertBadge of={alert} /> <State of={alert.severity} /> {alert.summary}
      </p>
      <Facts
        of={[
          [
            "since",
            <>
              {when(since)} (<Ago at={since} now={now()} />)
            </>,
          ],
          ["operation", alert.operation],
          ...evidence(alert),
          ["data", alert.data === "enough" ? "enough samples" : alert.data.replaceAll("_", " ")],
          ...(alert.flaps > 0 ? ([["fired again", counted(alert.flaps, "time")]] as Fact[]) : []),
          ...(alert.acknowledged
            ? ([
                [
                  "acknowledged",
                  `by ${alert.acknowledged.by} until ${when(alert.acknowledged.until_seconds)}` +
                    (alert.acknowledged.comment && `: ${alert.acknowledged.comment}`),
                ],
              ] as Fact[])
            : []),
          ...(alert.silenced_by.length > 0
            ? ([["silenced", `by silence ${alert.silenced_by.join(", ")}`]] as Fact[])
            : []),
        ]}
      />
      <Act alert={alert} reload={reload} />
      {context?.profile && <Profiled of={context.profile} />}
      {context && context.worst.length > 0 && (
        <section>
          <h2>Worst nodes{context.worst_window && ` over ${context.worst_window}`}</h2>
          <Worsts worst={context.worst} />
        </section>
      )}
      {context && context.during.length > 0 && (
        <section>
          <h2>Samples before and during</h2>
          <BeforeDuring {...context} evidence={alert.evidence} operation={alert.operation} />
        </section>
      )}
    </>
  );
}

type Fact = [string, ComponentChildren];

/** The figures that were judged, by the kind of rule. */
function evidence({ evidence: of, operation }: Row): Fact[] {
  if (!of) return [];
  const n = (key: string) => of[key] as number;
  if ("value_seconds" in of) {
    const facts: Fact[] = [
      [
        `p${Number((n("quantile") * 100).toPrecision(6))} over ${of.window}`,
        <Value operation={operation} of={n("value_seconds")} />,
      ],
      ["limit", <Value operation={operation} of={n("limit_seconds")} />],
      [
        "confidence interval",
        <Between
          low={<Value operation={operation} of={n("lower_seconds")} />}
          high={of.upper_seconds !== null && <Value operation={operation} of={of.upper_seconds as number} />}
        />,
      ],
      [
        "over the limit",
        <>
          <Count of={n("over")} /> of <Counted of={n("samples")} noun="sample" />
        </>,
      ],
    ];
    const stretch = of.stretch as { seconds: number; samples: number; over: number } | undefined;
    if (stretch) {
      const { seconds, samples, over } = stretch;
      const found = `${count(over)} of ${counted(samples, "sample")} over the limit`;
      facts.push(["detected from", `${found}, within ${span(seconds)}`]);
    }
    const times = (of.overdispersion as number | undefined) ?? 1;
    if (times > 1) {
      const words = `${number(times)} times as much as with independent samples`;
      facts.push([of.learning ? "counts are assumed to vary" : "counts vary", words]);
    }
    return facts;
  }
  if ("long_burn" in of) {
    return [
      ["objective", percent(n("objective"))],
      [`burn rate over ${of.long}`, number(n("long_burn"))],
      [`burn rate over ${of.short}`, number(n("short_burn"))],
      ["fires at", n("factor")],
      ["error budget left", percent(n("remaining"))],
    ];
  }
  if ("excess_ratio" in of) {
    const [excess, low, high] = ["excess", "lower", "upper"].map((of) => n(`${of}_ratio`));
    return [
      ["slower a step", <Value of={n("excess_seconds")} />],
      ["slower than the median", `${percent(excess!)} (${percent(low!)} to ${percent(high!)})`],
      ["chance of error in a day", number(n("chance_of_error"))],
    ];
  }
  if ("gap_samples" in of) return [["samples missing", <Count of={n("gap_samples")} />]];
  const metric = String(of.metric);
  const unit = /_(bytes|ratio|seconds|celsius|hertz|watts)(_total)?$/.exec(metric)?.[1] ?? null;
  return [
    [metric, <data value={String(of.value)}>{reading(n("value"), unit)}</data>],
    ["fires if", `${of.comparison} than ${reading(n("threshold"), unit)}`],
    ["labels", <LabelList of={of.labels as Record<string, string>} />],
  ];
}

/** What its process does more than a peer's process, from profiles of the same seconds. */
function Profiled({ of }: { of: ProfileEvidence }) {
  const perSecond = (seconds: number) => `${latency(seconds)}/s`;
  return (
    <section>
      <h2>What it does more than {of.peer}</h2>
      <Table
        caption={`Functions that differ most from ${of.peer}`}
        head={["function", "difference", "culprit", of.peer]}
        rows={of.functions.map(({ function: name, culprit, peer }) => [
          name,
          `${culprit > peer ? "+" : ""}${perSecond(culprit - peer)}`,
          perSecond(culprit),
          perSecond(peer),
        ])}
      />
      <p>
        <To view="profile" id={of.id} minus={of.peer_id}>
          Flame graph of the difference
        </To>
      </p>
    </section>
  );
}

function Worsts({ worst }: { worst: Worst[] }) {
  const machine = ({ hardware }: Worst) =>
    Object.entries(hardware)
      .filter(([, value]) => value !== null && value !== false && value !== 0)
      .map(([key, value]) => {
        const unit = key.endsWith("celsius") ? "celsius" : "ratio";
        const name = key.replace(/_(ratio|celsius)$/, "").replaceAll("_", " ");
        return value === true ? name : `${name} ${reading(value as number, unit)}`;
      })
      .join(", ");
  return (
    <Table
      caption="Worst nodes"
      words={[5]}
      head={[
        "node",
        "of the fleet's slow samples",
        "of its own samples",
        "over",
        "samples",
        "machine",
        "depth",
        "rerouted",
        "round trip",
      ]}
      rows={worst.map((of) => [
        <>
          <To view="node" node={of.node}>
            {of.node}
          </To>{" "}
          <LabelList of={of.labels} />
        </>,
        percent(of.share),
        percent(of.over / Math.max(of.samples, 1)),
        <Count of={of.over} />,
        <Count of={of.samples} />,
        machine(of) || "no reading",
        <Count of={of.bus.outbox_depth} />,
        <Count of={of.bus.rerouted} />,
        <Value of={of.bus.round_trip_seconds} />,
      ])}
    />
  );
}

interface BarsProps {
  before: Bar[];
  during: Bar[];
  evidence: Row["evidence"];
  operation: string;
}

/** Two histograms with the same bars, as shares, since their sample counts differ. */
function BeforeDuring({ before, during, evidence, operation }: BarsProps) {
  const text = format(operation);
  const limit = evidence?.limit_seconds as number | undefined;
  const sum = (bars: Bar[]) => bars.reduce((sum, bar) => sum + bar.samples, 0) || 1;
  const [all, now] = [sum(before), sum(during)];
  const share = (bars: Bar[], n: number, of: number) => (bars[n]?.samples ?? 0) / of;
  const rows = during.map((bar, n) => ({
    name: `${n > 0 ? text(during[n - 1]!.up_to) : "0"} to ${text(bar.up_to)}`,
    isOver: limit !== undefined && n > 0 && during[n - 1]!.up_to >= limit,
    before: share(before, n, all),
    during: share(during, n, now),
    counts: [before[n]?.samples ?? 0, bar.samples],
  }));
  const bar = (of: number, kind: string) => (
    <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" class="share">
      <rect class={kind} width={of * 100} height="10" />
    </svg>
  );
  return (
    <Table
      caption={`Samples before and during the alert, by ${noun(operation)}`}
      words={[1, 3]}
      head={[noun(operation), "share before", "samples before", "share during", "samples during"]}
      rows={rows.map((row) => [
        <span class={row.isOver ? "bad" : undefined}>
          {row.name}
          {row.isOver && " ▲ over the limit"}
        </span>,
        bar(row.before, "before"),
        <>
          <Count of={row.counts[0]!} /> ({percent(row.before)})
        </>,
        bar(row.during, row.isOver ? "during over" : "during"),
        <>
          <Count of={row.counts[1]!} /> ({percent(row.during)})
        </>,
      ])}
    />
  );
}

/** Acknowledging and silencing. */
function Act({ alert, reload }: { alert: Row; reload: () => void }) {
  const token = useToken();
  const [failed, setFailed] = useState<Error>();
  const [done, setDone] = useState("");
  if (!token.value) return <Change what="To acknowledge or silence the alert" />;

  const node = nodeOf(alert.scope);
  const { rule, operation } = alert;
  const act = (what: string, sent: Promise<unknown>) => {
    setFailed(undefined);
    sent.then(() => {
      setDone(what);
      reload();
    }, setFailed);
  };
  const onSubmit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? "");
    const entered = { by: text("by"), comment: text("comment"), for: text("for") };
    if ((event.submitter as HTMLButtonElement).value === "silence") {
      const match = { rule, operation, ...(node && { node }) };
      act("Silenced.", token.send("POST", "api/v1/silences", { match, ...entered }));
    } else {
      const of = { rule, operation, ...(node && { node }), ...entered };
      act("Acknowledged.", token.send("POST", "api/v1/alerts/acknowledge", of));
    }
  };
  const unacknowledge = () => {
    const url = path("api/v1/alerts/acknowledge", { rule, operation, node: node || undefined });
    act("Acknowledgement removed.", token.send("DELETE", url));
  };
  return (
    <form class="act" onSubmit={onSubmit} aria-label="Acknowledge or silence">
      <label>
        Your name <input name="by" required maxLength={64} autocomplete="username" />
      </label>
      <label>
        Comment <input name="comment" maxLength={512} />
      </label>
      <label>
        For{" "}
        <select name="for">
          {["30m", "2h", "8h", "1d", "7d"].map((of) => (
            <option key={of} selected={of === "2h"}>
              {of}
            </option>
          ))}
        </select>
      </label>
      <button value="acknowledge">Acknowledge</button>
      <button value="silence">Silence</button>
      {alert.acknowledged && (
        <button type="button" onClick={unacknowledge}>
          Remove acknowledgement
        </button>
      )}
      <button type="button" onClick={() => token.set("")}>
        Forget the token
      </button>
      <output aria-live="polite">{done}</output>
      <Problem error={failed} what="Nothing was changed" />
    </form>
  );
}

function Runbook({ runbook, rule }: { runbook: string | null; rule: string }) {
  const section = sectionOf(runbook);
  return (
    <section>
      <h2>Runbook</h2>
      {section ? (
        <Section name={section} />
      ) : runbook && /^https?:\/\//.test(runbook) ? (
        <p>
          <a href={runbook} rel="noreferrer">
            {runbook}
          </a>
        </p>
      ) : (
        <p class="muted">
          {runbook
            ? `The runbook of ${rule} is not a link: ${runbook}`
            : "No runbook is set for this rule."}
        </p>
      )}
    </section>
  );
}
