// Budgets: one load line each. Those over their limit, or nearest to it, come first.

import type { ComponentChildren } from "preact";
import { now, useData } from "../api";
import type { Budget, OperationRow, Summary, WindowRow } from "../model";
import { Between, Count, Counted, Facts, Loading, Problem, Raw } from "../parts";
import { State, To, since } from "../parts";
import { count, counted, number, percent, rawText } from "../units";

/** A page older than this is stale, as a node is that has been silent for this long. */
const STALE_SECONDS = 10;
const URGENT = ["breach", "uncertain", "within", "insufficient", "no_data"];

export const headroom = (of: Budget): number | null =>
  of.value_ns === null ? null : 1 - of.value_ns / of.limit_ns;

/** Among equals, budgets of jobs come before those of the system's own operations. */
export function inOrder(budgets: Budget[], operations: OperationRow[]): Budget[] {
  const own = new Set(operations.filter((of) => of.own).map((of) => of.operation));
  const rank = (of: Budget) => URGENT.indexOf(of.verdict) - (of.alert === "firing" ? 10 : 0);
  const isOwn = (of: Budget) => Number(own.has(of.operation));
  return [...budgets].sort(
    (a, b) =>
      rank(a) - rank(b) || isOwn(a) - isOwn(b) || (headroom(a) ?? 2) - (headroom(b) ?? 2),
  );
}

export function Budgets() {
  const { data, error } = useData<Summary>("metrics/summary?nodes=0");
  if (!data) return error ? <Problem error={error} what="Budgets" /> : <Loading what="budgets" />;
  const budgets = inOrder(
    data.budgets.filter((of) => of.scope === "fleet"),
    data.operations,
  );
  const of = (budget: Budget) =>
    data.operations.find((row) => row.operation === budget.operation && row.scope === "fleet")
      ?.windows[budget.window];
  return (
    <>
      <h1 tabIndex={-1}>Budgets</h1>
      <Problem error={error} what="These figures are out of date" />
      <FleetLine summary={data} />
      {data.rules_error && (
        <p class="problem" role="alert">
          Rule files: {data.rules_error}. The previous rules stay active.
        </p>
      )}
      {budgets.length === 0 && <p>No budgets are configured.</p>}
      <div class="cards">
        {budgets.map((budget) => (
          <BudgetCard
            key={budget.budget}
            budget={budget}
            window={of(budget)}
            at={data.at_seconds}
            unmatched={data.unmatched.includes(budget.budget)}
          />
        ))}
      </div>
    </>
  );
}

/** The fleet in one line. */
function FleetLine({ summary }: { summary: Summary }) {
  const { up = 0, silent = 0, left = 0 } = summary.presence;
  const expected = up + silent;
  const { recorded, merged } = summary.ledger;
  return (
    <p class="fleet">
      {now() - summary.at_seconds > STALE_SECONDS && (
        <span class="warn">◆ as of {since(summary.at_seconds)}</span>
      )}
      <To view="nodes">
        <Count of={up} /> of <Counted of={expected} noun="node" /> reporting
      </To>
      {silent > 0 && (
        <To view="nodes" presence="silent">
          <State of="silent">: {count(silent)}</State>
        </To>
      )}
      {left > 0 && <span>{counted(left, "node")} left normally</span>}
      <To view="backpressure">
        <Count of={merged} /> of <Counted of={recorded} noun="sample" /> merged
      </To>
      {expected + left === 0 && (
        <strong>No node has sent a message yet. Start plimsoll-node with the same broker.</strong>
      )}
    </p>
  );
}

/** Since when a budget has had no data, if its figures are out of date. */
function noDataSince(budget: Budget, at: number): number | undefined {
  const isOld = budget.stale || budget.verdict === "no_data";
  if (isOld && budget.as_of_seconds !== null) return budget.as_of_seconds;
  return now() - at > STALE_SECONDS ? (budget.as_of_seconds ?? at) : undefined;
}

interface CardProps {
  budget: Budget;
  window?: WindowRow;
  /** Time of the page. */
  at: number;
  unmatched?: boolean;
  node?: string;
}

