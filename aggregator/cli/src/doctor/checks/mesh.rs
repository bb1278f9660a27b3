//! Checks of what aggregators report: they answer, rules match, clocks and versions agree.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::figure::{counted, span};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::summary::{BudgetRow, NodeHistory, NodeStatus, Summary, Verdict};

use super::super::finding::{DoctorReport, Finding};
use super::super::limits::{CLOCK_SECONDS, CLOCK_SHARE, NAMES_MAX};
use super::super::mesh::{AggregatorFacts, NodeFacts, Pages, Readiness, cause_and_fix};
use super::super::settings::Local;

const HISTORY_FIX: &str = "[history] path = \"/var/lib/plimsoll-node/history\" in node.toml, some \
                           180 MB a day up to mib_max; a broker with users: plimsoll nats-config";
/// What `/readyz` starts with while the aggregator only needs time.
const READING: &str = "reading the streams' backlog";

/// Checks each aggregator and the nodes that it reports.
pub(in super::super) fn check(
    aggregators: &[AggregatorFacts],
    local: &Local,
    report: &mut DoctorReport,
) {
    for AggregatorFacts { url, pages } in aggregators {
        report.add("aggregator", Ok(answers(url, pages)));
        match pages {
            Ok(Pages { summary, nodes, histories: answered, .. }) => {
                let wanted = local.mesh().map(MeshName::as_str);
                report.add("mesh", mesh(url, &summary.mesh, wanted));
                report.add("rules", Ok(rules(url, summary)));
                report.add("clocks", clocks(nodes));
                report.add("versions", Ok(versions(&summary.version, nodes)));
                report.add("history", histories(answered));
            }
            Err(_) => {
                for name in ["mesh", "rules", "clocks", "versions", "history"] {
                    report.add(name, Err(format!("the aggregator {url} does not answer")));
                }
            }
        }
    }

    if let Ok(node) = &local.node {
        report.add("history", Ok(history_of_settings(node.history.path.is_some())));
    }
}

/// Checks what the node on this machine states about itself.
pub(in super::super) fn check_node(facts: Result<NodeFacts, String>, report: &mut DoctorReport) {
    let checked = facts.and_then(|NodeFacts { url, readiness }| {
        let silent = |error| format!("the node {url} does not answer: {error}");
        let Readiness { unready, warnings } = readiness.map_err(silent)?;
        let mut found = Vec::new();
        if let Some(cause) = unready {
            found.push(not_ready(&url, &cause, "see the log of the node"));
        }
        found.extend(warned(&url, &warnings));
        Ok(found)
    });
    report.add("node", checked);
}

fn not_ready(url: &str, cause: &str, else_fix: &str) -> Finding {
    let (cause, fix) = cause_and_fix(cause);
    Finding::error(url, format!("is not ready: {cause}"), fix.unwrap_or(else_fix))
}

/// The warnings of a program that is ready, in its own words.
fn warned<'a>(url: &'a str, warnings: &'a [String]) -> impl Iterator<Item = Finding> + 'a {
    warnings.iter().map(move |line| {
        let (cause, fix) = cause_and_fix(line);
        Finding::warning(url, cause.to_owned(), fix.unwrap_or("see its log"))
    })
}

fn answers(url: &str, pages: &Result<Pages, String>) -> Vec<Finding> {
    let Pages { summary, readiness, .. } = match pages {
        Ok(pages) => pages,
        Err(error) => {
            let fix = match error {
                _ if error.contains(": 401 ") => {
                    "give the token of http.reader_token_file with --token-file"
                }
                _ if error.contains("certificate") => {
                    "give the authority of http.certificate_file with --ca-file"
                }
                _ => "start plimsoll-aggregator, or give its address with --url",
            };
            return vec![Finding::error(url, format!("does not answer: {error}"), fix)];
        }
    };

    let mut found = Vec::new();
    let unready = readiness.unready.as_deref();

    match unready {
        // The broker first: without it the other causes follow from it.
        _ if summary.broker == "disconnected" => {
            let cause = unready.map_or("", |cause| cause_and_fix(cause).0);
            let cause = if cause.is_empty() { String::new() } else { format!(": {cause}") };
            let what = format!("is not connected to its broker{cause}");
            let fix = "start the broker, or correct the aggregator's bus.url";
            found.push(Finding::error(url, what, fix));
        }
        Some(cause) if !cause.starts_with(READING) => {
            found.push(not_ready(url, cause, "see the log of the aggregator"));
        }
        _ if !summary.ready => {
            let what = "still reads the streams' backlog, so nothing is judged".to_owned();
            found.push(Finding::warning(url, what, "wait; with --state a restart reads far less"));
        }
        _ => {}
    }

    found.extend(warned(url, &readiness.warnings));
    found
}

