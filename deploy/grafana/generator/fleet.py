"""The fleet: budgets, alerts, the ledger, backpressure and delivery."""

from .panels import (
    Column,
    Dashboard,
    Json,
    Query,
    Row,
    heatmap,
    lines,
    number,
    rule,
    table,
    variable,
)

FLEET = 'scope="fleet"'
CHOSEN = 'operation=~"$operation"'
LIMIT = f"max by (budget) (plimsoll_budget_limit_seconds{{{CHOSEN}}})"
NODE = (
    "/d/plimsoll-node?var-node=${__data.fields.Node}&${__url_time_range}"
    "&${datasource:queryparam}&${mesh:queryparam}"
)
# Zero while an aggregator has a ledger, and nothing while none is scraped.
ZERO = "max(plimsoll_samples_held) * 0"
# The same, and nothing while figures are stale: of what is silent none is known to be in breach.
CURRENT_ZERO = f"({ZERO} unless max(plimsoll_nodes_stale) == 1)"


def _of_budget(family: str, selector: str = FLEET) -> str:
    return f"max by (budget) (plimsoll_budget_{family}{{{selector},{CHOSEN}}})"


def _headroom(selector: str = FLEET, by: str = "budget") -> str:
    value = f"max by ({by}) (plimsoll_budget_value_seconds{{{selector},{CHOSEN}}})"
    return f"1 - {value} / on (budget) group_left () {LIMIT}"


def _chosen(expr: str, *labels: str) -> str:
    """Of a family without the operation, the budgets of the chosen ones."""
    return f"max by ({', '.join(('budget', *labels))}) ({expr}) and on (budget) {LIMIT}"


def _now() -> Row:
    breach = f'max by (budget) (plimsoll_budget_verdict{{{FLEET},verdict="breach"}})'
    # Not `increase`: a reason's series begins with its first loss.
    lost = "sum(max by (reason) (plimsoll_samples_lost_total{}))"
    now, then = lost.format(""), lost.format(" offset $__range")
    return Row(
        "Now",
        [
            number(
                "Budgets in breach",
                "Budgets whose quantile is over its limit with statistical confidence.",
                "none",
                Query(f"count({breach}) or {CURRENT_ZERO}", "budgets"),
                red_from=1,
            ),
            number(
                "Firing alerts",
                "Alerts that fire now, of budgets and of thresholds.",
                "none",
                Query('max(plimsoll_alerts{state="firing"})', "alerts"),
                red_from=1,
            ),
            number(
                "Nodes",
                "Nodes by presence: up, silent, or ended with a final message.",
                "none",
                Query("max by (state) (plimsoll_nodes)", "{{state}}"),
            ),
            number(
                "Figures",
                "Stale while an aggregator's broker or all nodes are silent: gauges end then.",
                "none",
                Query("max(plimsoll_nodes_stale)", "figures"),
                red_from=1,
                words={0: "current", 1: "stale"},
            ),
            number(
                "Age of the data",
                "Time since any node was last seen, by the aggregator that is furthest behind.",
                "s",
                Query("max(time() - plimsoll_nodes_last_seen_timestamp_seconds)", "age"),
            ),
            number(
                "Samples merged",
                "Samples that an aggregator merged, per second, those of the mesh itself included.",
                "cps",
                Query("max(rate(plimsoll_samples_merged_total[$__rate_interval]))", "per second"),
            ),
            number(
                "Samples lost",
                "Samples lost within the chosen time, for any stated reason.",
                "short",
                Query(f"clamp_min(({now} or {ZERO}) - ({then} or {ZERO}), 0)", "samples"),
                red_from=1,
            ),
            number(
                "Samples unaccounted",
                "Samples of ended runs that are missing without a reason.",
                "short",
                Query("max(plimsoll_samples_unaccounted)", "samples"),
                red_from=1,
            ),
        ],
    )


