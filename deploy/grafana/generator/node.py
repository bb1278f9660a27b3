"""One node: its latencies beside its hardware on one time axis, its queue, and its ledger."""

from .panels import Column, Dashboard, Json, Query, Row, lines, number, rule, table, variable

CHOSEN = 'operation=~"$operation"'


def _sensor(name: str, legend: str, by: str = "") -> Query:
    """A gauge of the catalogue, by one of its labels or none."""
    return Query(
        f"max by ({by}) (plimsoll_node_{name})" if by else f"max(plimsoll_node_{name})", legend
    )


def _rate(name: str, legend: str, by: str = "") -> Query:
    """A counter of the catalogue per second."""
    rate = f"rate(plimsoll_node_{name}[$__rate_interval])"
    return Query(f"max by ({by}) ({rate})" if by else f"max({rate})", legend)


def _share(part: str, whole: str, by: str = "") -> str:
    of = f" by ({by})" if by else ""
    return f"max{of} (plimsoll_node_{part}) / max{of} (plimsoll_node_{whole})"


def _now() -> Row:
    last_seen = "time() - max(plimsoll_node_last_seen_timestamp_seconds)"
    troubles = "max by (trouble) (plimsoll_node_trouble)"
    info = "max by (version) (plimsoll_node_info)"
    checks = "max by (check, tags, status) (plimsoll_service_check_status) == 1"
    return Row(
        "Now",
        [
            number(
                "Silent",
                "1 while the node is silent for longer than it takes to reconnect.",
                "none",
                Query("max(plimsoll_node_silent)", "silent"),
                red_from=1,
            ),
            number(
                "Last seen",
                "Time since the newest message of the node.",
                "s",
                Query(last_seen, "ago"),
            ),
            number(
                "Version",
                "Version of the node agent.",
                "none",
                Query(info, "{{version}}"),
                text="name",
            ),
            number(
                "Machine runs for",
                "Time since the machine was started.",
                "s",
                _sensor("uptime_seconds", "uptime"),
            ),
            number(
                "Clock off by",
                "Offset of the node's clock from the broker's, as the aggregator measures it.",
                "s",
                Query("max(plimsoll_node_clock_skew_seconds)", "skew"),
            ),
            number(
                "Crashed incarnations",
                "Incarnations that ended without a final message, in the chosen time.",
                "none",
                Query("max(increase(plimsoll_node_crashed_runs_total[$__range]))", "runs"),
                red_from=1,
            ),
            table(
                "Troubles",
                "What is wrong with the node now. A grown counter counts for five minutes.",
                [Column("Trouble", label="trouble"), Column("_trouble", query=Query(troubles))],
                width=12,
            ),
            table(
                "Service checks",
                "The latest status of each service check of the node's jobs.",
                [
                    Column("Check", label="check"),
                    Column("Status", label="status"),
                    Column("_status", query=Query(checks)),
                ],
                width=12,
            ),
        ],
    )


def _latency() -> Row:
    def quantile(name: str) -> Query:
        of = f'plimsoll_latency_{name}_seconds{{scope="node",{CHOSEN},window="1m"}}'
        return Query(f"max by (operation) ({of})", f"{name} {{{{operation}}}}")

    value = f"max by (budget) (plimsoll_budget_value_seconds{{{CHOSEN}}})"
    limit = f"max by (budget) (plimsoll_budget_limit_seconds{{{CHOSEN}}})"
    samples = f"plimsoll_latency_samples_total{{{CHOSEN}}}"
    return Row(
        "Latency",
        [
            lines(
                "Latency of $operation against its limit",
                "Median and 99th percentile of the node over one minute, and each budget's limit.",
                "s",
                quantile("p50"),
                quantile("p99"),
                Query(limit, "limit {{budget}}"),
                repeat="operation",
            ),
            lines(
                "Headroom below the limit",
                "1 less the quantile's share of its limit. Below zero the budget is exceeded.",
                "percentunit",
                Query(f"1 - {value} / on (budget) {limit}", "{{budget}}"),
                width=12,
                minimum=None,
            ),
            lines(
                "Samples per second",
                "Samples of the node merged per second, by operation.",
                "cps",
                Query(f"max by (operation) (rate({samples}[$__rate_interval]))", "{{operation}}"),
                width=12,
            ),
        ],
    )


