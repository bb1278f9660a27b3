//! What is refused, in which words.

use super::*;
use crate::limits::rules::{FILE_BYTES_MAX, FILES_MAX, INCLUDE_DEPTH_MAX};

/// Text of a file, and its error text after the file's name.
fn expect_error(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let error = read(&[("a.toml", text)]).unwrap_err();
        assert_eq!(error, format!("a.toml: {expected}"), "{text}");
    }
}

/// The same of one key of a shipped budget.
fn expect_key_error(kind: &str, name: &str, cases: &[(&str, &str)]) {
    for (line, problem) in cases {
        let key = line.split([' ', '.', '=']).next().unwrap();
        let text = format!("[[{kind}]]\nname = \"{name}\"\n{line}\n");
        let error = read(&[("a.toml", &text)]).unwrap_err();
        let position = format!("a.toml: line 3, column 1: {kind} \"{name}\": {key}: ");
        assert_eq!(error, format!("{position}{problem}"), "{line}");
    }
}

#[test]
fn a_wrong_number_of_a_budget_is_reported_with_its_line_and_what_to_write() {
    expect_key_error(
        "budget",
        "publish",
        &[
            ("limit = 18", "18 has no unit; write \"18ms\""),
            ("limit = \"18\"", "18 has no unit; write \"18ms\""),
            ("limit = 2.5", "2.5 has no unit; write \"2500us\" if it is milliseconds"),
            ("limit = 0", "0 is not a limit; write it with its unit, such as \"18ms\""),
            ("limit = -3", "-3 is not a limit; write it with its unit, such as \"18ms\""),
            ("limit = nan", "NaN is not a limit; write it with its unit, such as \"18ms\""),
            ("limit = \"-5ms\"", "\"-5ms\" is negative; write it from \"1us\" to \"1h\""),
            ("limit = \"0ms\"", "\"0ms\" is out of range; it may be from \"1us\" to \"1h\""),
            (
                "limit = \"1h\"",
                "\"1h\" is out of range: samples above an hour count as an hour, so none could \
                 exceed it; write less than \"1h\"",
            ),
            ("limit = \"2h\"", "\"2h\" is out of range; it may be from \"1us\" to \"1h\""),
            ("limit = \"18 mss\"", "\"18 mss\" is not a duration; write it as \"18ms\""),
            ("limit = true", "must be text in quotes, not true or false"),
            ("quantile = 99", "99 is a percentage; a share lies between 0 and 1, write 0.99"),
            ("quantile = 99.9", "99.9 is a percentage; a share lies between 0 and 1, write 0.999"),
            ("quantile = \"p99\"", "99 is a percentage; a share lies between 0 and 1, write 0.99"),
            ("quantile = \"0.9\"", "must be a number, not text; write 0.9"),
            ("quantile = \"most\"", "must be a number such as 0.99, not text"),
            ("quantile = 1", "1 must lie between 0 and 1, both excluded; write for example 0.99"),
            ("quantile = 0.0", "0 must lie between 0 and 1, both excluded; write for example 0.99"),
            (
                "quantile = -0.5",
                "-0.5 must lie between 0 and 1, both excluded; write for example 0.99",
            ),
            (
                "quantile = nan",
                "NaN must lie between 0 and 1, both excluded; write for example 0.99",
            ),
            (
                "quantile = 1.01",
                "1.01 must lie between 0 and 1, both excluded; write for example 0.99",
            ),
            (
                "objective = 1.0",
                "1 must lie between 0 and 1, both excluded; write for example 0.99",
            ),
            ("objective = true", "must be a number such as 0.99, not true or false"),
            ("objective = 99.9", "99.9 is a percentage; a share lies between 0 and 1, write 0.999"),
            ("confidence = 95", "95 is a percentage; a share lies between 0 and 1, write 0.95"),
            ("confidence = 0.2", "0.2 must be at least 0.5 and below 1; write for example 0.95"),
            ("confidence = \"0.5\"", "must be a number, not text; write 0.5"),
            ("confidence = \"p50\"", "50 is a percentage; a share lies between 0 and 1, write 0.5"),
            (
                "quantile = 99999999999999999999",
                "1e20 must lie between 0 and 1, both excluded; write for example 0.99",
            ),
            (
                "quantile = -1e-300",
                "-1e-300 must lie between 0 and 1, both excluded; write for example 0.99",
            ),
            ("limit = 1e300", "1e300 is not a limit; write it with its unit, such as \"18ms\""),
            ("confidence = 1.0", "1 must be at least 0.5 and below 1; write for example 0.95"),
        ],
    );
}

