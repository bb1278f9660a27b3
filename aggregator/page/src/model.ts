// The parts of the API's answers that the page reads; `api/v1/openapi.json` describes all.

export type Scope = "fleet" | { node: string };
export type AlertState = "inactive" | "pending" | "firing" | "resolved";
export type Verdict = "no_data" | "insufficient" | "within" | "uncertain" | "breach";
export type Presence = "up" | "silent" | "left";
export type Labels = Record<string, string>;

/** Up to when figures are known, and whether none of their nodes sends messages now. */
export interface Freshness {
  as_of_seconds: number | null;
  stale: boolean;
}

export type Severity = "info" | "warning" | "critical";

export interface Ledger {
  recorded: number;
  merged: number;
  held: number;
  unaccounted: number;
  unread: number;
  lost: Record<string, number>;
  crashed_runs: number;
}

export interface Quantiles {
  count: number;
  mean_ns: number;
  min_ns: number;
  max_ns: number;
  p50_ns: number | null;
  p99_ns: number | null;
  approximate?: { p50_ns: [number, number]; p99_ns: [number, number] };
}

export interface WindowRow extends Quantiles {
  nodes: number;
  nodes_expected: number;
  nodes_late: number;
}

export interface OperationRow extends Freshness {
  scope: Scope;
  operation: string;
  own?: boolean;
  total: Quantiles;
  windows: Record<string, WindowRow>;
}

export interface Budget extends Freshness {
  budget: string;
  operation: string;
  scope: Scope;
  quantile: number;
  limit_ns: number;
  window: string;
  samples: number;
  value_ns: number | null;
  lower_ns: number | null;
  upper_ns: number | null;
  over: number;
  uncertain: number;
  overdispersion: number;
  learning: boolean;
  completeness: [number, number];
  nodes_late: number;
  nodes_reporting: number;
  objective: number | null;
  budget_remaining: number | null;
  burns?: { window: string; rate: number | null }[];
  verdict: Verdict;
  alert: AlertState;
}

export interface Summary extends Freshness {
  mesh: string;
  version: string;
  at_seconds: number;
  ready: boolean;
  broker: string;
  presence: Partial<Record<Presence, number>>;
  ledger: Ledger;
  samples?: { jobs: number; own: number };
  operations: OperationRow[];
  budgets: Budget[];
  rules_error: string | null;
  unmatched: string[];
  insufficient: string[];
}

export interface Headroom {
  node: string;
  presence: Presence;
  labels: Labels;
  last_seen_seconds: number;
  outbox_depth: number;
  rerouted: number;
  dropped: number;
  troubles?: string[];
  alert: AlertState;
  alert_severity: Severity | null;
  least: {
    budget: string;
    operation: string;
    limit_ns: number;
    value_ns: number;
    headroom: number;
    samples: number;
    verdict: Verdict;
  } | null;
}

export interface Outbox {
  attempted: number;
  published: number;
  confirmed: number;
  unconfirmed: number;
  rerouted: number;
  rate_limited: number;
  dropped: number;
  refused: number;
  coalesced: number;
  combined: number;
  retried: number;
  messages: number;
  depth: number;
  depth_max: number;
  bytes: number;
  age_seconds: number;
  pressure: number;
}

export interface NodeOutbox {
  node: string;
  presence: Presence;
  breaker: string | null;
  conservative: boolean;
  outbox: Outbox;
}

export interface Backpressure {
  at_seconds: number;
  ready: boolean;
  broker: string;
  pending: Record<string, number>;
  ledger: Ledger;
  outboxes: Outbox;
  breakers: Record<string, number>;
  conservative: number;
  nodes: NodeOutbox[];
}

export interface Incarnation {
  incarnation: number | string;
  newest_seq: number;
  ledger: Ledger;
  missing_seqs: number;
  duplicates: number;
  ended: boolean;
  left_in_order: boolean;
}

/** What is not known is null. */
export interface Machine {
  cpu: string | null;
  cores: number | null;
  memory_bytes: number | null;
  gpus: Record<string, number>;
  gpu_driver: string | null;
  kernel: string | null;
  os: string | null;
}

