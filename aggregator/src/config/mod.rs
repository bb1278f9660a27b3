//! Aggregator settings and their defaults. What each key means is in `aggregator.toml` alone. Only
//! files that the settings name for secrets are read here; receivers are checked by `io::notify`,
//! budgets and thresholds by `io::rules`.
//!
//! DESIGN S19.

mod confirm;
mod history;
mod notifications;
mod notify;
mod profiles;
mod shards;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use plimsoll_runtime::directory;
use plimsoll_runtime::http::{Protection, ProtectionFiles};
use plimsoll_runtime::logs::LogSettings;
use plimsoll_runtime::optional::address_or_none;
use plimsoll_runtime::settings::BusSettings;
use plimsoll_runtime::token::Token;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::ids::{MeshName, Partition};
use plimsoll_schemas::limits::rules::TIME_SCALE_MAX;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::above;
use serde::Deserialize;
use toml::Table;
use url::Url;

use crate::core::fleet::Definition;
use crate::limits::{DECODE_THREADS_MAX, PAGE_URL_BYTES_MAX};

pub use confirm::ConfirmSettings;
pub use history::HistorySettings;
pub use notify::{Alertmanager, Alertmanagers, Secret, Webhook};

pub use notifications::Notifications;
pub use profiles::ProfileSettings;
pub use shards::{ShardRole, Shards, View};

/// A settings file with every key at its default, as `--print-config` prints it.
pub const EXAMPLE: &str = include_str!("../../aggregator.toml");

/// An aggregator's configuration; the keys of its TOML file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct Config {
    pub mesh: MeshName,
    pub rollup_labels: Vec<String>,
    pub decode_threads: Option<usize>,
    pub bus: BusSettings,
    pub http: Http,
    pub windows: WindowSpans,
    pub rollup: Vec<Definition>,
    pub rules: RuleFiles,
    pub budget: Vec<Table>,
    pub rule: Vec<Table>,
    pub alertmanager: Alertmanagers,
    pub webhook: Vec<Webhook>,
    pub metrics: Metrics,
    pub notifications: Notifications,
    pub confirm: ConfirmSettings,
    pub state: State,
    pub history: HistorySettings,
    pub profiles: ProfileSettings,
    pub shards: Shards,
    pub log: LogSettings,
}

/// The `[http]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Http {
    pub address: SocketAddr,
    #[serde(deserialize_with = "address_or_none")]
    pub health_address: Option<SocketAddr>,
    pub url: Option<String>,
    pub hosts: Vec<String>,
    pub token: Option<Token>,
    pub token_file: Option<PathBuf>,
    pub reader_token_file: Option<PathBuf>,
    pub certificate_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
}

/// The `[metrics]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metrics {
    pub nodes_max: usize,
    pub aliases: bool,
}

/// The `[windows]` section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WindowSpans {
    pub nodes_up_to: Window,
}

/// The `[state]` section.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct State {
    pub path: Option<PathBuf>,
}

/// The `[rules]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RuleFiles {
    pub files: Vec<String>,
    pub time_scale: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mesh: MeshName::new("default").expect("a constant name of plain letters"),
            rollup_labels: ["run", "rank", "role"].map(str::to_owned).to_vec(),
            decode_threads: None,
            bus: BusSettings::default(),
            http: Http::default(),
            windows: WindowSpans::default(),
            rollup: Vec::new(),
            rules: RuleFiles::default(),
            budget: Vec::new(),
            rule: Vec::new(),
            alertmanager: Alertmanagers::default(),
            webhook: Vec::new(),
            metrics: Metrics::default(),
            notifications: Notifications::default(),
            confirm: ConfirmSettings::default(),
            state: State::default(),
            history: HistorySettings::default(),
            profiles: ProfileSettings::default(),
            shards: Shards::default(),
            log: LogSettings::default(),
        }
    }
}

impl State {
    fn check(&self) -> Result<(), String> {
        self.path.as_deref().map_or(Ok(()), |path| directory::check_parent("state.path", path))
    }
}

