//! Files of rules as people write them, right and wrong.

mod wrong;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::file::{load, shipped};
use super::*;
use crate::alert::NamePattern;
use crate::budget::{BUILT_IN, Budget, Window};
use crate::ids::{Labels, NodeName, Operation, RuleName};
use crate::scope::{AlertKey, Scope};
use crate::urgency::{DeclaredSubject, DeclaredUrgency, Urgency};

/// What a set of files comes to, the first of which is read.
pub(super) fn read(files: &[(&str, &str)]) -> Result<Rules, String> {
    let texts: BTreeMap<&str, &str> = files.iter().copied().collect();
    let mut open = |path: &str| {
        let text = texts.get(path).ok_or("No such file or directory (os error 2)");
        text.map(|text| text.as_bytes().to_vec()).map_err(|why| (*why).to_owned())
    };
    let first = files[0].0.to_owned();
    load(&[first], Vec::new(), 1, &mut open).map_err(|error| error.to_string())
}

fn budget<'a>(rules: &'a Rules, name: &str) -> &'a Budget {
    rules.budgets.iter().find(|budget| budget.name.as_str() == name).unwrap()
}

#[test]
fn the_shipped_budgets_have_the_agreed_limits_and_error_budgets() {
    let rules = shipped();
    let of = |budget: &Budget| {
        let objective = budget.objective;
        (budget.name.to_string(), budget.quantile, budget.limit_ns, objective)
    };
    let agreed: Vec<_> = rules.budgets.iter().map(of).collect();
    assert_eq!(
        agreed,
        [
            ("epoch_hook".to_owned(), 0.99, 18_000_000, Some(0.99)),
            ("kernel_fetch".to_owned(), 0.5, 10_000_000, None),
            ("publish".to_owned(), 0.99, 25_000_000, Some(0.99)),
            ("message_delivery".to_owned(), 0.95, 100_000_000, None),
        ]
    );
    let severities: Vec<_> = rules.budgets.iter().map(|budget| budget.about.severity).collect();
    let (critical, warning) = (Severity::Critical, Severity::Warning);
    assert_eq!(severities, [critical, critical, warning, warning]);
    let of_fleet = rules.budgets.iter().filter(|budget| !budget.scopes.nodes);
    let of_fleet = of_fleet.map(|budget| budget.name.as_str());
    assert_eq!(of_fleet.collect::<Vec<_>>(), ["message_delivery"], "no node records it");
    let queue = rules.find(&RuleName::new("queue_depth").unwrap()).unwrap();
    let Rule::Threshold(queue) = queue else { panic!("{queue:?} is no threshold") };
    assert_eq!((queue.comparison, queue.value, queue.fire_after), (Comparison::Greater, 0.5, 2));
}

#[test]
fn an_error_budget_of_the_systems_own_is_no_more_severe_than_its_budget() {
    use Severity::{Critical, Info, Warning};
    let severities = |rules: &Rules, name: &str| -> Vec<Severity> {
        let budget = budget(rules, name);
        let burns = budget.burn_rates(1).into_iter();
        burns.map(|burn| rules.find(&burn.rule(budget)).unwrap().severity()).collect()
    };
    let rules = shipped();
    assert_eq!(severities(&rules, "epoch_hook"), [Critical, Critical, Warning, Warning]);
    assert_eq!(severities(&rules, "publish"), [Warning; 4]);
    let override_with = |severity: &str| {
        let text = format!("[[budget]]\nname = 'publish'\nseverity = '{severity}'");
        read(&[("a.toml", &text)]).unwrap()
    };
    assert_eq!(severities(&override_with("info"), "publish"), [Info; 4]);
    let critical = [Critical, Critical, Warning, Warning];
    assert_eq!(severities(&override_with("critical"), "publish"), critical);
}

#[test]
fn every_shipped_rule_leads_to_its_section_of_the_runbook() {
    let runbook = include_str!("../../../../deploy/RUNBOOK.md");
    let rules = shipped();
    let budgets = rules.budgets.iter().map(|budget| (&budget.name, &budget.about));
    let thresholds = rules.thresholds.iter().map(|rule| (&rule.name, &rule.about));
    let stragglers = rules.stragglers.iter().map(|rule| (&rule.name, &rule.about));
    for (name, about) in budgets.chain(thresholds).chain(stragglers) {
        assert_eq!(about.runbook, Some(format!("deploy/RUNBOOK.md#{name}")));
        let heading = format!("\n### `{name}`\n");
        let means = about.summary.as_deref().unwrap_or_default();
        let severity = about.severity.as_str();
        let section = format!(
            "{heading}\n- **Means:** {means}\n- **Alert:** {severity}, `ALERT`: `PROMQL`.\n- **Ends:**\n\
             - **Check:**\n- **Do:**\n"
        );
        assert!(runbook.contains(&heading), "write in deploy/RUNBOOK.md:\n{section}");
    }
    for budget in &rules.budgets {
        for burn in budget.burn_rates(rules.time_scale) {
            let name = burn.rule(budget);
            assert!(runbook.contains(&format!("`{name}`")), "{name}");
        }
    }
    // And none is about a rule that there is not.
    let sections = runbook.lines().filter_map(|line| line.strip_prefix("### `"));
    for name in sections.map(|rest| rest.trim_end_matches('`')) {
        assert!(rules.find(&RuleName::new(name).unwrap()).is_some(), "{name}");
    }
}

