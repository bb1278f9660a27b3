//! The table of routes: what each takes and gives.

use axum::http::StatusCode;
use plimsoll_compare::Comparison;
use plimsoll_schemas::alert::{Acknowledgement, AlertState, AlertsPage, SilenceRow, SilencesPage};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::ids::{NodeName, Operation, RuleName, RunName};
use plimsoll_schemas::limits::api::HISTORY_ANSWER_BYTES_MAX;
use plimsoll_schemas::limits::wire::TOKEN_BYTES_MAX;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::summary::{
    BackpressurePage, BlamePage, BottlenecksPage, EventsPage, HardwareHistoryPage, HardwarePage,
    HeadroomPage, HeatmapPage, HistoryPage, LedgerPage, MESSAGEPACK, MetricHistoryPage,
    MetricHistoryPages, MetricsPage, NodePage, NodesPage, OperationsPage, Presence, ProfileRequest,
    ProfileRow, ProfilesPage, Pulse, RunPage, RunRow, RunState, RunsPage, StatisticsPage, Summary,
};
use plimsoll_schemas::wire::capture::CaptureKind;
use plimsoll_schemas::wire::{AlertType, EventSource};
use serde_json::{Value, json};

use super::parameters::{many, named, of_path, query, required, whole_number, with_example};
use super::route::Refused::{
    BadRequest, Conflict, Failed, NotFound, ProfileConflict, RunConflict, TooManyStreams,
    Unavailable,
};
use super::route::{Route, delete, get, post};
use super::schemas::Schemas;
use crate::core::alerting::Undeliverable;
use crate::core::history::Resolution;
use crate::io::http::orders::{AcknowledgementBody, SilenceBody};
use crate::io::http::profiles::KeepBody;
use crate::io::http::runs::{BeginBody, StopBody};
use crate::limits::captures::PAGE_MAX;
use crate::limits::runs::{RUN_OPERATIONS_MAX, RUNS_MAX};
use crate::limits::{EVENTS_KEPT_MAX, HARDWARE_PAGE_MAX, HEATMAP_BANDS_MAX, NODES_PAGE_MAX};

/// The groups of routes.
pub(super) const TAGS: [(&str, &str); 8] = [
    ("metrics", "Pages for Prometheus"),
    ("state", "The mesh as it is now"),
    ("history", "The past, if a history is kept"),
    ("runs", "Named runs, and comparisons of two"),
    ("profiles", "Profiles of processes, captured on nodes"),
    ("alerts", "Alerts, silences and acknowledgements"),
    ("page", "The page for people and what it alone needs"),
    ("health", "Probes, and this document"),
];
const RANGE: &str = "Without `from`, `to` and `last`: the last hour. `last` excludes `from`; \
    `from` is before `to`; there are at most 3600 points.";

/// All routes.
pub(super) fn all(schemas: &mut Schemas) -> Vec<Route> {
    let groups = [
        ("page", page(schemas)),
        ("health", health()),
        ("metrics", metrics()),
        ("state", fleet(schemas)),
        ("state", nodes(schemas)),
        ("state", samples(schemas)),
        ("history", history(schemas)),
        ("runs", runs(schemas)),
        ("runs", run_changes(schemas)),
        ("profiles", profiles(schemas)),
        ("profiles", profile_forms()),
        ("alerts", alerts(schemas)),
        ("alerts", acknowledgements(schemas)),
        ("alerts", silences(schemas)),
    ];
    let tagged =
        groups.into_iter().map(|(tag, routes)| routes.into_iter().map(|of| of.tagged(tag)));
    tagged.flatten().collect()
}

fn page(schemas: &mut Schemas) -> Vec<Route> {
    // Only the data of its events refer to it.
    let _pulse = schemas.of::<Pulse>();
    vec![
        get(
            "/",
            "showPage",
            "The page for people if `Accept` names HTML, otherwise the list of paths",
        )
        .gives_text("The page or the list", &["text/html", "text/plain"]),
        get(
            "/api/v1/stream",
            "watch",
            "An event once a second, for pages that stay open; it does not end",
        )
        .gives_text("Events named `pulse`, each with a `Pulse` as its data", &["text/event-stream"])
        .or(&[TooManyStreams, Unavailable]),
        get("/page.js", "getScript", "The page's script")
            .gives_file("JavaScript", "text/javascript"),
        get("/page.css", "getStyle", "The page's style").gives_file("A style sheet", "text/css"),
        get("/runbook", "getRunbook", "What to do about each alert")
            .gives_file("One section for each rule", "text/markdown"),
    ]
}