#[test]
fn a_wrong_key_of_a_straggler_is_reported_with_its_line_and_what_to_write() {
    let keys = "unknown key; the keys are name, operation, rule, by, cohort, work, wait, severity, \
                routes, runbook, summary, enabled";
    expect_key_error(
        "straggler",
        "straggler",
        &[
            (
                "rule = \"wait_least\"",
                "unknown rule \"wait_least\", did you mean \"waits_least\"?; use one of \
                 waits_least, slowest",
            ),
            ("rule = 3", "must be text in quotes, not a number"),
            (
                "operation = \"a b\"",
                "operation contains a space; allowed: letters, digits and '_.:/-'",
            ),
            ("by = \"a b\"", "label key contains a space; allowed: letters, digits and '_.-'"),
            ("by = \"class\"", "phases of one peer differ by it; write a label such as \"rank\""),
            ("cohort = \"role\"", "must be a list such as [\"..\"], not text"),
            ("cohort = [\"rank\"]", "\"rank\" differs within a cohort; remove it"),
            ("cohort = [\"a\", \"a\"]", "\"a\" is given twice"),
            ("cohort = [\"a\", \"b\", \"c\", \"d\", \"e\"]", "5 labels, more than 4"),
            ("work = []", "names no class; write for example [\"compute\"]"),
            ("wait = []", "names no class, and waits_least needs one; write [\"sync\"]"),
            ("wait = [\"input\"]", "\"input\" is a class of work as well; remove one of them"),
            (
                "work = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"]",
                "7 classes with those of wait, more than 6",
            ),
            ("floor = 0.1", keys),
            (
                "severity = \"warn\"",
                "unknown severity \"warn\"; use one of info, warning, critical",
            ),
        ],
    );
}

#[test]
fn a_wrong_choice_for_a_budget_is_reported_with_its_line_and_what_to_write() {
    let windows = "use one of 10s, 1m, 5m, 30m, 1h, 2h, 6h, 1d, 3d, 30d";
    let no_window = format!("unknown window \"7s\"; {windows}");
    let long = format!("summary = \"{}\"", "s".repeat(257));
    expect_key_error(
        "budget",
        "publish",
        &[
            ("window = \"7s\"", &no_window),
            ("window = 60", "must be text in quotes, not a number"),
            ("min_samples = 0", "must be a whole number from 1 to 9007199254740992"),
            ("min_samples = 1.5", "must be a whole number from 1 to 9007199254740992"),
            (
                "fire_after = 0",
                "must be a whole number of evaluations, one a second, from 1 to 86400",
            ),
            (
                "clear_after = 86401",
                "must be a whole number of evaluations, one a second, from 1 to 86400",
            ),
            (
                "scopes = [\"node\"]",
                "unknown scope \"node\", did you mean \"nodes\"?; use one of fleet, nodes",
            ),
            ("scopes = []", "selects no scope; write [\"fleet\"], [\"nodes\"] or both"),
            ("scopes = \"fleet\"", "must be a list such as [\"..\"], not text"),
            (
                "severity = \"warn\"",
                "unknown severity \"warn\"; use one of info, warning, critical",
            ),
            (
                "routes = [\"a b\"]",
                "receiver contains a space; allowed: letters, digits, '_' and '-'",
            ),
            ("routes = \"oncall\"", "must be a list such as [\"..\"], not text"),
            ("runbook = \"\"", "must be one line of 1 to 1024 bytes"),
            (&long, "must be one line of 1 to 256 bytes"),
            ("enabled = \"no\"", "must be true or false, not text"),
            ("labels = { a = 7 }", "label \"a\" must be text in quotes, not a number"),
            (
                "labels = { \"a b\" = \"x\" }",
                "label key contains a space; allowed: letters, digits and '_.-'",
            ),
            ("node_labels = \"rack\"", "must be a table such as { outcome = \"miss\" }, not text"),
            ("operation = \"\"", "operation is empty"),
            (
                "operation = \"a b\"",
                "operation contains a space; allowed: letters, digits and '_.:/-'",
            ),
            ("limt = \"1ms\"", "unknown key, did you mean \"limit\"?"),
            (
                "colour = 1",
                "unknown key; the keys are name, operation, labels, node_labels, quantile, limit, \
                 window, min_samples, confidence, fire_after, clear_after, objective, scopes, \
                 severity, routes, runbook, summary, enabled",
            ),
        ],
    );
}