#[test]
fn a_file_may_define_all_of_a_rule() {
    let rules = read(&[(
        "a.toml",
        r#"
        [[budget]]
        name = "misses"
        operation = "kernel_fetch"
        labels = { outcome = "miss" }
        node_labels.rack = "r7"
        quantile = 0.999
        limit = "250us"
        window = "30m"
        min_samples = 7
        confidence = 0.9
        objective = 0.95
        scopes = ["fleet"]
        severity = "info"
        routes = ["storage", "oncall"]
        runbook = "https://wiki/misses"
        summary = "misses are slow"
        fire_after = 4
        clear_after = 5

        [[rule]]
        name = "isolation"
        metric = "counter:isolation.violations"
        labels = { job = "train" }
        greater = 3
        for = 2
        clear_for = 9
        "#,
    )]);
    let rules = rules.unwrap();
    let about = RuleAnnotations {
        severity: Severity::Info,
        routes: vec!["oncall".to_owned(), "storage".to_owned()],
        runbook: Some("https://wiki/misses".to_owned()),
        summary: Some("misses are slow".to_owned()),
    };
    let expected = Budget {
        name: RuleName::new("misses").unwrap(),
        operation: Operation::new("kernel_fetch").unwrap(),
        selector: crate::budget::Selector {
            series: Labels::new([("outcome", "miss")]).unwrap(),
            nodes: Labels::new([("rack", "r7")]).unwrap(),
        },
        quantile: 0.999,
        limit_ns: 250_000,
        window: Window::HalfHour,
        min_samples: 7,
        confidence: 0.9,
        fire_after: 4,
        clear_after: 5,
        objective: Some(0.95),
        scopes: Scopes { fleet: true, nodes: false },
        is_built_in: false,
        about,
    };
    assert_eq!(budget(&rules, "misses"), &expected);
    assert!(budget(&rules, "publish").is_built_in);
    let expected = Threshold {
        name: RuleName::new("isolation").unwrap(),
        metric: "counter:isolation.violations".parse().unwrap(),
        labels: Labels::new([("job", "train")]).unwrap(),
        comparison: Comparison::Greater,
        value: 3.0,
        baseline: None,
        fire_after: 2,
        clear_after: 9,
        about: RuleAnnotations::default(),
    };
    assert_eq!(rules.thresholds.last().unwrap(), &expected);
}

#[test]
fn what_a_file_leaves_out_stays_as_the_file_below_has_it() {
    let own = "include = ['site.toml']\n[[budget]]\nname = 'epoch_hook'\nwindow = '10s'";
    let site = "[[budget]]\nname = 'epoch_hook'\nlimit = '5ms'\nwindow = '5m'\n\
                [[budget]]\nname = 'publish'\nenabled = false";
    let rules = read(&[("/etc/own.toml", own), ("/etc/site.toml", site)]).unwrap();
    let found = budget(&rules, "epoch_hook");
    assert_eq!(
        (found.window, found.limit_ns, found.quantile),
        (Window::TenSeconds, 5_000_000, 0.99)
    );
    assert!(rules.find(&RuleName::new("publish").unwrap()).is_none());
}

#[test]
fn operations_events_and_service_checks_are_declared_urgent_and_overlaid() {
    let below = r#"
        [[priority]]
        name = "payments"
        operation = "payment*"

        [[priority]]
        name = "disk"
        service_check = "disk.ok"
        level = "high"

        [[priority]]
        name = "fencing"
        event = "node fenced"
        "#;
    let above = r#"
        include = ["below.toml"]
        [[priority]]
        name = "disk"
        level = "critical"

        [[priority]]
        name = "fencing"
        enabled = false
        "#;
    let rules = read(&[("above.toml", above), ("below.toml", below)]).unwrap();
    let pattern = |text: &str| NamePattern::new(text).unwrap();
    let critical = |subject| DeclaredUrgency { subject, urgency: Urgency::Critical };
    let expected = [
        critical(DeclaredSubject::Operation(pattern("payment*"))),
        critical(DeclaredSubject::ServiceCheck(pattern("disk.ok"))),
    ];
    assert_eq!(rules.urgent, expected);
    let meant = ["payment", "payment.card", "pay"].map(|name| Operation::new(name).unwrap());
    let is_meant = meant.map(|operation| rules.urgent[0].subject.is_operation(&operation));
    assert_eq!(is_meant, [true, true, false]);
}