fn health() -> Vec<Route> {
    let document = json!({ "application/json": { "schema": { "type": "object" } } });
    vec![
        get("/api/v1", "listPages", "All paths with their parameters").gives_shared("Text"),
        get("/healthz", "isAlive", "Whether the process runs").gives_shared("Text"),
        get(
            "/readyz",
            "isReady",
            "Whether the broker is connected and the streams' backlog has been read",
        )
        .gives_shared("Text")
        .or(&[Unavailable]),
        get("/api/v1/openapi.json", "getDocument", "This document").answers(
            StatusCode::OK,
            json!({ "description": "An OpenAPI 3.1 document", "content": document }),
        ),
    ]
}

fn metrics() -> Vec<Route> {
    vec![
        get(
            "/metrics",
            "getMetrics",
            "The fleet, roll-ups, budgets, the ledger's sums and the worst nodes",
        )
        .gives_shared("Metrics")
        .or(&[Unavailable]),
        get("/metrics/nodes", "getNodeMetrics", "All nodes, without the fleet")
            .gives_shared("Metrics")
            .or(&[Unavailable]),
    ]
}

/// All nodes together.
fn fleet(schemas: &mut Schemas) -> Vec<Route> {
    let [summary, headroom] = [schemas.of::<Summary>(), schemas.of::<HeadroomPage>()];
    let [backpressure, ledger] = [schemas.of::<BackpressurePage>(), schemas.of::<LedgerPage>()];
    let without_nodes = json!({ "type": "integer", "const": 0 });
    vec![
        get(
            "/metrics/summary",
            "getSummary",
            "The worst nodes, operations, roll-ups, budgets, the ledger's sums, alert changes",
        )
        .takes([query("nodes", "0 leaves out the rows of nodes", without_nodes)])
        .gives("The state of the mesh", &summary),
        get(
            "/api/v1/headroom",
            "listHeadroom",
            "Of every node the budget that is nearest to its limit",
        )
        .gives("All nodes, by name", &headroom),
        get(
            "/api/v1/backpressure",
            "getBackpressure",
            "What waits in outboxes and streams, and the ledger's sums",
        )
        .gives("The fleet, and the nodes with the fullest outboxes", &backpressure),
        get("/api/v1/blame", "getBlame", "Stragglers among peers, and why none is named")
            .gives("Alerts, cohorts, and what was refused", &schemas.of::<BlamePage>()),
        get("/api/v1/ledger", "getLedger", "The full ledger by node and run, with sequence gaps")
            .gives("What became of every sample", &ledger),
    ]
}

fn nodes(schemas: &mut Schemas) -> Vec<Route> {
    let name = schemas.of::<NodeName>();
    let presence = schemas.of::<Presence>();
    let sensor = query(
        "sensor",
        "Only readings of this sensor, whose metric is `plimsoll_node_<sensor>`",
        json!({ "type": "string" }),
    );
    let limit = |most| query("limit", "Nodes on the page", whole_number(1..=most, most));
    vec![
        get("/api/v1/nodes", "listNodes", "The state of each node, by name")
            .takes([
                named("node"),
                query("presence", "Only nodes in this state", presence),
                named("after"),
                limit(NODES_PAGE_MAX),
            ])
            .gives(
                "Nodes that have sent a message and have not expired",
                &schemas.of::<NodesPage>(),
            )
            .or(&[NotFound]),
        get(
            "/api/v1/nodes/{node}",
            "getNode",
            "One node with its operations, its budgets and its ledger entry",
        )
        .takes([of_path("node", "The node's name", name, json!("n7"))])
        .gives("All that is known of the node now", &schemas.of::<NodePage>())
        .or(&[NotFound]),
        get("/api/v1/hardware", "listReadings", "The newest sensor readings of each node, by name")
            .about("Only the newest readings are kept here: `from` and `to` are refused.")
            .takes([
                named("node"),
                with_example(sensor, json!("load1")),
                named("after"),
                limit(HARDWARE_PAGE_MAX),
            ])
            .gives(
                "Readings, those without a value among them with the reason",
                &schemas.of::<HardwarePage>(),
            )
            .or(&[NotFound]),
    ]
}

