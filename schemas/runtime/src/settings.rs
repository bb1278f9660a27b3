//! Settings from a file, the environment and flags, read into one checked configuration.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use plimsoll_bus::limits::RECONNECT_MAX;
use plimsoll_bus::{
    BusConfig, BusError, ConnectionRole, Credentials, Secret, StreamOwner, TlsFiles,
};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::permissions::{BrokerUser, inbox_prefix};
use plimsoll_schemas::settings::{Layer, Resolved, SettingsError, resolve};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::stdout::print_line;
use crate::user;

/// Flags that every process takes.
#[derive(Args, Clone, Debug, Default)]
pub struct SettingsArgs {
    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set one key, such as bus.url=nats://broker:4222; may be repeated; overrides all other
    /// sources
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Check the settings as at a start, print where each key was set, and exit
    #[arg(long)]
    pub check_config: bool,
    /// With --check-config as root: check as this user and group, such as those of the unit
    #[arg(long, value_name = "USER[:GROUP]", requires = "check_config")]
    pub as_user: Option<String>,
    /// Print a settings file with every key, its default and its meaning, and exit
    #[arg(long)]
    pub print_config: bool,
}

/// Why the settings cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("--config {path}: {source}", path = path.display())]
    File {
        /// The path as configured.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The check cannot be made as this user.
    #[error("{0}")]
    User(String),
    /// A layer, or the merged configuration, is invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl SettingsArgs {
    /// Reads all layers: file, then environment variables that begin with `prefix`, then
    /// `flags` (named flags of the program), then `--set`.
    ///
    /// # Errors
    /// When the file cannot be read or any layer is invalid; the text names layer and key. When
    /// the user of `--as-user` cannot be taken.
    pub fn load<T: DeserializeOwned>(
        &self,
        prefix: &str,
        flags: &[(&str, Option<String>)],
    ) -> Result<Resolved<T>, LoadError> {
        if let Some(user) = &self.as_user {
            user::change_to(user).map_err(LoadError::User)?;
        }
        let mut layers = Vec::new();
        if let Some(path) = &self.config {
            layers.push(file_layer(path)?);
        }
        layers.push(Layer::from_env(prefix, std::env::vars_os())?);
        layers.push(flag_layer(flags)?);
        layers.push(Layer::from_assignments("--set", &self.set)?);
        Ok(resolve(&layers)?)
    }
}

fn flag_layer(flags: &[(&str, Option<String>)]) -> Result<Layer, SettingsError> {
    let mut layer = Layer::new("flags");
    for (key, value) in flags {
        if let Some(value) = value {
            layer.set(key, value)?;
        }
    }
    Ok(layer)
}

fn file_layer(path: &Path) -> Result<Layer, LoadError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| LoadError::File { path: path.to_owned(), source })?;
    Ok(Layer::from_toml(format!("file {}", path.display()), &text)?)
}

/// The output of `--check-config` for a valid configuration.
pub fn print_origins<T>(resolved: &Resolved<T>) {
    print_line("configuration is valid");
    for (key, origin) in &resolved.origins {
        print_line(format_args!("  {key}: set by {origin}"));
    }
    print_line("  everything else: default");
    for warning in &resolved.warnings {
        print_line(format_args!("warning: {warning}"));
    }
    if user::is_root() {
        print_line(
            "checked as root, who may read every file: --as-user USER[:GROUP] checks as that user",
        );
    }
}

/// Logs the keys that are set and have no effect any more.
pub fn log_warnings<T>(resolved: &Resolved<T>) {
    resolved.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
}

/// Values of `bus.reconnect_max_ms`: below, an absent broker costs CPU; above, an hour is lost.
const RECONNECT_MAX_MS: RangeInclusive<u64> = 100..=3_600_000;

/// Values of `bus.replicas`. An even number of servers survives no more failures than one less.
const REPLICAS: [u8; 3] = [1, 3, 5];

/// The `[bus]` section: address and credentials of the broker, and when it is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct BusSettings {
    pub url: String,
    pub token: Option<String>,
    pub token_file: Option<PathBuf>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub password_file: Option<PathBuf>,
    pub nkey_seed_file: Option<PathBuf>,
    pub credentials_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub inbox_prefix: Option<String>,
    pub streams: StreamSettings,
    pub replicas: u8,
    pub allow_open: bool,
    pub reconnect_max_ms: u64,
}

/// Values of `bus.streams`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamSettings {
    #[default]
    Auto,
    Managed,
}

