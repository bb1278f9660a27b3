//! Layers over each other, and the errors of invalid ones.

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(default)]
struct Config {
    name: String,
    bus: Bus,
    list: Vec<Item>,
    word: Option<Word>,
    on: bool,
    share: f64,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Item {
    name: String,
    weight: u8,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Word {
    Text,
    Json,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(default)]
struct Bus {
    url: String,
    password: Option<String>,
    retries: u8,
}

impl Default for Config {
    fn default() -> Self {
        let (name, bus) = ("none".into(), Bus::default());
        Self { name, bus, list: Vec::new(), word: None, on: false, share: 0.0 }
    }
}

impl Default for Bus {
    fn default() -> Self {
        Self { url: "nats://127.0.0.1".into(), password: None, retries: 3 }
    }
}

fn file(text: &str) -> Layer {
    Layer::from_toml("file a.toml", text).unwrap()
}

fn env(pairs: &[(&str, &str)]) -> Layer {
    Layer::from_env("P_", pairs.iter().map(|(k, v)| (k.into(), v.into()))).unwrap()
}

fn set(assignments: &[&str]) -> Layer {
    Layer::from_assignments("--set", assignments).unwrap()
}

fn refused(layers: &[Layer]) -> String {
    resolve::<Config>(layers).unwrap_err().to_string()
}

#[test]
fn later_layers_win_and_are_stated_per_key() {
    let layers = [
        file("name = 'f'\n[bus]\nurl = 'file'\nretries = 1"),
        env(&[("P_BUS__URL", "env"), ("OTHER", "x")]),
        Layer::from_assignments("--set", ["bus.retries=2"]).unwrap(),
    ];
    let resolved = resolve::<Config>(&layers).unwrap();
    let bus = Bus { url: "env".into(), retries: 2, ..Bus::default() };
    assert_eq!(resolved.value, Config { name: "f".into(), bus, ..Config::default() });
    assert_eq!(resolved.origins["bus.url"], "environment");
    assert_eq!(resolved.origins["bus.retries"], "--set");
    assert_eq!(resolved.origins["name"], "file a.toml");
}

#[test]
fn a_problem_names_the_source_of_each_key_in_it() {
    let layers = [file("name = 'f'\n[bus]\nurl = 'u'"), env(&[("P_BUS__RETRIES", "2")])];
    let resolved = resolve::<Config>(&layers).unwrap();
    let problem = "bus.retries must not be above bus.retries_max, see name.";
    let expected = format!("{problem}; environment sets bus.retries; file a.toml sets name");
    assert_eq!(resolved.located(problem), expected);
}

#[test]
fn without_layers_there_are_the_defaults() {
    assert_eq!(resolve::<Config>(&[]).unwrap().value, Config::default());
}

#[test]
fn a_misspelt_key_is_named_with_its_source_and_the_one_that_was_meant() {
    let error = refused(&[file("[bus]\nulr = 'x'")]);
    let wanted = "file a.toml: unknown key \"bus.ulr\", did you mean \"bus.url\"?; \
                --print-config lists all keys";
    assert_eq!(error, wanted);
    let elsewhere = refused(&[set(&["retries=1"])]);
    assert!(elsewhere.contains("did you mean \"bus.retries\"?"), "{elsewhere}");
    let strange = refused(&[set(&["colour=blue"])]);
    assert_eq!(strange, "--set: unknown key \"colour\"; --print-config lists all keys");
    let listed = refused(&[file("[[list]]\nname = 'a'\nwieght = 1")]);
    assert!(listed.starts_with("file a.toml: unknown key \"list[0].wieght\""), "{listed}");
}

#[test]
fn a_retired_key_is_a_warning_where_its_section_is_known() {
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Node {
        breaker: Breaker,
    }
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Breaker {
        open_seconds: u64,
    }

    let own = "[breaker]\nopen_seconds = 7\n";
    let layers = [file(&format!("{own}failures = 9")), set(&["breaker.failures=many"])];
    let resolved = resolve::<Node>(&layers).unwrap();
    assert_eq!(resolved.value.breaker.open_seconds, 7);
    assert_eq!(resolved.origins.keys().collect::<Vec<_>>(), ["breaker.open_seconds"]);
    assert_eq!(resolved.warnings, ["--set: breaker.failures has no effect any more; it is 3"]);

    assert!(resolve::<Node>(&[file(own)]).unwrap().warnings.is_empty());
    assert!(refused(&layers).contains("unknown key \"breaker\""));
}

#[test]
fn a_fault_is_laid_on_the_layer_that_holds_it() {
    let good = file("name = 'f'\n[bus]\nurl = 'u'\nretries = 1");
    for (layer, origin) in [
        (set(&["bus.urls=x"]), "--set: unknown key \"bus.urls\""),
        (set(&["bus.ur=x"]), "--set: unknown key \"bus.ur\""),
        (env(&[("P_NAMES", "x")]), "environment: unknown key \"names\""),
        (env(&[("P_BUS__RETRIES", "many")]), "environment: bus.retries: "),
        (set(&["bus=x"]), "--set: bus: "),
        (set(&["list=[{name='a', weight=300}]"]), "--set: list[0].weight: "),
    ] {
        let error = refused(&[good.clone(), layer]);
        assert!(error.starts_with(origin), "{origin} is not named by {error}");
    }
    let below = refused(&[file("[bus]\nurls = 'x'"), set(&["bus.url=u"])]);
    assert!(below.starts_with("file a.toml: unknown key \"bus.urls\""), "{below}");
    let empty = refused(&[file("[bsu]"), env(&[])]);
    assert!(empty.starts_with("file a.toml: unknown key"), "{empty}");
}

#[test]
fn a_section_that_replaces_a_value_names_the_later_layer() {
    let layers = [file("name = 'f'\nbus = 'x'"), set(&["bus.retries=2"])];
    let resolved = resolve::<Config>(&layers).unwrap();
    let origins: Vec<_> = resolved.origins.iter().map(|(k, v)| format!("{k} {v}")).collect();
    assert_eq!(origins, ["bus.retries --set", "name file a.toml"]);
}

#[test]
fn text_of_variables_and_arguments_is_what_the_key_expects() {
    for text in ["12345", "true", "1.5", "[1]", "{a=1}", "\"q\"", "x = y", "", "07"] {
        let assigned = format!("bus.password={text}");
        for layer in [env(&[("P_BUS__PASSWORD", text)]), set(&[&assigned])] {
            let config = resolve::<Config>(&[layer]).unwrap().value;
            assert_eq!(config.bus.password.as_deref(), Some(text));
        }
    }
    let typed = set(&[
        "name=7",
        "bus.retries=9",
        "on=true",
        "share=1",
        "word=json",
        "list=[{name='a', weight=1}]",
    ]);
    let config = resolve::<Config>(&[typed]).unwrap().value;
    let expected = Config {
        name: "7".into(),
        bus: Bus { retries: 9, ..Bus::default() },
        list: vec![Item { name: "a".into(), weight: 1 }],
        word: Some(Word::Json),
        on: true,
        share: 1.0,
    };
    assert_eq!(config, expected);
    let section = resolve::<Config>(&[set(&["bus={url='u', retries=1}"])]).unwrap().value;
    assert_eq!((section.bus.url.as_str(), section.bus.retries), ("u", 1));
}

#[test]
fn a_file_documents_its_own_values() {
    let error = refused(&[file("name = 7")]);
    let wanted = "file a.toml: name: invalid type: expected a string, found a whole number";
    assert_eq!(error, wanted);
}

#[test]
fn an_error_is_one_line_without_the_value_at_fault() {
    for text in [
        "[bus]\npassword = 12345",
        "[bus]\npassword = [12345]",
        "[bus]\npassword = 12345-67",
        "[bus]\npassword = 12345 hush",
        "[bus]\npassword = \"12345",
        "bus = '12345'",
        "[bus]\nretries = '12345'",
        "on = '12345'",
    ] {
        let error = match Layer::from_toml("file a.toml", text) {
            Ok(layer) => refused(&[layer]),
            Err(error) => error.to_string(),
        };
        assert!(!error.contains("12345") && !error.contains("hush"), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{text}: {error}");
    }
    let blank = Layer::from_assignments("--set", ["bus.password hush"]).unwrap_err();
    assert_eq!(blank.to_string(), "--set: bus.password: expected key=value");
}

#[test]
fn a_number_out_of_range_is_shown() {
    let error = refused(&[set(&["bus.retries=300"])]);
    let wanted = "--set: bus.retries: invalid value: expected u8, found integer `300`";
    assert_eq!(error, wanted);
}

#[test]
fn broken_toml_is_reported_with_its_line_and_column() {
    let error = Layer::from_toml("file a.toml", "name = 'x'\n[bus\n").unwrap_err().to_string();
    assert!(error.starts_with("file a.toml: line 2, column "), "{error}");
}

#[test]
fn an_assignment_without_an_equals_sign_is_refused() {
    let error = Layer::from_assignments("--set", ["bus"]).unwrap_err();
    assert_eq!(error.to_string(), "--set: bus: expected key=value");
}

#[cfg(unix)]
#[test]
fn variables_that_are_not_text_matter_only_when_they_are_ours() {
    use std::os::unix::ffi::OsStringExt;
    let foreign = OsString::from_vec(b"\xff".to_vec());
    let pairs = [("OTHER".into(), foreign.clone()), (foreign.clone(), "x".into())];
    assert_eq!(Layer::from_env("P_", pairs).unwrap(), Layer::new("environment"));
    let ours = OsString::from_vec(b"P_\xff".to_vec());
    for (pair, wanted) in [
        (("P_NAME".into(), foreign), "environment: P_NAME: is not UTF-8"),
        ((ours, "x".into()), "environment: P_\u{fffd}: is not UTF-8"),
    ] {
        assert_eq!(Layer::from_env("P_", [pair]).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn links_to_services_are_no_settings() {
    let links = env(&[("P_SERVICE_HOST", "10.0.0.7"), ("P_PORT", "tcp://10.0.0.7:9900")]);
    assert_eq!(links, Layer::new("environment"));
    assert!(refused(&[env(&[("P_HTTP_PORT", "9900")])]).contains("unknown key \"http_port\""));
}

#[test]
fn every_key_of_a_configuration_is_known() {
    let keys = ["bus.password", "bus.retries", "bus.url", "list", "name", "on", "share", "word"];
    assert_eq!(keys_of::<Config>(), keys);
}