def _budgets() -> Row:
    settings = f"max by (budget, operation) (plimsoll_budget_limit_seconds{{{CHOSEN}}})"
    verdict = f"max by (budget, verdict) (plimsoll_budget_verdict{{{FLEET},{CHOSEN}}})"
    complete = f"{_of_budget('window_nodes')} / {_of_budget('window_expected_nodes')}"
    age = f"time() - {_of_budget('newest_sample_timestamp_seconds')}"
    burn = _chosen('plimsoll_error_budget_burn_rate{window="1h"}')
    remaining = _chosen("plimsoll_error_budget_remaining_ratio")
    columns = [
        Column("Budget", label="budget"),
        Column("Operation", label="operation"),
        Column("Verdict", label="verdict"),
        Column("Quantile", "percentunit", Query(_chosen("plimsoll_budget_quantile_ratio"))),
        Column("Limit", "s", Query(settings)),
        Column("Value", "s", Query(_of_budget("value_seconds"))),
        Column("Headroom", "percentunit", Query(_headroom()), red_below=0),
        Column("Samples", "short", Query(_of_budget("window_samples"))),
        Column("Needed", "short", Query(_chosen("plimsoll_budget_min_samples"))),
        Column("Completeness", "percentunit", Query(complete)),
        Column("Age of the data", "s", Query(age)),
        Column("Error budget left", "percentunit", Query(remaining), red_below=0),
        Column("Burn rate, 1 h", "none", Query(burn)),
        Column("_verdict", query=Query(verdict)),
    ]
    of_nodes = _headroom('scope="node"', "budget, node")
    worst = f"bottomk(20, {of_nodes})"
    return Row(
        "Budgets",
        [
            table(
                "Budgets of the fleet",
                "Each budget with its quantile over its window, its limit, the headroom below it, "
                "the share of expected nodes with samples, the age of its newest sample, and the rest "
                "of its error budget. What is stale has no value.",
                columns,
            ),
            lines(
                "Headroom below the limit",
                "1 less the quantile's share of its limit. Below zero the budget is exceeded.",
                "percentunit",
                Query(_headroom(), "{{budget}}"),
                minimum=None,
            ),
            lines(
                "Samples over the limit",
                "Share of the samples in each budget's window that are over its limit.",
                "percentunit",
                Query(_of_budget("window_over_limit_ratio"), "{{budget}}"),
            ),
            lines(
                "Verdicts of fleet and nodes",
                "Judged budgets by verdict, each counted for the fleet and for each exported node.",
                "none",
                Query(
                    "count by (verdict) (max by (budget, scope, node, verdict) "
                    f"(plimsoll_budget_verdict{{{CHOSEN}}}))",
                    "{{verdict}}",
                ),
                stacked=True,
            ),
            lines(
                "Remaining error budget",
                "Share of the error budget of thirty days that is left. Negative when overspent.",
                "percentunit",
                Query(remaining, "{{budget}}"),
                minimum=None,
            ),
            lines(
                "Burn rate",
                "How fast each error budget is spent, by window. 1 spends it in thirty days.",
                "none",
                Query(
                    _chosen("plimsoll_error_budget_burn_rate", "window"), "{{budget}} {{window}}"
                ),
            ),
            lines(
                "Samples over the limit, counted",
                "Judged samples over the limit as a share of all, from exact counters.",
                "percentunit",
                Query(
                    "max by (budget) (rate(plimsoll_budget_over_limit_samples_total"
                    f"{{{FLEET},{CHOSEN}}}[$__rate_interval])) / max by (budget) "
                    f"(rate(plimsoll_budget_samples_total{{{FLEET},{CHOSEN}}}[$__rate_interval]))",
                    "{{budget}}",
                ),
            ),
            lines(
                "Completeness",
                "Share of the expected nodes that have samples in the budget's window.",
                "percentunit",
                Query(complete, "{{budget}}"),
            ),
            lines(
                "Late nodes",
                "Expected nodes that were seen within the window but whose newest sample is older.",
                "none",
                Query(_of_budget("window_late_nodes"), "{{budget}}"),
            ),
            lines(
                "Budgets without judgement",
                "1 for a budget that no sample matches or that has too few samples, and for an "
                "operation whose samples stopped.",
                "none",
                Query("max by (budget) (plimsoll_budget_unmatched)", "unmatched {{budget}}"),
                Query("max by (budget) (plimsoll_budget_insufficient)", "too few {{budget}}"),
                Query("max by (operation) (plimsoll_operation_absent)", "absent {{operation}}"),
            ),
            table(
                "Nodes with the lowest headroom",
                "Exported nodes nearest to a limit or beyond it. The node opens its own dashboard.",
                [
                    Column("Node", label="node", link=NODE),
                    Column("Budget", label="budget"),
                    Column("Headroom", "percentunit", Query(worst), red_below=0),
                ],
            ),
        ],
    )