def _processors() -> Row:
    throttled = "max(rate(plimsoll_node_cgroup_cpu_throttled_periods_total[$__rate_interval]))"
    periods = "max(rate(plimsoll_node_cgroup_cpu_periods_total[$__rate_interval]))"
    return Row(
        "Processors",
        [
            lines(
                "Processor time in use",
                "Shares of all processor time.",
                "percentunit",
                _sensor("cpu_usage_ratio", "in use"),
                _sensor("cpu_iowait_ratio", "waits for a disk"),
                _sensor("cpu_steal_ratio", "given to other machines"),
            ),
            lines(
                "Each core",
                "Share of each core's time in use.",
                "percentunit",
                _sensor("cpu_core_usage_ratio", "core {{core}}", "core"),
            ),
            lines(
                "Load",
                "Runnable tasks as averages, and tasks that run or wait for a disk now.",
                "none",
                _sensor("load1", "1 min"),
                _sensor("load5", "5 min"),
                _sensor("load15", "15 min"),
                _sensor("tasks_running", "running now"),
                _sensor("tasks_blocked", "blocked now"),
            ),
            lines(
                "Stalls",
                "Share of the last ten seconds in which tasks waited for a resource.",
                "percentunit",
                _sensor("pressure_some_ratio", "some {{resource}}", "resource"),
                _sensor("pressure_full_ratio", "all {{resource}}", "resource"),
                rule("memory_stalled_ratio"),
            ),
            lines(
                "Clock frequency",
                "Mean of all cores, and what they sustain when not held down.",
                "hertz",
                _sensor("cpu_frequency_mean_hertz", "mean"),
                _sensor("cpu_frequency_baseline_hertz", "baseline"),
            ),
            lines(
                "Temperature",
                "Temperature of the processors and of other components.",
                "celsius",
                _sensor("cpu_temperature_celsius", "processors"),
                _sensor("temperature_celsius", "{{component}}", "component"),
                rule("cpu_temperature_celsius"),
                minimum=None,
            ),
            lines(
                "Throttled processors",
                "1 while the processors are slow because they are hot.",
                "none",
                _sensor("cpu_throttled", "throttled"),
                _rate("cpu_thermal_throttle_total", "slowed down per second, {{level}}", "level"),
            ),
            lines(
                "Control group's processor time",
                "Cores' worth of processor time that the control group uses, and its limit.",
                "none",
                _rate("cgroup_cpu_seconds_total", "in use"),
                _sensor("cgroup_cpu_limit_cores", "limit of the group"),
            ),
            lines(
                "Control group throttled",
                "Share of periods in which the group used up its limit.",
                "percentunit",
                Query(f"{throttled} / {periods}", "throttled"),
                rule("cgroup_cpu_throttled_ratio"),
            ),
        ],
    )


