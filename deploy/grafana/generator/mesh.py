"""The mesh itself: what aggregators and node agents cost, how far behind they are, the broker."""

from .panels import Dashboard, Json, Query, Row, lines, number, rule, variable

# Families of the process itself, which node agents and aggregators both export.
OF_AGGREGATORS = "and on (job, instance) plimsoll_aggregator_ready"
OF_AGENTS = "and on (job, instance) plimsoll_agent_series"
INSTANCE = "{{instance}}"


def _gauge(name: str, legend: str, by: str = "") -> Query:
    return Query(f"max by ({by or 'instance'}) (plimsoll_aggregator_{name})", legend)


def _rate(name: str, legend: str, by: str = "") -> Query:
    rate = f"rate(plimsoll_aggregator_{name}[$__rate_interval])"
    return Query(f"max by ({by or 'instance'}) ({rate})", legend)


def _agent(name: str, legend: str = INSTANCE) -> Query:
    return Query(f"topk(10, max by (instance) (plimsoll_agent_{name}))", legend)


def _agents(name: str, legend: str, by: str = "") -> Query:
    """A counter of all chosen agents per second."""
    of = f" by ({by})" if by else ""
    return Query(f"sum{of} (rate(plimsoll_agent_{name}[$__rate_interval]))", legend)


def _sum(name: str, legend: str, by: str = "") -> Query:
    of = f" by ({by})" if by else ""
    return Query(f"sum{of} (plimsoll_agent_{name})", legend)


def _process(title: str, of: str, whose: str) -> list:
    cpu = f"rate(process_cpu_seconds_total[$__rate_interval]) {of}"
    return [
        lines(
            f"Processor time of {title}",
            f"Cores' worth of processor time of {whose}.",
            "none",
            Query(f"topk(10, {cpu})", INSTANCE),
        ),
        lines(
            f"Memory of {title}",
            f"Resident memory of {whose}.",
            "bytes",
            Query(f"topk(10, process_resident_memory_bytes {of})", INSTANCE),
        ),
        lines(
            f"Open files of {title}",
            f"Open files as a share of what {whose} may open.",
            "percentunit",
            Query(f"topk(10, process_open_fds / process_max_fds {of})", INSTANCE),
        ),
    ]


def _now() -> Row:
    return Row(
        "Now",
        [
            number(
                "Ready",
                "1 once an aggregator has read what the streams held at its start.",
                "none",
                _gauge("ready", INSTANCE),
            ),
            number(
                "Broker connected",
                "1 while the broker is connected and answers.",
                "none",
                _gauge("broker_connected", INSTANCE),
            ),
            number(
                "Unread messages",
                "Messages in the streams that the aggregator has not read.",
                "short",
                Query("sum(plimsoll_aggregator_pending_messages)", "messages"),
            ),
            number(
                "State stored",
                "Age of the state in the latest checkpoint.",
                "s",
                _gauge("checkpoint_age_seconds", INSTANCE),
            ),
            number(
                "Rules invalid",
                "1 while the rule files are invalid and the previous rules stay.",
                "none",
                Query("max by (instance) (plimsoll_rules_invalid)", INSTANCE),
                red_from=1,
            ),
            number(
                "Nodes exported",
                "Nodes with series of their own on the scraped page.",
                "none",
                Query("max(plimsoll_nodes_exported)", "nodes"),
            ),
        ],
    )


