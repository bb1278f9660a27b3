//! Settings of scrape targets: applications with Prometheus text.

use std::time::Duration;

use crate::limits::scrape as limits;
use plimsoll_schemas::ids::Labels;

use super::endpoint::Endpoint;
use super::intake::unit;
use super::section::{few, section};
use crate::core::intake::glob::Glob;
use crate::core::intake::lines::Unit;
use crate::core::intake::promtext::Target;

section! {
    /// A `[[scrape]]` section: an application to scrape periodically.
    pub struct ScrapeSettings {
        pub url: String = String::new(),
        pub every_seconds: u64 = limits::EVERY.as_secs(),
        pub timeout_seconds: Option<u64> = None,
        pub labels: Vec<String> = Vec::new(),
        #[serde(deserialize_with = "unit")]
        pub unit: Unit = Unit(None),
        pub allow: Vec<String> = Vec::new(),
        pub series_max: usize = limits::SERIES_MAX,
    }
}

/// The targets as the core uses them.
pub(super) fn targets(scrape: &[ScrapeSettings]) -> Result<Vec<Target>, String> {
    few("scrape", scrape.len(), limits::TARGETS_MAX, "entries")?;
    for (place, one) in scrape.iter().enumerate() {
        if scrape[..place].iter().any(|other| other.url == one.url) {
            return Err(format!("scrape.url: {:?} is given twice; remove one", one.url));
        }
    }
    scrape.iter().map(target).collect()
}

fn target(one: &ScrapeSettings) -> Result<Target, String> {
    few("scrape.allow", one.allow.len(), limits::ALLOW_MAX, "entries")?;
    few("scrape.labels", one.labels.len(), limits::TARGET_LABELS_MAX, "entries")?;
    if one.allow.iter().any(String::is_empty) {
        return Err("scrape.allow: an empty name fits nothing; \"*\" fits all".to_owned());
    }
    if !(1..=limits::SERIES_MAX_MAX).contains(&one.series_max) {
        return Err(format!("scrape.series_max must lie between 1 and {}", limits::SERIES_MAX_MAX));
    }
    let mut pairs = Vec::new();

    for text in &one.labels {
        let pair = text.split_once('=').filter(|(_, value)| !value.is_empty());
        pairs.push(pair.ok_or_else(|| {
            format!("scrape.labels: {text:?} must be key=value, such as \"app=trainer\"")
        })?);
    }

    let labels = Labels::new(pairs).map_err(|error| format!("scrape.labels: {error}"))?;
    Ok(Target {
        name: one.url.clone(),
        labels,
        unit: one.unit,
        allow: one.allow.iter().map(|pattern| Glob::new(pattern)).collect(),
        series_max: one.series_max,
    })
}

pub(super) fn endpoints(scrape: &[ScrapeSettings]) -> Result<Vec<Endpoint>, String> {
    scrape.iter().map(endpoint).collect()
}

fn endpoint(one: &ScrapeSettings) -> Result<Endpoint, String> {
    if !(1..=3_600).contains(&one.every_seconds) {
        return Err("scrape.every_seconds must lie between 1 and 3600".to_owned());
    }
    let every = Duration::from_secs(one.every_seconds);
    let timeout = one.timeout_seconds.map_or(every / 2, Duration::from_secs);
    if timeout.is_zero() || timeout > every {
        return Err("scrape.timeout_seconds must lie between 1 and scrape.every_seconds".to_owned());
    }
    Endpoint::new(&one.url, every, timeout)
        .map_err(|error| format!("scrape.url: {:?} {error}", one.url))
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::settings::{Layer, keys_of, resolve};

    use super::*;
    use crate::config::{Config, EXAMPLE};

    fn read(text: &str) -> Result<Config, String> {
        let layer = Layer::from_toml("file n.toml", text).map_err(|error| error.to_string())?;
        let config = resolve::<Config>(&[layer]).map_err(|error| error.to_string())?.value;
        config.check().map(|()| config)
    }

    #[test]
    fn wrong_values_name_their_key_and_what_would_be_right() {
        let with = |text: &str| format!("[[scrape]]\nurl = 'http://localhost:1/m'\n{text}");
        for (text, part) in [
            ("[[scrape]]".to_owned(), "scrape.url: \"\" must be"),
            (
                "[[scrape]]\nurl = 'localhost:8000'".to_owned(),
                "scrape.url: \"localhost:8000\" must",
            ),
            (
                "[[scrape]]\nurl = '127.0.0.1:8000/metrics'".to_owned(),
                "must be an address that starts with http://",
            ),
            ("[[scrape]]\nurl = 'https://h/m'".to_owned(), "plain http"),
            ("[[scrape]]\nurl = 'http://u:p@h/m'".to_owned(), "scrape.url: "),
            (with(&with("")), "is given twice"),
            (with("every_seconds = 0"), "scrape.every_seconds must lie between"),
            (with("timeout_seconds = 6"), "scrape.timeout_seconds must lie between"),
            (with("timeout_seconds = 0"), "scrape.timeout_seconds must lie between"),
            (with("labels = ['app']"), "scrape.labels: \"app\" must be key=value"),
            (with("labels = ['a b=c']"), "scrape.labels: "),
            (with("unit = 'By'"), "unit"),
            (with("allow = ['']"), "scrape.allow"),
            (with("series_max = 0"), "scrape.series_max must lie between 1 and 10000"),
            (with("interval = 5"), "scrape"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let many = |n: u32| (0..n).map(|n| format!("[[scrape]]\nurl = 'http://h:{}/'\n", n + 1));
        assert!(read(&many(16).collect::<String>()).is_ok());
        let error = read(&many(17).collect::<String>()).unwrap_err();
        assert_eq!(error, "scrape must have at most 16 entries");
    }

    #[test]
    fn a_target_defaults_to_an_interval_of_five_seconds_and_a_timeout_of_half() {
        let config = read("[[scrape]]\nurl = 'http://localhost:8000/metrics'").unwrap();
        assert_eq!(config.bounds().rules.targets.len(), 1);
        let at = |every, timeout| {
            Endpoint::new("http://localhost:8000/metrics", every, timeout).unwrap()
        };
        let (five, half) = (Duration::from_secs(5), Duration::from_millis(2_500));
        assert_eq!(config.endpoints(), [at(five, half)]);
        let text = "[[scrape]]\nurl = 'http://localhost:8000/metrics'\nevery_seconds = 9\n\
                    timeout_seconds = 9";
        let nine = Duration::from_secs(9);
        assert_eq!(read(text).unwrap().endpoints(), [at(nine, nine)]);
    }

    #[test]
    fn the_printed_file_holds_every_key_of_a_target_at_its_default() {
        let all = EXAMPLE.replace("\n#", "\n").replace("\n ", "\n# ");
        let (_, behind) = all.split_once("[[scrape]]").unwrap();
        let (section, _) = behind.split_once("\n[").unwrap();
        let layer = Layer::from_toml("file n.toml", section).unwrap();
        let one = resolve::<ScrapeSettings>(&[layer]).unwrap();
        assert_eq!(one.origins.into_keys().collect::<Vec<_>>(), keys_of::<ScrapeSettings>());
        let (url, timeout_seconds) = (one.value.url.clone(), one.value.timeout_seconds);
        assert_eq!(one.value, ScrapeSettings { url, timeout_seconds, ..ScrapeSettings::default() });
    }
}