def _memory() -> Row:
    return Row(
        "Memory",
        [
            lines(
                "Memory",
                "Physical memory in use, with file pages, and waiting for a disk.",
                "bytes",
                _sensor("memory_used_bytes", "in use"),
                _sensor("memory_available_bytes", "available"),
                _sensor("memory_cached_bytes", "file pages"),
                _sensor("memory_dirty_bytes", "to be written"),
                _sensor("memory_total_bytes", "limit of the machine"),
            ),
            lines(
                "Share of memory in use",
                "Of the machine, and of the control group's limit.",
                "percentunit",
                Query(_share("memory_used_bytes", "memory_total_bytes"), "machine"),
                Query(
                    _share("cgroup_memory_used_bytes", "cgroup_memory_limit_bytes"), "control group"
                ),
                rule("memory_used_ratio"),
            ),
            lines(
                "Swap",
                "Swap space in use, and bytes moved per second.",
                "bytes",
                _sensor("swap_used_bytes", "in use"),
                _rate("swap_in_bytes_total", "read per second"),
                _rate("swap_out_bytes_total", "written per second"),
            ),
            lines(
                "Page faults",
                "Page faults that needed a disk, per second.",
                "cps",
                _rate("page_faults_major_total", "faults"),
            ),
            lines(
                "Memory ran out",
                "Processes that the kernel killed, and times that the control group met a bound.",
                "none",
                _sensor("oom_kills_total", "killed"),
                _sensor("cgroup_memory_events_total", "group: {{event}}", "event"),
            ),
            lines(
                "Open files and tasks",
                "Shares of what the machine and the control group may have.",
                "percentunit",
                Query(_share("file_handles", "file_handles_limit"), "files"),
                Query(_share("cgroup_tasks", "cgroup_tasks_limit"), "tasks of the group"),
                rule("file_handles_used_ratio"),
            ),
        ],
    )


def _disks() -> Row:
    def wait(what: str, count: str) -> Query:
        took = f"rate(plimsoll_node_disk_{what}_seconds_total[$__rate_interval])"
        done = f"rate(plimsoll_node_disk_{count}_total[$__rate_interval])"
        return Query(
            f"max by (device) ({took}) / max by (device) ({done})", f"{what} {{{{device}}}}"
        )

    return Row(
        "Disks",
        [
            lines(
                "Space in use",
                "Share of each file system that is in use.",
                "percentunit",
                Query(_share("disk_used_bytes", "disk_total_bytes", "mount"), "{{mount}}"),
                rule("disk_used_ratio"),
            ),
            lines(
                "Files in use",
                "Share of the files that each file system may hold.",
                "percentunit",
                Query(_share("disk_inodes_used", "disk_inodes", "mount"), "{{mount}}"),
                rule("disk_inodes_used_ratio"),
            ),
            lines(
                "Read-only",
                "1 while a file system takes no writes.",
                "none",
                _sensor("disk_read_only", "{{mount}}", "mount"),
            ),
            lines(
                "Not read",
                "File systems, thermometers and other parts that hang, or are more than the node reads.",
                "none",
                _sensor("sensors_unread", "{{list}}", "list"),
                rule("sensors_unread"),
            ),
            lines(
                "Bytes",
                "Bytes read and written per second, by device.",
                "Bps",
                _rate("disk_read_bytes_total", "read {{device}}", "device"),
                _rate("disk_write_bytes_total", "write {{device}}", "device"),
            ),
            lines(
                "Time of one access",
                "Mean time that a read or a write took, by device.",
                "s",
                wait("read", "reads"),
                wait("write", "writes"),
            ),
            lines(
                "Busy",
                "Share of time in which a device had something to do.",
                "percentunit",
                _rate("disk_busy_seconds_total", "{{device}}", "device"),
            ),
        ],
    )


def _network() -> Row:
    def both(what: str) -> list[Query]:
        return [
            _rate(f"network_{way}_{what}_total", f"{way} {what} {{{{interface}}}}", "interface")
            for way in ("receive", "transmit")
        ]

    return Row(
        "Network",
        [
            lines("Network traffic", "Bytes per second, by interface.", "Bps", *both("bytes")),
            lines("Packets", "Packets per second, by interface.", "pps", *both("packets")),
            lines(
                "Errors and drops",
                "Packets per second that were broken or dropped, and TCP segments retransmitted.",
                "pps",
                *both("errors"),
                *both("drops"),
                _rate("tcp_retransmits_total", "TCP sent again"),
            ),
        ],
    )


