//! Who a connection is to the broker: a token, a user, a key, a `.creds` file. Whatever is in a
//! file is read anew at each attempt to connect, so that it may be replaced while this runs.
//!
//! DESIGN S37.

use std::fmt;
use std::path::{Path, PathBuf};

use async_nats::{Auth, AuthError};
use nkeys::KeyPair;

use crate::error::BusError;
use crate::secret_file::read_secret;

/// Credentials for the broker.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// None, or those of the address.
    #[default]
    None,
    /// One secret shared by all.
    Token(Secret),
    /// A user and a password.
    UserPassword { user: String, password: Secret },
    /// The seed of a user's key; the key signs, the seed stays here.
    Nkey(Secret),
    /// A `.creds` file with a user's JWT and seed.
    File(PathBuf),
}

/// A secret, or where it is.
#[derive(Clone)]
pub enum Secret {
    Text(String),
    /// In a file that only its owner and group can read.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str(".."),
            Self::File(path) => write!(f, "{path:?}"),
        }
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Secret {
    fn read(&self) -> Result<String, BusError> {
        match self {
            Self::Text(text) => Ok(text.trim().to_owned()),
            Self::File(path) => read(path),
        }
    }
}

fn read(path: &Path) -> Result<String, BusError> {
    read_secret(path).map_err(|source| BusError::SecretFile { path: path.to_owned(), source })
}

impl Credentials {
    /// What is shown to a broker that sent `nonce`.
    ///
    /// # Errors
    /// When a file cannot be read, or holds no such credentials.
    pub(crate) fn shown(&self, nonce: &[u8]) -> Result<Auth, BusError> {
        let mut auth = Auth::new();
        match self {
            Self::None => {}
            Self::Token(token) => auth.token = Some(token.read()?),
            Self::UserPassword { user, password } => {
                auth.username = Some(user.clone());
                auth.password = Some(password.read()?);
            }
            Self::Nkey(seed) => {
                let key = key(&seed.read()?).ok_or(BusError::NkeySeed)?;
                auth.signature = key.sign(nonce).ok();
                auth.nkey = Some(key.public_key());
            }
            Self::File(path) => {
                let text = read(path)?;
                let part = |name| section(&text, name);
                let (jwt, key) = part("NATS USER JWT")
                    .zip(part("USER NKEY SEED").and_then(key))
                    .ok_or_else(|| BusError::NoCredentials { path: path.clone() })?;
                auth.signature = key.sign(nonce).ok();
                auth.jwt = Some(jwt.to_owned());
            }
        }

        Ok(auth)
    }

    /// The same for the client.
    pub(crate) fn answer(&self, nonce: &[u8]) -> Result<Auth, AuthError> {
        self.shown(nonce).map_err(AuthError::new)
    }
}

/// The key of a user's seed. The client would report a bad seed only as an endless row of failed
/// connects.
fn key(seed: &str) -> Option<KeyPair> {
    KeyPair::from_seed(seed).ok().filter(|_| seed.starts_with("SU"))
}

/// The line below the one that begins the section `name` of a `.creds` file.
fn section<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.starts_with("-----BEGIN") && line.contains(name))?;
    lines.next().filter(|line| !line.is_empty() && !line.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A key made for this test.
    const SEED: &str = "SUANQDPB2RUOE4ETUA26CNX7FUKE5ZZKFCQIIW63OX225F2CO7UEXTM7ZY";
    const PUBLIC_KEY: &str = "UAMMBNV2EYR65NYZZ7IAK5SIR5ODNTTERJOBOF4KJLMWI45YOXOSWULM";

    fn shown(credentials: &Credentials) -> Result<Auth, String> {
        credentials.shown(b"nonce").map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_read_at_each_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let credentials = Credentials::Token(Secret::File(path.clone()));
        assert!(shown(&credentials).map(drop).unwrap_err().contains("token: "));
        for token in ["first", "second"] {
            write(&path, format!("{token}\n")).unwrap();
            set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            assert_eq!(shown(&credentials).unwrap().token.as_deref(), Some(token));
        }
    }

    #[test]
    fn a_key_signs_the_brokers_nonce() {
        let auth = shown(&Credentials::Nkey(SEED.into())).unwrap();
        assert_eq!(auth.nkey.as_deref(), Some(PUBLIC_KEY));
        let key = KeyPair::from_public_key(PUBLIC_KEY).unwrap();
        key.verify(b"nonce", &auth.signature.unwrap()).unwrap();
        let account_seed = "SAAPN4W3EG6KCJGUQTKTJ5GSB5NHK5CHAJL4DBGFUM3HHROI4XUEP4OBK4";
        for seed in ["SUshort", "", account_seed] {
            let error = shown(&Credentials::Nkey(seed.into())).map(drop).unwrap_err();
            assert!(error.contains("start with SU"), "{seed}: {error}");
        }
    }

    #[test]
    fn a_credentials_file_has_a_jwt_and_a_seed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.creds");
        let of = |text: &str| {
            write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            shown(&Credentials::File(path.clone()))
        };
        let jwt = "-----BEGIN NATS USER JWT-----\neyJ0.e30.c2ln\n------END NATS USER JWT------\n";
        let seed =
            format!("-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------");
        let auth = of(&format!("{jwt}\n*** secret ***\n\n{seed}\n")).unwrap();
        assert_eq!(auth.jwt.as_deref(), Some("eyJ0.e30.c2ln"));
        assert!(auth.signature.is_some() && auth.nkey.is_none());
        for text in [jwt, &seed, "hush", "-----BEGIN NATS USER JWT-----"] {
            let error = of(text).map(drop).unwrap_err();
            assert!(error.contains("node.creds") && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn debug_output_hides_every_secret() {
        let user = Credentials::UserPassword { user: "ann".to_owned(), password: "hush".into() };
        for credentials in
            [Credentials::Token("hush".into()), user, Credentials::Nkey("hush".into())]
        {
            let text = format!("{credentials:?}");
            assert!(!text.contains("hush"), "{text}");
        }
    }
}