def _operations() -> Row:
    def quantile(name: str) -> Query:
        family = f"plimsoll_latency_{name}_seconds"
        of = f'{family}{{{FLEET},{CHOSEN},window="1m"}}'
        return Query(f"max by (operation) ({of})", f"{name} {{{{operation}}}}")

    def bound(name: str) -> Query:
        of = f'plimsoll_latency_p99_{name}_seconds{{{FLEET},{CHOSEN},window="1m"}}'
        return Query(f"max by (operation) ({of})", f"{name} {{{{operation}}}}")

    def distribution(unit: str) -> Query:
        of = f'plimsoll_distribution_p99_{unit}{{{FLEET},{CHOSEN},window="1m"}}'
        return Query(f"max by (operation) ({of})", "p99 {{operation}}")

    buckets = f"plimsoll_latency_seconds_bucket{{{FLEET},{CHOSEN}}}"
    native = f"plimsoll_latency_seconds{{{FLEET},{CHOSEN}}}"
    samples = f"plimsoll_latency_samples_total{{{FLEET},{CHOSEN}}}"
    total = f"plimsoll_latency_sum_seconds_total{{{FLEET},{CHOSEN}}}"
    groups = f'{{scope="rollup",rollup=~"$group",{CHOSEN},window="1m"}}'
    bounds = [
        Query(_of_budget("lower_bound_seconds"), "lower bound {{budget}}"),
        Query(_of_budget("upper_bound_seconds"), "upper bound {{budget}}"),
    ]
    return Row(
        "Operations",
        [
            lines(
                "Latency of $operation against its limit",
                "Median and 99th percentile of the last minute over all nodes, from merged counts, "
                "with the limit of each budget and the confidence bounds of its quantile.",
                "s",
                quantile("p50"),
                quantile("p99"),
                Query(LIMIT, "limit {{budget}}"),
                *bounds,
                repeat="operation",
            ),
            heatmap(
                "Distribution of $operation",
                "Samples by latency and time, from exact counts.",
                Query(
                    f"max by (le) (increase({buckets}[$__rate_interval])) "
                    f"or sum(increase({native}[$__rate_interval]))",
                    "{{le}}",
                ),
                "operation",
            ),
            lines(
                "Samples per second",
                "Samples merged per second, by operation.",
                "cps",
                Query(f"max by (operation) (rate({samples}[$__rate_interval]))", "{{operation}}"),
            ),
            lines(
                "Mean latency",
                "Sum of all latencies divided by their number.",
                "s",
                Query(
                    f"max by (operation) (rate({total}[$__rate_interval])) / "
                    f"max by (operation) (rate({samples}[$__rate_interval]))",
                    "{{operation}}",
                ),
            ),
            lines(
                "Bounds of the 99th percentile",
                "Where producers send wide buckets, the percentile is between these bounds.",
                "s",
                bound("low"),
                bound("high"),
            ),
            lines(
                "Sizes",
                "The 99th percentile of operations that end with :bytes, over the last minute.",
                "bytes",
                distribution("bytes"),
            ),
            lines(
                "Counts",
                "The 99th percentile of operations that end with :count, over the last minute.",
                "none",
                distribution("count"),
            ),
            lines(
                "99th percentile by group",
                "Groups of the chosen roll-ups, such as runs, ranks and roles, over one minute.",
                "s",
                Query(f"max without (instance, job) (plimsoll_latency_p99_seconds{groups})"),
            ),
        ],
    )


