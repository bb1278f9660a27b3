//! Node settings and their defaults. What each key means is in `node.toml` alone.
//!
//! DESIGN N40, S19.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::limits;
use plimsoll_runtime::http::{Protection, ProtectionFiles};
use plimsoll_runtime::logs::LogSettings;
use plimsoll_runtime::settings::BusSettings;
use plimsoll_schemas::ids::{MeshName, NodeName};
use serde::Deserialize;

use crate::core::Bounds;
use crate::core::intake::Rules;
use crate::core::outbox::{OutboxBounds, Thresholds, UnconfirmedBounds};

mod captures;
mod confirm;
mod delivery;
mod endpoint;
mod hardware;
mod history;
mod identity;
mod intake;
mod listen;
mod otlp;
mod profiles;
mod scrape;
mod section;
mod watch;

pub use captures::CaptureSettings;
pub use confirm::ConfirmSettings;
pub use delivery::{
    BreakerSettings, DeadLetterSettings, EmergencySettings, OutboxSettings, SpoolSettings,
};
pub use endpoint::Endpoint;
pub use hardware::HardwareSettings;
pub use history::HistorySettings;
pub use identity::IdentitySettings;
pub use intake::{LabelSettings, UnitSettings};
pub use listen::{Listen, SocketAccess};
pub use otlp::{OtlpSettings, SpanSettings};
use plimsoll_runtime::optional::address_or_none;
pub use profiles::ProfileSettings;
pub use scrape::ScrapeSettings;
use section::section;
pub use watch::{By, Watch};

/// A settings file with every key at its default; what `--print-config` prints.
pub const EXAMPLE: &str = include_str!("../../node.toml");

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Config {
    pub name: Option<NodeName>,
    pub mesh: MeshName,
    pub identity: IdentitySettings,
    pub bus: BusSettings,
    pub listen: Listen,
    pub http: Http,
    pub interval: Interval,
    pub labels: LabelSettings,
    pub units: UnitSettings,
    pub otlp: OtlpSettings,
    pub scrape: Vec<ScrapeSettings>,
    pub outbox: OutboxSettings,
    pub emergency: EmergencySettings,
    pub breaker: BreakerSettings,
    pub dead_letter: DeadLetterSettings,
    pub confirm: ConfirmSettings,
    pub spool: SpoolSettings,
    pub history: HistorySettings,
    pub captures: CaptureSettings,
    pub profiles: ProfileSettings,
    pub hardware: HardwareSettings,
    pub log: LogSettings,
}

section! {
    pub struct Http {
        #[serde(deserialize_with = "address_or_none")]
        pub address: Option<SocketAddr> = Some(SocketAddr::from(([127, 0, 0, 1], 9901))),
        #[serde(deserialize_with = "address_or_none")]
        pub health_address: Option<SocketAddr> = None,
        pub hosts: Vec<String> = Vec::new(),
        pub reader_token_file: Option<PathBuf> = None,
        pub certificate_file: Option<PathBuf> = None,
        pub key_file: Option<PathBuf> = None,
    }
}

section! {
    pub struct Interval {
        pub length_ms: u64 = limits::INTERVAL.as_secs() * 1_000,
        pub series_max: usize = limits::SERIES_MAX,
    }
}

impl Http {
    /// Who may read the pages, and over what.
    pub fn protection(&self) -> Result<Protection, String> {
        Protection::check_hosts(&self.hosts)?;
        Protection::of_hosts(self.hosts.clone()).with_files(ProtectionFiles {
            certificate: self.certificate_file.as_deref(),
            key: self.key_file.as_deref(),
            reader_token: self.reader_token_file.as_deref(),
        })
    }
}

impl Config {
    /// Checks everything that can be checked before the start: `--check-config` and every start run
    /// this.
    pub fn check(&self) -> Result<(), String> {
        self.check_ranges()?;
        self.listen.check()?;
        self.confirm.check()?;
        self.http.protection()?;
        self.spool.check()?;
        self.history.check()?;
        self.profiles.check()?;
        self.rules()?;
        scrape::endpoints(&self.scrape)?;
        self.identity.labels()?;
        self.node_name()?;
        self.bus.check(&self.mesh)?;
        self.log.check()
    }

