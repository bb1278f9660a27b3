//! What every request passes before its route. The name in `Host` must be one of this process's:
//! a page of another site that lets its own name lead here (DNS rebinding) gets nothing. A change
//! that another site's page sends is rejected, whatever it carries. Each response states what a
//! browser may do with it: load and run this program's own files, and nothing else.
//!
//! DESIGN S50, A101.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::stats::{RefusalCounts, RequestRefusal};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// What supervisors and load balancers ask for, under any name and without a token.
pub(super) const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// The names of this process, in lower case, beside those that always lead to it.
#[derive(Clone)]
pub(super) struct Guard {
    names: Arc<[String]>,
    refused: Arc<RefusalCounts>,
}

impl Guard {
    pub(super) fn new(hosts: &[String], refused: Arc<RefusalCounts>) -> Self {
        Self { names: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(), refused }
    }

    /// Addresses, and names without a dot or below `localhost`, are safe: no site can make them
    /// its own in public DNS. All others must be configured.
    fn admits(&self, host: &str) -> bool {
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let is_plain = !name.is_empty() && !name.contains('.');
        name.parse::<IpAddr>().is_ok()
            || is_plain
            || name.ends_with(".localhost")
            || self.names.contains(&name)
    }

    fn refused_host(&self, request: &Request) -> Option<String> {
        if PROBES.contains(&request.uri().path()) {
            return None;
        }
        let authority = request.uri().authority().map(|of| of.as_str().to_owned());
        let named = request.headers().get_all(header::HOST).into_iter();
        let named = named.map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
        // HTTP/1.0 without a name is no browser's.
        authority.into_iter().chain(named).find(|of| !host(of).is_some_and(|of| self.admits(of)))
    }
}

/// The host of an authority; `None` if it is none.
fn host(authority: &str) -> Option<&str> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let is_port = port.is_empty() || is_port(port.strip_prefix(':')?);
        return (is_port && address.parse::<Ipv6Addr>().is_ok()).then_some(address);
    }
    let (name, port) = authority.split_once(':').unwrap_or((authority, ""));
    (is_port(port) && !name.contains(['/', '@'])).then_some(name)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a page of another site sent this. Programs send neither header. Browsers send
/// `Sec-Fetch-Site` to secure and to loopback addresses, and `Origin` with every change.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|of| of.to_str().unwrap_or_default());
    match text(HeaderName::from_static("sec-fetch-site")) {
        Some(site) => !["same-origin", "none"].contains(&site),
        None => text(header::ORIGIN).is_some_and(|origin| {
            let origin = origin.split_once("://").map(|(_, authority)| authority);
            origin.is_none() || origin != text(header::HOST)
        }),
    }
}

/// Admits a request, or answers it.
pub(super) async fn admit(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let changes = ![Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    let mut response = if let Some(host) = guard.refused_host(&request) {
        guard.refused.count(RequestRefusal::Host);
        let why = format!(
            "the host {host:?} is not a name of this process: add it to http.hosts in its \
             settings, or use its address\n"
        );
        (StatusCode::MISDIRECTED_REQUEST, why).into_response()
    } else if changes && is_cross_site(request.headers()) {
        guard.refused.count(RequestRefusal::Site);
        let why = "a page of another site sent this change; only this process's own page and \
                   programs may\n";
        (StatusCode::FORBIDDEN, why).into_response()
    } else {
        next.run(request).await
    };

    let set = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("same-origin"),
        ),
    ];

    for (name, value) in set {
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::{get, post};
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use proptest::prelude::*;

    use super::*;

    fn guard(hosts: &[&str]) -> Guard {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        Guard::new(&hosts, Arc::default())
    }

    fn router(guard: Guard) -> Router {
        let routes = Router::new().route("/", get(async || "page"));
        let routes = routes.route("/readyz", get(async || "ready"));
        let routes = routes.route("/change", post(async || "changed"));
        routes.layer(from_fn_with_state(guard, admit))
    }

    async fn status(method: Method, path: &str, headers: &[(&str, &str)]) -> StatusCode {
        status_of(guard(&["Mesh.example.org"]), method, path, headers).await
    }

    async fn status_of(
        guard: Guard,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> StatusCode {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = TowerToHyperService::new(router(guard)).call(request).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_SECURITY_POLICY], POLICY);
        assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        response.status()
    }

    #[tokio::test]
    async fn only_names_of_this_process_are_answered() {
        let table = [
            ("127.0.0.1:9900", true),
            ("192.0.2.7", true),
            ("[::1]:9900", true),
            ("localhost:9900", true),
            ("plimsoll-aggregator:9900", true),
            ("a.localhost", true),
            ("mesh.EXAMPLE.org.:9900", true),
            ("mesh.example.org.evil.example", false),
            ("evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:80", false),
            ("", false),
            ("[::1", false),
            ("[evil.example]", false),
            ("evil.example/localhost", false),
        ];
        for (host, admitted) in table {
            let status = status(Method::GET, "/", &[("host", host)]).await;
            let expected = if admitted { StatusCode::OK } else { StatusCode::MISDIRECTED_REQUEST };
            assert_eq!(status, expected, "{host}");
        }
        assert_eq!(status(Method::GET, "/", &[]).await, StatusCode::OK);
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(status(Method::GET, "/", &two).await, StatusCode::MISDIRECTED_REQUEST);
    }

    #[tokio::test]
    async fn a_change_from_another_site_is_rejected() {
        let own = ("host", "localhost:9900");
        let table: [(&[(&str, &str)], bool); 8] = [
            (&[], true),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("origin", "http://localhost:9900")], true),
            (&[("origin", "http://evil.example")], false),
            (&[("origin", "null")], false),
        ];
        for (headers, admitted) in table {
            let headers: Vec<_> = [&[own], headers].concat();
            let expected = if admitted { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(status(Method::POST, "/change", &headers).await, expected, "{headers:?}");
            assert_eq!(status(Method::GET, "/", &headers).await, StatusCode::OK, "{headers:?}");
        }
    }

    #[tokio::test]
    async fn probes_have_any_name_and_what_is_refused_is_counted() {
        let guard = guard(&[]);
        let evil = [("host", "evil.example"), ("origin", "http://evil.example")];
        let get = |path| status_of(guard.clone(), Method::GET, path, &evil);
        assert_eq!(get("/readyz").await, StatusCode::OK);
        assert_eq!(guard.refused.counts(), [0, 0, 0]);
        assert_eq!(get("/").await, StatusCode::MISDIRECTED_REQUEST);
        let own = [("host", "localhost"), ("origin", "http://evil.example")];
        let post = status_of(guard.clone(), Method::POST, "/change", &own).await;
        assert_eq!(post, StatusCode::FORBIDDEN);
        assert_eq!(guard.refused.counts(), [1, 1, 0]);
    }

    proptest! {
        #[test]
        fn a_public_name_is_admitted_only_if_it_is_configured(
            name in "[a-z0-9-]{1,9}(\\.[a-z0-9-]{1,9}){1,3}",
            port in "(:[0-9]{1,5})?",
        ) {
            let guard = guard(&["mesh.example.org"]);
            let admitted = host(&format!("{name}{port}")).is_some_and(|name| guard.admits(name));
            let is_address = name.parse::<IpAddr>().is_ok();
            prop_assert_eq!(admitted, is_address || name.ends_with(".localhost"));
        }

        #[test]
        fn arbitrary_hosts_never_panic(text in any::<String>()) {
            let guard = guard(&[]);
            let admitted = host(&text).is_some_and(|name| guard.admits(name));
            prop_assert!(!admitted || !text.is_empty());
        }
    }
}
