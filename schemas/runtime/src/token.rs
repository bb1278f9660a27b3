//! Bearer tokens of HTTP servers. No log and no error contains one.
//!
//! DESIGN S50, A33.

use std::fmt;
use std::hint::black_box;
use std::path::Path;

use plimsoll_bus::read_secret;
use serde::Deserialize;

use crate::limits::TOKEN_BYTES_MIN;

#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// The token in a file that the setting `key` names.
    ///
    /// # Errors
    /// Names the key and the fix, without the secret.
    pub fn of_file(key: &str, path: &Path) -> Result<Self, String> {
        let key = format!("{key} {}", path.display());
        let text = read_secret(path).map_err(|error| format!("{key}: {error}"))?;
        Self(text).checked(&key)
    }

    /// The same token if it is none that can be guessed and a header can carry it.
    ///
    /// # Errors
    /// Names the key and the fix, without the secret.
    pub fn checked(self, key: &str) -> Result<Self, String> {
        if self.0.len() < TOKEN_BYTES_MIN {
            let len = self.0.len();
            return Err(format!(
                "{key}: a token of {len} bytes can be guessed; use at least {TOKEN_BYTES_MIN}, \
                 such as `openssl rand -hex 16` prints"
            ));
        }
        if !self.0.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "{key}: the token must be one word of ASCII letters, digits and punctuation"
            ));
        }
        Ok(self)
    }

    /// Whether the client's token is equal, in time that does not depend on the first difference.
    pub fn matches(&self, shown: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let mut different = u8::from(secret.len() != shown.len());
        for (at, byte) in shown.iter().enumerate() {
            different |= black_box(byte ^ secret[at % secret.len()]);
        }
        different == 0
    }

    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SECRET: &str = "0123456789abcdef";
    const KEY: &str = "http.token_file";

    #[test]
    fn only_the_whole_token_matches() {
        let token = Token::of_text(SECRET);
        assert!(token.matches(SECRET.as_bytes()));
        let twice = [SECRET, SECRET].concat();
        for other in ["", "0123456789abcdeF", "0123456789abcde", &twice] {
            assert!(!token.matches(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{token:?}"), "***");
    }

    #[test]
    fn a_weak_token_is_rejected_without_being_printed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let read = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Token::of_file(KEY, &path)
        };
        assert_eq!(read(&format!("{SECRET}\n"), 0o600), Ok(Token::of_text(SECRET)));
        for bad in ["hush", "hush hush hush hush", "", "h\u{fc}sh-h\u{fc}sh-h\u{fc}sh-h\u{fc}sh"] {
            let error = read(bad, 0o600).unwrap_err();
            assert!(error.starts_with("http.token_file ") && !error.contains("hush"), "{error}");
            let error = Token::of_text(bad).checked("http.token").unwrap_err();
            assert!(error.starts_with("http.token: ") && !error.contains("hush"), "{error}");
        }
        let error = read(SECRET, 0o644).unwrap_err();
        assert!(error.contains("(mode 0644); chmod 0600 "), "{error}");
        let absent = Token::of_file(KEY, Path::new("absent")).unwrap_err();
        assert!(absent.starts_with("http.token_file absent: "), "{absent}");
    }
}
