//! The page for people: at `/`, with its script, its style and the runbook that it shows. All are
//! built in. A client that does not prefer HTML, such as curl, gets the list of paths at `/`.
//!
//! DESIGN A100.

use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use flate2::Compression;

use super::accept;
use super::index::INDEX;
use super::pages::compressed;

/// A file of the page. Browsers ask again each time, and get 304 until the program has changed.
struct File {
    content_type: &'static str,
    plain: &'static [u8],
    gzip: Bytes,
    etag: HeaderValue,
}

impl File {
    fn new(content_type: &'static str, plain: &'static str) -> Self {
        let plain = plain.as_bytes();
        let gzip = compressed(plain, Compression::best());
        let etag = format!("\"{:08x}\"", crc32fast::hash(plain));
        // Cannot fail: a number in hexadecimal, in quotes.
        let etag = HeaderValue::from_str(&etag).expect("plain ASCII");
        Self { content_type, plain, gzip, etag }
    }

    fn response(&self, headers: &HeaderMap) -> Response {
        let known = headers.get(header::IF_NONE_MATCH);
        let mut response = if known.is_some_and(|known| *known == self.etag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else if accept::takes_gzip(headers) {
            ([(header::CONTENT_ENCODING, "gzip")], self.gzip.clone()).into_response()
        } else {
            self.plain.into_response()
        };

        let set = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.content_type)),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (header::VARY, HeaderValue::from_static("accept, accept-encoding")),
            (header::ETAG, self.etag.clone()),
        ];

        // Each instead of the one that the body brought, if it brought one.
        for (name, value) in set {
            response.headers_mut().insert(name, value);
        }

        response
    }
}

static PAGE: LazyLock<File> = LazyLock::new(|| {
    File::new("text/html; charset=utf-8", include_str!("../../../page/dist/index.html"))
});
static SCRIPT: LazyLock<File> = LazyLock::new(|| {
    File::new("text/javascript; charset=utf-8", include_str!("../../../page/dist/page.js"))
});
static STYLE: LazyLock<File> = LazyLock::new(|| {
    File::new("text/css; charset=utf-8", include_str!("../../../page/dist/page.css"))
});
static RUNBOOK: LazyLock<File> = LazyLock::new(|| {
    File::new("text/markdown; charset=utf-8", include_str!("../../../../deploy/RUNBOOK.md"))
});

/// The routes of the page's files and of the list of paths.
pub(super) fn routes() -> Router {
    Router::new()
        .route("/", get(show_page))
        .route("/api/v1", get(async || INDEX))
        .route("/page.js", get(async |headers: HeaderMap| SCRIPT.response(&headers)))
        .route("/page.css", get(async |headers: HeaderMap| STYLE.response(&headers)))
        .route("/runbook", get(async |headers: HeaderMap| RUNBOOK.response(&headers)))
}

async fn show_page(headers: HeaderMap) -> Response {
    if accept::prefers_html(&headers) {
        return PAGE.response(&headers);
    }
    let varies = HeaderValue::from_static("accept, accept-encoding");
    ([(header::VARY, varies)], INDEX).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a browser loads before it shows data.
    const PAGE_BYTES_MAX: usize = 60_000;

    #[test]
    fn the_page_is_small_when_compressed() {
        let sizes = [&PAGE, &SCRIPT, &STYLE].map(|file| file.gzip.len());
        assert!(sizes.iter().all(|size| *size > 0), "{sizes:?}");
        assert!(sizes.iter().sum::<usize>() <= PAGE_BYTES_MAX, "{sizes:?}");
    }

    #[test]
    fn the_page_asks_nothing_of_another_site_and_has_no_script_or_style_of_its_own() {
        let text = std::str::from_utf8(PAGE.plain).unwrap();
        let style = std::str::from_utf8(STYLE.plain).unwrap();
        let script = std::str::from_utf8(SCRIPT.plain).unwrap();
        for part in ["http://", "https://", "<style", " style=", " onload", "javascript:"] {
            assert!(!text.contains(part), "{part}");
        }
        assert_eq!(text.matches("<script").count(), text.matches("<script src=").count());
        assert!(!style.contains("http") && !style.contains("@import"));
        for part in ["innerHTML", "eval(", "document.write", "localStorage", "sessionStorage"] {
            let of_preact = part == "innerHTML" && script.contains("dangerouslySetInnerHTML");
            assert!(of_preact || !script.contains(part), "{part}");
        }
    }

    #[test]
    fn a_file_is_sent_once_and_compressed_to_those_who_take_it() {
        let header = |name: header::HeaderName, value: &HeaderValue| {
            HeaderMap::from_iter([(name, value.clone())])
        };
        let known = STYLE.response(&header(header::IF_NONE_MATCH, &STYLE.etag));
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        let other = STYLE.response(&header(header::IF_NONE_MATCH, &SCRIPT.etag));
        assert_eq!(other.status(), StatusCode::OK);
        assert_eq!(other.headers().get(header::CONTENT_ENCODING), None);
        let gzip = HeaderValue::from_static("gzip");
        let compressed = STYLE.response(&header(header::ACCEPT_ENCODING, &gzip));
        assert_eq!(compressed.headers()[header::CONTENT_ENCODING], gzip);
        assert_eq!(compressed.headers()[header::ETAG], other.headers()[header::ETAG]);
        for response in [other, compressed] {
            let kinds: Vec<_> = response.headers().get_all(header::CONTENT_TYPE).iter().collect();
            assert_eq!(kinds, [STYLE.content_type]);
        }
    }
}
