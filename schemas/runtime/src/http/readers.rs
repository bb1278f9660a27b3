//! Who may read: clients that show a token, or anyone. A program shows it as a bearer token, and a
//! person as the password that a browser asks for, with any user name. Probes need none.
//!
//! DESIGN S50.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::guard::PROBES;
use super::stats::{RefusalCounts, RequestRefusal};
use crate::token::Token;

const CHALLENGE: &str = "Basic realm=\"plimsoll\", charset=\"UTF-8\"";

/// The tokens, each of which is enough.
#[derive(Clone)]
pub(super) struct Readers {
    tokens: Arc<[Token]>,
    refused: Arc<RefusalCounts>,
}

impl Readers {
    pub(super) fn new(tokens: &[Token], refused: Arc<RefusalCounts>) -> Self {
        Self { tokens: tokens.into(), refused }
    }

    fn admit(&self, headers: &HeaderMap) -> bool {
        shown(headers).is_some_and(|shown| {
            // Each is compared, so that the time does not show which one it is.
            self.tokens.iter().fold(false, |found, token| found | token.matches(&shown))
        })
    }
}

/// The token after `Bearer`, or the password after `Basic`.
fn shown(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    if let Some(token) = after(value, b"Bearer ") {
        return Some(token.to_vec());
    }
    let pair = BASE64_STANDARD.decode(after(value, b"Basic ")?).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

fn after<'a>(value: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = value.split_at_checked(scheme.len())?;
    found.eq_ignore_ascii_case(scheme).then(|| rest.trim_ascii())
}

/// Admits a request, or answers it.
pub(super) async fn admit(
    State(readers): State<Readers>,
    request: Request,
    next: Next,
) -> Response {
    if PROBES.contains(&request.uri().path()) || readers.admit(request.headers()) {
        return next.run(request).await;
    }
    readers.refused.count(RequestRefusal::Token);
    let is_bearer = request.headers().get(header::AUTHORIZATION);
    let is_bearer = is_bearer.is_some_and(|value| after(value.as_bytes(), b"Bearer ").is_some());
    let why = "reading needs a token: send `Authorization: Bearer <token>` with the one in \
               http.reader_token_file; in a browser it is the password, with any user name\n";
    let mut response = (StatusCode::UNAUTHORIZED, why).into_response();
    // A browser would ask a person for a password where its page has sent a wrong token.
    let challenge = if is_bearer { "Bearer" } else { CHALLENGE };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "0123456789abcdef";

    fn readers() -> Readers {
        let tokens = [SECRET, "another-token-of-changes"].map(Token::of_text);
        Readers::new(&tokens, Arc::default())
    }

    fn with(value: &str) -> HeaderMap {
        let value = HeaderValue::from_str(value).unwrap();
        HeaderMap::from_iter([(header::AUTHORIZATION, value)])
    }

    #[test]
    fn a_token_is_shown_as_bearer_or_as_the_password_of_anyone() {
        let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
        for (value, is_admitted) in [
            (format!("Bearer {SECRET}"), true),
            (format!("bearer  {SECRET} "), true),
            ("Bearer another-token-of-changes".to_owned(), true),
            (basic(&format!("anyone:{SECRET}")), true),
            (basic(&format!(":{SECRET}")), true),
            (basic(SECRET), false),
            (basic(&format!("{SECRET}:")), false),
            (basic(&format!("a:b:{SECRET}")), false),
            (format!("Basic {SECRET}"), false),
            (format!("Bearer {SECRET}x"), false),
            ("Bearer".to_owned(), false),
            (SECRET.to_owned(), false),
        ] {
            assert_eq!(readers().admit(&with(&value)), is_admitted, "{value}");
        }
        assert!(!readers().admit(&HeaderMap::new()));
    }

    proptest! {
        #[test]
        fn any_header_is_survived_and_admits_nobody(
            bytes in prop::collection::vec(32..=255_u8, 0..80),
        ) {
            let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
            prop_assert!(!readers().admit(&headers));
        }
    }
}