impl Default for BusSettings {
    fn default() -> Self {
        Self {
            url: "nats://127.0.0.1:4222".to_owned(),
            token: None,
            token_file: None,
            user: None,
            password: None,
            password_file: None,
            nkey_seed_file: None,
            credentials_file: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
            inbox_prefix: None,
            streams: StreamSettings::Auto,
            replicas: 1,
            allow_open: false,
            reconnect_max_ms: u64::try_from(RECONNECT_MAX.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Whether the broker can tell this process from others, so that it can limit what each may do.
pub fn is_identified(config: &BusConfig) -> bool {
    !matches!(config.credentials, Credentials::None)
        || config.tls.client.is_some()
        || config.url_has_credentials()
}

impl BusSettings {
    /// The bus configuration of `user` with this connection name.
    ///
    /// # Errors
    /// When a value is out of bounds, more than one kind of credentials is set, or a broker on
    /// another machine is to be used without any.
    pub fn to_config(
        &self,
        mesh: &MeshName,
        connection_name: &str,
        user: BrokerUser<'_>,
    ) -> Result<BusConfig, String> {
        if !RECONNECT_MAX_MS.contains(&self.reconnect_max_ms) {
            let (least, most) = (RECONNECT_MAX_MS.start(), RECONNECT_MAX_MS.end());
            return Err(format!("bus.reconnect_max_ms must be {least} to {most}"));
        }

        if !REPLICAS.contains(&self.replicas) {
            return Err(format!("bus.replicas must be 1, 3 or 5, not {}", self.replicas));
        }
        let prefix = self.inbox_prefix.clone();

        let config = BusConfig {
            credentials: self.credentials()?,
            role: match user {
                BrokerUser::Node(_) => ConnectionRole::Node,
                BrokerUser::Aggregator | BrokerUser::Operator => ConnectionRole::Few,
            },
            reconnect_max: Duration::from_millis(self.reconnect_max_ms),
            tls: self.tls()?,
            inbox_prefix: prefix.unwrap_or_else(|| inbox_prefix(mesh, user)),
            streams: match self.streams {
                StreamSettings::Auto => StreamOwner::Mesh,
                StreamSettings::Managed => StreamOwner::Operator,
            },
            replicas: self.replicas,
            ..BusConfig::new(self.url.clone(), connection_name.to_owned(), mesh.clone())
        };

        self.check_open(&config)?;
        Ok(config)
    }

    /// Checks what can be checked without a connection: the address, and the presence and format of
    /// credentials and certificates.
    ///
    /// # Errors
    /// Names the key and the problem, without secrets.
    pub fn check(&self, mesh: &MeshName) -> Result<(), String> {
        let config = self.to_config(mesh, "check", BrokerUser::Aggregator)?;
        config.check().map_err(|error| format!("{}: {error}", self.key_of(&error)))
    }

    /// The key that an error is about.
    fn key_of(&self, error: &BusError) -> &'static str {
        let of_file = |path: &Path| {
            let files = [
                (&self.token_file, "bus.token_file"),
                (&self.password_file, "bus.password_file"),
                (&self.nkey_seed_file, "bus.nkey_seed_file"),
                (&self.credentials_file, "bus.credentials_file"),
                (&self.ca_file, "bus.ca_file"),
                (&self.cert_file, "bus.cert_file"),
                (&self.key_file, "bus.key_file"),
            ];

            let found = files.into_iter().find(|(file, _)| file.as_deref() == Some(path));
            found.map_or("bus", |(_, key)| key)
        };
        match error {
            BusError::NoUrl | BusError::Url { .. } => "bus.url",
            BusError::SecretFile { path, .. }
            | BusError::NoCredentials { path }
            | BusError::TlsFile { path, .. } => of_file(path),
            BusError::NkeySeed => "bus.nkey_seed_file",
            BusError::InboxPrefix(_) => "bus.inbox_prefix",
            BusError::Client(_) => "bus",
        }
    }

    fn tls(&self) -> Result<TlsFiles, String> {
        let client = match (&self.cert_file, &self.key_file) {
            (Some(cert_file), Some(key_file)) => Some((cert_file.clone(), key_file.clone())),
            (None, None) => None,
            _ => return Err("bus.cert_file and bus.key_file belong together; set both".to_owned()),
        };
        Ok(TlsFiles { ca_file: self.ca_file.clone(), client })
    }

    /// Of a broker that admits everyone, everyone who reaches it can read and forge all messages.
    fn check_open(&self, config: &BusConfig) -> Result<(), String> {
        let is_identified = is_identified(config);

        // Others are answers to a challenge.
        let is_readable =
            matches!(config.credentials, Credentials::Token(_) | Credentials::UserPassword { .. })
                || config.url_has_credentials();

        let is_shown = is_readable && !config.demands_tls();
        // A malformed address is found by the check of addresses.
        let hosts = config.hosts().unwrap_or_default();
        let elsewhere = hosts.iter().find(|host| !is_this_machine(host));

        match elsewhere.filter(|_| !self.allow_open) {
            Some(host) if is_shown => Err(format!(
                "bus.url: {host} is another machine, and the token or password could be read in \
                 transit; write tls://, set bus.ca_file, or bus.allow_open = true"
            )),
            Some(host) if !is_identified => Err(format!(
                "bus.url: {host} is another machine and no credentials are set, so anyone who \
                 reaches the broker could read and forge messages; set bus.nkey_seed_file, \
                 bus.credentials_file or another kind, or bus.allow_open = true"
            )),
            _ => Ok(()),
        }
    }

    fn credentials(&self) -> Result<Credentials, String> {
        let secret = |text: &Option<String>, file: &Option<PathBuf>, name: &str| match (text, file)
        {
            (Some(_), Some(_)) => Err(format!("bus: set {name} or {name}_file, not both")),
            (Some(text), None) => Ok(Some(Secret::Text(text.clone()))),
            (None, file) => Ok(file.clone().map(Secret::File)),
        };

        let token = secret(&self.token, &self.token_file, "token")?;

        let user = match (&self.user, secret(&self.password, &self.password_file, "password")?) {
            (Some(user), Some(password)) => {
                Some(Credentials::UserPassword { user: user.clone(), password })
            }
            (None, None) => None,
            _ => {
                return Err("bus.user and bus.password (or bus.password_file) belong together; \
                             set both"
                    .to_owned());
            }
        };

        let seed = self.nkey_seed_file.clone().map(|path| Credentials::Nkey(Secret::File(path)));
        let file = self.credentials_file.clone().map(Credentials::File);
        let given = [token.map(Credentials::Token), user, seed, file];
        let mut given: Vec<Credentials> = given.into_iter().flatten().collect();

        match given.len() {
            0 => Ok(Credentials::None),
            1 => Ok(given.remove(0)),
            _ => Err("bus: give one of token, user and password, nkey_seed_file, \
                      credentials_file; not several"
                .to_owned()),
        }
    }
}

/// Whether a host is this machine by its very name.
fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use plimsoll_schemas::ids::NodeName;

    use super::*;

    #[derive(Debug, Deserialize, Default)]
    #[serde(default)]
    struct Config {
        name: String,
        bus: BusSettings,
    }

    #[test]
    fn file_then_flags_then_set_win_in_this_order() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"name = 'file'\n[bus]\nurl = 'nats://file'\ntoken = 't'").unwrap();
        let args = SettingsArgs {
            config: Some(file.path().to_owned()),
            set: vec!["name=set".to_owned()],
            ..SettingsArgs::default()
        };
        let flags =
            [("name", Some("flag".to_owned())), ("bus.url", Some("nats://flag".to_owned()))];
        let resolved = args.load::<Config>("PLIMSOLL_TEST_NONE_", &flags).unwrap();
        assert_eq!(resolved.value.name, "set");
        assert_eq!(resolved.value.bus.url, "nats://flag");
        assert_eq!(resolved.value.bus.token.as_deref(), Some("t"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let args =
            SettingsArgs { config: Some(PathBuf::from("absent.toml")), ..SettingsArgs::default() };
        let error = args.load::<Config>("PLIMSOLL_TEST_NONE_", &[]).unwrap_err();
        assert!(error.to_string().starts_with("--config absent.toml: "), "{error}");
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let args = SettingsArgs { config: Some(file.path().to_owned()), ..SettingsArgs::default() };
        let resolved = args.load::<Config>("PLIMSOLL_TEST_NONE_", &[]).unwrap();
        assert_eq!(resolved.value.bus.url, "nats://127.0.0.1:4222");
    }

    #[test]
    fn contradicting_credentials_are_refused() {
        let both = BusSettings {
            token: Some("t".into()),
            user: Some("u".into()),
            password: Some("p".into()),
            ..BusSettings::default()
        };
        let mesh = MeshName::new("m").unwrap();
        let refused = |settings: BusSettings| {
            settings.to_config(&mesh, "x", BrokerUser::Aggregator).map(drop).unwrap_err()
        };
        assert!(refused(both).contains("not several"));
        let half = BusSettings { user: Some("u".into()), ..BusSettings::default() };
        assert!(refused(half).contains("set both"));
        let token = || Some("t".to_owned());
        let twice =
            BusSettings { token: token(), token_file: Some("t".into()), ..BusSettings::default() };
        assert!(refused(twice).contains("not both"));
        let half = BusSettings { cert_file: Some("c".into()), ..BusSettings::default() };
        assert!(refused(half).contains("bus.cert_file and bus.key_file belong together"));
    }

    #[test]
    fn a_broker_elsewhere_that_admits_everyone_needs_leave() {
        let mesh = MeshName::new("m").unwrap();
        let check = |bus: BusSettings| bus.to_config(&mesh, "x", BrokerUser::Aggregator).map(drop);
        let at = |url: &str| BusSettings { url: url.to_owned(), ..BusSettings::default() };
        for url in ["nats://127.0.0.1:4222", "nats://127.9.9.9", "tls://localhost", "nats://[::1]"]
        {
            assert_eq!(check(at(url)), Ok(()), "{url}");
        }
        for url in ["nats://broker:4222", "tls://10.0.0.7", "nats://localhost,nats://[2001:db8::1]"]
        {
            let error = check(at(url)).unwrap_err();
            assert!(error.starts_with("bus.url: ") && error.contains("allow_open"), "{error}");
            assert_eq!(check(BusSettings { allow_open: true, ..at(url) }), Ok(()));
            let seen = check(BusSettings { token: Some("t".into()), ..at(url) });
            assert_eq!(seen.is_ok(), url.starts_with("tls:"), "a token travels as it is: {seen:?}");
        }
        assert_eq!(check(at("tls://ann:hush@broker")), Ok(()));
        let error = check(at("nats://ann:hush@broker")).unwrap_err();
        assert!(error.contains("tls://") && !error.contains("hush"), "{error}");
    }

    #[test]
    fn answers_are_received_where_no_other_user_may_subscribe() {
        let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n1").unwrap());
        let bus = BusSettings::default();
        let config = bus.to_config(&mesh, "x", BrokerUser::Node(&node)).unwrap();
        assert_eq!(config.inbox_prefix, "_INBOX.m.node.n1");
        let other = BusSettings { inbox_prefix: Some("_INBOX_n1".into()), ..bus };
        let config = other.to_config(&mesh, "x", BrokerUser::Node(&node)).unwrap();
        assert_eq!(config.inbox_prefix, "_INBOX_n1");
    }

    #[test]
    fn a_bus_that_no_start_could_use_is_refused_by_key_and_without_its_secrets() {
        let mut seed = tempfile::NamedTempFile::new().unwrap();
        seed.write_all(b"hush").unwrap();
        let bus = BusSettings::default;
        let credentials_file = |path: &Path| Some(path.to_owned());
        for (settings, wanted) in [
            (BusSettings { url: String::new(), ..bus() }, "bus.url: bus url is empty"),
            (BusSettings { url: "http://u:hush@h".into(), ..bus() }, "bus.url: "),
            (BusSettings { reconnect_max_ms: 99, ..bus() }, "bus.reconnect_max_ms must be 100 to"),
            (BusSettings { reconnect_max_ms: 3_600_001, ..bus() }, "bus.reconnect_max_ms must"),
            (BusSettings { replicas: 2, ..bus() }, "bus.replicas must be 1, 3 or 5, not 2"),
            (BusSettings { replicas: 0, ..bus() }, "bus.replicas must be 1, 3 or 5, not 0"),
            (
                BusSettings { credentials_file: credentials_file(seed.path()), ..bus() },
                "bus.credentials_file: ",
            ),
            (
                BusSettings { credentials_file: Some("absent.creds".into()), ..bus() },
                "bus.credentials_file: absent.creds: ",
            ),
            (
                BusSettings { nkey_seed_file: credentials_file(seed.path()), ..bus() },
                "bus.nkey_seed_file: ",
            ),
            (
                BusSettings { nkey_seed_file: Some("absent.nk".into()), ..bus() },
                "bus.nkey_seed_file: absent.nk: ",
            ),
        ] {
            let error = settings.check(&MeshName::new("m").unwrap()).unwrap_err();
            assert!(error.starts_with(wanted) && !error.contains("hush"), "{wanted}: {error}");
        }
        assert_eq!(bus().check(&MeshName::new("m").unwrap()), Ok(()));
    }
}
