//! Address and credentials of the broker, checked before anything connects.
//!
//! Nothing here is ever printed with a secret in it.

use std::fmt;
use std::future::ready;
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use plimsoll_schemas::ids::{MeshName, Partition};

use crate::credentials::Credentials;
use crate::error::BusError;
use crate::lanes::Lanes;
use crate::limits::RECONNECT_MAX;
use crate::tls::TlsFiles;

/// Where answers are received unless the configuration sets another place.
const INBOX_PREFIX: &str = "_INBOX";

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
    /// The partition of it whose lanes are read and created; `None` for a mesh without partitions.
    pub partition: Option<Partition>,
    pub credentials: Credentials,
    /// What the connection is for.
    pub role: ConnectionRole,
    /// Longest pause between two attempts to connect, such as `limits::RECONNECT_MAX`.
    pub reconnect_max: Duration,
    pub tls: TlsFiles,
    /// First tokens of the subjects on which this connection receives answers. Who may subscribe
    /// below them reads the answers.
    pub inbox_prefix: String,
    /// Whose task the streams are.
    pub streams: StreamOwner,
    /// How many servers of a cluster store each stream that is created: 1, 3 or 5.
    pub replicas: u8,
}

/// Who creates the streams of a mesh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamOwner {
    /// The process that finds one missing.
    #[default]
    Mesh,
    /// The broker's operator: this connection neither looks for streams nor creates any, and relies
    /// on them.
    Operator,
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
            .field("partition", &self.partition)
            .field("credentials", &self.credentials)
            .field("role", &self.role)
            .field("reconnect_max", &self.reconnect_max)
            .field("tls", &self.tls)
            .field("inbox_prefix", &self.inbox_prefix)
            .field("streams", &self.streams)
            .field("replicas", &self.replicas)
            .finish()
    }
}

impl BusConfig {
    /// A connection of a tool to a broker that needs no credentials.
    pub fn new(url: String, connection_name: String, mesh: MeshName) -> Self {
        Self {
            url,
            connection_name,
            mesh,
            partition: None,
            credentials: Credentials::None,
            role: ConnectionRole::Few,
            reconnect_max: RECONNECT_MAX,
            tls: TlsFiles::default(),
            inbox_prefix: INBOX_PREFIX.to_owned(),
            streams: StreamOwner::Mesh,
            replicas: 1,
        }
    }

    pub(crate) fn lanes(&self) -> Lanes {
        Lanes { mesh: self.mesh.clone(), partition: self.partition }
    }

    /// The address as it may be shown.
    pub fn url_without_secrets(&self) -> String {
        let urls: Vec<String> = self.url.split(',').map(without_secrets).collect();
        urls.join(",")
    }

    /// Checks all that [`Bus::connect`](crate::Bus::connect) would before it connects.
    ///
    /// # Errors
    /// When an address is malformed, or credentials or certificates are unreadable or invalid.
    pub fn check(&self) -> Result<(), BusError> {
        self.addresses()?;
        self.check_inbox()?;
        self.credentials.shown(b"")?;
        self.tls.check()
    }

    /// Whether no connection is made without TLS.
    pub fn demands_tls(&self) -> bool {
        let is_of_url = || {
            self.addresses().is_ok_and(|all| all.iter().any(|address| address.scheme() == "tls"))
        };
        self.tls != TlsFiles::default() || is_of_url()
    }

    fn check_inbox(&self) -> Result<(), BusError> {
        let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '*' | '>');
        let is_subject = self.inbox_prefix.split('.').all(|token| !token.is_empty());
        match is_subject && self.inbox_prefix.chars().all(fits) {
            true => Ok(()),
            false => Err(BusError::InboxPrefix(self.inbox_prefix.clone())),
        }
    }

    /// Whether the address has a user, a password or a token.
    pub fn url_has_credentials(&self) -> bool {
        self.addresses().is_ok_and(|all| all.iter().any(ServerAddr::has_user_pass))
    }

    /// The hosts of the addresses.
    ///
    /// # Errors
    /// When an address is malformed.
    pub fn hosts(&self) -> Result<Vec<String>, BusError> {
        Ok(self.addresses()?.iter().map(|address| address.host().to_owned()).collect())
    }

    /// The broker's addresses, at least one.
    pub(crate) fn addresses(&self) -> Result<Vec<ServerAddr>, BusError> {
        let urls = self.url.split(',').map(str::trim).filter(|url| !url.is_empty());
        let addresses = urls.map(address).collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() { Err(BusError::NoUrl) } else { Ok(addresses) }
    }

    /// Client options with our credentials, taken from `addresses` unless the configuration sets
    /// others, and certificates.
    pub(crate) fn identification(&self, addresses: &[ServerAddr]) -> ConnectOptions {
        let options = match self.credentials.clone() {
            Credentials::None => match addresses.iter().find(|address| address.has_user_pass()) {
                Some(address) => identified_by_url(ConnectOptions::new(), address),
                None => ConnectOptions::new(),
            },
            credentials => ConnectOptions::with_auth_callback(move |nonce| {
                // Small local files: reading them takes less than handing over to a thread.
                ready(credentials.answer(&nonce))
            }),
        };
        // Of other servers that a broker names, the client knows no scheme.
        let options = options.require_tls(self.demands_tls());
        self.tls.applied(options).custom_inbox_prefix(&self.inbox_prefix)
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

/// An address without what precedes its host.
pub(crate) fn without_secrets(url: &str) -> String {
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
        let seed = Credentials::Nkey("SUshort".into());
        assert!(matches!(check("nats://h", seed), Err(BusError::NkeySeed)));
        let file = Credentials::File("/nowhere/x.creds".into());
        assert!(matches!(check("nats://h", file), Err(BusError::SecretFile { .. })));
        for prefix in ["", "a..b", "a.", "a.*", "a b", "a.>"] {
            let config = config("nats://h", Credentials::None);
            let checked = BusConfig { inbox_prefix: prefix.to_owned(), ..config }.check();
            assert!(matches!(checked, Err(BusError::InboxPrefix(_))), "{prefix:?}");
        }
        let tls = TlsFiles { ca_file: Some("/nowhere/ca.pem".into()), client: None };
        let error = BusConfig { tls, ..config("nats://h", Credentials::None) }.check().unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/ca.pem: "), "{error}");
    }

    #[test]
    fn debug_output_hides_every_secret() {
        let user_password =
            Credentials::UserPassword { user: "ann".to_owned(), password: "hush".into() };
        for credentials in
            [Credentials::Token("hush".into()), user_password, Credentials::Nkey("hush".into())]
        {
            let text = format!("{:?}", config("nats://x:hush@host,y:hush@host", credentials));
            assert!(!text.contains("hush"), "{text}");
            assert!(text.contains("nats://..@host,..@host"), "{text}");
        }
    }
}