fn samples(schemas: &mut Schemas) -> Vec<Route> {
    let windows: Vec<_> = Window::ALL.map(Window::as_str).into_iter().chain(["total"]).collect();
    let window = json!({ "type": "string", "enum": windows, "default": "total" });
    let limit = whole_number(1..=EVENTS_KEPT_MAX, EVENTS_KEPT_MAX);
    let source = query("source", "Only these", schemas.of::<EventSource>());
    let alert_type = schemas.of::<AlertType>();
    vec![
        get(
            "/api/v1/statistics",
            "getStatistics",
            "Count, mean, deviation and percentiles of one operation",
        )
        .takes([
            named("operation"),
            named("node"),
            query("window", "A window that ends now; `total` for all samples ever merged", window),
        ])
        .gives("Statistics in seconds", &schemas.of::<StatisticsPage>())
        .or(&[NotFound, Failed]),
        get("/api/v1/events", "listEvents", "The newest events and service checks, newest first")
            .takes([
                query("limit", "Events on the page", limit),
                named("node"),
                source,
                query("alert_type", "Only those of this severity", alert_type),
            ])
            .gives("Events", &schemas.of::<EventsPage>()),
    ]
}

fn any_of(schemas: &[Value]) -> Value {
    json!({ "anyOf": schemas })
}

fn history(schemas: &mut Schemas) -> Vec<Route> {
    let points = format!(
        "Points with exact counts, completeness and the resolution used. With \
         `Accept: {MESSAGEPACK}` the same as MessagePack: maps with the names of HistoryPage, the \
         `distribution` of a point as the bytes of an uncompressed HdrHistogram of V2. At most {} \
         MiB.",
        HISTORY_ANSWER_BYTES_MAX / (1024 * 1024)
    );
    let range = ["from", "to", "last", "step"].map(named);
    let group = ["operation", "rollup", "value"].map(named);
    let either = ["operation_or_metric", "metric", "per", "rollup", "value"].map(named);
    let (page, of_metric) = (schemas.of::<HistoryPage>(), schemas.of::<MetricHistoryPage>());
    let of_metrics = schemas.of::<MetricHistoryPages>();
    let figures = ["quantiles", "over", "distribution"].map(named);
    let of_run =
        query("run", "The run, in its own range unless one is given", schemas.of::<RunName>());
    let cycle = "An operation that is a cycle although no phases are below its name";
    let cycle = query("cycle", cycle, schemas.of::<Operation>());
    let of_node = query("node", "A node, by its own history", schemas.of::<NodeName>());
    let shares = [of_run, named("rollup"), named("value"), of_node, cycle];
    let of_nodes = ["asked_node", "label"].map(named);
    let hardware = ["asked_node_required", "any_sensor"].map(named);
    let bands = query("bands", "Bands of latencies", whole_number(1..=HEATMAP_BANDS_MAX, 48));
    // Pages have it as a text.
    let _resolution = schemas.of::<Resolution>();
    vec![
        get("/api/v1/query", "query", "One operation, counter or gauge at any past time")
            .about(&format!(
                "{RANGE} Either `operation` or `metric` is required; `metric` goes with `per`, \
                 `rollup`, `value`, `node`, `label` and the range alone, and may be repeated without `per` and `node`: then all \
                 metrics are read at once. A group needs `rollup`, and a `value` for each of its labels. With \
                 `node`, nodes are asked for their own histories, which have every second; \
                 `rollup` is left out then, and `label` selects series."
            ))
            .takes([&either[..], &of_nodes, &range, &figures].concat())
            .gives(&points, &any_of(&[page, of_metric, of_metrics]))
            .or_as(MESSAGEPACK)
            .or(&[NotFound, Failed]),
        get("/api/v1/heatmap", "getHeatmap", "One operation by time and by latency")
            .about("As `/api/v1/query`. Without `step` there are 120 columns.")
            .takes([&group[..], &range, &figures, &[bands]].concat())
            .gives("Samples by column and band", &schemas.of::<HeatmapPage>())
            .or(&[NotFound, Failed]),
        get(
            "/api/v1/bottlenecks",
            "bottlenecks",
            "Where the time of a run or a range goes, and what is too much of it",
        )
        .about(
            "Shares of cycles and of the time of the nodes, from exact sums, and what the rules of \
             bottlenecks found. Without `run`, `from`, `to` and `last`: the last hour.",
        )
        .takes([&shares[..], &range[..3]].concat())
        .gives("Shares and bottlenecks", &schemas.of::<BottlenecksPage>())
        .or(&[NotFound, Failed]),
        get(
            "/api/v1/operations",
            "listOperations",
            "The operations and groups of which a history is kept; no parameters",
        )
        .gives("What the history holds", &schemas.of::<OperationsPage>())
        .or(&[BadRequest, NotFound, Failed]),
        get("/api/v1/metrics", "listMetrics", "Counters and gauges of jobs, now and kept")
            .about("It has no parameters.")
            .gives("What jobs send, and what the history has", &schemas.of::<MetricsPage>())
            .or(&[BadRequest, Failed]),
        get(
            "/api/v1/hardware/history",
            "hardware_history",
            "Hardware readings of nodes at any past time, from their own histories",
        )
        .about(RANGE)
        .takes([&hardware[..], &range].concat())
        .gives(
            "Lowest, mean and highest value of each reading in each point",
            &schemas.of::<HardwareHistoryPage>(),
        )
        .or(&[NotFound]),
    ]
}