#[test]
fn a_wrong_value_of_a_threshold_is_reported_with_its_line_and_what_to_write() {
    let evaluations = "must be a whole number of evaluations, one a second, from 1 to 86400";
    let metrics = "depth".parse::<crate::metric::Metric>().unwrap_err().to_string();
    expect_key_error(
        "rule",
        "queue_depth",
        &[
            ("for = 0", evaluations),
            ("for = \"2m\"", evaluations),
            ("clear_for = -1", evaluations),
            ("greater = nan", "NaN cannot be compared; write a finite number"),
            ("less = -inf", "-inf cannot be compared; write a finite number"),
            ("equal = \"2\"", "must be a number in the metric's unit, not text"),
            ("metric = \"depth\"", &metrics),
            ("greter = 2", "unknown key, did you mean \"greater\"?"),
        ],
    );
    expect_error(&[
        (
            "[[rule]]\nname = 'queue_depth'\ngreater = 2\nless = 1",
            "line 4, column 1: rule \"queue_depth\": less: a second comparison; write one of \
             greater, less, equal",
        ),
        (
            "[[rule]]\nname = 'x'\nmetric = 'dropped'",
            "line 2, column 8: rule \"x\": greater, less or equal is missing, and no rule of this \
             name is known",
        ),
        (
            "[[rule]]\nname = 'x'\nless = 1",
            "line 2, column 8: rule \"x\": metric is missing, and no rule of this name is known",
        ),
    ]);
}

#[test]
fn what_is_wrong_with_a_whole_file_is_reported_with_its_line() {
    expect_error(&[
        ("budget = 3", "line 1, column 10: budget: must be a list of tables; write [[budget]]"),
        (
            "[budget]\nname = 'x'",
            "line 1, column 1: budget: must be a list of tables; write [[budget]]",
        ),
        ("rule = [1]", "line 1, column 9: rule: must be a table; write [[rule]]"),
        (
            "[[budget]]\nlimit = '1ms'",
            "line 1, column 1: budget: name is missing; every one has its own",
        ),
        ("[[budgets]]", "line 1, column 3: budgets: unknown key, did you mean \"budget\"?"),
        (
            "x = 1",
            "line 1, column 1: x: unknown key; the keys are include, budget, rule, priority, \
             straggler",
        ),
        ("\n  a = = 1", "line 2, column 7: extra `=`, expected nothing"),
        (
            "[[rule]]\nname = 7",
            "line 2, column 8: rule: name: must be text in quotes, not a number",
        ),
        (
            "[[rule]]\nname = 'a b'",
            "line 2, column 8: rule \"a b\": name: rule name contains a space; allowed: letters, \
             digits, '_' and '-'",
        ),
        (
            "[[budget]]\nname = 'x'\nenabled = false",
            "line 2, column 8: budget \"x\": operation is missing, and no budget of this name is \
             known",
        ),
    ]);
}

