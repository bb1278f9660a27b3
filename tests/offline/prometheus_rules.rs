//! The rules for Prometheus against those of the aggregator. Each of our rules has its counterpart
//! there, with the same severity and subject, and on machines with the same limit. Each of theirs
//! names one of ours, or is listed as one without a counterpart. Each has a test in which it fires
//! and one in which it does not, unless its text follows from one of our rules. Reads the files as
//! text and runs nothing: promtool evaluates them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use plimsoll_schemas::hardware::sensor;
use plimsoll_schemas::metric::Metric;
use plimsoll_schemas::rule::file::shipped;
use plimsoll_schemas::rule::{Comparison, Rule, Rules, Threshold};

/// Alerts about the aggregator itself and its rules, which the aggregator cannot evaluate.
const OF_PROMETHEUS_ALONE: [&str; 7] = [
    "PlimsollLedgerOff",
    "PlimsollNodesInTrouble",
    "PlimsollAggregatorDown",
    "PlimsollAggregatorNotReady",
    "PlimsollMetricsAbsent",
    "PlimsollRulesStale",
    "PlimsollBudgetUnmatched",
];

/// An alert of a rules file.
#[derive(Debug, Default)]
struct Alert {
    name: String,
    text: String,
    labels: BTreeMap<String, String>,
    selects: Vec<String>,
    /// With single spaces.
    expression: String,
}

fn files(folder: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let texts: Vec<String> = paths.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(texts.len() >= 3, "{}", folder.display());
    texts
}

/// The alerts of one file: each begins with its name, and its labels follow `labels:`.
fn alerts(text: &str) -> Vec<Alert> {
    let chunks = text.split("\n      - ").filter_map(|chunk| chunk.strip_prefix("alert: "));
    let alert = |chunk: &str| {
        let mut lines = chunk.lines();
        let name = lines.next().unwrap_or_default().to_owned();
        let inside = lines.clone().skip_while(|line| *line != "        labels:").skip(1);
        let labels = inside.map_while(|line| line.strip_prefix("          "));
        let labels = labels.filter_map(|line| line.split_once(": "));
        let labels =
            labels.map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned()));
        let selects = chunk.split("budget=\"").skip(1);
        let selects = selects.filter_map(|rest| rest.split('"').next());
        let (labels, selects) = (labels.collect(), selects.map(str::to_owned).collect());
        let expression = expression(chunk);
        Alert { name, text: chunk.to_owned(), labels, selects, expression }
    };
    chunks.map(alert).collect()
}

/// The PromQL of an alert, in one line.
fn expression(chunk: &str) -> String {
    let mut lines = chunk.lines().skip_while(|line| !line.starts_with("        expr:"));
    let first = lines.next().unwrap_or_default().trim_start().trim_start_matches("expr:");
    let rest = lines.take_while(|line| line.starts_with("          "));
    let all = first.split_whitespace().filter(|word| *word != "|");
    all.chain(rest.flat_map(str::split_whitespace)).collect::<Vec<_>>().join(" ")
}

fn all_alerts() -> Vec<Alert> {
    files("rules").iter().flat_map(|text| alerts(text)).collect()
}

/// The line for how long a rule's condition must hold; none for a rule that fires at once.
fn wait(rule: &Threshold) -> String {
    match rule.fire_after {
        1 => String::new(),
        seconds => format!("        for: {seconds}s\n"),
    }
}

