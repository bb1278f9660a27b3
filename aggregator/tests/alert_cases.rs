//! Every file in `cases/` is a history and what must become of it: which alerts stand when, and
//! every notice that leaves. The real core plays it in simulated time, from real messages.

#[path = "alert_cases/case.rs"]
mod case;
#[path = "alert_cases/rules.rs"]
mod rules;
#[path = "alert_cases/speaker.rs"]
mod speaker;
#[path = "alert_cases/told.rs"]
mod told;
#[path = "alert_cases/world.rs"]
mod world;

use std::path::Path;

use case::Case;

/// What is wrong with a case; nothing when all is as it expects.
fn play(name: &str, text: &str) -> Option<String> {
    let case: Case = toml::from_str(text).unwrap_or_else(|why| panic!("{name}: {why}"));
    let (notices, states) = world::play(&case);
    let notices = told::difference(&case.notices, &notices);
    let states = told::difference(&case.states, &states);
    if notices.is_empty() && states.is_empty() {
        return None;
    }
    let part = |of: &str, text: &str| match text {
        "" => String::new(),
        text => format!("{of} {text}"),
    };
    Some(format!(
        "{name}: {}\n{}{}",
        case.title,
        part("notices", &notices),
        part("states", &states)
    ))
}

#[test]
fn every_case_comes_to_what_its_file_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    assert!(files.len() >= 60, "only {} cases", files.len());
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let wrong = files.iter().filter_map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        play(&name(path), &text)
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} cases:\n\n{}", wrong.len(), wrong.join("\n"));
}