#[test]
fn duplicate_names_are_reported_by_line() {
    let new = "operation = 'o'\nlimit = '1ms'\nquantile = 0.9\n";
    let named = |name: &str| format!("[[budget]]\nname = '{name}'\n{new}objective = 0.9");
    expect_error(&[
        (
            "[[budget]]\nname = 'publish'\n[[budget]]\nname = 'publish'",
            "line 4, column 8: budget \"publish\": name: is also in a.toml line 2; give one of \
             them another name",
        ),
        (
            "[[budget]]\nname = 'publish'\n[[rule]]\nname = 'publish'",
            "line 4, column 8: rule \"publish\": name: is also in a.toml line 2; give one of \
             them another name",
        ),
        (
            "[[budget]]\nname = 'latency_high'",
            "line 2, column 8: budget \"latency_high\": name: is reserved for an event on the \
             bus; choose another name",
        ),
        (
            "[[rule]]\nname = 'undeliverable'",
            "line 2, column 8: rule \"undeliverable\": name: is reserved for an event on the bus; \
             choose another name",
        ),
        (
            "[[rule]]\nname = 'publish'\nmetric = 'dropped'\ngreater = 1",
            "line 2, column 8: rule \"publish\": name: is the name of a budget as well as of a \
             threshold; rename one",
        ),
        (
            "[[rule]]\nname = 'publish_burn_6h'\nmetric = 'dropped'\ngreater = 1",
            "line 2, column 8: rule \"publish_burn_6h\": name: is the name of a rule of the error \
             budget of \"publish\" as well as of a threshold; rename one",
        ),
        (
            "[[budget]]\nname = 'queue_depth'\noperation = 'o'\nlimit = '1ms'\nquantile = 0.9",
            "line 2, column 8: budget \"queue_depth\": name: is the name of a budget as well as of \
             a threshold; rename one",
        ),
        (
            &named("publish_burn_1h"),
            "line 2, column 8: budget \"publish_burn_1h\": name: is the name of a rule of the \
             error budget of \"publish\" as well as of a budget; rename one",
        ),
        (
            "[[straggler]]\nname = 'queue_depth'\nrule = 'slowest'",
            "line 2, column 8: straggler \"queue_depth\": name: is the name of a threshold as well as \
             of a rule about stragglers; rename one",
        ),
        (
            "[[straggler]]\nname = 's'",
            "line 2, column 8: straggler \"s\": rule is missing, and no straggler of this name is \
             known",
        ),
    ]);
}

#[test]
fn contradictory_objectives_are_reported_with_their_line() {
    let long = "b".repeat(57);
    let new = "operation = 'o'\nlimit = '1ms'\nquantile = 0.9\n";
    let nodes = "[[budget]]\nname = 'publish'\nscopes = ['nodes']";
    let leaves_out = "an error budget is the fleet's, which scopes leave out; write `scopes = \
                      [\"fleet\", \"nodes\"]`, or `objective = false` for none";
    let long_name = format!("[[budget]]\nname = '{long}'\n{new}objective = 0.9");
    expect_error(&[
        (
            &long_name,
            &format!(
                "line 2, column 8: budget \"{long}\": name: more than 56 bytes leave no room for \
                 the names of its error budget's rules; shorten it, or take the objective out"
            ),
        ),
        (nodes, &format!("line 3, column 1: budget \"publish\": scopes: {leaves_out}")),
        (
            &format!("{nodes}\nobjective = 0.9"),
            &format!("line 4, column 1: budget \"publish\": objective: {leaves_out}"),
        ),
        (
            "[[budget]]\nname = 'publish'\nquantile = 1e-300",
            "line 3, column 1: budget \"publish\": quantile: objective 0.99 needs more than \
             quantile 1e-300, which lets more samples be over the limit; write `objective = \
             1e-300` or less, `objective = false` for no error budget, or raise the quantile",
        ),
        (
            "[[budget]]\nname = 'publish'\nobjective = 0.999",
            "line 3, column 1: budget \"publish\": objective: objective 0.999 needs more than \
             quantile 0.99, which lets more samples be over the limit; write `objective = 0.99` \
             or less, `objective = false` for no error budget, or raise the quantile",
        ),
        (
            "[[budget]]\nname = 'publish'\nobjective = 1e-17",
            "line 2, column 8: budget \"publish\": objective: no burn rate can be reached with \
             1e-17; raise it",
        ),
    ]);
}