fn runs(schemas: &mut Schemas) -> Vec<Route> {
    let page = schemas.of::<RunPage>();
    let operations = many(1..=RUN_OPERATIONS_MAX, schemas.of::<Operation>());
    let run = |key, description, name| required(query(key, description, name), json!("v42"));
    let side = json!({ "type": "string", "pattern": "^[A-Za-z0-9_.*-]+(,[A-Za-z0-9_.*-]+)*$" });
    vec![
        get("/api/v1/runs", "listRuns", "Runs, newest first")
            .takes([
                query("state", "Only runs in this state", schemas.of::<RunState>()),
                query("limit", "At most this many runs", whole_number(1..=RUNS_MAX, 100)),
            ])
            .gives("Runs", &schemas.of::<RunsPage>()),
        get(
            "/api/v1/runs/last",
            "lastRun",
            "The run that began last, with the latencies of its own window",
        )
        .gives("The run", &page)
        .or(&[BadRequest, NotFound, Failed]),
        get("/api/v1/runs/{name}", "run", "One run with the latencies of its own window")
            .takes([named("run")])
            .gives("The run", &page)
            .or(&[NotFound, Failed]),
        get(
            "/api/v1/runs/compare",
            "compareRuns",
            "Whether run b is worse than run a, with intervals",
        )
        .about(
            "The numbers of `plimsoll compare run:A run:B --json`. A side may be several runs: \
             names separated by commas, with `*` for any text.",
        )
        .takes([
            run("a", "The runs that are compared with", side.clone()),
            run("b", "The runs that are judged", side),
            query("operation", "Operations to compare; all without it", operations),
        ])
        .gives("The verdict of each operation and of all together", &schemas.of::<Comparison>())
        .or(&[NotFound, Failed]),
    ]
}

fn run_changes(schemas: &mut Schemas) -> Vec<Route> {
    let (run, page) = (schemas.of::<RunRow>(), schemas.of::<RunPage>());
    let stop = json!({
        "stop": { "operationId": "stopRun", "parameters": { "name": "$response.body#/name" } },
    });
    vec![
        post(
            "/api/v1/runs",
            "beginRun",
            "Begin a run: samples with its name as label `run` belong to it",
        )
        .takes_body(true, &schemas.of_body::<BeginBody>())
        .creates("The run", &run, stop)
        .or(&[RunConflict]),
        post("/api/v1/runs/{name}/stop", "stopRun", "End a run")
            .about(
                "One that has ended stays as it is. Samples that are still on their way are not \
                 counted yet.",
            )
            .takes([named("run")])
            .takes_body(false, &schemas.of_body::<StopBody>())
            .gives("The run with the latencies of its own window, as `run` gives it", &page)
            .or(&[NotFound, Failed]),
    ]
}

