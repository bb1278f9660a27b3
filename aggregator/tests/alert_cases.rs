//! Every file in `cases/` is a history and its expected result: which alerts are active when, and
//! every notification that is sent. The real core plays it in simulated time, from real messages.

#[path = "alert_cases/case.rs"]
mod case;
#[path = "alert_cases/events.rs"]
mod events;
#[path = "alert_cases/properties.rs"]
mod properties;
#[path = "alert_cases/rules.rs"]
mod rules;
#[path = "alert_cases/speaker.rs"]
mod speaker;
#[path = "alert_cases/world.rs"]
mod world;

use std::path::Path;

use case::Case;
use events::CaseEvent;
use plimsoll_schemas::alert::AlertState;

/// What is wrong with a case; nothing when all is as it expects.
fn play(name: &str, text: &str) -> Option<String> {
    let case: Case = toml::from_str(text).unwrap_or_else(|why| panic!("{name}: {why}"));
    let mut states = Vec::new();
    let world = world::play(&case, |world, step| {
        for (rule, who) in requested(&case, step) {
            let key = world.key(rule, who).unwrap_or_else(|| panic!("{name}: no rule {rule}"));
            let state = world.state(&key).map_or("away", AlertState::as_str);
            states.push(CaseEvent { step, what: format!("{rule} {who} {state}") });
        }
    });
    assert_eq!(world.refused, 0, "{name}: what people ask for can be done");
    let event = |notification| CaseEvent::notification(world.step_of(notification), notification);
    let notifications: Vec<CaseEvent> = world.notifications.iter().map(event).collect();
    let notifications = events::difference(&case.notifications, &notifications);
    let states = events::difference(&case.states, &states);
    if notifications.is_empty() && states.is_empty() {
        return None;
    }
    let part = |of: &str, text: &str| match text {
        "" => String::new(),
        text => format!("{of} {text}"),
    };
    Some(format!(
        "{name}: {}\n{}{}",
        case.title,
        part("notifications", &notifications),
        part("states", &states)
    ))
}

/// The alerts whose state a case expects in a step.
fn requested(case: &Case, step: u64) -> impl Iterator<Item = (&str, &str)> {
    case.states.iter().filter_map(move |line| {
        let mut words = line.split(' ');
        let (when, rule, who) = (words.next()?, words.next()?, words.next()?);
        (when.parse() == Ok(step)).then_some((rule, who))
    })
}

#[test]
fn every_case_meets_its_expectations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let wrong = files.iter().filter_map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        play(&name(path), &text)
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(files.len() >= 60, "only {} cases", files.len());
    assert!(wrong.is_empty(), "{} cases:\n\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_case_of_the_tokenizer_is_about_the_shipped_budgets() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path| std::fs::read_to_string(folder.join(path)).unwrap();
    let case: Case = toml::from_str(&read("tests/cases/tokenizer_targets.toml")).unwrap();
    let shipped = rules::parse(&read("rules/tokenizer.toml"), 1);
    assert_eq!(rules::parse(&case.rules, 1).budgets, shipped.budgets);
    let limits = shipped.budgets.iter().map(|of| (of.operation.as_str(), of.limit_ns));
    let expected = [("tokenizer.lookup:ps", 1_000_000), ("tokenizer.merge:ps", 500_000)];
    assert_eq!(limits.collect::<Vec<_>>(), expected);
}