#[test]
fn an_error_that_two_files_make_is_reported_at_the_key() {
    let (own, site) = ("include = ['b.toml']\n", "[[budget]]\nname = 'publish'\nquantile = 0.5");
    let error = read(&[("a.toml", own), ("b.toml", site)]).unwrap_err();
    let expected = "b.toml: line 3, column 1: budget \"publish\": quantile: objective 0.99 needs";
    assert!(error.starts_with(expected), "{error}");
    let without = format!("{site}\nobjective = false");
    let rules = read(&[("a.toml", own), ("b.toml", &without)]).unwrap();
    assert_eq!(rules.budgets[2].objective, None);
}

#[test]
fn too_many_rules_are_refused() {
    let rules = |kind: &str, from: usize, to: usize| {
        let of = |i| match kind {
            "budget" => {
                format!("[[budget]]\nname='b{i}'\noperation='o'\nlimit='1ms'\nquantile=0.9\n")
            }
            _ => format!("[[rule]]\nname='r{i}'\nmetric='dropped'\ngreater={i}\n"),
        };
        (from..to).map(of).collect::<String>()
    };
    for kind in ["budget", "rule"] {
        let error = read(&[("a.toml", &rules(kind, 0, 257))]).unwrap_err();
        assert_eq!(error, format!("a.toml: line 1, column 1: {kind}: 257 of them, more than 256"));
        let half = format!("include = ['b.toml']\n{}", rules(kind, 0, 200));
        let error = read(&[("a.toml", &half), ("b.toml", &rules(kind, 200, 300))]).unwrap_err();
        assert!(error.ends_with(": exceeds the limit of 256 in all files"), "{error}");
    }
}

#[test]
fn includes_that_lead_nowhere_or_round_and_round_are_refused() {
    let to = |path: &str| format!("include = ['{path}']");
    let cases: &[(&[(&str, &str)], &str)] = &[
        (
            &[("a.toml", &to("x/../x/gone.toml"))],
            "a.toml: line 1, column 11: include: x/gone.toml: No such file or directory (os \
             error 2)",
        ),
        (
            &[("d/a.toml", &to("./b.toml")), ("d/b.toml", &to("../d/a.toml"))],
            "d/b.toml: line 1, column 11: include: a cycle: d/a.toml -> d/b.toml -> d/a.toml",
        ),
        (
            &[("a.toml", &to("a.toml"))],
            "a.toml: line 1, column 11: include: a cycle: a.toml -> a.toml",
        ),
        (
            &[("a.toml", "include = 'b.toml'")],
            "a.toml: line 1, column 11: include: must be a list such as [\"..\"], not text",
        ),
        (
            &[("a.toml", &to("b.toml")), ("b.toml", "[[rule]]\nname = 'queue_depth'\nfor = 0")],
            "b.toml: line 3, column 1: rule \"queue_depth\": for: must be a whole number of \
             evaluations, one a second, from 1 to 86400",
        ),
    ];
    for (files, expected) in cases {
        assert_eq!(&read(files).unwrap_err(), expected);
    }
}