export function BudgetCard({ budget, window, at, unmatched, node }: CardProps) {
  const last = noDataSince(budget, at);
  const isKnown = last === undefined || budget.verdict === "breach";
  const room = headroom(budget);
  const quantile = `p${Number((budget.quantile * 100).toPrecision(6))}`;
  const [nodes, expected] = budget.completeness;
  const shortest = budget.burns?.[0];
  const text = (raw: number) => rawText(budget.operation, raw);
  const bounds = (key: "p50_ns" | "p99_ns") => {
    const of = window?.approximate?.[key];
    return of && of[0] !== of[1] ? ` (${text(of[0])} to ${text(of[1])})` : "";
  };
  const facts: [string, ComponentChildren][] = [
    ["limit", <Raw operation={budget.operation} of={budget.limit_ns} />],
    ["headroom", <data value={String(room)}>{percent(room)}</data>],
    [
      "p50",
      window ? (
        <>
          <Raw operation={budget.operation} of={window.p50_ns} />
          {bounds("p50_ns")}
        </>
      ) : (
        "–"
      ),
    ],
    [
      "p99",
      window ? (
        <>
          <Raw operation={budget.operation} of={window.p99_ns} />
          {bounds("p99_ns")}
        </>
      ) : (
        "–"
      ),
    ],
    [
      `${quantile} confidence interval`,
      <Between
        low={<Raw operation={budget.operation} of={budget.lower_ns} />}
        high={budget.upper_ns !== null && <Raw operation={budget.operation} of={budget.upper_ns} />}
      />,
    ],
    [
      "over the limit",
      <>
        <Count of={budget.over} /> of <Counted of={budget.samples} noun="sample" />
      </>,
    ],
  ];
  if (!node && expected > 0) {
    const reporting = last === undefined || budget.stale ? budget.nodes_reporting : 0;
    facts.push(["nodes reporting", `${count(reporting)} of ${count(expected)}`]);
  }
  if (!node && expected > 0 && last === undefined) {
    const late = budget.nodes_late > 0 ? `, ${count(budget.nodes_late)} late` : "";
    facts.push([`nodes with samples in ${budget.window}`, `${count(nodes)}${late}`]);
  }
  if (budget.objective !== null && !node) {
    facts.push(["error budget left", percent(budget.budget_remaining)]);
    facts.push([
      `burn rate over ${shortest?.window ?? "–"}`,
      shortest?.rate === null || !shortest ? "–" : number(shortest.rate),
    ]);
  }
  return (
    <article
      class={last === undefined ? `card ${budget.verdict}` : "card stale"}
      aria-label={budget.budget}
    >
      <header>
        <h2>{budget.budget}</h2>
        {isKnown && <State of={budget.verdict} />}
      </header>
      {last !== undefined && <p class="since">○ no data since {since(last)}</p>}
      <p class="judged">
        <strong class="big">
          <Raw operation={budget.operation} of={budget.value_ns} />
        </strong>{" "}
        {quantile} of{" "}
        {node ? (
          budget.operation
        ) : (
          <To view="latency" operation={budget.operation}>
            {budget.operation}
          </To>
        )}{" "}
        over {budget.window}
      </p>
      <LoadLine budget={budget} window={window} />
      <Facts of={facts} />
      <footer>
        {["firing", "pending", "resolved"].includes(budget.alert) && (
          <To view="alert" rule={budget.budget} node={node} operation={budget.operation}>
            alert <State of={budget.alert} />
          </To>
        )}
        {budget.verdict === "within" && room !== null && room < 0 && (
          <span class="muted">over the limit, but too few samples to rule out chance</span>
        )}
        {unmatched && <span class="warn">no sample has matched it for minutes</span>}
      </footer>
    </article>
  );
}

/**
 * The load line: how far the load is below the limit, which is drawn as the mark on a hull. The bar
 * is the judged quantile, the bracket its confidence interval, the ticks p50 and p99.
 */
function LoadLine({ budget, window }: { budget: Budget; window?: WindowRow }) {
  const { limit_ns: limit, value_ns: value, lower_ns: lower, upper_ns: upper } = budget;
  const words = (raw: number) => rawText(budget.operation, raw);
  const most = Math.max(limit * 1.25, (value ?? 0) * 1.05, (window?.p99_ns ?? 0) * 1.02);
  const share = (ns: number) => (Math.min(ns, most) / most) * 100;
  // In shares of the width, so that nothing is stretched.
  const x = (ns: number) => `${share(ns)}%`;
  const across = (ns: number, top: number, bottom: number) => (
    <line x1={x(ns)} x2={x(ns)} y1={top} y2={bottom} />
  );
  const tick = (ns: number | null | undefined, name: string) =>
    ns && (
      <g class="tick">
        {across(ns, 9, 31)}
        <title>{`${name} ${words(ns)}`}</title>
      </g>
    );
  const text = value === null ? "no samples" : `${words(value)} of the limit ${words(limit)}`;
  return (
    <svg class="load" role="img" aria-label={text}>
      <rect class="track" y="14" width="100%" height="12" />
      <rect class="over" x={x(limit)} y="14" width={`${100 - share(limit)}%`} height="12" />
      {value !== null && <rect class="bar" y="14" width={x(value)} height="12" />}
      {lower !== null && upper !== null && (
        <g class="bounds">
          {across(lower, 16, 24)}
          <line x1={x(lower)} x2={x(upper)} y1="20" y2="20" />
          {across(upper, 16, 24)}
        </g>
      )}
      {tick(window?.p50_ns, "p50")}
      {tick(window?.p99_ns, "p99")}
      <g class="mark">
        {across(limit, 2, 38)}
        <circle cx={x(limit)} cy="20" r="7" />
      </g>
    </svg>
  );
}
