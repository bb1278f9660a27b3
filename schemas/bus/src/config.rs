//! Address and credentials of the broker, checked before anything connects.
//!
//! Nothing here is ever printed with a secret in it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use plimsoll_schemas::ids::MeshName;

use crate::error::BusError;
use crate::limits::RECONNECT_MAX;

/// All settings that [`Bus::connect`](crate::Bus::connect) needs.
#[derive(Clone)]
pub struct BusConfig {
    /// Address of the broker, `nats://host:4222` or `tls://host:4222`; several are separated by
    /// commas. A user and password, or a token, may precede the host if `credentials` is
    /// [`Credentials::None`].
    pub url: String,
    /// Name of the connection in the broker's own lists.
    pub connection_name: String,
    /// The mesh whose lanes are read and written, and whose streams are created.
    pub mesh: MeshName,
    /// Credentials.
    pub credentials: Credentials,
    /// What the connection is for.
    pub role: ConnectionRole,
    /// Longest pause between two attempts to connect, such as `limits::RECONNECT_MAX`.
    pub reconnect_max: Duration,
}

/// What a connection is for, which decides what it may cost a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRole {
    /// A node, one of many: it uses no JetStream API while the broker acknowledges its messages,
    /// and pauses up to `reconnect_max` until it knows how many nodes there are.
    Node,
    /// An aggregator or a tool, one of few: it creates missing streams when it connects, and never
    /// pauses longer than `limits::RECONNECT_SMALL_MAX`.
    Few,
}

impl fmt::Debug for BusConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusConfig")
            .field("url", &self.url_without_secrets())
            .field("connection_name", &self.connection_name)
            .field("mesh", &self.mesh)
            .field("credentials", &self.credentials)
            .field("role", &self.role)
            .field("reconnect_max", &self.reconnect_max)
            .finish()
    }
}

/// Credentials for the broker.
#[derive(Clone, Default)]
pub enum Credentials {
    /// None.
    #[default]
    None,
    /// One secret shared by all.
    Token(String),
    /// A user and a password.
    UserPassword {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// The seed of a user's key; the key signs, the seed stays here.
    Nkey(String),
    /// A `.creds` file with a user's JWT and seed; read once, on connecting.
    File(PathBuf),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Token(_) => f.write_str("Token(..)"),
            Self::UserPassword { user, .. } => write!(f, "UserPassword({user:?}, ..)"),
            Self::Nkey(_) => f.write_str("Nkey(..)"),
            Self::File(path) => write!(f, "File({path:?})"),
        }
    }
}

impl BusConfig {
    /// A connection of a tool to a broker that needs no credentials.
    #[must_use]
    pub fn new(url: String, connection_name: String, mesh: MeshName) -> Self {
        let (credentials, role) = (Credentials::None, ConnectionRole::Few);
        Self { url, connection_name, mesh, credentials, role, reconnect_max: RECONNECT_MAX }
    }

    /// The address as it may be shown.
    #[must_use]
    pub fn url_without_secrets(&self) -> String {
        let urls: Vec<String> = self.url.split(',').map(without_secrets).collect();
        urls.join(",")
    }

    /// Checks all that [`Bus::connect`](crate::Bus::connect) would before it connects.
    ///
    /// # Errors
    /// When an address is malformed, or credentials are unreadable or invalid.
    pub fn check(&self) -> Result<(), BusError> {
        self.identification(&self.addresses()?).map(drop)
    }

    /// The broker's addresses, at least one.
    pub(crate) fn addresses(&self) -> Result<Vec<ServerAddr>, BusError> {
        let urls = self.url.split(',').map(str::trim).filter(|url| !url.is_empty());
        let addresses = urls.map(address).collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() { Err(BusError::NoUrl) } else { Ok(addresses) }
    }

    /// Client options with our credentials, taken from `addresses` unless the configuration sets
    /// others.
    pub(crate) fn identification(
        &self,
        addresses: &[ServerAddr],
    ) -> Result<ConnectOptions, BusError> {
        let options = ConnectOptions::new();
        Ok(match &self.credentials {
            Credentials::None => match addresses.iter().find(|address| address.has_user_pass()) {
                Some(address) => identified_by_url(options, address),
                None => options,
            },
            Credentials::Token(token) => options.token(token.trim().to_owned()),
            Credentials::UserPassword { user, password } => {
                options.user_and_password(user.clone(), password.clone())
            }
            Credentials::Nkey(seed) => options.nkey(checked_seed(seed)?),
            Credentials::File(path) => identified_by_file(options, path)?,
        })
    }
}