fn profiles(schemas: &mut Schemas) -> Vec<Route> {
    let profile = schemas.of::<ProfileRow>();
    let of_node = query("node", "Only captures of this node", schemas.of::<NodeName>());
    let of_rule = query("rule", "Only those that this rule ordered", schemas.of::<RuleName>());
    let of_run = query("run", "Only of its nodes and time", schemas.of::<RunName>());
    let kinds = json!({ "type": "string", "enum": CaptureKind::ALL.map(CaptureKind::as_str) });
    let of_kind = query("kind", "Only of this kind", kinds);
    let wanted = [of_node, of_rule, of_kind];
    let range = [named("from"), named("to"), named("last")];
    let limit = query("limit", "At most this many", whole_number(1..=PAGE_MAX, 100));
    let listed = wanted.iter().cloned().chain(range).chain([of_run, limit]);
    let show = json!({
        "show": { "operationId": "profile", "parameters": { "id": "$response.body#/id" } },
    });
    vec![
        get("/api/v1/profiles", "listProfiles", "Captures and their profiles, newest first")
            .about("With `from`, `to` or `last`: those that start in this range.")
            .takes(listed.collect::<Vec<_>>())
            .gives("Captures", &schemas.of::<ProfilesPage>())
            .or(&[NotFound]),
        post("/api/v1/profiles", "orderProfile", "Capture a profile of a process on a node")
            .about(
                "Its state is that of `/api/v1/profiles/{id}` until it has ended. Of kind `past` \
                    it is the sum of up to 64 `nodes`, or without any of all that are up.",
            )
            .takes_body(true, &schemas.of_body::<ProfileRequest>())
            .creates("The capture, which has not started", &profile, show)
            .or(&[NotFound, ProfileConflict]),
        get("/api/v1/profiles/last", "lastProfile", "The newest profile that is kept")
            .takes(wanted)
            .gives("The capture", &profile)
            .or(&[NotFound]),
        get("/api/v1/profiles/{id}", "profile", "One capture: its state, and how it went")
            .takes([named("profile")])
            .gives("The capture", &profile)
            .or(&[NotFound]),
        post("/api/v1/profiles/{id}/stop", "stopProfile", "End a capture early")
            .about(
                "What was taken so far is kept, as `torn` for the reason `stopped`; without any \
                    it is `failed`.",
            )
            .takes([named("capture")])
            .gives("The capture", &profile)
            .or(&[NotFound, ProfileConflict]),
        post("/api/v1/profiles/{id}/keep", "keepProfile", "Keep a profile under a name")
            .about("It does not expire.")
            .takes([named("profile")])
            .takes_body(true, &schemas.of_body::<KeepBody>())
            .gives("The capture", &profile)
            .or(&[NotFound, ProfileConflict, Failed]),
        delete("/api/v1/profiles/{id}/keep", "unkeepProfile", "Let a profile expire as others do")
            .takes([named("profile")])
            .ends("It has no name")
            .or(&[NotFound, Failed]),
    ]
}

/// The forms of a profile that is kept.
fn profile_forms() -> Vec<Route> {
    let (profile, minus) = (named("profile"), named("minus"));
    let (state, redact) = (named("state"), named("redact"));
    let of = |path, id, summary| get(path, id, summary).or(&[NotFound, Failed, Unavailable]);
    let object = |fields: &[&str]| json!({ "type": "object", "required": fields });
    let svg = |path, id| {
        of(path, id, "A flame graph of a profile, or of what it has more than another")
            .takes([profile.clone(), minus.clone(), state.clone(), redact.clone()])
            .gives_text("A picture", &["image/svg+xml"])
    };
    vec![
        of(
            "/api/v1/profiles/{id}/pprof",
            "profilePprof",
            "A profile in pprof, as its node sent it",
        )
        .takes([profile.clone(), redact.clone()])
        .gives_text("A compressed pprof file", &["application/octet-stream"]),
        svg("/api/v1/profiles/{id}/flamegraph.svg", "profileFlamegraph"),
        svg("/api/v1/profiles/{id}/svg", "profileSvg"),
        of("/api/v1/profiles/{id}/flame.json", "profileFlame", "The same flame graph as a tree")
            .takes([profile.clone(), minus.clone(), state.clone(), redact.clone()])
            .gives("Functions below their callers", &object(&["kind", "unit", "root"])),
        of("/api/v1/profiles/{id}/top.json", "profileTop", "The functions that take most")
            .takes([profile.clone(), named("functions"), state.clone(), redact.clone()])
            .gives("Those with most in total first", &object(&["profile_id", "top_functions"])),
        of("/api/v1/profiles/{id}/trace", "profileTrace", "A trace, for ui.perfetto.dev")
            .takes([profile.clone()])
            .gives_text("A Chrome trace as gzip", &["application/gzip"]),
        of("/api/v1/profiles/compare", "compareProfiles", "What one profile has more than another")
            .about("Values are units per second of either; times are seconds.")
            .takes([named("profile_a"), named("profile_b"), state, named("functions")])
            .gives(
                "Functions that differ most, and the tree of the difference",
                &object(&["a", "b", "unit", "top_functions", "flame"]),
            ),
    ]
}

