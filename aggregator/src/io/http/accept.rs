//! Content negotiation: the format of a page, and whether it is compressed.
//!
//! No request is rejected: a client that accepts none of the formats gets plain text, as Prometheus
//! exporters do, or JSON.

use axum::http::{HeaderMap, header};
use plimsoll_schemas::summary::MESSAGEPACK;

use crate::exposition::Format;

/// The form of an answer about the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    MessagePack,
}

/// One element of an Accept header: media type or encoding, parameters and quality.
struct Element<'a> {
    name: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// 0 to 1; 0 means not acceptable.
    quality: f64,
}

pub(super) fn format(headers: &HeaderMap) -> Format {
    preferred(headers, Element::format).unwrap_or(Format::Text)
}

/// The form of an answer about the past.
pub(super) fn encoding(headers: &HeaderMap) -> Encoding {
    preferred(headers, Element::encoding).unwrap_or(Encoding::Json)
}

/// What has the highest quality; among equals the first.
fn preferred<'h, T>(headers: &'h HeaderMap, of: impl Fn(&Element<'h>) -> Option<T>) -> Option<T> {
    let mut best = (0.0, None);
    for element in elements(headers, &header::ACCEPT) {
        if let Some(found) = of(&element).filter(|_| element.quality > best.0) {
            best = (element.quality, Some(found));
        }
    }
    best.1
}

/// Whether to compress with gzip: it is accepted with at least the quality of `identity`. A named
/// encoding outweighs `*`.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let all = elements(headers, &header::ACCEPT_ENCODING);
    let quality = |name: &str| {
        let mut named = all.iter().filter(|element| element.name.eq_ignore_ascii_case(name));
        named.next().map(|element| element.quality)
    };
    let plain = quality("identity").unwrap_or(0.0);
    let gzip = quality("gzip").or_else(|| quality("*"));
    gzip.is_some_and(|quality| quality > 0.0 && quality >= plain)
}

/// Whether a browser asks for a page to show: HTML is named and accepted.
pub(super) fn prefers_html(headers: &HeaderMap) -> bool {
    let all = elements(headers, &header::ACCEPT);
    all.iter().any(|of| of.name.eq_ignore_ascii_case("text/html") && of.quality > 0.0)
}

fn elements<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Vec<Element<'a>> {
    let texts = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(Element::parse).collect()
}

impl<'a> Element<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let pairs = parts.filter_map(|part| part.split_once('='));
        let parameters: Vec<_> =
            pairs.map(|(key, value)| (key.trim(), value.trim().trim_matches('"'))).collect();
        let quality = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case("q"));
        let quality = quality.map_or(Some(1.0), |(_, value)| value.parse().ok());
        let quality = quality.filter(|quality| (0.0..=1.0).contains(quality)).unwrap_or(0.0);
        Self { name, parameters, quality }
    }

    fn format(&self) -> Option<Format> {
        let version = |ours: &str| self.parameter("version").is_none_or(|theirs| theirs == ours);
        match self.name.to_ascii_lowercase().as_str() {
            "application/vnd.google.protobuf" => {
                let family = self.parameter("proto") == Some("io.prometheus.client.MetricFamily");
                let delimited = self.parameter("encoding") == Some("delimited");
                (family && delimited).then_some(Format::Protobuf)
            }
            "application/openmetrics-text" => version("1.0.0").then_some(Format::OpenMetrics),
            "text/plain" => version("0.0.4").then_some(Format::Text),
            "text/*" | "*/*" => Some(Format::Text),
            _ => None,
        }
    }

    fn encoding(&self) -> Option<Encoding> {
        match self.name.to_ascii_lowercase().as_str() {
            MESSAGEPACK => Some(Encoding::MessagePack),
            "application/json" | "application/*" | "*/*" => Some(Encoding::Json),
            _ => None,
        }
    }

    fn parameter(&self, key: &str) -> Option<&'a str> {
        let found = self.parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
        found.map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOBUF: &str = "application/vnd.google.protobuf; \
                            proto=io.prometheus.client.MetricFamily; encoding=delimited";

    fn accept(text: &str) -> Format {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, text.parse().unwrap());
        format(&headers)
    }

    #[test]
    fn real_accept_headers_select_the_preferred_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0,\
             application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,\
             */*;q=0.1";
        let native = format!(
            "{},application/openmetrics-text;version=1.0.0;q=0.8,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            PROTOBUF.replace("; ", ";")
        );
        let table = [
            (prometheus, Format::OpenMetrics),
            (native.as_str(), Format::Protobuf),
            ("*/*", Format::Text),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Format::Text),
            (PROTOBUF, Format::Protobuf),
            ("application/vnd.google.protobuf", Format::Text),
            ("application/openmetrics-text;version=2.0.0, text/plain;q=0.1", Format::Text),
            ("application/openmetrics-text;q=0, text/plain;q=0.1", Format::Text),
            ("text/plain;q=0.4, application/openmetrics-text;q=0.5", Format::OpenMetrics),
            ("text/plain, application/openmetrics-text", Format::Text),
            ("application/openmetrics-text;q=2", Format::Text),
            ("", Format::Text),
            (";;,=,q=;q", Format::Text),
        ];
        for (text, wanted) in table {
            assert_eq!(accept(text), wanted, "{text}");
        }
        assert_eq!(format(&HeaderMap::new()), Format::Text);
    }

    #[test]
    fn the_past_is_json_unless_messagepack_is_preferred() {
        let table = [
            ("application/vnd.msgpack", Encoding::MessagePack),
            ("Application/VND.msgpack, */*;q=0.5", Encoding::MessagePack),
            ("application/json, application/vnd.msgpack", Encoding::Json),
            ("application/vnd.msgpack;q=0.4, application/json;q=0.5", Encoding::Json),
            ("application/vnd.msgpack;q=0", Encoding::Json),
            ("*/*", Encoding::Json),
            ("text/html", Encoding::Json),
            ("", Encoding::Json),
        ];
        for (text, wanted) in table {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, text.parse().unwrap());
            assert_eq!(encoding(&headers), wanted, "{text}");
        }
        assert_eq!(encoding(&HeaderMap::new()), Encoding::Json);
    }

    #[test]
    fn gzip_needs_an_accepting_header() {
        let table = [
            ("gzip", true),
            ("deflate, gzip;q=0.5", true),
            ("GZIP", true),
            ("gzip;q=0, *", false),
            ("gzip, identity", true),
            ("gzip;q=0.1, identity;q=0.2", false),
            ("gzip;q=0.1, identity;q=0", true),
            ("*", true),
            ("br", false),
            ("identity", false),
        ];
        for (text, wanted) in table {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, text.parse().unwrap());
            assert_eq!(takes_gzip(&headers), wanted, "{text}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