fn address(url: &str) -> Result<ServerAddr, BusError> {
    let fault =
        |reason: &str| BusError::Url { url: without_secrets(url), reason: reason.to_owned() };
    let address: ServerAddr = url.parse().map_err(|err: std::io::Error| fault(&err.to_string()))?;
    if address.host().is_empty() {
        return Err(fault("it names no host"));
    }
    if !matches!(address.scheme(), "nats" | "tls") {
        return Err(fault("only nats:// and tls:// are supported"));
    }
    let secrets = [address.username(), address.password()];
    if secrets.into_iter().flatten().any(|secret| secret.contains('%')) {
        return Err(fault("it holds an escaped character; set the credentials in their own keys"));
    }
    Ok(address)
}

fn identified_by_url(options: ConnectOptions, address: &ServerAddr) -> ConnectOptions {
    let user = address.username().unwrap_or_default().to_owned();
    match address.password() {
        Some(password) => options.user_and_password(user, password.to_owned()),
        None => options.token(user),
    }
}

fn identified_by_file(options: ConnectOptions, path: &Path) -> Result<ConnectOptions, BusError> {
    std::fs::read_to_string(path)
        .and_then(|text| options.credentials(&text))
        .map_err(|source| BusError::CredentialsFile { path: path.to_owned(), source })
}

/// The client would report a bad seed only as an endless row of failed connects.
fn checked_seed(seed: &str) -> Result<String, BusError> {
    let seed = seed.trim();
    let base32 = |c: char| c.is_ascii_uppercase() || ('2'..='7').contains(&c);
    let fits = seed.len() == 58 && seed.starts_with("SU") && seed.chars().all(base32);
    if fits { Ok(seed.to_owned()) } else { Err(BusError::NkeySeed) }
}

fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let Some((_, host)) = rest.rsplit_once('@') else { return url.to_owned() };
    if scheme.is_empty() { format!("..@{host}") } else { format!("{scheme}://..@{host}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str, credentials: Credentials) -> BusConfig {
        let mesh = MeshName::new("m").unwrap();
        BusConfig { credentials, ..BusConfig::new(url.to_owned(), "test".to_owned(), mesh) }
    }

    #[test]
    fn several_urls_are_split_and_blanks_ignored() {
        let addresses = config("nats://a:1, b:2 ,,tls://c", Credentials::None).addresses().unwrap();
        let seen: Vec<_> = addresses.iter().map(|a| (a.host(), a.port())).collect();
        assert_eq!(seen, [("a", 1), ("b", 2), ("c", 4222)]);
    }

    #[test]
    fn a_bad_url_is_named_without_its_password() {
        for (url, part) in [
            ("http://u:hush@host", "\"http://..@host\""),
            ("nats://u:hu%73h@host", "escaped"),
            ("nats://", "no host"),
            ("ws://host", "only nats://"),
            ("nats://u:hush@ho st", "\"nats://..@ho st\""),
            ("", "url is empty"),
            (" , ", "url is empty"),
        ] {
            let error = config(url, Credentials::None).addresses().unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("hush"), "{url}: {error}");
        }
    }

    #[test]
    fn a_check_finds_what_a_connect_would_refuse() {
        let check = |url, credentials| config(url, credentials).check();
        assert!(matches!(check("nats://h", Credentials::None), Ok(())));
        assert!(matches!(check("", Credentials::None), Err(BusError::NoUrl)));
        assert!(matches!(check("ws://h", Credentials::None), Err(BusError::Url { .. })));
        let seed = Credentials::Nkey("SUshort".to_owned());
        assert!(matches!(check("nats://h", seed), Err(BusError::NkeySeed)));
        let file = Credentials::File("/nowhere/x.creds".into());
        assert!(matches!(check("nats://h", file), Err(BusError::CredentialsFile { .. })));
    }

    #[test]
    fn debug_output_hides_every_secret() {
        let user_password =
            Credentials::UserPassword { user: "ann".to_owned(), password: "hush".to_owned() };
        for credentials in
            [Credentials::Token("hush".to_owned()), user_password, Credentials::Nkey("hush".into())]
        {
            let text = format!("{:?}", config("nats://x:hush@host,y:hush@host", credentials));
            assert!(!text.contains("hush"), "{text}");
            assert!(text.contains("nats://..@host,..@host"), "{text}");
        }
    }

    #[test]
    fn unusable_credentials_are_found_before_connecting() {
        let refused = |credentials| {
            config("nats://h", credentials).identification(&[]).map(drop).unwrap_err().to_string()
        };
        assert!(refused(Credentials::Nkey("SUshort".into())).contains("begin with SU"));
        let absent = refused(Credentials::File("/nowhere/x.creds".into()));
        assert!(absent.contains("/nowhere/x.creds"), "{absent}");
    }
}
