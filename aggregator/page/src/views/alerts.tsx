// Active alerts, and silences.

import { useState } from "preact/hooks";
import { now, useData } from "../api";
import { type Alert, nodeOf, type Silence } from "../model";
import { Ago, AlertBadge, Loading, Problem, State, Table, To } from "../parts";
import { useToken, Change } from "../token";
import { count, counted, span, when } from "../units";
import { useUrl } from "../url";

export const alertHref = (of: Alert) => ({
  view: "alert",
  rule: of.rule,
  node: nodeOf(of.scope),
  operation: of.operation,
});

export function Alerts() {
  const { params, set } = useUrl();
  const { data, error } = useData<{ alerts: Alert[] }>("api/v1/alerts", 2);
  const find = (params.find ?? "").toLowerCase();
  const fits = (of: Alert) =>
    [of.rule, nodeOf(of.scope), of.operation, of.summary].some((text) =>
      text.toLowerCase().includes(find),
    );
  const alerts = data?.alerts.filter(fits) ?? [];
  return (
    <>
      <h1 tabIndex={-1}>Alerts</h1>
      <div class="controls">
        <label>
          Find{" "}
          <input
            type="search"
            value={params.find ?? ""}
            placeholder="rule, node, operation"
            onInput={(event) => set({ find: event.currentTarget.value }, true)}
          />
        </label>
        {data && (
          <output class="muted" aria-live="polite">
            {count(alerts.length)} of {counted(data.alerts.length, "alert")}
          </output>
        )}
      </div>
      <Problem error={error} what={data ? "These alerts are out of date" : "Alerts"} />
      {!data && !error && <Loading what="alerts" />}
      {data && data.alerts.length === 0 && <p>No active alerts.</p>}
      {alerts.length > 0 && (
        <Table
          caption="Alerts"
          numbers={9}
          head={["state", "severity", "rule", "scope, operation", "summary", "since", "silenced"]}
          rows={alerts.map((of) => [
            <AlertBadge of={of} />,
            <State of={of.severity} />,
            <To {...alertHref(of)}>{of.rule}</To>,
            <About of={of} />,
            of.summary,
            <Ago at={of.firing_since_seconds ?? of.since_seconds} now={now()} />,
            of.silenced_by.length > 0
              ? `by ${of.silenced_by.join(", ")}`
              : of.acknowledged
                ? `acknowledged by ${of.acknowledged.by}`
                : "–",
          ])}
        />
      )}
      <Silences />
    </>
  );
}

export function About({ of }: { of: Alert }) {
  const node = nodeOf(of.scope);
  return (
    <>
      {node ? (
        <To view="node" node={node}>
          {node}
        </To>
      ) : (
        "the fleet"
      )}
      , {of.operation}
    </>
  );
}

function Silences() {
  const { data, error, reload } = useData<{ silences: Silence[] }>("api/v1/silences", 5);
  const token = useToken();
  const [failed, setFailed] = useState<Error>();
  const end = (id: number) =>
    token.send("DELETE", `api/v1/silences/${id}`).then(reload).catch(setFailed);
  const silences = data?.silences ?? [];
  const matched = ({ match }: Silence) =>
    Object.entries(match)
      .filter(([, value]) => value)
      .map((pair) => pair.join(" "))
      .join(", ");
  return (
    <section>
      <h2>Silences</h2>
      <Problem error={error} what="Silences" />
      <Problem error={failed} what="The silence is still active" />
      {data && silences.length === 0 && <p class="muted">No silences</p>}
      {silences.length > 0 && (
        <Table
          caption="Silences"
          numbers={9}
          head={["ID", "match", "by", "comment", "ends", "change"]}
          rows={silences.map((of) => [
            of.id,
            matched(of),
            of.by,
            of.comment,
            `${when(of.until_seconds)} (in ${span(of.until_seconds - now())})`,
            <button type="button" disabled={!token.value} onClick={() => end(of.id)}>
              End<span class="unseen"> silence {of.id}</span>
            </button>,
          ])}
        />
      )}
      {silences.length > 0 && !token.value && <Change what="To end a silence" />}
    </section>
  );
}