fn mesh(url: &str, serves: &str, wanted: Option<&str>) -> Result<Vec<Finding>, String> {
    let wanted = wanted.ok_or("no mesh is named in the settings or by --mesh")?;
    if serves == wanted {
        return Ok(Vec::new());
    }
    let what = format!("serves the mesh {serves:?}; this machine's settings name {wanted:?}");
    Ok(vec![Finding::error(url, what, "set mesh to the same name everywhere")])
}

fn rules(url: &str, summary: &Summary) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(error) = &summary.rules.rules_error {
        let what = format!("the rule files are invalid, the previous rules stay active: {error}");
        let fix = "plimsoll-aggregator --rules FILE --check-config names the key";
        found.push(Finding::error(url, what, fix));
    }

    // Before jobs send anything no budget can match.
    let has_samples = summary.samples.is_some_and(|samples| samples.jobs > 0);
    let is_seen = |operation: &str| summary.operations.iter().any(|of| of.operation == operation);

    let never = |row: &&BudgetRow| {
        let is_fleets = row.scope == Scope::Fleet && row.verdict == Verdict::NoData;
        is_fleets && has_samples && !is_shipped(&row.budget) && !is_seen(&row.operation)
    };

    let mut budgets: BTreeMap<&str, String> = summary
        .budgets
        .iter()
        .filter(never)
        .map(|row| (row.budget.as_str(), format!("of operation {:?} ", row.operation)))
        .collect();

    for name in &summary.rules.unmatched {
        budgets.entry(name).or_default();
    }

    for (budget, of) in budgets {
        let what = format!("no sample {of}has matched the budget");
        let fix = format!(
            "correct operation, labels or node_labels of [[budget]] {budget:?}, or set enabled = \
             false; plimsoll query lists operations"
        );
        found.push(Finding::warning(&format!("budget {budget}"), what, &fix));
    }

    for budget in &summary.rules.insufficient {
        let what = "has too few samples to be judged, and some are over the limit".to_owned();
        let fix = "set a longer window or a lower quantile";
        found.push(Finding::warning(&format!("budget {budget}"), what, fix));
    }

    found
}

/// A mesh may lack the operations of the budgets that ship.
fn is_shipped(budget: &str) -> bool {
    plimsoll_schemas::budget::BUILT_IN.contains(&format!("name = {budget:?}"))
}

#[expect(clippy::cast_precision_loss, reason = "a share of nodes")]
fn clocks(nodes: &[NodeStatus]) -> Result<Vec<Finding>, String> {
    let known: Vec<(&str, f64)> = nodes
        .iter()
        .filter_map(|node| Some((node.row.node.as_str(), node.clock_ahead_seconds?)))
        .collect();

    if known.is_empty() {
        return Err("the clock offset of no node is known".to_owned());
    }

    let off: Vec<(&str, f64)> =
        known.iter().copied().filter(|(_, ahead)| ahead.abs() >= CLOCK_SECONDS).collect();

    let Some((_, worst)) = off.iter().copied().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
    else {
        return Ok(Vec::new());
    };

    // Offsets are against the broker's clock: if most nodes
    // are off by much, it is the one that is wrong.
    let is_brokers = known.len() > 1 && off.len() as f64 >= CLOCK_SHARE * known.len() as f64;
    let names: Vec<&str> = off.iter().map(|(node, _)| *node).collect();
    let place = if is_brokers { "broker's machine".to_owned() } else { listed(&names) };
    let sign = if worst > 0.0 { "+" } else { "" };

    let what = format!(
        "the clock differs from the broker's by up to {sign}{} on {} of {}",
        span(worst),
        off.len(),
        counted(known.len() as u64, "node")
    );

    let fix = "chronyc makestep there, and keep NTP running: timedatectl set-ntp true";
    Ok(vec![Finding::warning(&place, what, fix)])
}