def _alerts() -> Row:
    firing = (
        "max by (rule, scope, node, operation, severity) "
        '(plimsoll_alert_state{state="firing"}) == 1'
    )
    return Row(
        "Alerts",
        [
            table(
                "Alerts that fire",
                "Each alert that fires on this page's nodes. The node opens its own dashboard.",
                [
                    Column("Rule", label="rule"),
                    Column("Severity", label="severity"),
                    Column("Scope", label="scope"),
                    Column("Node", label="node", link=NODE),
                    Column("Operation", label="operation"),
                    Column("_firing", query=Query(firing)),
                ],
                width=16,
            ),
            lines(
                "Alerts by state",
                "Active alerts by state, and those that have no data now.",
                "none",
                Query("max by (state) (plimsoll_alerts)", "{{state}}"),
                Query("max(plimsoll_alerts_without_data)", "without data"),
            ),
            lines(
                "Notifications",
                "Notifications for each receiver per second, by outcome.",
                "cps",
                Query(
                    "max by (receiver, outcome) "
                    "(rate(plimsoll_notifications_total[$__rate_interval]))",
                    "{{receiver}} {{outcome}}",
                ),
            ),
            lines(
                "Undeliverable notifications",
                "Notifications that a receiver did not get, per second and by reason.",
                "cps",
                Query(
                    "max by (receiver, reason) "
                    "(rate(plimsoll_notifications_undeliverable_total[$__rate_interval]))",
                    "{{receiver}} {{reason}}",
                ),
            ),
            lines(
                "Queued notifications",
                "Notifications that wait for a receiver.",
                "none",
                Query("max by (receiver) (plimsoll_notifications_queued)", "{{receiver}}"),
            ),
            lines(
                "Oldest queued notification",
                "How long a notification has waited for a receiver.",
                "s",
                Query(
                    "max by (receiver) (plimsoll_notification_oldest_age_seconds)", "{{receiver}}"
                ),
            ),
        ],
    )


def _ledger() -> Row:
    def by_instance(family: str) -> str:
        return f"max by (instance) ({family})"

    lost = "sum by (instance) (plimsoll_samples_lost_total)"
    lost = f"({lost} or {by_instance('plimsoll_samples_held')} * 0)"
    rest = " - ".join(
        by_instance(f"plimsoll_samples_{part}")
        for part in ("merged_total", "held", "unread", "unaccounted")
    )
    balance = f"{by_instance('plimsoll_samples_recorded_total')} - {rest} - {lost}"
    return Row(
        "Ledger",
        [
            lines(
                "Where all samples are",
                "All samples that nodes have recorded, by where they are now. The stack adds up to "
                "what is recorded.",
                "short",
                Query("max(plimsoll_samples_merged_total)", "merged"),
                Query("max(plimsoll_samples_held)", "held by nodes"),
                Query("max(plimsoll_samples_unread)", "unread"),
                Query("max(plimsoll_samples_unaccounted)", "unaccounted"),
                Query(f"sum(max by (reason) (plimsoll_samples_lost_total)) or {ZERO}", "lost"),
                stacked=True,
            ),
            lines(
                "Difference of the balance",
                "Recorded samples less merged, held, unread, unaccounted and lost ones, for each "
                "aggregator. It is always zero.",
                "none",
                Query(balance, "{{instance}}"),
                minimum=None,
            ),
            lines(
                "Losses by reason",
                "Samples that nodes have lost so far, by reason. A step is a loss.",
                "short",
                Query(f"max by (reason) (plimsoll_samples_lost_total) or {ZERO}", "{{reason}}"),
            ),
            lines(
                "Samples on the way or missing",
                "Samples that nodes hold, that a stream dropped before they were read, and those "
                "missing from ended runs.",
                "short",
                Query("max(plimsoll_samples_held)", "held by nodes"),
                Query("max(plimsoll_samples_unread)", "unread"),
                Query("max(plimsoll_samples_unaccounted)", "unaccounted"),
            ),
            lines(
                "Samples of jobs and of the mesh itself",
                "Samples merged per second, by origin.",
                "cps",
                Query("max(rate(plimsoll_samples_jobs_total[$__rate_interval]))", "jobs"),
                Query("max(rate(plimsoll_samples_own_total[$__rate_interval]))", "mesh"),
            ),
            lines(
                "Crashed incarnations",
                "Incarnations of nodes that ended without a final message, and the seconds of which no "
                "report exists.",
                "none",
                Query("max(increase(plimsoll_crashed_runs_total[$__range]))", "runs"),
                Query("max(increase(plimsoll_unknown_seconds_total[$__range]))", "unknown seconds"),
            ),
        ],
    )


