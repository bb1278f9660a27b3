// The frame of all views: names of views, state of the connection, and the view that the URL names.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { clockAhead, noteTime, now } from "./api";
import { LiveContext, type Live, useStream } from "./live";
import { TONES, To, since } from "./parts";
import { TokenContext, useTokenState } from "./token";
import { count, span, when } from "./units";
import { UrlContext, useAddress } from "./url";
import { Alert } from "./views/alert";
import { Alerts } from "./views/alerts";
import { Backpressure } from "./views/backpressure";
import { Budgets } from "./views/budgets";
import { Drills } from "./views/drills";
import { Latency } from "./views/latency";
import { Metrics } from "./views/metrics";
import { Node } from "./views/node";
import { Nodes } from "./views/nodes";
import { Profile, Profiles } from "./views/profiles";
import { Resources } from "./views/resources";
import { Runbook } from "./views/runbook";
import { Compare, Run, Runs } from "./views/runs";

/** Each view with the tab that it is under. */
const VIEWS: Record<string, [string, () => ComponentChildren]> = {
  budgets: ["budgets", Budgets],
  latency: ["latency", Latency],
  metrics: ["metrics", Metrics],
  nodes: ["nodes", Nodes],
  node: ["nodes", Node],
  resources: ["resources", Resources],
  backpressure: ["backpressure", Backpressure],
  alerts: ["alerts", Alerts],
  alert: ["alerts", Alert],
  runbook: ["alerts", Runbook],
  runs: ["runs", Runs],
  run: ["runs", Run],
  compare: ["runs", Compare],
  profiles: ["profiles", Profiles],
  profile: ["profiles", Profile],
  drills: ["drills", Drills],
};
const TABS = [
  "budgets",
  "latency",
  "metrics",
  "nodes",
  "resources",
  "backpressure",
  "alerts",
  "runs",
  "profiles",
  "drills",
];
/** A difference that makes times confusing. */
const CLOCK_SECONDS = 5;

export function App() {
  const url = useAddress();
  const [isPaused, setPaused] = useState(false);
  const live = useStream(isPaused, noteTime);
  const token = useTokenState();
  const name = VIEWS[url.params.view ?? ""] ? url.params.view! : "budgets";
  const [tab, View] = VIEWS[name]!;
  useEffect(() => {
    const about = url.params.rule ?? url.params.node ?? url.params.operation ?? url.params.run;
    const firing = live.pulse?.firing ? `(${live.pulse.firing}) ` : "";
    document.title = `${firing}${about ? `${about} · ` : ""}${name} · Plimsoll`;
  }, [url.params, name, live.pulse?.firing]);
  return (
    <UrlContext.Provider value={url}>
      <LiveContext.Provider value={live}>
        <TokenContext.Provider value={token}>
          <a class="skip" href="#main">
            Skip to the content
          </a>
          <header class="top">
            <a class="brand" href="?">
              <svg viewBox="0 0 32 32" aria-hidden="true">
                <circle cx="16" cy="16" r="9" />
                <path d="M2 16h28" />
              </svg>
              Plimsoll
            </a>
            <nav aria-label="Views">
              {TABS.map((of) => (
                <To key={of} view={of} current={of === tab}>
                  {of}
                  {of === "alerts" && <Badge live={live} />}
                </To>
              ))}
            </nav>
            <Connection live={live} isPaused={isPaused} onPause={() => setPaused(!isPaused)} />
          </header>
          <main id="main">
            <Notices live={live} />
            <View />
          </main>
        </TokenContext.Provider>
      </LiveContext.Provider>
    </UrlContext.Provider>
  );
}

function Badge({ live }: { live: Live }) {
  const { firing = 0, pending = 0, firing_severity: worst } = live.pulse ?? {};
  if (firing + pending === 0) return null;
  return (
    <span class={`badge ${firing ? TONES[worst ?? "warning"] : "warn"}`}>
      {firing ? `${count(firing)} firing` : `${count(pending)} pending`}
    </span>
  );
}

interface ConnectionProps {
  live: Live;
  isPaused: boolean;
  onPause: () => void;
}

function Connection({ live, isPaused, onPause }: ConnectionProps) {
  const { state, pulse } = live;
  const isCurrent = state === "live" && !pulse?.stale;
  const last = pulse?.as_of_seconds;
  const words = {
    live: !pulse?.stale ? "live" : last ? `stale, last data ${when(last, now())}` : "no data yet",
    connecting: "connecting",
    lost: "connection lost, retrying",
    paused: "paused",
  };
  return (
    <div class="connection">
      <span class={isCurrent ? "good" : "warn"}>
        <span aria-hidden="true">{isCurrent ? "●" : "◆"}</span> {words[state]}
      </span>
      <time class="clock">{pulse ? when(pulse.at_seconds).slice(11) : ""}</time>
      <button type="button" aria-pressed={isPaused} onClick={onPause}>
        {isPaused ? "Resume" : "Pause"}
      </button>
    </div>
  );
}

function brokerProblem(broker: string): string | undefined {
  if (broker === "jetstream") return undefined;
  return broker === "core" ? "The broker has no JetStream" : `Broker ${broker}`;
}

function Notices({ live }: { live: Live }) {
  const { pulse, state } = live;
  const ahead = clockAhead();
  const lastSeen = pulse?.stale && pulse.as_of_seconds;
  const problem = pulse && (brokerProblem(pulse.broker) ?? (lastSeen && "No node reports"));
  return (
    <div role="status">
      {state === "lost" && (
        <p class="notice">
          The aggregator does not answer
          {pulse && `: showing data from ${when(pulse.at_seconds, now())}`}; retrying.
        </p>
      )}
      {pulse && !pulse.ready && (
        <p class="notice">Catching up; fleet figures are incomplete.</p>
      )}
      {problem && (
        <p class="notice">
          {problem}
          {lastSeen && `: figures are from ${since(lastSeen)}`}.
        </p>
      )}
      {pulse && Math.abs(ahead) > CLOCK_SECONDS && (
        <p class="notice">
          This browser's clock is {span(Math.abs(ahead))} {ahead > 0 ? "behind" : "ahead of"} the
          aggregator's. Times here are the aggregator's.
        </p>
      )}
    </div>
  );
}