fn versions(aggregator: &str, nodes: &[NodeStatus]) -> Vec<Finding> {
    let mut others: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let (name, version) = (node.row.node.as_str(), node.row.version.as_str());
        if !version.is_empty() && version != aggregator {
            others.entry(version).or_default().push(name);
        }
    }

    let finding = |(version, names): (&str, Vec<&str>)| {
        let nodes = counted(names.len() as u64, "node");
        let what = format!("version {version} on {nodes}, {aggregator} on the aggregator");
        let fix = format!("install {aggregator} there; aggregators are upgraded first");
        Finding::warning(&listed(&names), what, &fix)
    };

    others.into_iter().map(finding).collect()
}

fn histories(answered: &Result<Vec<NodeHistory>, String>) -> Result<Vec<Finding>, String> {
    let answered = answered.as_ref().map_err(Clone::clone)?;
    if answered.is_empty() {
        return Err("no node is up".to_owned());
    }

    let without: Vec<(&str, &str)> = answered
        .iter()
        .filter_map(|node| Some((node.node.as_str(), node.error.as_deref()?)))
        .collect();
    let Some((_, error)) = without.first() else { return Ok(Vec::new()) };

    let names: Vec<&str> = without.iter().map(|(node, _)| *node).collect();
    let nodes = counted(answered.len() as u64, "node");
    let what = format!(
        "{} of {nodes} gave nothing of their own history, which charts of machines and query \
         --node need: {error}",
        names.len()
    );
    Ok(vec![Finding::warning(&listed(&names), what, HISTORY_FIX)])
}

fn history_of_settings(is_kept: bool) -> Vec<Finding> {
    let what = "is not set: charts of this machine and query --node have nothing to show";
    let finding = || Finding::warning("history.path of the node", what.to_owned(), HISTORY_FIX);
    (!is_kept).then(finding).into_iter().collect()
}

fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    let rest = names.len().saturating_sub(NAMES_MAX);
    if rest > 0 { format!("{shown} and {rest} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::summary::{NodeRow, Presence, SampleTotals};
    use serde_json::json;

    use super::*;

    fn summary() -> Summary {
        let text = json!({"mesh": "m", "version": "0.2.0", "at_seconds": 0.0, "ready": true,
            "broker": "jetstream", "nodes": [], "operations": [], "budgets": [], "changes": [],
            "samples": {"jobs": 10, "own": 1}});
        serde_json::from_value(text).unwrap()
    }

    fn pages(summary: Summary, readiness: Readiness) -> Pages {
        Pages { summary, nodes: Vec::new(), readiness, histories: Ok(Vec::new()) }
    }

    fn budget(name: &str, operation: &str, verdict: Verdict) -> BudgetRow {
        let text = json!({"budget": name, "operation": operation, "scope": "fleet",
            "quantile": 0.99, "limit_ns": 1, "window": "1m", "samples": 0, "value_ns": null,
            "lower_ns": null, "verdict": verdict, "alert": "inactive"});
        serde_json::from_value(text).unwrap()
    }

    fn node(name: &str, version: &str, ahead: Option<f64>) -> NodeStatus {
        NodeStatus {
            row: NodeRow {
                node: name.to_owned(),
                presence: Presence::Up,
                last_seen_seconds: 0.0,
                ledger: Default::default(),
                gap_samples: 0,
                outbox_depth: 0,
                outbox_depth_max: 0,
                rerouted: 0,
                dropped: 0,
                version: version.to_owned(),
                suspect_units: 0,
            },
            labels: Default::default(),
            samples: SampleTotals::default(),
            newest_sample_seconds: None,
            clock_ahead_seconds: ahead,
            round_trip_seconds: None,
            delay_seconds: None,
            incarnations: Vec::new(),
            troubles: Vec::new(),
            machine: None,
        }
    }

    #[test]
    fn an_aggregator_that_answers_nothing_and_one_that_is_cut_off_are_errors() {
        let absent = Err("Connection refused".to_owned());
        assert!(answers("u", &absent)[0].fix.contains("--url"));
        let closed = Err("http://u/metrics/summary: 401 Unauthorized: reading needs".to_owned());
        assert!(answers("u", &closed)[0].fix.contains("--token-file"));
        let unknown = Err("invalid peer certificate: UnknownIssuer".to_owned());
        assert!(answers("u", &unknown)[0].fix.contains("--ca-file"));
        let with = |summary, unready: Option<&str>, warnings: &[&str]| {
            let warnings = warnings.iter().map(|text| (*text).to_owned()).collect();
            let readiness = Readiness { unready: unready.map(str::to_owned), warnings };
            answers("u", &Ok(pages(summary, readiness)))
        };
        let of = |summary| with(summary, None, &[]);
        assert_eq!(of(summary()), []);
        let cut_off = Summary { broker: "disconnected".to_owned(), ..summary() };
        assert_eq!(of(cut_off)[0].what, "is not connected to its broker");
        assert!(of(Summary { ready: false, ..summary() })[0].what.contains("backlog"));
        let reading = Some("reading the streams' backlog: 7 messages left");
        let found = with(Summary { ready: false, ..summary() }, reading, &[]);
        assert!(found[0].fix.starts_with("wait;"), "{found:?}");
    }

    #[test]
    fn the_cause_and_its_fix_are_those_of_readyz() {
        let streams = "streams not created: the broker has no room for a stream: jetstream refused: \
                       insufficient storage resources available (10047); raise `max_file_store`";
        let receiver = "receiver chat: HTTP 403 Forbidden: invalid_token; correct its url";
        let (unready, warnings) = (Some(streams.to_owned()), vec![receiver.to_owned()]);
        let readiness = Readiness { unready, warnings };
        let summary = Summary { ready: false, ..summary() };
        let found = answers("u", &Ok(pages(summary, readiness)));
        let shown: Vec<_> = found.iter().map(|of| (of.what.as_str(), of.fix.as_str())).collect();
        assert_eq!(
            shown,
            [
                (
                    "is not ready: streams not created: the broker has no room for a stream: \
                     jetstream refused: insufficient storage resources available (10047)",
                    "raise `max_file_store`"
                ),
                ("receiver chat: HTTP 403 Forbidden: invalid_token", "correct its url"),
            ]
        );
    }

    #[test]
    fn a_node_states_what_is_wrong_with_it() {
        let found = |readiness| {
            let mut report = DoctorReport::default();
            check_node(Ok(NodeFacts { url: "u".to_owned(), readiness }), &mut report);
            let found = report.findings().iter().map(|of| (of.what.clone(), of.fix.clone()));
            (found.collect::<Vec<_>>(), report.skipped())
        };
        assert_eq!(found(Ok(Readiness::default())), (vec![], vec![]));
        assert_eq!(found(Err("connection refused".to_owned())), (vec![], vec!["node"]));
        let scrape = "scrape of http://t/ failed: HTTP 403 Forbidden; correct scrape.url";
        let warned = Readiness { unready: None, warnings: vec![scrape.to_owned()] };
        let expected = ("scrape of http://t/ failed: HTTP 403 Forbidden", "correct scrape.url");
        let expected = (expected.0.to_owned(), expected.1.to_owned());
        assert_eq!(found(Ok(warned)), (vec![expected], vec![]));
    }

    #[test]
    fn settings_of_another_mesh_are_found() {
        assert_eq!(mesh("u", "m", Some("m")), Ok(Vec::new()));
        assert!(mesh("u", "m", Some("lab")).unwrap()[0].what.contains("\"lab\""));
        assert!(mesh("u", "m", None).is_err());
    }

    #[test]
    fn a_budget_that_nothing_matches_is_named_with_its_operation() {
        let budgets = vec![
            budget("checkpoint", "chekpoint", Verdict::NoData),
            // Shipped, with samples, and not yet judged.
            budget("kernel_fetch", "kernel_fetch", Verdict::NoData),
            budget("fetch", "fetch", Verdict::Within),
            budget("load", "load", Verdict::Insufficient),
        ];
        let mut of = Summary { budgets, ..summary() };
        let found = rules("u", &of);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].place, "budget checkpoint");
        assert_eq!(found[0].what, "no sample of operation \"chekpoint\" has matched the budget");
        assert!(found[0].fix.contains("[[budget]] \"checkpoint\""), "{}", found[0].fix);

        // The aggregator's own list has those of labels; each is named once.
        of.rules.unmatched = vec!["checkpoint".to_owned(), "fetch".to_owned()];
        assert_eq!(rules("u", &of).len(), 2);
        of.rules.rules_error = Some("rules.toml: limit".to_owned());
        of.rules.insufficient = vec!["load".to_owned()];
        assert_eq!(rules("u", &of).len(), 4);

        // Without samples of jobs there is no finding.
        let samples = Some(SampleTotals::default());
        let quiet = Summary { samples, budgets: of.budgets.clone(), ..summary() };
        assert_eq!(rules("u", &quiet), []);
    }

    #[test]
    fn a_clock_that_is_off_is_the_nodes_and_half_of_them_are_the_brokers() {
        let nodes = |ahead: &[f64]| -> Vec<NodeStatus> {
            let named = (1..).zip(ahead).map(|(n, ahead)| node(&format!("n{n}"), "", Some(*ahead)));
            named.collect()
        };
        assert_eq!(clocks(&nodes(&[0.1, -4.9])), Ok(Vec::new()));
        let one = clocks(&nodes(&[0.0, -7.25, 0.0])).unwrap();
        assert_eq!(one[0].place, "n2");
        assert_eq!(
            one[0].what,
            "the clock differs from the broker's by up to -7.25 s on 1 of 3 nodes"
        );
        assert_eq!(clocks(&nodes(&[60.0, 60.0, 0.0])).unwrap()[0].place, "broker's machine");
        assert_eq!(clocks(&nodes(&[60.0])).unwrap()[0].place, "n1");
        assert!(clocks(&[node("n", "", None)]).is_err());
    }

    #[test]
    fn nodes_without_a_history_are_named_with_the_setting() {
        let node = |name: &str, error: Option<&str>| NodeHistory {
            node: name.to_owned(),
            samples: 0,
            answered_from_seconds: 0.0,
            kept_from_seconds: None,
            missing: 0,
            error: error.map(str::to_owned),
        };
        let with = vec![node("a", None), node("b", None)];
        assert_eq!(histories(&Ok(with.clone())), Ok(Vec::new()));
        let some = [with, vec![node("c", Some("no answer")), node("d", Some("no answer"))]];
        let found = histories(&Ok(some.concat())).unwrap();
        assert_eq!((found.len(), found[0].place.as_str()), (1, "c, d"));
        assert!(found[0].what.starts_with("2 of 4 nodes gave nothing"), "{found:?}");
        assert!(found[0].what.ends_with(": no answer"), "{found:?}");
        assert!(found[0].fix.starts_with("[history] path = "), "{found:?}");
        assert_eq!(histories(&Ok(Vec::new())), Err("no node is up".to_owned()));
        assert_eq!(histories(&Err("404".to_owned())), Err("404".to_owned()));
        assert_eq!(history_of_settings(true), []);
        assert_eq!(history_of_settings(false)[0].place, "history.path of the node");
    }

    #[test]
    fn nodes_of_other_versions_are_grouped() {
        let nodes = [node("a", "0.2.0", None), node("b", "0.1.0", None), node("c", "0.1.0", None)];
        let found = versions("0.2.0", &nodes);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "b, c");
        assert_eq!(found[0].what, "version 0.1.0 on 2 nodes, 0.2.0 on the aggregator");
        assert_eq!(versions("0.2.0", &nodes[..1]), []);
    }
}