/// The alert for Prometheus that follows from a rule on one sensor; `None` for other rules.
fn counterpart(rule: &Threshold) -> Option<String> {
    let Metric::Sensor(sensor) = &rule.metric else { return None };
    let labels = rule.labels.iter().map(|(key, value)| format!("{key}={value:?}"));
    let labels = labels.collect::<Vec<_>>().join(",");
    let selector = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
    let (readings, value) = (format!("plimsoll_node_{sensor}{selector}"), rule.value);
    let expr = match rule.comparison {
        Comparison::Greater => format!("max by (node) ({readings}) > {value}"),
        Comparison::Less => format!("min by (node) ({readings}) < {value}"),
        Comparison::Equal => format!("max by (node) ({readings} == {value})"),
    };

    let words = rule.name.as_str().split('_').map(|word| word.split_at(1));
    let alert: String = words.map(|(first, rest)| first.to_ascii_uppercase() + rest).collect();
    let wait = wait(rule);

    let about = &rule.about;
    let summary = about.summary.as_deref().unwrap_or_default().trim_end_matches('.');
    let summary = format!("{{{{ $labels.node }}}}: {summary} ({{{{ $value }}}})");

    Some(format!(
        "
      - alert: Plimsoll{alert}
        expr: {expr}
{wait}        labels:
          rule: {name}
          scope: node
          operation: \"{metric}\"
          severity: {severity}
        annotations:
          summary: {summary:?}
          runbook: {runbook:?}
",
        name = rule.name,
        metric = rule.metric,
        severity = about.severity.as_str(),
        runbook = about.runbook.as_deref().unwrap_or_default(),
    ))
}

/// What is wrong with the counterparts of thresholds.
fn wrong_thresholds(rules: &Rules, alerts: &[Alert]) -> Vec<String> {
    let mut wrong = Vec::new();
    for rule in &rules.thresholds {
        let of = |alert: &&Alert| {
            alert.labels.get("rule").map(String::as_str) == Some(rule.name.as_str())
        };
        let Some(alert) = alerts.iter().find(of) else {
            wrong.push(format!("{} has no counterpart", rule.name));
            continue;
        };
        let scope = if matches!(rule.metric, Metric::Fleet(_)) { "fleet" } else { "node" };
        let operation = rule.metric.operation();
        for (key, wanted) in [
            ("severity", rule.about.severity.as_str()),
            ("scope", scope),
            ("operation", operation.as_str()),
        ] {
            let found = alert.labels.get(key).map(String::as_str);
            if found != Some(wanted) {
                wrong.push(format!("{}: {key} is {found:?}, not {wanted}", alert.name));
            }
        }

        // Alerts on machines have the limits of the rules; others allow for scrapes that are late.
        let limit = format!(" {}\n{}        labels:\n", rule.value, wait(rule));
        let follows = matches!(rule.metric, Metric::Sensor(_));
        if rule.metric.is_of_machine() && !follows && !alert.text.contains(&limit) {
            wrong.push(format!("{}: its limit is not{limit}", alert.name));
        }
    }
    wrong
}

/// The severity of an alert of this budget: of one whose template names a budget, its first branch.
fn severity_of(alert: &Alert, budget: &str) -> String {
    let text = alert.labels.get("severity").cloned().unwrap_or_default();
    let text = text.trim_matches('\'');
    let Some(rest) = text.strip_prefix("{{ if eq $labels.budget \"") else {
        return text.to_owned();
    };
    let parts = rest.split_once("\" }}").and_then(|(named, rest)| {
        let (own, rest) = rest.split_once("{{ else }}")?;
        Some((named, own, rest.strip_suffix("{{ end }}")?))
    });
    let (named, own, others) = parts.unwrap_or_else(|| panic!("{text}"));
    if named == budget { own.to_owned() } else { others.to_owned() }
}

