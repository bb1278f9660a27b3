//! The bearer token that changes over HTTP need. No log and no error contains it.
//!
//! DESIGN A33.

use std::fmt;
use std::hint::black_box;
use std::path::Path;

use crate::limits::alerts::TOKEN_BYTES_MIN;
use serde::Deserialize;

/// A bearer token.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// The token of the settings `http.token` and `http.token_file`, of which at most one is set.
    ///
    /// # Errors
    /// Names the key and the fix, without the secret.
    pub(super) fn configured(
        given: Option<&Self>,
        file: Option<&Path>,
    ) -> Result<Option<Self>, String> {
        match (given, file) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err("http: set token or token_file, not both".to_owned()),
            (Some(token), None) => token.clone().checked("http.token").map(Some),
            (None, Some(path)) => {
                let key = format!("http.token_file {}", path.display());
                let text = std::fs::read_to_string(path).map_err(|e| format!("{key}: {e}"))?;
                Self(text.trim().to_owned()).checked(&key).map(Some)
            }
        }
    }

    fn checked(self, key: &str) -> Result<Self, String> {
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
    #[must_use]
    pub fn matches(&self, shown: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let mut different = u8::from(secret.len() != shown.len());
        for (at, byte) in shown.iter().enumerate() {
            different |= black_box(byte ^ secret[at % secret.len()]);
        }
        different == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef";

    #[test]
    fn only_the_whole_token_matches() {
        let token = Token(SECRET.to_owned());
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
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Token::configured(None, Some(&path))
        };
        let token = Token(SECRET.to_owned());
        assert_eq!(read(&format!("{SECRET}\n")), Ok(Some(token.clone())));
        for bad in ["hush", "hush hush hush hush", "", "hüsh-hüsh-hüsh-hüsh"] {
            let error = read(bad).unwrap_err();
            assert!(error.starts_with("http.token_file ") && !error.contains("hush"), "{error}");
            let given = Token(bad.to_owned());
            let error = Token::configured(Some(&given), None).unwrap_err();
            assert!(error.starts_with("http.token: ") && !error.contains("hush"), "{error}");
        }
        let both = Token::configured(Some(&token), Some(&path)).unwrap_err();
        assert!(both.contains("not both"), "{both}");
        let absent = Token::configured(None, Some(Path::new("absent"))).unwrap_err();
        assert!(absent.starts_with("http.token_file absent: "), "{absent}");
    }
}