def _aggregator() -> Row:
    return Row(
        "Aggregator",
        [
            *_process("aggregators", OF_AGGREGATORS, "each aggregator"),
            lines(
                "Merged messages",
                "Messages with samples merged per second, by kind.",
                "cps",
                _rate("merged_snapshots_total", "{{kind}}", "kind"),
            ),
            lines(
                "Messages not merged",
                "Messages per second that were read again, came from evicted incarnations, or from a clock "
                "ahead.",
                "cps",
                _rate("duplicate_snapshots_total", "read again"),
                _rate("evicted_incarnation_snapshots_total", "of evicted incarnations"),
                _rate("clock_ahead_snapshots_total", "clock ahead"),
            ),
            lines(
                "Undecodable messages and limits",
                "Messages that could not be decoded and items that met a limit, so far.",
                "short",
                _gauge("undecodable_messages_total", "{{reason}}", "reason"),
                _gauge("limited_total", "met {{what}}", "what"),
            ),
            lines(
                "Read views and pages",
                "Seconds per second that making read views takes from merging, "
                "and that rendering pages takes on other threads.",
                "percentunit",
                _rate("view_seconds_total", "read views"),
                _rate("page_seconds_total", "{{page}} {{format}}", "page, format"),
            ),
            lines(
                "Longest read view",
                "Time that making the longest one took.",
                "s",
                _gauge("view_max_seconds", INSTANCE),
            ),
            lines(
                "Page size",
                "Bytes of the latest page before compression.",
                "bytes",
                _gauge("page_bytes", "{{page}} {{format}}", "page, format"),
            ),
            lines(
                "Responses",
                "Responses per second, by page, format and encoding.",
                "reqps",
                _rate(
                    "responses_total", "{{page}} {{format}} {{encoding}}", "page, format, encoding"
                ),
            ),
            lines(
                "HTTP connections",
                "Open connections by stage, and those closed per second by reason.",
                "none",
                _gauge("connections", "open: {{stage}}", "stage"),
                _rate("connections_closed_total", "closed: {{reason}}", "reason"),
            ),
            lines(
                "Checkpoints",
                "Age of the stored state.",
                "s",
                _gauge("checkpoint_age_seconds", INSTANCE),
                rule("checkpoint_age_seconds"),
            ),
            lines(
                "Checkpoint size",
                "Bytes of records that the latest checkpoint wrote.",
                "bytes",
                _gauge("checkpoint_bytes", INSTANCE),
            ),
            lines(
                "Failures of aggregators",
                "Failed checkpoints and restarted tasks since the start, and "
                "samples that the history had no room for.",
                "none",
                _gauge("checkpoint_failures_total", "checkpoint: {{reason}}", "reason"),
                _gauge("task_restarts_total", "restart: {{task}}", "task"),
                _gauge("history_dropped_samples_total", "history: samples dropped"),
                _gauge("history_dropped_values_total", "history: values of metrics dropped"),
            ),
            lines(
                "Rule files",
                "Reloads of the rule files since the start, by outcome.",
                "none",
                Query("max by (outcome) (plimsoll_rules_reloads_total)", "{{outcome}}"),
            ),
            lines(
                "Silences",
                "Silences that are active or start later.",
                "none",
                Query("max(plimsoll_silences)", "silences"),
            ),
        ],
    )


def _broker() -> Row:
    bus = [
        Query(f"max(rate(plimsoll_alert_notifications_{what}_total[$__rate_interval]))", what)
        for what in ("raised", "published", "undeliverable")
    ]
    return Row(
        "Broker",
        [
            lines(
                "Unread messages by lane",
                "Messages in each lane's stream that are not read.",
                "short",
                _gauge("pending_messages", "{{lane}}", "lane"),
            ),
            lines(
                "Backlog",
                "Time that the latest backlog of each lane took to read.",
                "s",
                _gauge("backlog_last_seconds", "{{lane}}", "lane"),
            ),
            lines(
                "Round trip",
                "Median of the round trips of the aggregator and all nodes.",
                "s",
                _gauge("broker_round_trip_seconds", INSTANCE),
                rule("broker_round_trip_seconds"),
            ),
            lines(
                "Fullest stream",
                "Used share of the fullest stream that refuses messages when full.",
                "percentunit",
                _gauge("stream_used_ratio", INSTANCE),
                rule("stream_used_ratio"),
            ),
            lines(
                "Fullest tables",
                "Used share of each table of names; idle names are evicted above 80 %.",
                "percentunit",
                _gauge("table_used_ratio", "{{table}}", "table"),
                rule("table_used_ratio"),
            ),
            lines(
                "Confirmations",
                "Confirmations for nodes per second, by outcome.",
                "cps",
                _rate("confirmations_total", "{{outcome}}", "outcome"),
            ),
            lines(
                "Alerts on the bus",
                "Notifications of alert changes for the bus, per second.",
                "cps",
                *bus,
            ),
            lines(
                "Acknowledged and kept",
                "Messages that agents keep until an aggregator confirms them.",
                "short",
                _agent("unconfirmed_messages"),
            ),
            lines(
                "Connections to the broker",
                "Reconnects and denied permissions of agents per second.",
                "cps",
                _agents("broker_reconnects_total", "reconnects"),
                _agents("broker_permission_denials_total", "denials"),
            ),
            lines(
                "Round trip of agents",
                "The ten longest round trips to the broker.",
                "s",
                _agent("broker_round_trip_seconds"),
            ),
            lines(
                "Confirmations at agents",
                "Confirmations received per second, by outcome.",
                "cps",
                _agents("confirmations_total", "{{outcome}}", "outcome"),
            ),
        ],
    )