def _gpus() -> Row:
    def gpu(name: str, legend: str) -> Query:
        return _sensor(f"gpu_{name}", f"{legend} {{{{gpu}}}}", "gpu")

    return Row(
        "GPUs",
        [
            lines(
                "GPU utilization",
                "Share of time in which a kernel ran, the least and the most of an "
                "interval included.",
                "percentunit",
                gpu("utilization_ratio", "mean"),
                gpu("utilization_min_ratio", "least"),
                gpu("utilization_max_ratio", "most"),
            ),
            lines(
                "GPU memory",
                "Memory in use, and all of it.",
                "bytes",
                gpu("memory_used_bytes", "in use"),
                gpu("memory_total_bytes", "limit of GPU"),
            ),
            lines(
                "GPU memory traffic",
                "Share of time in which memory was read or written.",
                "percentunit",
                gpu("memory_utilization_ratio", "GPU"),
            ),
            lines(
                "GPU temperature",
                "Temperature of the die, and where the GPU slows itself down.",
                "celsius",
                gpu("temperature_celsius", "GPU"),
                gpu("temperature_slowdown_celsius", "limit of GPU"),
                rule("gpu_temperature_celsius"),
                minimum=None,
            ),
            lines(
                "GPU power",
                "Power draw, and what the GPU may draw.",
                "watt",
                gpu("power_watts", "GPU"),
                gpu("power_limit_watts", "limit of GPU"),
            ),
            lines(
                "GPU clocks",
                "Clock frequency by domain.",
                "hertz",
                _sensor("gpu_clock_hertz", "{{domain}} {{gpu}}", "gpu, domain"),
            ),
            lines(
                "GPU throttled",
                "1 while the GPU is slow because it is hot, and the share of time for "
                "which each reason held its clocks down.",
                "none",
                gpu("throttled", "GPU"),
                _rate("gpu_throttle_seconds_total", "{{reason}} {{gpu}}", "gpu, reason"),
            ),
            lines(
                "PCIe traffic",
                "Bytes per second between the GPU and the machine.",
                "Bps",
                gpu("pcie_receive_bytes_per_second", "receive"),
                gpu("pcie_transmit_bytes_per_second", "transmit"),
            ),
            lines(
                "NVLinks",
                "Links that work, and errors on them per second, by kind.",
                "none",
                Query(
                    "sum by (gpu) (max by (gpu, link) (plimsoll_node_gpu_nvlink_up))", "up {{gpu}}"
                ),
                _rate("gpu_nvlink_errors_total", "{{kind}} {{gpu}}", "gpu, kind"),
            ),
            lines(
                "GPU faults",
                "Faults, memory errors and repeated packets since the driver was loaded.",
                "none",
                gpu("faults_total", "faults"),
                _sensor("gpu_ecc_errors_total", "memory {{kind}} {{gpu}}", "gpu, kind"),
                gpu("pcie_replays_total", "PCIe replays"),
                _sensor("gpus_lost", "GPUs lost"),
            ),
        ],
        collapsed=True,
    )