/// What is wrong with the counterparts of budgets and of their burn rates.
fn wrong_budgets(rules: &Rules, alerts: &[Alert]) -> Vec<String> {
    let mut wrong = Vec::new();
    // The severity of a budget comes with its series, and one in the file would replace it.
    let has_severity = |alert: &Alert| alert.labels.contains_key("severity");
    for budget in &rules.budgets {
        let name = budget.name.as_str();
        let of = |alert: &&Alert| alert.selects.iter().any(|selected| selected == name);
        match alerts.iter().find(of) {
            Some(alert) if !has_severity(alert) => {}
            found => wrong.push(format!("budget {name}: {found:?}")),
        }
        for burn in budget.burn_rates(1) {
            let rule = burn.rule(budget);
            let wanted = rule.as_str().replacen(name, "{{ $labels.budget }}", 1);
            let of = |alert: &&Alert| alert.labels.get("rule") == Some(&wanted);
            let wanted = Rule::Burn(budget, burn).severity().as_str();
            match alerts.iter().find(of) {
                Some(alert) if severity_of(alert, name) == wanted => {}
                found => wrong.push(format!("pace {rule}: {found:?}, not {wanted}")),
            }
        }
    }
    wrong
}

#[test]
fn every_rule_that_is_shipped_has_its_counterpart_for_prometheus() {
    let (rules, alerts) = (shipped(), all_alerts());
    assert!(rules.thresholds.len() >= 20 && rules.budgets.len() == 4);
    let written = files("rules").concat();
    let lacking = rules.thresholds.iter().filter_map(counterpart);
    let lacking: String = lacking.filter(|of| !written.contains(of)).collect();
    let at = "at the end of plimsoll-machines in deploy/prometheus/rules/machines.yml";
    assert_eq!(lacking, "", "write these lines {at}:\n{lacking}");
    let wrong = [wrong_thresholds(&rules, &alerts), wrong_budgets(&rules, &alerts)].concat();
    assert_eq!(wrong, [""; 0]);
}

/// promtool tries no counterpart that follows from its rule. It tries these two of the same form.
#[test]
fn counterparts_that_follow_have_the_form_of_tested_ones() {
    let written = files("rules").concat();
    for (rule, figure) in [("sensors_unread", "sensors_unread"), ("gpu_lost", "gpus_lost")] {
        let shipped = shipped().thresholds.into_iter().find(|of| of.name.as_str() == rule).unwrap();
        assert_eq!(counterpart(&shipped), None, "{figure} is no sensor's reading alone");
        let metric = Metric::Sensor(figure.to_owned());
        let follows = counterpart(&Threshold { metric, ..shipped }).unwrap();
        let (condition, _) = follows.split_once("        annotations:").unwrap();
        let condition = condition.replace(&format!("\"sensor:{figure}\""), figure);
        assert!(written.contains(&condition), "{condition}");
    }
}