def _agents_cost() -> Row:
    stage = "max by (stage) (rate(plimsoll_agent_driver_stage_seconds_total[$__rate_interval]))"
    return Row(
        "Node agents",
        [
            *_process("agents", OF_AGENTS, "the ten agents that use most"),
            lines(
                "Stages of the driver",
                "Share of time that the busiest agent spends in each stage.",
                "percentunit",
                Query(stage, "{{stage}}"),
                stacked=True,
            ),
            lines(
                "Intake",
                "Datagrams, frames, data points and values per second.",
                "cps",
                _agents("datagrams_total", "datagrams"),
                _agents("frames_total", "frames"),
                _agents("points_total", "data points"),
                _agents("values_total", "values"),
                _agents("samples_total", "latency samples"),
            ),
            lines(
                "Rejected by agents",
                "Lines rejected so far by reason, values merged into the series `other`, and "
                "datagrams of numbered clients that were lost.",
                "short",
                _sum("rejected_lines_total", "{{reason}}", "reason"),
                _sum("overflow_values_total", "series limit"),
                _sum("client_lost_datagrams_total", "lost datagrams"),
            ),
            lines(
                "Series",
                "Series in the open interval of the ten agents with most.",
                "short",
                _agent("series"),
            ),
            lines(
                "Clients",
                "Connections of Rust clients, and clients that number their datagrams.",
                "none",
                _sum("client_connections", "connections"),
                _sum("numbered_clients", "numbered clients"),
            ),
            lines("Spool", "Size of the ten largest spools.", "bytes", _agent("spool_bytes")),
            lines(
                "Spool failures",
                "Agents whose messages would not survive a crash or wait for the "
                "spool, and failed writes per second.",
                "none",
                Query("sum(1 - plimsoll_agent_spool_durable)", "not durable"),
                _sum("spool_blocked", "blocked"),
                _agents("spool_write_failures_total", "failed writes"),
            ),
            lines(
                "History of nodes",
                "Size of the ten largest histories.",
                "bytes",
                _agent("history_bytes"),
            ),
            lines(
                "Dead letters",
                "Dead letters that are not stored yet.",
                "none",
                _sum("waiting_dead_letters", "waiting"),
            ),
            lines(
                "OTLP",
                "OTLP data points and spans per second, by kind and outcome.",
                "cps",
                _agents("otlp_points_total", "{{kind}}", "kind"),
                _agents("otlp_spans_total", "span {{outcome}}", "outcome"),
            ),
            lines(
                "Scraped pages",
                "1 while the latest scrape of a target succeeded.",
                "none",
                Query("min by (target) (plimsoll_agent_scrape_up)", "{{target}}"),
            ),
            lines(
                "Failures of agents",
                "Restarted tasks since the start, and failed socket reads per second.",
                "none",
                _sum("task_restarts_total", "restart: {{task}}", "task"),
                _agents("socket_read_errors_total", "failed reads"),
            ),
            lines(
                "Sensor threads",
                "Longest time that a thread took for its sensors.",
                "s",
                Query("max by (thread) (plimsoll_node_sampling_worst_seconds)", "{{thread}}"),
            ),
            lines(
                "Memory of nodes, as the aggregator knows it",
                "Resident memory of the ten largest agents on exported nodes.",
                "bytes",
                Query("topk(10, max by (node) (plimsoll_node_process_resident_bytes))", "{{node}}"),
            ),
        ],
    )


def dashboard() -> Json:
    """The dashboard of the mesh itself."""
    agents = 'label_values(plimsoll_agent_series{mesh=~"$mesh"}, instance)'
    variables = [variable("agent", "Node agent", agents, every=True)]
    rows = [_now(), _aggregator(), _broker(), _agents_cost()]
    return Dashboard(
        "plimsoll-mesh",
        "Plimsoll: the mesh itself",
        "What aggregators and node agents cost, how far behind they are, and the broker.",
        variables,
        rows,
        {"mesh": '=~"$mesh"', "instance": '=~"$agent"'},
        # Only the agents' own families are of the chosen agents.
        without={
            "instance": {
                "plimsoll_aggregator_*",
                "plimsoll_alert*",
                "plimsoll_rule*",
                "plimsoll_node*",
                "plimsoll_silences",
                "process_*",
            }
        },
    ).json()