impl Default for RuleFiles {
    fn default() -> Self {
        Self { files: Vec::new(), time_scale: 1 }
    }
}

impl RuleFiles {
    fn check(&self) -> Result<(), String> {
        let scale = self.time_scale;
        if !(1..=TIME_SCALE_MAX).contains(&scale) {
            return Err(format!("rules.time_scale is {scale}; it must be 1 to {TIME_SCALE_MAX}"));
        }
        Ok(())
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self { nodes_max: 100, aliases: false }
    }
}

impl Default for Http {
    fn default() -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 9900));
        Self {
            address,
            health_address: None,
            url: None,
            hosts: Vec::new(),
            token: None,
            token_file: None,
            reader_token_file: None,
            certificate_file: None,
            key_file: None,
        }
    }
}

impl Http {
    /// The token that changes over HTTP need.
    ///
    /// # Errors
    /// Names the key and the fix, without the secret.
    pub fn token(&self) -> Result<Option<Token>, String> {
        match (&self.token, &self.token_file) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err("http: set token or token_file, not both".to_owned()),
            (Some(token), None) => token.clone().checked("http.token").map(Some),
            (None, Some(path)) => Token::of_file("http.token_file", path).map(Some),
        }
    }

    /// Who may read, and over what.
    ///
    /// # Errors
    /// Names the key and the fix, without the secret.
    pub fn protection(&self) -> Result<Protection, String> {
        let files = ProtectionFiles {
            certificate: self.certificate_file.as_deref(),
            key: self.key_file.as_deref(),
            reader_token: self.reader_token_file.as_deref(),
        };
        let protection = Protection::of_hosts(self.names()).with_files(files)?;
        Ok(protection.with_token(self.token()?))
    }

    /// Where people reach the page of an aggregator that is bound to this address, without a `/`
    /// at its end.
    ///
    /// # Errors
    /// Names the key and what is wrong with its value.
    pub fn page_url(&self, bound: SocketAddr) -> Result<String, String> {
        let scheme = if self.certificate_file.is_some() { "https" } else { "http" };
        let Some(text) = &self.url else { return Ok(format!("{scheme}://{bound}")) };
        let wrong = |why: String| format!("http.url is {text:?}; {why}");
        let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        let is_web = ["http", "https"].contains(&url.scheme());
        if !is_web || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it must be http:// or https://, a host, and a path or none".into()));
        }
        let text = url.as_str().trim_end_matches('/').to_owned();
        match text.len() {
            ..=PAGE_URL_BYTES_MAX => Ok(text),
            bytes => Err(wrong(format!("its {bytes} bytes are more than {PAGE_URL_BYTES_MAX}"))),
        }
    }

    /// The names of this aggregator: those of `hosts`, and that of `url`.
    fn names(&self) -> Vec<String> {
        let url = self.url.as_deref().and_then(|url| Url::parse(url).ok());
        let of_url = url.and_then(|url| url.host_str().map(str::to_owned));
        self.hosts.iter().cloned().chain(of_url).collect()
    }

    fn check(&self) -> Result<(), String> {
        self.page_url(self.address)?;
        Protection::check_hosts(&self.hosts)?;
        self.protection().map(drop)
    }
}

impl Default for WindowSpans {
    fn default() -> Self {
        Self { nodes_up_to: Window::FiveMinutes }
    }
}

impl WindowSpans {
    fn check(self) -> Result<(), String> {
        if self.nodes_up_to < Window::OneMinute {
            let given = self.nodes_up_to;
            return Err(format!("windows.nodes_up_to is {given}; it must be at least 1m"));
        }
        Ok(())
    }
}