/// What the section of a rule states under **Alert**, in one line.
fn alert_line(runbook: &str, rule: &str) -> Option<String> {
    let (_, section) = runbook.split_once(&format!("\n### `{rule}`\n"))?;
    let section = section.split("\n### ").next()?;
    let (_, from_alert) = section.split_once("\n- **Alert:** ")?;
    let line = from_alert.split("\n- **").next()?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn the_runbook_states_severity_and_promql_of_each_rule() {
    let runbook = include_str!("../../deploy/RUNBOOK.md");
    let alerts = all_alerts();
    let mut wrong = Vec::new();
    for rule in &shipped().thresholds {
        let of = |alert: &&Alert| {
            alert.labels.get("rule").map(String::as_str) == Some(rule.name.as_str())
        };
        let alert = alerts.iter().find(of).unwrap();
        let (name, severity) = (rule.name.as_str(), rule.about.severity.as_str());
        let line = alert_line(runbook, name).unwrap_or_default();

        // A long expression is in its file alone.
        let head = format!("{severity}, `{}`", alert.name);
        let quoted = format!("{head}: `{}`.", alert.expression);
        if !line.starts_with(&quoted) && !line.starts_with(&format!("{head} in `")) {
            wrong.push(format!("{name}: {line}"));
        }

        let row = format!("\n| [`{name}`](#{name}) | {severity} | ");
        if !runbook.contains(&row) {
            wrong.push(format!("{name} has no row in the table of rules"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn every_alert_of_prometheus_names_a_rule_or_is_known_to_have_none() {
    let rules = shipped();
    let thresholds = rules.thresholds.iter().map(|rule| rule.name.as_str());
    let stragglers = rules.stragglers.iter().map(|rule| rule.name.as_str());
    let known: BTreeSet<&str> = thresholds.chain(stragglers).collect();
    for alert in all_alerts() {
        let alone = OF_PROMETHEUS_ALONE.contains(&alert.name.as_str());
        match alert.labels.get("rule") {
            Some(rule) if rule.starts_with("{{ $labels.budget }}") => {}
            Some(rule) => assert!(known.contains(rule.as_str()), "{alert:?}"),
            None => assert!(alone, "{alert:?}"),
        }
    }
}

#[test]
fn every_alert_of_prometheus_is_let_fire_and_not_fire() {
    let mut cases: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for text in files("tests") {
        for case in text.split("alertname: ").skip(1) {
            let (name, rest) = case.split_at(case.find(['\n', '}']).unwrap());
            let fires = rest.trim_start_matches('}').trim_start().starts_with("exp_alerts:");
            cases.entry(name.trim().to_owned()).or_default().insert(fires);
        }
    }
    let follows = |alert: &Alert| {
        alert.labels.get("operation").is_some_and(|operation| operation.starts_with("sensor:"))
    };
    for alert in all_alerts().into_iter().filter(|alert| !follows(alert)) {
        let both = cases.get(&alert.name).is_some_and(|cases| cases.len() == 2);
        assert!(both, "{}: {:?}", alert.name, cases.get(&alert.name));
    }
}

/// The text of all files below `folder`.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.map(|path| {
        if path.is_dir() { sources(&path) } else { std::fs::read_to_string(path).unwrap() }
    });
    texts.collect()
}

#[test]
fn every_metric_that_an_alert_reads_is_one_that_the_aggregator_shows() {
    let exposition = Path::new(env!("CARGO_MANIFEST_DIR")).join("../aggregator/src/exposition");
    let shown = sources(&exposition);
    let is_sensor = |name: &str| name.strip_prefix("plimsoll_node_").and_then(sensor).is_some();
    // Their names end as jobs chose.
    let of_jobs = ["plimsoll_job_count_", "plimsoll_job_value_"];
    assert!(of_jobs.iter().all(|prefix| shown.contains(&format!("\"{prefix}{{"))));
    let is_of_jobs = |name: &str| of_jobs.iter().any(|prefix| name.starts_with(prefix));
    let is_shown =
        |name: &str| shown.contains(&format!("\"{name}\"")) || is_sensor(name) || is_of_jobs(name);
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    for text in files("rules") {
        let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let text = code.collect::<Vec<_>>().join("\n");
        for (at, _) in text.match_indices("plimsoll_") {
            // A recorded one has a level before its name.
            let recorded = text[..at].ends_with(':');
            let end = text[at..].find(|c| !is_part(c)).map_or(text.len(), |len| at + len);
            assert!(recorded || is_shown(&text[at..end]), "{}", &text[at..end]);
        }
    }
}

#[test]
fn a_counterpart_that_is_missing_or_differs_is_noticed() {
    let rules = shipped();
    let planted = |change: fn(&str) -> String| {
        let texts = files("rules");
        let alerts: Vec<Alert> = texts.iter().flat_map(|text| alerts(&change(text))).collect();
        [wrong_thresholds(&rules, &alerts), wrong_budgets(&rules, &alerts)].concat()
    };
    let changes: [fn(&str) -> String; 5] = [
        |text| text.replace("gpus_lost) > 0", "gpus_lost) > 1"),
        |text| text.replace("rule: disk_full", "rule: disk_fill"),
        |text| text.replace("operation: breaker_open", "operation: breaker"),
        |text| text.replace("severity: info", "severity: warning"),
        |text| text.replace("_burn_6h", "_burn_7h"),
    ];
    assert_eq!(planted(str::to_owned), [""; 0]);
    for change in changes {
        assert!(!planted(change).is_empty());
    }
}