#[test]
fn a_comparison_takes_the_place_of_another_one_below() {
    let text = "[[rule]]\nname = 'queue_depth'\nless = 7\nfor = 5";
    let rules = read(&[("a.toml", text)]).unwrap();
    let Some(Rule::Threshold(found)) = rules.find(&RuleName::new("queue_depth").unwrap()) else {
        panic!("no threshold")
    };
    assert_eq!((found.comparison, found.value, found.fire_after), (Comparison::Less, 7.0, 5));
}

#[test]
fn settings_give_rules_among_other_keys() {
    let text = "mesh = 'm'\n[bus]\npassword = 'hush'\n[[budget]]\nname = 'publish'\nlimit = '1ms'\n\
                [[rule]]\nname = 'queue_depth'\nenabled = false";
    let settings = |budget, rule| RuleText {
        tables: RuleTables::Some { budget, rule },
        ..RuleText::new("settings.toml", text.into()).unwrap()
    };
    let of = |budget, rule| load(&[], vec![settings(budget, rule)], 1, &mut |_| Err(String::new()));
    let rules = of(true, true).unwrap();
    assert_eq!(budget(&rules, "publish").limit_ns, 1_000_000);
    assert!(rules.find(&RuleName::new("queue_depth").unwrap()).is_none());
    assert_eq!(of(false, false).unwrap(), shipped());
}

fn position(error: &str) -> bool {
    let rest = error.strip_prefix("a.toml: line ").and_then(|rest| rest.split_once(", column "));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    rest.is_some_and(|(line, rest)| digits(line) && rest.split(':').next().is_some_and(digits))
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange_for_an_error_with_a_line(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let read = load(&["a.toml".to_owned()], Vec::new(), 1, &mut |_| Ok(bytes.clone()));
        if let Err(error) = read {
            prop_assert!(position(&error.to_string()), "{error}");
        }
    }

    #[test]
    fn a_valid_file_with_a_few_other_bytes_is_right_or_wrong_at_a_line(
        which in 0..2_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = [BUILT_IN, file::DEFAULTS][which].as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len()) / 4);
        let read = load(&["a.toml".to_owned()], Vec::new(), 1, &mut |_| Ok(bytes.clone()));
        if let Err(error) = read {
            prop_assert!(position(&error.to_string()), "{error}");
        }
    }
}

#[test]
fn a_rule_about_stragglers_is_laid_over_the_shipped_one_key_by_key() {
    let text = |list: &[&str]| list.iter().map(|&of| of.to_owned()).collect::<Vec<_>>();
    let shipped = shipped().stragglers;
    assert_eq!(shipped.len(), 1);
    let straggler = &shipped[0];
    assert_eq!((straggler.operation.clone(), straggler.by.as_str()), (None, "rank"));
    assert_eq!(straggler.method, StragglerMethod::WaitsLeast);
    assert_eq!(straggler.work, text(&["input", "compute", "checkpoint"]));

    let rules = read(&[(
        "a.toml",
        "[[straggler]]\nname = 'straggler'\ncohort = ['job']\nseverity = 'critical'\n\
         [[straggler]]\nname = 'loader'\noperation = 'load'\nrule = 'slowest'\nby = 'worker'\n\
         work = ['compute']\nwait = []\n",
    )]);
    let rules = rules.unwrap();
    let about = RuleAnnotations { severity: Severity::Critical, ..straggler.about.clone() };
    let overlaid = Straggler { cohort: text(&["job"]), about, ..straggler.clone() };
    let loader = Straggler {
        name: RuleName::new("loader").unwrap(),
        operation: Some(Operation::new("load").unwrap()),
        method: StragglerMethod::Slowest,
        by: "worker".to_owned(),
        cohort: text(&["role"]),
        work: text(&["compute"]),
        wait: Vec::new(),
        about: RuleAnnotations::default(),
    };
    assert_eq!(rules.stragglers, [overlaid, loader]);

    let off = read(&[("a.toml", "[[straggler]]\nname = 'straggler'\nenabled = false\n")]).unwrap();
    assert_eq!(off.stragglers, []);
}

#[test]
fn a_rule_about_stragglers_watches_nodes_of_its_operation() {
    let text = "[[straggler]]\nname = 'load'\noperation = 'load'\nrule = 'slowest'\n";
    let rules = read(&[("a.toml", text)]).unwrap();
    let key = |rule: &str, operation: &str, scope: Scope| AlertKey {
        rule: RuleName::new(rule).unwrap(),
        scope,
        operation: Operation::new(operation).unwrap(),
    };
    let node = || Scope::Node(NodeName::new("n1").unwrap());
    for (rule, operation, scope, watched) in [
        ("load", "load", node(), true),
        ("load", "train_step", node(), false),
        ("load", "load", Scope::Fleet, false),
        ("straggler", "train_step", node(), true),
        ("straggler", "train_step", Scope::Fleet, false),
    ] {
        let key = key(rule, operation, scope);
        assert_eq!(rules.watch(&key), watched, "{key}");
    }
    assert!(rules.clone().within(Scopes { fleet: true, nodes: false }).stragglers.is_empty());
    assert_eq!(rules.clone().within(Scopes::ALL).stragglers.len(), 2);
}