def _backpressure() -> Row:
    def nodes(family: str, selector: str = "") -> str:
        return f"sum(max by (node) ({family}{selector}))"

    return Row(
        "Backpressure",
        [
            lines(
                "Deepest queues",
                "Messages in the ten deepest outboxes of exported nodes, at most in an interval.",
                "short",
                Query("topk(10, max by (node) (plimsoll_node_outbox_max_depth))", "{{node}}"),
            ),
            lines(
                "Fullest queues",
                "The worst of depth, bytes and age of an outbox. At 1 the node drops.",
                "percentunit",
                Query("topk(10, max by (node) (plimsoll_node_outbox_pressure_ratio))", "{{node}}"),
                rule("outbox_pressure"),
            ),
            lines(
                "Reroutes, drops and retries",
                "Messages of all exported nodes per second that did not take the usual way.",
                "cps",
                Query(
                    "sum by (outcome) (max by (node, outcome) (rate(plimsoll_node_messages_total"
                    '{outcome=~"rerouted|dropped|refused|retried|resent|rate_limited"}'
                    "[$__rate_interval])))",
                    "{{outcome}}",
                ),
            ),
            lines(
                "Nodes under pressure",
                "Exported nodes that use the emergency lane, that drop, that are in conservative "
                "mode, and whose circuit breaker is open.",
                "none",
                Query(nodes("plimsoll_node_rerouting"), "rerouting"),
                Query(nodes("plimsoll_node_dropping"), "dropping"),
                Query(nodes("plimsoll_node_conservative_mode"), "conservative"),
                Query(nodes("plimsoll_node_breaker_state", '{state="open"}'), "breaker open"),
            ),
            lines(
                "Nodes in trouble",
                "All nodes with a trouble, each counted by its worst one.",
                "none",
                Query("max by (trouble) (plimsoll_nodes_in_trouble)", "{{trouble}}"),
                stacked=True,
            ),
            lines(
                "Datagrams dropped by kernels",
                "Datagrams per second that a node did not read in time, on the ten worst nodes.",
                "cps",
                Query(
                    "topk(10, max by (node) "
                    "(rate(plimsoll_node_kernel_dropped_datagrams_total[$__rate_interval])))",
                    "{{node}}",
                ),
            ),
        ],
    )


def _delivery() -> Row:
    delivery = 'operation="message_delivery"'
    limit = f"max by (budget) (plimsoll_budget_limit_seconds{{{delivery}}})"

    def quantile(name: str, operation: str) -> Query:
        of = f'plimsoll_latency_{name}_seconds{{{FLEET},operation="{operation}",window="1m"}}'
        return Query(f"max({of})", name)

    return Row(
        "Delivery",
        [
            lines(
                "Delivery of a message",
                "From a node's sending until the aggregator has merged the message.",
                "s",
                quantile("p50", "message_delivery"),
                quantile("p99", "message_delivery"),
                Query(limit, "limit {{budget}}"),
            ),
            lines(
                "Acknowledgement by the broker",
                "From a node's sending until the broker has stored the message.",
                "s",
                quantile("p50", "publish"),
                quantile("p99", "publish"),
                Query(
                    'max by (budget) (plimsoll_budget_limit_seconds{operation="publish"})',
                    "limit {{budget}}",
                ),
            ),
            lines(
                "Samples that came late",
                "Samples merged per second after the window of ten seconds had passed them.",
                "cps",
                Query(
                    "max(rate(plimsoll_aggregator_late_samples_total[$__rate_interval]))", "late"
                ),
            ),
        ],
    )


def dashboard() -> Json:
    """The dashboard of a fleet."""
    operations = (
        'label_values(plimsoll_latency_samples_total{mesh=~"$mesh",scope="fleet"}, operation)'
    )
    groups = 'label_values(plimsoll_latency_samples_total{mesh=~"$mesh",scope="rollup"}, rollup)'
    variables = [
        variable("operation", "Operation", operations, every=True),
        variable("group", "Roll-up", groups, every=True),
    ]
    rows = [_now(), _budgets(), _operations(), _alerts(), _ledger(), _backpressure(), _delivery()]
    return Dashboard(
        "plimsoll-fleet",
        "Plimsoll: fleet",
        "Latency budgets, alerts, the ledger and backpressure of all nodes.",
        variables,
        rows,
        {"mesh": '=~"$mesh"'},
    ).json()