impl Config {
    /// Checks all settings but rules and receivers, which `io::rules::Sources` checks too.
    ///
    /// # Errors
    /// Names the key and what it may be.
    pub fn check(&self) -> Result<(), String> {
        if let Some(threads) = self.decode_threads.filter(|n| !(1..=DECODE_THREADS_MAX).contains(n))
        {
            return Err(format!(
                "decode_threads is {threads}; it must be 1 to {DECODE_THREADS_MAX}"
            ));
        }

        self.bus.check(&self.mesh)?;
        self.http.check()?;
        self.log.check()?;
        self.confirm.check()?;
        self.windows.check()?;
        self.rules.check()?;
        self.history.check(self.state.path.is_some())?;
        self.state.check()?;
        let can_capture = self.state.path.is_some() && self.confirm.key_file.is_some();
        self.profiles.check(can_capture)?;
        self.shards.check(&self.mesh)?;
        self.notifications.dashboard(&self.http.page_url(self.http.address)?)?;
        Definition::check_all(&self.rollups()).map_err(|error| error.to_string())
    }

    /// All roll-ups: those of `rollup_labels` that none of `[[rollup]]` replaces, then these.
    pub fn rollups(&self) -> Vec<Definition> {
        let is_replaced = |label: &&String| self.rollup.iter().any(|own| own.name == **label);
        let labels = self.rollup_labels.iter().filter(|label| !is_replaced(label));
        labels.map(|label| Definition::of_label(label)).chain(self.rollup.clone()).collect()
    }

    /// The same for the aggregator above shards, whose mesh has their reports.
    ///
    /// # Errors
    /// When the mesh's name is too long for that.
    pub fn of_above(&self) -> Result<Self, String> {
        let mesh = above(&self.mesh).map_err(|error| format!("mesh: {error}"))?;
        Ok(Self { mesh, ..self.clone() })
    }

    /// The same with state and history of a partition, each in a folder beside its place.
    pub fn of_partition(&self, partition: Partition) -> Self {
        let mut config = self.clone();
        for path in [&mut config.state.path, &mut config.history.path] {
            *path = path.as_deref().map(|path| {
                let name = path.file_name().unwrap_or_default();
                folder(path, partition).join(name)
            });
        }
        config
    }

    /// The folders of state and history, each once.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let paths = [self.state.path.as_deref(), self.history.path.as_deref()];
        let parents = paths.into_iter().flatten().filter_map(Path::parent);
        let mut folders: Vec<_> = parents.map(Path::to_owned).collect();
        folders.dedup();
        folders.into_iter()
    }

    /// Warnings about rules that are valid and probably not meant, one line each, such as routes
    /// to receivers that are not defined.
    pub fn advice(&self, rules: &Rules) -> Vec<String> {
        let alertmanagers = self.alertmanager.0.iter().map(|of| &of.name);
        let receivers = alertmanagers.chain(self.webhook.iter().map(|of| &of.name));
        let receivers: Vec<String> = receivers.cloned().collect();
        rules.advice(self.windows.nodes_up_to, &receivers)
    }

    /// Sections other than rules and roll-ups in which another configuration differs; they need a
    /// restart.
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        // Exhaustive, so that a new section cannot be left out.
        let Self {
            mesh,
            bus,
            http,
            windows,
            rollup_labels: _,
            decode_threads,
            rollup: _,
            rules: _,
            budget: _,
            rule: _,
            alertmanager,
            webhook,
            metrics,
            notifications,
            confirm,
            state,
            history,
            profiles,
            shards,
            log,
        } = self;

        let sections = [
            ("mesh", *mesh == other.mesh),
            ("decode_threads", *decode_threads == other.decode_threads),
            ("bus", *bus == other.bus),
            ("http", *http == other.http),
            ("windows", *windows == other.windows),
            ("alertmanager", *alertmanager == other.alertmanager),
            ("webhook", *webhook == other.webhook),
            ("metrics", *metrics == other.metrics),
            ("notifications", *notifications == other.notifications),
            ("confirm", *confirm == other.confirm),
            ("state", *state == other.state),
            ("history", *history == other.history),
            ("profiles", *profiles == other.profiles),
            ("shards", *shards == other.shards),
            ("log", *log == other.log),
        ];

        sections.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}