export interface NodePage {
  at_seconds: number;
  status: {
    node: string;
    presence: Presence;
    last_seen_seconds: number;
    version: string;
    labels: Labels;
    ledger: Ledger;
    samples: { jobs: number; own: number };
    clock_ahead_seconds: number | null;
    round_trip_seconds: number | null;
    delay_seconds: number | null;
    troubles: string[];
    machine: Machine | null;
  };
  operations: OperationRow[];
  budgets: Budget[];
  outbox: NodeOutbox;
  entry: { runs: Incarnation[]; past: Ledger; duplicates: number; duplicate_names: number };
}

export interface Point {
  from_seconds: number;
  to_seconds: number;
  count: number;
  mean: number | null;
  min: number | null;
  max: number | null;
  approximate: boolean;
  quantiles: { quantile: number; value: number; lower: number; upper: number }[];
  over: { limit: number; over: number; uncertain: number }[];
  completeness: number | null;
  distribution?: { lower: number; upper: number; count: number }[];
}

export interface HistoryPage {
  operation: string;
  from_seconds: number;
  to_seconds: number;
  step_seconds: number;
  resolution: string;
  kept_from_seconds: number;
  nodes?: { node: string; samples: number; missing: number; error?: string }[];
  points: Point[];
}

export interface Heatmap {
  operation: string;
  from_seconds: number;
  to_seconds: number;
  step_seconds: number;
  resolution: string;
  bands: { lower: number; upper: number }[];
  counts: number[][];
}

export interface OperationsPage {
  kept_from_seconds: number;
  operations: string[];
  groups: { rollup: string; operation: string; values: string[] }[];
}

export interface ClassShare {
  class: string;
  seconds: number;
  share: number | null;
}

export interface CycleShares {
  operation: string;
  seconds: number;
  classes: ClassShare[];
  parallel: boolean;
}

export interface Bottlenecks {
  cycles: CycleShares[];
  bottlenecks: {
    rule: string;
    state: "found" | "within" | "not_measured";
    severity: string | null;
    cycle?: string;
    node?: string;
    evidence: string;
  }[];
}

export interface MetricNow {
  nodes: number;
  sum: number;
  mean: number;
  min: number;
  max: number;
}

export interface MetricsPage {
  metrics: { metric: string; kind: "counter" | "gauge"; is_kept: boolean; now?: MetricNow }[];
  groups: { rollup: string; operation: string; values: string[] }[];
}

export interface MetricPoint {
  from_seconds: number;
  to_seconds: number;
  count: number;
  sum: number;
  mean?: number;
  min?: number;
  max?: number;
  per_second?: number;
  per_operation_second?: number;
  completeness: number | null;
}

export interface MetricHistory {
  metric: string;
  nodes?: HistoryPage["nodes"];
  kind: "counter" | "gauge";
  operation?: string;
  from_seconds: number;
  to_seconds: number;
  step_seconds: number;
  kept_from_seconds: number;
  points: MetricPoint[];
}

export interface NodeReadings {
  node: string;
  presence: Presence;
  received_at_seconds: number | null;
  outdated: boolean;
  readings: {
    sensor: string;
    labels: Labels;
    unit: string | null;
    state: string;
    value: number | null;
    reason: string | null;
  }[];
}

export interface HardwarePage {
  nodes: NodeReadings[];
  next?: string | null;
}

export interface ReadingHistory {
  sensor: string;
  labels?: Labels;
  points: { from_seconds: number; min: number; mean: number; max: number; count: number }[];
}

export interface HardwareHistory {
  from_seconds: number;
  to_seconds: number;
  step_seconds: number;
  nodes: { node: string; missing: number; error?: string; readings: ReadingHistory[] }[];
}

export interface Worst {
  node: string;
  labels: Labels;
  samples: number;
  over: number;
  /** Its share of the fleet's samples over the limit. */
  share: number;
  hardware: Record<string, number | boolean | null>;
  bus: {
    outbox_depth: number;
    outbox_depth_max: number;
    pending_bytes: number;
    rerouted: number;
    dropped: number;
    round_trip_seconds: number | null;
  };
}