    fn check_ranges(&self) -> Result<(), String> {
        let ranges = [
            (
                "interval.length_ms must lie between 100 and 60000",
                (100..=60_000).contains(&self.interval.length_ms),
            ),
            (
                "interval.series_max must lie between 1 and 100000",
                (1..=100_000).contains(&self.interval.series_max),
            ),
            (
                "hardware.interval_ms must lie between 100 and 60000",
                limits::SENSOR_EVERY_MS.contains(&self.hardware.interval_ms),
            ),
            ("hardware.root must be an absolute path such as /", self.hardware.root.is_absolute()),
        ];

        let mut rules = ranges.into_iter().chain(self.delivery_checks());
        match rules.find(|(_, right)| !right) {
            Some((problem, _)) => Err(problem.to_owned()),
            None => Ok(()),
        }
    }

    /// Each rule about delivery, and whether it holds.
    fn delivery_checks(&self) -> [(&'static str, bool); 8] {
        let Self { outbox, emergency, breaker, dead_letter, spool, .. } = self;
        let seconds = 1..=3_600;
        let messages = outbox.messages_max.saturating_add(outbox.unconfirmed_messages);
        let bytes = outbox.bytes_max.saturating_add(outbox.unconfirmed_bytes);

        [
            ("outbox.messages_max must be at least 1", outbox.messages_max >= 1),
            (
                "outbox.bytes_max must be at least 1048576, so that any message fits",
                outbox.bytes_max >= 1_048_576,
            ),
            (
                "outbox.unconfirmed_messages and outbox.unconfirmed_bytes must be at least 1",
                outbox.unconfirmed_messages >= 1 && outbox.unconfirmed_bytes >= 1,
            ),
            ("emergency.per_minute must be at least 1", emergency.per_minute >= 1),
            (
                "breaker.open_seconds must lie between 1 and 3600",
                seconds.contains(&breaker.open_seconds),
            ),
            (
                "dead_letter.every_seconds must lie between 1 and 3600",
                seconds.contains(&dead_letter.every_seconds),
            ),
            (
                "outbox.messages_max and outbox.unconfirmed_messages must add up to at most 16000, \
                 which is what spool.path can hold",
                spool.path.is_none() || messages <= limits::SPOOL_ENTRIES_MAX,
            ),
            (
                "outbox.bytes_max and outbox.unconfirmed_bytes must add up to at most 128 MiB, \
                 which is what spool.path can hold",
                spool.path.is_none() || bytes <= limits::SPOOL_BYTES_MAX,
            ),
        ]
    }

    fn rules(&self) -> Result<Rules, String> {
        let rules = intake::rules(&self.labels, &self.units, otlp::rules(&self.otlp)?)?;
        Ok(Rules { targets: scrape::targets(&self.scrape)?, ..rules })
    }

    /// The node's name, taken from the host when none was given.
    pub fn node_name(&self) -> Result<NodeName, String> {
        let host = || sysinfo::System::host_name().ok().and_then(|host| NodeName::from_host(&host));
        self.name
            .clone()
            .or_else(host)
            .ok_or_else(|| "name: the host has no usable name; set one with --name".to_owned())
    }

    /// The scrape targets of a checked configuration.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        scrape::endpoints(&self.scrape).unwrap_or_default()
    }

