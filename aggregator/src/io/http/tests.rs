//! The OpenAPI document is about this API: its routes and methods, its bounds and its words.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use plimsoll_schemas::alert::{AlertState, DataStatus};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::hardware::CATALOGUE;
use plimsoll_schemas::limits::api::HISTORY_ANSWER_BYTES_MAX;
use plimsoll_schemas::limits::rules::PATTERN_BYTES_MAX;
use plimsoll_schemas::limits::wire::{LABEL_VALUE_BYTES_MAX, OPERATION_BYTES_MAX, TOKEN_BYTES_MAX};
use plimsoll_schemas::summary::{MESSAGEPACK, Presence, Verdict};
use plimsoll_schemas::wire::{AlertType, EventSource};
use serde_json::{Value, json};

use super::index::INDEX;
use super::*;
use crate::core::fleet::Trouble;
use crate::core::history::Resolution;
use crate::limits::alerts::{BY_BYTES_MAX, COMMENT_BYTES_MAX};
use crate::limits::{
    EVENTS_KEPT_MAX, HARDWARE_PAGE_MAX, HEATMAP_BANDS_MAX, HISTORY_LIMITS_MAX,
    HISTORY_QUANTILES_MAX, NODES_PAGE_MAX, ROLLUP_LABELS_MAX,
};

type Methods = BTreeMap<String, BTreeSet<String>>;

fn document() -> Value {
    serde_json::from_slice(&openapi::DOCUMENT).unwrap()
}

/// Every path with its methods, as the document has them.
fn documented(document: &Value) -> Methods {
    let paths = document["paths"].as_object().unwrap().iter();
    let methods = |item: &Value| {
        let of: Vec<String> = item.as_object().unwrap().keys().cloned().collect();
        of.into_iter().map(|method| method.to_ascii_uppercase()).collect()
    };
    paths.map(|(path, item)| (path.clone(), methods(item))).collect()
}

/// The paths of a router, which only its debug form shows.
fn paths(router: &Router) -> BTreeSet<String> {
    let text = format!("{router:?}");
    let (own, _) = text.split_once("fallback_router").unwrap();
    let (_, own) = own.split_once("paths: ").unwrap();
    own.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// What a route allows, by its answer to a method that no route has.
async fn methods(router: Router, path: &str) -> BTreeSet<String> {
    let path = path.replace(['{', '}'], "");
    let request = Request::builder().method(Method::TRACE).uri(path).body(Body::empty()).unwrap();
    let response = TowerToHyperService::new(router).call(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    let allowed = response.headers()[header::ALLOW].to_str().unwrap().split(',');
    allowed.filter(|method| *method != "HEAD").map(str::to_owned).collect()
}

#[tokio::test]
async fn the_document_has_every_route_with_its_methods_and_no_other() {
    let (Routes { pages, .. }, _queries) = routes(&Metrics::default(), None);
    let mut served = Methods::new();
    for path in paths(&pages) {
        let methods = methods(pages.clone(), &path).await;
        served.insert(path, methods);
    }
    assert_eq!(documented(&document()), served);
}

const API_PAGE: &str = include_str!("../../../doc/api.md");

#[test]
fn the_list_of_pages_has_every_path_of_the_document() {
    for path in documented(&document()).keys().filter(|path| *path != "/") {
        let path = path.split('{').next().unwrap();
        assert!(INDEX.contains(path), "{path}");
        assert!(API_PAGE.contains(path), "{path} is not in aggregator/doc/api.md");
    }
}

/// The word of each, as JSON has it.
fn words<T: Copy>(all: impl IntoIterator<Item = T>, word: fn(T) -> &'static str) -> Value {
    all.into_iter().map(word).collect()
}

#[test]
fn words_and_bounds_of_the_document_are_those_of_the_code() {
    let document = document();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let units: BTreeSet<_> = CATALOGUE.iter().filter_map(|sensor| sensor.unit()).collect();
    let units: Vec<_> = units.into_iter().map(Some).chain([None]).collect();
    let data = [DataStatus::Enough, DataStatus::Insufficient, DataStatus::NoData];
    let schema = "/components/schemas";
    let parameter = "/components/parameters";
    let table = [
        (format!("{schema}/Window/enum"), words(Window::ALL, Window::as_str)),
        (format!("{schema}/Presence/enum"), words(Presence::ALL, Presence::as_str)),
        (format!("{schema}/AlertState/enum"), words(AlertState::ALL, AlertState::as_str)),
        (format!("{schema}/DataStatus/enum"), words(data, DataStatus::as_str)),
        (format!("{schema}/Verdict/enum"), words(Verdict::ALL, Verdict::as_str)),
        (format!("{schema}/AlertType/enum"), words(AlertType::ALL, AlertType::as_str)),
        (format!("{schema}/EventSource/enum"), words(EventSource::ALL, EventSource::as_str)),
        (format!("{schema}/Resolution/enum"), words(Resolution::ALL, Resolution::as_str)),
        (
            format!("{schema}/NodeStatus/properties/troubles/items/enum"),
            words(Trouble::ALL, Trouble::as_str),
        ),
        (format!("{schema}/Reading/properties/unit/enum"), json!(units)),
        (format!("{schema}/RuleName/maxLength"), json!(TOKEN_BYTES_MAX)),
        (format!("{schema}/Operation/maxLength"), json!(OPERATION_BYTES_MAX)),
        (format!("{schema}/Pattern/maxLength"), json!(PATTERN_BYTES_MAX)),
        (format!("{schema}/Operator/maxLength"), json!(BY_BYTES_MAX)),
        (format!("{schema}/Comment/maxLength"), json!(COMMENT_BYTES_MAX)),
        (format!("{parameter}/rollup/schema/maxLength"), json!(LABEL_VALUE_BYTES_MAX)),
        (format!("{parameter}/value/schema/maxItems"), json!(ROLLUP_LABELS_MAX)),
        (format!("{parameter}/quantiles/schema/maxItems"), json!(HISTORY_QUANTILES_MAX)),
        (format!("{parameter}/over/schema/maxItems"), json!(HISTORY_LIMITS_MAX)),
    ];
    let of_query = &document["paths"]["/api/v1/query"]["get"]["responses"]["200"];
    assert!(of_query["content"].get(MESSAGEPACK).is_some(), "{of_query}");
    let most = format!("At most {} MiB.", HISTORY_ANSWER_BYTES_MAX / (1024 * 1024));
    assert!(of_query["description"].as_str().unwrap().ends_with(&most), "{of_query}");
    for (pointer, expected) in table {
        assert_eq!(document.pointer(&pointer), Some(&expected), "{pointer}");
    }
    let bounds = [
        ("/api/v1/nodes", "limit", NODES_PAGE_MAX),
        ("/api/v1/hardware", "limit", HARDWARE_PAGE_MAX),
        ("/api/v1/events", "limit", EVENTS_KEPT_MAX),
        ("/api/v1/heatmap", "bands", HEATMAP_BANDS_MAX),
    ];
    for (path, name, most) in bounds {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
        let found = parameters.iter().find(|of| of["name"] == name).unwrap();
        assert_eq!(found["schema"]["maximum"], most, "{path} {name}");
    }
}