def _jobs() -> Row:
    def watch(name: str) -> Query:
        return _sensor(f"watched_{name}", "{{watch}}", "watch")

    return Row(
        "Jobs",
        [
            lines(
                "Processor time of watched processes",
                "Cores' worth of processor time, by watch.",
                "none",
                watch("cpu_ratio"),
            ),
            lines(
                "Memory of watched processes",
                "Resident memory of their processes, by watch.",
                "bytes",
                watch("resident_bytes"),
            ),
            lines(
                "Peak, shared and swapped memory of watched processes",
                "Highest resident memory of each process, its part of shared pages, and what is swapped out, by watch.",
                "bytes",
                _sensor("watched_peak_bytes", "{{watch}} peak", "watch"),
                _sensor("watched_proportional_bytes", "{{watch}} proportional", "watch"),
                _sensor("watched_swap_bytes", "{{watch}} swapped out", "watch"),
            ),
            lines(
                "Growth of watched memory",
                "Steady growth over up to four hours, by watch; 0 if none is certain.",
                "Bps",
                watch("growth_bytes_per_second"),
            ),
            lines(
                "Time until watched memory reaches its limit",
                "Both ends of the forecast, by watch; 30 days if it does not grow.",
                "s",
                _sensor("watched_limit_earliest_seconds", "{{watch}} earliest", "watch"),
                _sensor("watched_limit_latest_seconds", "{{watch}} latest", "watch"),
            ),
            lines(
                "Watched processes",
                "Number of processes that each watch finds.",
                "none",
                watch("processes"),
            ),
            lines(
                "Gauges of jobs",
                "Latest values of all gauges that jobs send.",
                "none",
                Query('{__name__=~"plimsoll_job_value_.+",mesh=~"$mesh",node="$node"}'),
                minimum=None,
            ),
            lines(
                "Counters of jobs",
                "Sums of all counters that jobs send.",
                "none",
                Query('{__name__=~"plimsoll_job_count_.+",mesh=~"$mesh",node="$node"}'),
                minimum=None,
            ),
            lines(
                "Events",
                "Events and service checks so far, by source and type.",
                "short",
                _sensor("events_total", "{{source}} {{alert_type}}", "source, alert_type"),
            ),
        ],
    )


def _bus() -> Row:
    return Row(
        "Queue and broker",
        [
            lines(
                "Queue depth",
                "Messages in the outbox as they were produced, and merged.",
                "short",
                _sensor("outbox_depth", "depth"),
                _sensor("outbox_max_depth", "most of an interval"),
                _sensor("outbox_messages", "merged"),
            ),
            lines(
                "How full the queue is",
                "The worst of depth, bytes and age. At 1 the node drops.",
                "percentunit",
                _sensor("outbox_pressure_ratio", "outbox"),
                rule("outbox_pressure"),
            ),
            lines(
                "Age of the oldest message",
                "Age of the oldest message that the broker has not stored.",
                "s",
                _sensor("outbox_age_seconds", "age"),
            ),
            lines("Queue size", "Bytes in the outbox.", "bytes", _sensor("outbox_bytes", "outbox")),
            lines(
                "Messages",
                "Messages per second, by outcome.",
                "cps",
                _rate("messages_total", "{{outcome}}", "outcome"),
            ),
            lines(
                "Connection to the broker",
                "Latest round trip, and by how much it exceeds the mesh's median.",
                "s",
                _sensor("broker_round_trip_seconds", "round trip"),
                _sensor("link_delay_seconds", "longer than usual"),
                rule("link_delay_seconds"),
                minimum=None,
            ),
            lines(
                "Modes",
                "1 while the node is in the mode.",
                "none",
                _sensor("rerouting", "rerouting"),
                _sensor("dropping", "dropping"),
                _sensor("conservative_mode", "conservative"),
                _sensor("spool_durable", "spool durable"),
                _sensor("breaker_state", "breaker {{state}}", "state"),
            ),
            lines(
                "Dropped and rejected",
                "Datagrams that the kernel dropped and lines that the node rejected so far.",
                "short",
                _sensor("kernel_dropped_datagrams_total", "datagrams"),
                _sensor("rejected_lines_total", "{{reason}}", "reason"),
            ),
            lines(
                "Messages distrusted",
                "Ids of its messages that someone else had used, and confirmations that it refused.",
                "none",
                _sensor("taken_message_ids_total", "ids taken"),
                _sensor("refused_confirmations_total", "confirmations: {{reason}}", "reason"),
            ),
            lines(
                "Restarted tasks",
                "Tasks and threads of the node that ended and were started again.",
                "none",
                _sensor("task_restarts_total", "restarts"),
            ),
        ],
    )