fn alerts(schemas: &mut Schemas) -> Vec<Route> {
    let states = [AlertState::Firing, AlertState::Pending, AlertState::Resolved];
    let states = json!({ "type": "string", "enum": states.map(AlertState::as_str) });
    vec![
        get(
            "/api/v1/alerts",
            "listAlerts",
            "The active alerts with evidence, silences and acknowledgements",
        )
        .takes([
            query("state", "Only alerts in this state", states),
            query("rule", "Only alerts of this rule", schemas.of::<RuleName>()),
            named("node"),
            query("severity", "Only alerts of this severity", schemas.of::<Severity>()),
        ])
        .gives("Firing alerts first, then pending and resolved ones", &schemas.of::<AlertsPage>()),
        get(
            "/api/v1/alerts/undeliverable",
            "listUndeliverable",
            "The newest notifications that their receivers will not get, oldest first",
        )
        .gives("Undeliverable notifications", &schemas.of::<Vec<Undeliverable>>()),
    ]
}

fn acknowledgements(schemas: &mut Schemas) -> Vec<Route> {
    let rule = query("rule", "The alert's rule", schemas.of::<RuleName>());
    let node =
        json!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]*$", "maxLength": TOKEN_BYTES_MAX });
    let remove = json!({
        "remove": {
            "operationId": "unacknowledge",
            "parameters": {
                "rule": "$request.body#/rule",
                "operation": "$request.body#/operation",
            },
        },
    });
    vec![
        post(
            "/api/v1/alerts/acknowledge",
            "acknowledge",
            "Acknowledge an alert: receivers are notified only of its end",
        )
        .takes_body(true, &schemas.of_body::<AcknowledgementBody>())
        .creates("The acknowledgement", &schemas.of::<Acknowledgement>(), remove)
        .or(&[Conflict]),
        delete("/api/v1/alerts/acknowledge", "unacknowledge", "Remove an acknowledgement")
            .takes([
                required(rule, json!("epoch_hook")),
                query(
                    "node",
                    "The node that the alert is about; without it, or empty, the fleet",
                    node,
                ),
                named("operation"),
            ])
            .ends("Removed")
            .or(&[NotFound]),
    ]
}

fn silences(schemas: &mut Schemas) -> Vec<Route> {
    let id = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
    let end = json!({
        "end": { "operationId": "endSilence", "parameters": { "id": "$response.body#/id" } },
    });
    vec![
        get("/api/v1/silences", "listSilences", "The silences that are active or begin later")
            .gives("Silences by number", &schemas.of::<SilencesPage>()),
        post(
            "/api/v1/silences",
            "silence",
            "Silence alerts: receivers are not notified until the silence ends",
        )
        .takes_body(true, &schemas.of_body::<SilenceBody>())
        .creates("The silence with its number", &schemas.of::<SilenceRow>(), end)
        .or(&[Conflict]),
        delete("/api/v1/silences/{id}", "endSilence", "End a silence")
            .takes([of_path(
                "id",
                "The silence's number, which is this aggregator's own",
                id,
                json!(1),
            )])
            .ends("Ended")
            .or(&[NotFound]),
    ]
}
