//! The list of all paths with their parameters, for people who use curl.

/// One path a line; a test compares it with the OpenAPI document.
pub(super) const INDEX: &str = "plimsoll-aggregator
/                  the page for people, in a browser; this list for other clients
/api/v1            this list
/page.js, /page.css
                   the page's script and style
/runbook           what to do about each alert, as Markdown
/metrics           for Prometheus, as text, OpenMetrics or protobuf: the fleet, the worst nodes
/metrics/nodes     the same for all nodes, without the fleet
/metrics/summary   JSON: nodes, ledger, operations, budgets, alert changes
                   ?nodes=0 without rows of nodes
/api/v1/nodes      JSON: the state of each node, by name
                   ?node=, presence=up|silent|left, after=, limit=1..1000
/api/v1/nodes/<name>
                   JSON: one node with its operations, budgets and ledger entry
/api/v1/headroom   JSON: for each node the budget nearest to its limit
/api/v1/backpressure
                   JSON: messages waiting in outboxes and streams, and the ledger's sums
/api/v1/blame      JSON: stragglers among the ranks of jobs, and why none is named
/api/v1/hardware   JSON: the newest sensor readings of each node, by name
                   ?node=, sensor=, after=, limit=1..64
/api/v1/hardware/history
                   JSON: readings at any past time, from nodes' own histories
                   ?node=, sensor=, from=, to=, last=, step=
/api/v1/ledger     JSON: the full ledger by node and incarnation, with sequence gaps
/api/v1/statistics JSON: count, mean, std, min, max and percentiles of one operation, in its unit
                   ?operation=, node=, window=10s|1m|5m|30m|1h|2h|6h|1d|3d|30d|total
/api/v1/query      JSON: the past of one operation from exact counts, in its unit
                   ?operation=, rollup=, value=, from=, to=, last=2h, step=1m,
                   quantiles=0.5,0.99, over=18ms, distribution=true
                   `Accept: application/vnd.msgpack` for less than a twentieth of it
                   ?metric=, per=, rollup=, value=, from=, to=, last=2h, step=1m for a counter
                   or gauge; metric= for each of several, or node=, label= to ask nodes
/api/v1/metrics    JSON: counters and gauges of jobs, with their values now
/api/v1/heatmap    JSON: the same by time and latency; these parameters and ?bands=48
/api/v1/operations JSON: the operations and groups that the history has
/api/v1/bottlenecks
                   JSON: where the time of a run or a range goes, and what is too much of it
                   ?run=, rollup=, value=, node=, cycle=, from=, to=, last=2h
/api/v1/runs       JSON: the runs, newest first
                   ?state=running|ended|no_end, limit=1..1000
                   POST {name, labels, by}; POST /api/v1/runs/<name>/stop {exit_code}
/api/v1/runs/<name>
                   JSON: one run with the latencies from its start to its end; last: the newest
/api/v1/runs/last  JSON: the same for the run that started last
/api/v1/runs/compare
                   JSON: shifts from one run to another, or from several (a=v1-*) to several
                   ?a=, b=, operation=
/api/v1/profiles   JSON: captures and their profiles, newest first
                   ?node=, run=, rule=, kind=, from=, to=, last=2h, limit=1..1000
                   POST {node, operation, labels, pid, kind, native, seconds, hz}
/api/v1/profiles/last
                   JSON: the newest profile that is kept
                   ?node=, rule=, kind=
/api/v1/profiles/compare
                   JSON: the functions that B has more of than A, and the tree of the difference
                   ?a=, b=, n=20
/api/v1/profiles/<id>
                   JSON: one capture: its state, and how it went; below it
                   /pprof ?redact=true, /flamegraph.svg and /flame.json
                   ?minus=<id of a peer>, redact=true; /top.json ?n=20; /trace
                   POST /stop; POST /keep {name}, then name:<name> is an id; DELETE /keep
/api/v1/events     JSON: the newest events and service checks, newest first
                   ?limit=1..256, node=, source=event|service_check,
                   alert_type=info|success|warning|error
/api/v1/alerts     JSON: the active alerts with evidence, silences and acknowledgements
                   ?state=firing|pending|resolved, rule=, node=
/api/v1/alerts/acknowledge
                   POST {rule, node, operation, by, comment, for}; DELETE ?rule=, node=, operation=
/api/v1/silences   JSON: the silences that are active or start later
                   POST {match: {rule, node, operation, severity}, by, comment, for}
                   DELETE /api/v1/silences/<id>
                   POST and DELETE need `Authorization: Bearer <token>` with the http.token_file;
                   with http.reader_token_file all other requests need that token
/api/v1/alerts/undeliverable
                   JSON: the newest undeliverable notifications, oldest first
/api/v1/openapi.json
                   JSON: the OpenAPI document of all of these
/api/v1/stream     server-sent events: time, readiness and counts of alerts, once a second
/healthz           200 while the process runs
/readyz            200 while the broker is connected and the streams' backlog has been read;
                   a line `warning: ..` for each problem that does not prevent it
";