def _ledger() -> Row:
    return Row(
        "Ledger",
        [
            lines(
                "Samples",
                "Samples recorded by the node and merged by the aggregator, per second.",
                "cps",
                _rate("recorded_samples_total", "recorded"),
                _rate("merged_samples_total", "merged"),
            ),
            lines(
                "Samples on the way or missing",
                "Held by the node, dropped by the stream before they "
                "were read, missing from ended runs, or missing below the newest message.",
                "short",
                _sensor("held_samples", "held"),
                _sensor("unread_samples", "unread"),
                _sensor("unaccounted_samples", "unaccounted"),
                _sensor("gap_samples", "gap"),
                _sensor("sequence_gaps", "sequence numbers missing"),
            ),
            lines(
                "Losses by reason",
                "Samples that the node has lost so far. A step is a loss.",
                "short",
                Query(
                    "max by (reason) (plimsoll_node_lost_samples_total) "
                    "or max(plimsoll_node_held_samples) * 0",
                    "{{reason}}",
                ),
            ),
            lines(
                "Unknown time and duplicate names",
                "Seconds of crashed incarnations without a report, and messages of another node "
                "with the same name.",
                "none",
                Query("max(plimsoll_node_unknown_seconds_total)", "unknown seconds"),
                _sensor("duplicate_name_snapshots_total", "messages of another node"),
            ),
            lines(
                "Readings without a value",
                "Sensors that could not be read, by state.",
                "none",
                Query(
                    "sum by (state) (max by (sensor, state, reason) "
                    "(plimsoll_node_missing_readings))",
                    "{{state}}",
                ),
                stacked=True,
            ),
            lines(
                "Cost of the node agent",
                "Cores' worth of processor time of the agent and of its sensor threads.",
                "none",
                _sensor("process_cpu_ratio", "agent"),
                _rate("sampling_cpu_seconds_total", "sensors {{thread}}", "thread"),
            ),
        ],
    )


def _any_sensor() -> Row:
    return Row(
        "Any sensor",
        [
            lines(
                "Chosen sensors",
                "Readings of the sensors that are chosen, and thresholds of rules on them.",
                "none",
                Query('{__name__=~"plimsoll_node_$sensor",mesh=~"$mesh",node="$node"}'),
                Query(
                    'max by (rule) (plimsoll_rule_threshold{metric=~"(sensor:)?$sensor"})',
                    "rule {{rule}}",
                ),
                width=24,
                minimum=None,
            ),
        ],
    )


def _sensors() -> Json:
    """A choice of sensors. At first one, since all are thousands of lines."""
    names = 'label_values({__name__=~"plimsoll_node_.+",mesh=~"$mesh",node="$node"}, __name__)'
    one = {"selected": True, "text": ["uptime_seconds"], "value": ["uptime_seconds"]}
    chosen: Json = {"regex": "/^plimsoll_node_(.+)/", "current": one}
    return variable("sensor", "Sensor", names, every=True) | chosen


def dashboard() -> Json:
    """The dashboard of one node."""
    operations = (
        'label_values(plimsoll_latency_samples_total{mesh=~"$mesh",node="$node"}, operation)'
    )
    variables = [
        variable("node", "Node", 'label_values(plimsoll_node_info{mesh=~"$mesh"}, node)'),
        variable("operation", "Operation", operations, every=True),
        _sensors(),
    ]
    rows = [
        _now(),
        _latency(),
        _processors(),
        _memory(),
        _disks(),
        _network(),
        _gpus(),
        _jobs(),
        _bus(),
        _ledger(),
        _any_sensor(),
    ]
    return Dashboard(
        "plimsoll-node",
        "Plimsoll: node",
        "Latencies of one node beside its hardware, its queue and its ledger.",
        variables,
        rows,
        {"mesh": '=~"$mesh"', "node": '="$node"'},
        without={"node": {"plimsoll_budget_limit_seconds", "plimsoll_rule_threshold"}},
    ).json()