#[test]
fn files_without_end_are_refused() {
    let endless = |branches: usize| {
        let mut included_at = 0;
        let mut open = |_: &str| {
            included_at += 1;
            let includes = (0..branches).map(|i| format!("'{included_at}-{i}.toml'"));
            Ok(format!("include = [{}]", includes.collect::<Vec<_>>().join(",")).into_bytes())
        };
        let error = load(&["a.toml".to_owned()], Vec::new(), 1, &mut open).unwrap_err();
        (error.to_string(), included_at)
    };
    let (deep, included_at) = endless(1);
    assert!(deep.ends_with("9-0.toml is included more than 8 levels deep"), "{deep}");
    assert_eq!(included_at, INCLUDE_DEPTH_MAX + 1);
    let leaf = |path: &str| match path {
        "a.toml" => {
            let names: Vec<String> = (0..FILES_MAX).map(|i| format!("'{i}.toml'")).collect();
            Ok(format!("include = [{}]", names.join(",")).into_bytes())
        }
        _ => Ok(Vec::new()),
    };
    let error = load(&["a.toml".to_owned()], Vec::new(), 1, &mut |path| leaf(path)).unwrap_err();
    let expected = "a.toml: line 1, column 11: include: 63.toml exceeds the limit of 64 files";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_file_that_is_no_text_or_too_much_of_it_is_refused() {
    for (bytes, expected) in [
        (
            vec![b' '; FILE_BYTES_MAX + 1],
            "a.toml: more than 1048576 bytes; split it with `include`",
        ),
        (
            b"# \xc3\xbc\n\xc3\xbc \xff".to_vec(),
            "a.toml: line 2, column 3: not UTF-8; save it as UTF-8",
        ),
    ] {
        let mut open = |_: &str| Ok(bytes.clone());
        let error = load(&["a.toml".to_owned()], Vec::new(), 1, &mut open).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let error = load(&["a.toml".to_owned()], Vec::new(), 1, &mut |_| Err("is a directory".into()));
    assert_eq!(error.unwrap_err().to_string(), "a.toml: is a directory");
}

#[test]
fn settings_that_came_of_no_file_are_refused_without_a_line() {
    const OF_SETTINGS: &str = "[[budget]]\nname = 'x'\noperation = 'o'\nquantile = 0.9\nlimit = 7";
    let text = RuleText {
        tables: RuleTables::Some { budget: true, rule: false },
        placed: false,
        ..RuleText::new("--set", OF_SETTINGS.into()).unwrap()
    };
    let error = load(&[], vec![text], 1, &mut |_| Err(String::new())).unwrap_err();
    let expected = "--set: budget \"x\": limit: 7 has no unit; write \"7ms\"";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_regression_has_a_baseline_and_nothing_else_has_one() {
    let rule = |lines: &str| format!("[[rule]]\nname = 'slower'\n{lines}\n");
    let of = |lines: &str| read(&[("a.toml", &rule(lines))]).map(|rules| rules.thresholds);
    let whole = "metric = 'regression:fetch'\ngreater = 0.05\nbaseline = 'v1.json'";
    let built = of(whole).unwrap().pop().unwrap();
    let baseline = Baseline { path: "v1.json".to_owned(), window: Window::HalfHour };
    assert_eq!(built.baseline, Some(baseline));
    for (lines, words) in [
        ("metric = 'regression:fetch'\ngreater = 0.05", "baseline is missing: name a file"),
        ("metric = 'regression:fetch'\nless = 0.05\nbaseline = 'v'", "write `greater`"),
        ("metric = 'pending_messages'\ngreater = 5\nbaseline = 'v'", "baseline: belongs to the"),
        ("metric = 'gauge:depth'\ngreater = 5\nwindow = '5m'", "window: belongs to the metric"),
        (&format!("{whole}\nwindow = '1m'"), "must be 5m to 1d for a regression, not 1m"),
        (&format!("{whole}\nwindow = '3d'"), "must be 5m to 1d for a regression, not 3d"),
        (&format!("{whole}\nlabels = {{ rank = '1' }}"), "remove labels"),
        ("metric = 'regression:a b'\ngreater = 0.05\nbaseline = 'v'", "unknown metric"),
        ("metric = 'regression:fetch'\ngreater = 0.05\nbaseline = ''", "must be the path"),
    ] {
        let error = of(lines).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_wrong_priority_is_reported_with_what_to_write() {
    expect_error(&[
        (
            "[[priority]]\nname = \"a\"\nlevel = \"high\"\n",
            "line 2, column 8: priority \"a\": operation, event or service_check is missing, and no \
             priority of this name is known",
        ),
        (
            "[[priority]]\nname = \"a\"\nevent = \"e\"\noperation = \"o\"\n",
            "line 4, column 1: priority \"a\": operation: a priority is of one operation, event or \
             service check; write one [[priority]] for each",
        ),
        (
            "[[priority]]\nname = \"a\"\nevent = \"e\"\nlevel = \"urgent\"\n",
            "line 4, column 1: priority \"a\": level: unknown level \"urgent\"; use one of high, \
             critical",
        ),
        (
            "[[priority]]\nname = \"a\"\nevnt = \"e\"\n",
            "line 3, column 1: priority \"a\": evnt: unknown key, did you mean \"event\"?",
        ),
        (
            "[[priority]]\nname = \"a\"\noperation = \"a*b\"\n",
            "line 3, column 1: priority \"a\": operation: pattern contains '*'; allowed: a name, \
             or a prefix of one with '*' at its end",
        ),
    ]);
}
