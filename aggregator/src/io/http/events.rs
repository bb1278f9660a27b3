//! The parameters of `/api/v1/events`. An unknown or invalid parameter is rejected with the allowed
//! values.

use crate::limits::EVENTS_KEPT_MAX;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::wire::{AlertType, EventSource};
use thiserror::Error;

use crate::core::fleet::EventsQuery;

/// Why a request was rejected.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum BadParameter {
    #[error("unknown parameter {0:?}; use limit, node, source or alert_type")]
    Unknown(String),
    #[error("{0} is given twice; give it once")]
    Twice(&'static str),
    #[error("{key}={value:?} is not allowed; it must be {allowed}")]
    Value { key: &'static str, value: String, allowed: String },
}

pub(super) fn parse(parameters: &[(String, String)]) -> Result<EventsQuery, BadParameter> {
    let (mut limit, mut node, mut source, mut alert_type) = (None, None, None, None);
    for (key, value) in parameters {
        match key.as_str() {
            "limit" => put("limit", &mut limit, parse_limit(value)?)?,
            "node" => put("node", &mut node, parse_node(value)?)?,
            "source" => {
                let parsed = one_of("source", value, EventSource::ALL, EventSource::as_str)?;
                put("source", &mut source, parsed)?;
            }
            "alert_type" => {
                let parsed = one_of("alert_type", value, AlertType::ALL, AlertType::as_str)?;
                put("alert_type", &mut alert_type, parsed)?;
            }
            _ => return Err(BadParameter::Unknown(key.clone())),
        }
    }
    Ok(EventsQuery { limit: limit.unwrap_or(EVENTS_KEPT_MAX), node, source, alert_type })
}

fn put<T>(key: &'static str, slot: &mut Option<T>, value: T) -> Result<(), BadParameter> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(BadParameter::Twice(key)),
    }
}

fn parse_limit(value: &str) -> Result<usize, BadParameter> {
    let limit = value.parse().ok().filter(|limit| (1..=EVENTS_KEPT_MAX).contains(limit));
    let allowed = || format!("a whole number from 1 to {EVENTS_KEPT_MAX}");
    limit.ok_or_else(|| refuse("limit", value, allowed()))
}

fn parse_node(value: &str) -> Result<NodeName, BadParameter> {
    NodeName::new(value).map_err(|error| refuse("node", value, format!("a node's name: {error}")))
}

fn one_of<T: Copy, const N: usize>(
    key: &'static str,
    value: &str,
    all: [T; N],
    name: fn(T) -> &'static str,
) -> Result<T, BadParameter> {
    let found = all.into_iter().find(|one| name(*one) == value);
    let allowed = || format!("one of {}", all.map(name).join(", "));
    found.ok_or_else(|| refuse(key, value, allowed()))
}

fn refuse(key: &'static str, value: &str, allowed: String) -> BadParameter {
    BadParameter::Value { key, value: value.to_owned(), allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(parameters: &[(&str, &str)]) -> Result<EventsQuery, String> {
        let owned: Vec<_> =
            parameters.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        parse(&owned).map_err(|error| error.to_string())
    }

    #[test]
    fn every_parameter_is_read_and_none_is_needed() {
        assert_eq!(query(&[]), Ok(EventsQuery::default()));
        let all =
            [("limit", "7"), ("node", "n-1"), ("source", "service_check"), ("alert_type", "error")];
        let wanted = EventsQuery {
            limit: 7,
            node: Some(NodeName::new("n-1").unwrap()),
            source: Some(EventSource::ServiceCheck),
            alert_type: Some(AlertType::Error),
        };
        assert_eq!(query(&all), Ok(wanted));
    }

    #[test]
    fn a_bad_parameter_is_named_with_what_is_allowed() {
        let limit = "a whole number from 1 to 256";
        let table: [(&[(&str, &str)], &str); 8] = [
            (&[("limit", "0")], &format!("limit=\"0\" is not allowed; it must be {limit}")),
            (&[("limit", "257")], &format!("limit=\"257\" is not allowed; it must be {limit}")),
            (&[("limit", "-1")], &format!("limit=\"-1\" is not allowed; it must be {limit}")),
            (
                &[("node", "a b")],
                "node=\"a b\" is not allowed; it must be a node's name: node name \
                                 contains a space; allowed: letters, digits and '_.-'",
            ),
            (
                &[("source", "")],
                "source=\"\" is not allowed; it must be one of event, service_check",
            ),
            (
                &[("alert_type", "bad")],
                "alert_type=\"bad\" is not allowed; it must be one of info, \
                                       success, warning, error",
            ),
            (
                &[("nodes", "a")],
                "unknown parameter \"nodes\"; use limit, node, source or \
                                alert_type",
            ),
            (&[("limit", "3"), ("limit", "4")], "limit is given twice; give it once"),
        ];
        for (parameters, text) in table {
            assert_eq!(query(parameters), Err(text.to_owned()));
        }
    }
}