export interface Bar {
  up_to: number;
  samples: number;
}

export interface Alert {
  rule: string;
  scope: Scope;
  operation: string;
  state: AlertState;
  since_seconds: number;
  firing_since_seconds: number | null;
  severity: Severity;
  summary: string;
  runbook: string | null;
  data: string;
  flaps: number;
  acknowledged: { by: string; comment: string; until_seconds: number } | null;
  silenced_by: number[];
  evidence: Record<string, unknown> | null;
  context: {
    worst: Worst[];
    worst_window: string | null;
    profile?: ProfileEvidence | null;
    before: Bar[];
    during: Bar[];
    completeness: [number, number] | null;
    dashboard: string | null;
  } | null;
}

export interface Silence {
  id: number;
  match: { rule?: string; node?: string; operation?: string; severity?: string };
  by: string;
  comment: string;
  from_seconds: number;
  until_seconds: number;
}

export interface RunRow {
  name: string;
  state: "running" | "ended" | "no_end";
  begun_seconds: number;
  ended_seconds: number | null;
  exit_code: number | null;
  by?: string;
  labels: Labels;
  nodes: string[];
  has_more_nodes: boolean;
}

export interface RunPage extends RunRow {
  by_label: boolean;
  not_kept?: string;
  completeness: number | null;
  operations: {
    operation: string;
    from_seconds: number;
    to_seconds: number;
    count: number;
    mean: number | null;
    max: number | null;
    quantiles: { quantile: number; value: number; lower: number; upper: number }[];
    over_budget: {
      budget: string;
      limit: number;
      over: number;
      uncertain: number;
      share: number;
    }[];
  }[];
  operations_omitted: number;
  no_history?: string;
}

export type Compared = "same" | "better" | "worse" | "not_enough_data" | "not_comparable";

export interface Change {
  estimate: number;
  low: number;
  high: number;
  floor: number;
  verdict: Compared;
}

export interface Comparison {
  verdict: Compared;
  confidence: number;
  tolerance: number;
  a_runs: string[];
  b_runs: string[];
  /** Why intervals hold within these runs only. */
  within_runs_only?: string;
  operations: Record<
    string,
    {
      verdict: Compared;
      reason?: string;
      a: { samples: number } | null;
      b: { samples: number } | null;
      /** Of each run, where a side has several. */
      a_runs?: RunFigures[];
      b_runs?: RunFigures[];
      shifts: { quantile: number; a_ns: number; b_ns: number; change: Change | null }[];
      over_limit?: { limit_ns: number; a: number; b: number; change: Change | null };
    }
  >;
  rates?: Record<string, ComparedRate>;
}

export interface RunFigures {
  run: string;
  samples: number;
  quantiles: { quantile: number; value_ns: number }[];
}

export interface ComparedRate {
  verdict: Compared;
  reason?: string;
  /** By whose time it is divided; by wall time without one. */
  operation?: string;
  a: number;
  b: number;
  change: Change | null;
}

/** The node of a scope; empty for the fleet. */
export const nodeOf = (scope: Scope): string => (scope === "fleet" ? "" : scope.node);

export const KINDS = ["cpu", "memory", "trace", "past", "continuous"] as const;

export interface ProfileRow {
  id: string;
  kind: (typeof KINDS)[number];
  node: string;
  /** Of a sum. */
  nodes?: { asked: number; answered: number; left_out: number; missing: Record<string, string> };
  operation: string | null;
  labels: Labels;
  seconds: number;
  hz: number;
  start_seconds: number;
  rule: string | null;
  peer: string | null;
  state: "running" | "kept" | "torn" | "failed" | "refused" | "expired";
  reason: string | null;
  facts: {
    rung: string;
    pid: number;
    command: string;
    python: string;
    samples: number;
    torn: number;
    lost: number;
    advice: string;
  };
  bytes: number;
  kept_as?: string;
}

export interface ProfilesPage {
  profiles: ProfileRow[];
}

/** What the culprit of an alert does more than its peer. */
export interface ProfileEvidence {
  id: string;
  peer_id: string;
  labels: Labels;
  peer: string;
  functions: { function: string; culprit: number; peer: number }[];
}