fn folder(path: &Path, partition: Partition) -> PathBuf {
    path.with_file_name(format!("part-{partition}"))
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::budget::Selector;
    use plimsoll_schemas::ids::Labels;
    use plimsoll_schemas::rule::file::load;
    use plimsoll_schemas::rule::{BUDGET_KEYS, RULE_KEYS, RuleAnnotations, RuleTables, RuleText};
    use plimsoll_schemas::settings::{Layer, keys_of, resolve};

    use super::*;

    fn read(text: &str) -> Result<(), String> {
        let layer = Layer::from_toml("file a.toml", text).map_err(|error| error.to_string())?;
        resolve::<Config>(&[layer]).map_err(|error| error.to_string())?.value.check()
    }

    #[test]
    fn wrong_values_name_their_key() {
        for (text, part) in [
            ("[http]\naddress = '9900'", "http.address"),
            (
                "[windows]\nnodes_up_to = '10s'",
                "windows.nodes_up_to is 10s; it must be at least 1m",
            ),
            ("[windows]\nnodes_up_to = '7m'", "windows.nodes_up_to"),
            ("[[rollup]]\nname = 'r'\nby = ['le']", "rollup \"r\": \"le\" is a label of every row"),
            ("[[rollup]]\nname = 'r'\nnode_by = ['rack']", "node_by"),
            ("rollup_labels = ['run', 'run']", "rollup \"run\": name is given twice"),
            ("rollup_labels = ['a b']", "rollup \"a b\": name: "),
            ("rollup_labels = 'run'", "rollup_labels"),
            ("decode_threads = 0", "decode_threads is 0; it must be 1 to 64"),
            ("decode_threads = 65", "decode_threads is 65; it must be 1 to 64"),
            ("[http]\ntoken = 'short'", "http.token: "),
            ("[http]\ntoken_file = 'absent'", "http.token_file absent: "),
            ("[http]\ntoken = 'x'\ntoken_file = 'y'", "set token or token_file, not both"),
            ("[http]\nreader_token_file = 'absent'", "http.reader_token_file absent: "),
            ("[http]\ncertificate_file = 'absent'", "http.certificate_file needs http.key_file"),
            ("[http]\nkey_file = 'absent'", "http.key_file needs http.certificate_file"),
            (
                "[http]\ncertificate_file = 'absent'\nkey_file = 'absent'",
                "http.certificate_file absent: ",
            ),
            ("[http]\nurl = 'plimsoll.example'", "http.url is \"plimsoll.example\"; "),
            ("[http]\nurl = 'ftp://h'", "http.url is \"ftp://h\"; it must be http:// or https://"),
            ("[http]\nurl = 'http://h/?a=b'", "http.url is \"http://h/?a=b\"; it must be"),
            ("[http]\nhosts = ['h:80']", "http.hosts has \"h:80\"; each must be a name"),
            ("[rules]\ntime_scale = 0", "rules.time_scale is 0; it must be 1 to 259200"),
            ("[rules]\nfile = 'a.toml'", "rules.file"),
            ("[log]\nfilter = 'x=loud'", "log.filter"),
            ("[bus]\nurl = 'http://h'", "bus.url"),
            ("[bus]\ncredentials_file = 'absent.creds'", "bus.credentials_file"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn the_page_is_at_the_bound_address_unless_a_url_is_set_whose_host_is_a_name_of_ours() {
        let http = |url: Option<&str>| Http { url: url.map(str::to_owned), ..Http::default() };
        let bound = SocketAddr::from(([127, 0, 0, 1], 9900));
        assert_eq!(http(None).page_url(bound).unwrap(), "http://127.0.0.1:9900");
        let tls = Http { certificate_file: Some("c".into()), ..http(None) };
        assert_eq!(tls.page_url(bound).unwrap(), "https://127.0.0.1:9900");
        let set = Http { hosts: vec!["a.b".to_owned()], ..http(Some("https://p.example/mesh/")) };
        assert_eq!(set.page_url(bound).unwrap(), "https://p.example/mesh");
        assert_eq!(set.names(), ["a.b", "p.example"]);
        let long = format!("http://{}", "h".repeat(PAGE_URL_BYTES_MAX));
        let error = http(Some(&long)).page_url(bound).unwrap_err();
        assert!(error.ends_with("its 135 bytes are more than 128"), "{error}");
    }

    #[test]
    fn a_section_replaces_the_roll_up_of_a_label_and_an_empty_list_has_none() {
        let names = |text: &str| -> Vec<(String, bool)> {
            let layer = Layer::from_toml("file a.toml", text).unwrap();
            let rollups = resolve::<Config>(&[layer]).unwrap().value.rollups();
            rollups.into_iter().map(|of| (of.name, of.either_by.is_empty())).collect()
        };
        let own = "[[rollup]]\nname = 'rank'\nby = ['rank']";
        let expected = |all: &[(&str, bool)]| {
            all.iter().map(|(name, is_own)| ((*name).to_owned(), *is_own)).collect::<Vec<_>>()
        };
        assert_eq!(names(""), expected(&[("run", false), ("rank", false), ("role", false)]));
        assert_eq!(names(own), expected(&[("run", false), ("role", false), ("rank", true)]));
        assert_eq!(names(&format!("rollup_labels = []\n{own}")), expected(&[("rank", true)]));
        assert_eq!(names("rollup_labels = ['rack']"), expected(&[("rack", false)]));
    }

    #[test]
    fn the_printed_file_holds_every_key_at_its_default() {
        let layer = |text: &str| Layer::from_toml("file a.toml", text).unwrap();
        let config = resolve::<Config>(&[layer(EXAMPLE)]).unwrap().value;
        assert_eq!(config, Config::default());
        let all = EXAMPLE.replace("\n#", "\n").replace("\n ", "\n# ");
        let resolved = resolve::<Config>(&[layer(&all)]).unwrap();
        let stated: Vec<String> = resolved.origins.into_keys().collect();
        assert_eq!(stated, keys_of::<Config>());
        let (before, rules) = all.split_once("\n[[budget]]\n").unwrap();
        let (_, rollup) = before.split_once("\n[[rollup]]\n").unwrap();
        let stated = resolve::<Definition>(&[layer(rollup)]).unwrap().origins.into_keys();
        assert_eq!(stated.collect::<Vec<_>>(), keys_of::<Definition>());
        let (budget, rule) = rules.split_once("\n[[rule]]\n").unwrap();
        for (text, known) in [(budget, BUDGET_KEYS), (rule, RULE_KEYS)] {
            let stated = text.parse::<Table>().unwrap();
            let missing: Vec<&str> =
                known.iter().copied().filter(|key| !stated.contains_key(*key)).collect();
            // Of three comparisons a rule has one, and the example is of no regression.
            let of_regressions = ["baseline", "window"];
            let others = [&["less", "equal"][..], &of_regressions].concat();
            assert!(missing.is_empty() || missing == others, "{missing:?}");
        }
        let text = |text: &str| RuleText::new("a.toml", text.into()).unwrap();
        let settings = |all: &str| RuleText {
            tables: RuleTables::Some { budget: true, rule: true },
            ..text(all)
        };
        let of = |all: &str| {
            let rules = load(&[], vec![settings(all)], 1, &mut |_| Err(String::new())).unwrap();
            (rules.budgets.last().unwrap().clone(), rules.thresholds.last().unwrap().clone())
        };
        let (mut checkpoint, mut violations) = of(&all);
        let short = "[[budget]]\nname = 'checkpoint'\noperation = 'checkpoint'\n\
                     quantile = 0.99\nlimit = '250ms'\n\
                     [[rule]]\nname = 'violations'\nmetric = 'counter:isolation.violations'\n\
                     greater = 3";
        (checkpoint.about, violations.about) =
            (RuleAnnotations::default(), RuleAnnotations::default());
        checkpoint.selector = Selector::default();
        violations.labels = Labels::default();
        checkpoint.objective = None;
        assert_eq!(of(short), (checkpoint, violations), "the rest is at its default");
    }
}
