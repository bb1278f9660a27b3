//! Settings from a file, the environment and flags, read into one checked configuration.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use plimsoll_bus::limits::RECONNECT_MAX;
use plimsoll_bus::{BusConfig, BusError, ConnectionRole, Credentials};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::settings::{Layer, Resolved, SettingsError, resolve};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::stdout::print_line;

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
    /// A layer, or the merged configuration, is invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl SettingsArgs {
    /// Reads all layers: file, then environment variables that begin with `prefix`, then
    /// `flags` (named flags of the program), then `--set`.
    ///
    /// # Errors
    /// When the file cannot be read or any layer is invalid; the text names layer and key.
    pub fn load<T: DeserializeOwned>(
        &self,
        prefix: &str,
        flags: &[(&str, Option<String>)],
    ) -> Result<Resolved<T>, LoadError> {
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
}

/// Values of `bus.reconnect_max_ms`: below, an absent broker costs CPU; above, an hour is lost.
const RECONNECT_MAX_MS: RangeInclusive<u64> = 100..=3_600_000;

/// The `[bus]` section: address and credentials of the broker, and when it is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct BusSettings {
    /// `nats://host:port`; several separated by commas.
    pub url: String,
    /// A token; or
    pub token: Option<String>,
    /// a user with
    pub user: Option<String>,
    /// a password; or
    pub password: Option<String>,
    /// a file with an nkey seed; or
    pub nkey_seed_file: Option<PathBuf>,
    /// a `.creds` file.
    pub credentials_file: Option<PathBuf>,
    /// Longest pause between two attempts to connect, in milliseconds.
    pub reconnect_max_ms: u64,
}

impl Default for BusSettings {
    fn default() -> Self {
        Self {
            url: "nats://127.0.0.1:4222".to_owned(),
            token: None,
            user: None,
            password: None,
            nkey_seed_file: None,
            credentials_file: None,
            reconnect_max_ms: u64::try_from(RECONNECT_MAX.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl BusSettings {
    /// The bus configuration of a process with this connection name.
    ///
    /// # Errors
    /// When a value is out of bounds, more than one kind of credentials is set, or a seed cannot be
    /// read.
    pub fn to_config(
        &self,
        mesh: &MeshName,
        connection_name: &str,
        role: ConnectionRole,
    ) -> Result<BusConfig, String> {
        if !RECONNECT_MAX_MS.contains(&self.reconnect_max_ms) {
            let (least, most) = (RECONNECT_MAX_MS.start(), RECONNECT_MAX_MS.end());
            return Err(format!("bus.reconnect_max_ms must be {least} to {most}"));
        }
        Ok(BusConfig {
            url: self.url.clone(),
            connection_name: connection_name.to_owned(),
            mesh: mesh.clone(),
            credentials: self.credentials()?,
            role,
            reconnect_max: Duration::from_millis(self.reconnect_max_ms),
        })
    }

    /// Checks what can be checked without a connection: the address, and the presence and format of
    /// the credentials.
    ///
    /// # Errors
    /// Names the key and the problem, without secrets.
    pub fn check(&self, mesh: &MeshName) -> Result<(), String> {
        self.to_config(mesh, "check", ConnectionRole::Few)?.check().map_err(|error| {
            let key = match error {
                BusError::NoUrl | BusError::Url { .. } => "bus.url",
                BusError::CredentialsFile { .. } => "bus.credentials_file",
                BusError::NkeySeed => "bus.nkey_seed_file",
                BusError::Client(_) => "bus",
            };
            format!("{key}: {error}")
        })
    }

    fn credentials(&self) -> Result<Credentials, String> {
        let user = match (&self.user, &self.password) {
            (Some(user), Some(password)) => {
                Some(Credentials::UserPassword { user: user.clone(), password: password.clone() })
            }
            (None, None) => None,
            _ => return Err("bus.user and bus.password belong together; set both".to_owned()),
        };
        let seed = self.nkey_seed_file.as_ref().map(|path| {
            std::fs::read_to_string(path)
                .map(|seed| Credentials::Nkey(seed.trim().to_owned()))
                .map_err(|error| format!("bus.nkey_seed_file {}: {error}", path.display()))
        });
        let mut given: Vec<Credentials> = [
            self.token.clone().map(Credentials::Token),
            user,
            seed.transpose()?,
            self.credentials_file.clone().map(Credentials::File),
        ]
        .into_iter()
        .flatten()
        .collect();
        match given.len() {
            0 => Ok(Credentials::None),
            1 => Ok(given.remove(0)),
            _ => Err("bus: give one of token, user and password, nkey_seed_file, \
                      credentials_file; not several"
                .to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

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
        assert!(
            both.to_config(&mesh, "x", ConnectionRole::Few).unwrap_err().contains("not several")
        );
        let half = BusSettings { user: Some("u".into()), ..BusSettings::default() };
        assert!(half.to_config(&mesh, "x", ConnectionRole::Few).unwrap_err().contains("set both"));
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
            (
                BusSettings { credentials_file: credentials_file(seed.path()), ..bus() },
                "bus.credentials_file: ",
            ),
            (
                BusSettings { credentials_file: Some("absent.creds".into()), ..bus() },
                "bus.credentials_file: bus credentials file absent.creds: ",
            ),
            (
                BusSettings { nkey_seed_file: credentials_file(seed.path()), ..bus() },
                "bus.nkey_seed_file: ",
            ),
            (
                BusSettings { nkey_seed_file: Some("absent.nk".into()), ..bus() },
                "bus.nkey_seed_file absent.nk: ",
            ),
        ] {
            let error = settings.check(&MeshName::new("m").unwrap()).unwrap_err();
            assert!(error.starts_with(wanted) && !error.contains("hush"), "{wanted}: {error}");
        }
        assert_eq!(bus().check(&MeshName::new("m").unwrap()), Ok(()));
    }
}