    /// The core's limits of a checked configuration; invalid rules are replaced by the defaults.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            interval: Duration::from_millis(self.interval.length_ms),
            series_max: self.interval.series_max,
            rules: self.rules().unwrap_or_default(),
            outbox: self.outbox_bounds(),
        }
    }

    fn outbox_bounds(&self) -> OutboxBounds {
        let Self { outbox, confirm, emergency, breaker, dead_letter, .. } = self;
        OutboxBounds {
            thresholds: Thresholds::of(outbox.messages_max as u64, outbox.bytes_max),
            coalesce_bytes: outbox.coalesce_bytes,
            emergency_per_minute: emergency.per_minute,
            breaker_open: Duration::from_secs(breaker.open_seconds),
            refusal_every: Duration::from_secs(dead_letter.every_seconds),
            unconfirmed: UnconfirmedBounds {
                messages: outbox.unconfirmed_messages,
                bytes: outbox.unconfirmed_bytes,
                required: confirm.required,
            },
            ttl: (outbox.ttl_seconds > 0).then(|| Duration::from_secs(outbox.ttl_seconds)),
            ..OutboxBounds::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::settings::{Layer, RETIRED, keys_of, resolve};

    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let layer = Layer::from_toml("file n.toml", text).map_err(|error| error.to_string())?;
        let config = resolve::<Config>(&[layer]).map_err(|error| error.to_string())?.value;
        config.check().map(|()| config)
    }

    #[test]
    fn an_empty_file_yields_valid_defaults() {
        let config = read("").unwrap();
        assert_eq!(config.listen.udp.unwrap().to_string(), "127.0.0.1:8125");
        assert_eq!(config.bounds().interval, Duration::from_secs(1));
        assert_eq!(config.bounds(), Bounds::default());
        assert!(config.node_name().is_ok());
    }

    #[test]
    fn wrong_values_name_their_key() {
        for (text, part) in [
            ("name = 'a b'", "name"),
            ("[listen]\nudp = 'here'", "listen.udp"),
            ("[http]\nhosts = ['h:80']", "http.hosts has \"h:80\"; each must be a name"),
            ("[http]\nreader_token_file = 'absent'", "http.reader_token_file absent: "),
            ("[http]\nkey_file = 'absent'", "http.key_file needs http.certificate_file"),
            ("[listen]\nudpp = ''", "listen.udpp"),
            ("[identity]\nlabels = 'rack=r7'", "identity.labels"),
            ("[identity]\nlabels = ['rack']", "identity.labels: \"rack\" must be key=value"),
            ("[identity]\nlabels = ['a=']", "identity.labels: \"a=\" must be key=value"),
            ("[identity]\nlabels = ['a b=c']", "identity.labels: \"a b=c\": label key"),
            ("[identity]\nlabels = ['a=1', 'a=2']", "identity.labels: "),
            ("[identity]\nlabels = ['node=n']", "use name or --name"),
            ("[interval]\nlength_ms = 5", "interval.length_ms"),
            ("[interval]\nseries_max = 0", "interval.series_max"),
            ("[listen]\nunix = 'a'\nstream = 'a'", "listen.stream"),
            ("[listen]\nmode = '0888'", "listen.mode: \"0888\" is not an octal mode"),
            ("[listen]\nmode = '1777'", "listen.mode"),
            ("[listen]\ngroup = 'no such'", "listen.group: this machine has no group"),
            ("[listen]\nudp = ''\nusers = ['no such']", "listen.users: this machine has no user"),
            ("[listen]\nusers = ['0']", "set listen.udp = \"\""),
            ("[labels]\nallow = ['a b']", "labels.allow"),
            ("[labels]\ndrop = ['']", "labels.drop"),
            ("[labels]\nallow = ['a']\ndrop = ['b', 'a']", "\"a\" is in labels.allow too"),
            ("[labels]\ncontainer = 'yes'", "labels.container"),
            ("[units]\nms = 'min'", "units.ms"),
            ("[units]\nh = ''", "use s, ms, us, ns, ps, bytes, count or none"),
            ("[units]\nd = 7", "units.d"),
            ("[units]\nsuffixes = ['seconds']", "units.suffixes: \"seconds\" must be"),
            ("[units]\nsuffixes = ['seconds=m']", "units.suffixes: \"m\" is not a unit"),
            ("[units]\nsuffixes = ['a=s', 'a=ms']", "units.suffixes: \"a=ms\" contradicts"),
            ("[units]\nsub_microsecond = ['a b']", "units.sub_microsecond: \"a b\" must be a name"),
            ("[units]\npatterns = ['a.*']", "units.patterns: \"a.*\" must be a name"),
            ("[units]\npatterns = ['a.*=m']", "units.patterns: \"a.*=m\": \"m\" is not a unit"),
            ("[units]\npatterns = ['a*=s', 'a*=ms']", "units.patterns: \"a*=ms\" never applies"),
            ("[otlp]\nhttp = 'here'", "otlp.http"),
            ("[otlp]\ngrpc = '4317'", "otlp.grpc"),
            ("[otlp]\nunit = 'By'", "otlp.unit"),
            ("[otlp]\nresource_labels = ['a=b.c']", "otlp.resource_labels: \"a=b.c\" must be"),
            ("[otlp]\nresource_labels = ['a=c', 'b=c']", "\"b=c\" repeats the label"),
            ("[otlp]\noperations = ['a']", "otlp.operations: \"a\" must be metric=operation"),
            ("[otlp]\noperations = ['a=b c']", "otlp.operations: \"a=b c\" must be"),
            ("[otlp]\noperations = ['=b']", "must be metric=operation"),
            ("[otlp]\noperations = ['a=b', 'a=c']", "\"a=c\" renames a metric twice"),
            ("[[otlp.span]]\nname = ''", "otlp.span.name"),
            ("[[otlp.span]]\nattributes = ['a']", "otlp.span.attributes: \"a\" must be"),
            ("[[otlp.span]]\noperation = 'a b'", "otlp.span"),
            ("[[otlp.span]]\nlabels = ['a=']", "otlp.span.labels: \"a=\" must be"),
            ("[[otlp.span]]\nlabel = ['a']", "otlp.span"),
            ("[outbox]\nbytes_max = 1", "outbox.bytes_max"),
            ("[outbox]\nmessages_max = 0", "outbox.messages_max must be at least 1"),
            ("[outbox]\nunconfirmed_messages = 0", "outbox.unconfirmed_messages"),
            ("[outbox]\nunconfirmed_messages = 9000\n[spool]\npath = 'd'", "outbox.messages_max"),
            ("[outbox]\nbytes_max = 200000000\n[spool]\npath = 'd'", "outbox.bytes_max"),
            ("[emergency]\nper_minute = 0", "emergency.per_minute"),
            ("[breaker]\nopen_seconds = 0", "breaker.open_seconds"),
            ("[dead_letter]\nevery_seconds = 0", "dead_letter.every_seconds"),
            ("[confirm]\nrequired = 0", "confirm.required must lie between 1 and 4"),
            ("[confirm]\nrequired = 5", "confirm.required"),
            ("[confirm]\nkey_file = 'absent.key'", "confirm.key_file: absent.key: "),
            ("[hardware]\nroot = 'host'", "hardware.root"),
            ("[hardware]\ninterval_ms = 99", "hardware.interval_ms must lie between 100"),
            ("[hardware]\ninterval_ms = 60001", "hardware.interval_ms must lie between 100"),
            ("[log]\nformat = 'xml'", "log.format"),
            ("[log]\nfilter = 'x=loud'", "log.filter"),
            ("[bus]\nurl = 'http://h'", "bus.url"),
            ("[bus]\nuser = 'u'", "bus.password"),
            ("[bus]\ncredentials_file = 'absent.creds'", "bus.credentials_file"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn lists_of_labels_and_suffixes_are_bounded() {
        let list = |n| (0..n).map(|n| format!("'k{n}'")).collect::<Vec<_>>().join(", ");
        let most = read(&format!("[labels]\nallow = [{}]", list(limits::LABEL_RULES_MAX))).unwrap();
        assert_eq!(most.bounds().rules.labels.allow.len(), limits::LABEL_RULES_MAX);
        let more = format!("[labels]\ndrop = [{}]", list(limits::LABEL_RULES_MAX + 1));
        assert_eq!(read(&more).unwrap_err(), "labels.drop must have at most 256 keys");
        let more = list(limits::UNIT_SUFFIXES_MAX + 1).replace("',", "=s',");
        let error = read(&format!("[units]\nsuffixes = [{more}]")).unwrap_err();
        assert_eq!(error, "units.suffixes must have at most 64 suffixes");
        let error = read(&format!("[units]\npatterns = [{more}]")).unwrap_err();
        assert_eq!(error, "units.patterns must have at most 64 patterns");
    }

    #[test]
    fn labels_of_the_node_are_few_and_short() {
        let list = |n| (0..n).map(|n| format!("'k{n}=v'")).collect::<Vec<_>>().join(", ");
        let labels = |n| read(&format!("[identity]\nlabels = [{}]", list(n)));
        let most = labels(limits::IDENTITY_LABELS_MAX).unwrap().identity.labels().unwrap();
        assert_eq!(most.iter().count(), limits::IDENTITY_LABELS_MAX);
        let error = labels(limits::IDENTITY_LABELS_MAX + 1).unwrap_err();
        assert_eq!(error, "identity.labels must have at most 8 labels");
        let long = format!("[identity]\nlabels = ['version={}']", "v".repeat(129));
        assert!(read(&long).unwrap_err().contains("label value"), "{}", read(&long).unwrap_err());
        let version = read("[identity]\nlabels = ['version=2026.11=rc 1']").unwrap().identity;
        assert_eq!(version.labels().unwrap().get("version"), Some("2026.11=rc 1"));
    }

    #[test]
    fn rules_of_labels_and_units_reach_the_core() {
        let text =
            "[labels]\ndrop = ['pod']\ncontainer = true\n[units]\nh = 's'\nsuffixes = ['us=us']";
        let rules = read(text).unwrap().bounds().rules;
        assert!(rules.labels.drop.contains("pod") && rules.labels.container);
        assert_eq!(rules.units.h, "s".parse().unwrap());
        assert_eq!(rules.units.suffixes.len(), 1);
    }

    #[test]
    fn an_empty_address_or_path_switches_a_listener_off() {
        let listen = read("[listen]\nudp = ''\nunix = ''\nstream = ''").unwrap().listen;
        assert_eq!(listen, Listen { udp: None, ..Listen::default() });
    }

    #[test]
    fn a_file_with_retired_keys_starts_with_the_constants_that_replaced_them() {
        let outbox = Bounds::default().outbox;
        let constants = [
            ("breaker.failures", u64::from(outbox.breaker_failures)),
            ("dead_letter.refusals", u64::from(limits::REFUSALS_MAX)),
            ("emergency.burst", u64::from(outbox.emergency_burst)),
            ("emergency.reserved", u64::from(outbox.emergency_reserved)),
            ("outbox.coalesce_messages", outbox.coalesce_messages as u64),
            ("outbox.conservative_seconds", outbox.thresholds.conservative_max.as_secs()),
            ("outbox.leave_messages", outbox.thresholds.recover),
            ("outbox.reroute_messages", outbox.thresholds.reroute),
        ];
        let mut layer = Layer::new("file n.toml");
        for ((key, constant), (retired, value)) in constants.into_iter().zip(RETIRED) {
            assert_eq!(key, retired);
            assert_eq!(value.split(',').next(), Some(constant.to_string().as_str()), "{key}");
            layer.set(key, "7").unwrap();
        }

        let resolved = resolve::<Config>(&[layer]).unwrap();
        assert_eq!(resolved.value, Config::default());
        assert_eq!(resolved.warnings.len(), RETIRED.len());

        // It was valid with a threshold of its own below the default one.
        let small = read("[outbox]\nmessages_max = 2000\nreroute_messages = 1000").unwrap();
        let Thresholds { drop, reroute, recover, .. } = small.bounds().outbox.thresholds;
        assert_eq!((drop, reroute, recover), (2_000, 2_000, 500));
    }

    #[test]
    fn the_printed_file_holds_every_key_at_its_default() {
        assert_eq!(read(EXAMPLE).unwrap(), Config::default());
        let all = EXAMPLE.replace("\n#", "\n").replace("\n ", "\n# ");
        let layer = Layer::from_toml("file n.toml", &all).unwrap();
        let resolved = resolve::<Config>(&[layer]).unwrap();
        let stated: Vec<String> = resolved.origins.into_keys().collect();
        assert_eq!(stated, keys_of::<Config>());
    }
}
