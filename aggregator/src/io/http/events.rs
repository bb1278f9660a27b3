//! The parameters of `/api/v1/events`.

use plimsoll_schemas::wire::{AlertType, EventSource};

use super::parameters::{BadRequest, count, one_of, optional_name, pick};
use crate::core::fleet::EventsQuery;
use crate::limits::EVENTS_KEPT_MAX;

pub(super) fn parse(pairs: &[(String, String)]) -> Result<EventsQuery, BadRequest> {
    const KNOWN: [&str; 4] = ["limit", "node", "source", "alert_type"];
    let [limit, node, source, alert_type] =
        pick(pairs, KNOWN, "limit, node, source and alert_type")?;
    Ok(EventsQuery {
        limit: count("limit", limit, EVENTS_KEPT_MAX, EVENTS_KEPT_MAX)?,
        node: optional_name("node", node)?,
        source: one_of("source", source, EventSource::ALL, EventSource::as_str)?,
        alert_type: one_of("alert_type", alert_type, AlertType::ALL, AlertType::as_str)?,
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::NodeName;

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
            (&[("limit", "0")], &format!("limit is \"0\"; it must be {limit}")),
            (&[("limit", "257")], &format!("limit is \"257\"; it must be {limit}")),
            (&[("limit", "-1")], &format!("limit is \"-1\"; it must be {limit}")),
            (
                &[("node", "a b")],
                "node is \"a b\"; it must be a name: node name contains a space; allowed: letters, \
                 digits and '_.-'",
            ),
            (&[("source", "")], "source is \"\"; it must be one of event, service_check"),
            (
                &[("alert_type", "bad")],
                "alert_type is \"bad\"; it must be one of info, success, warning, error",
            ),
            (
                &[("nodes", "a")],
                "unknown parameter \"nodes\"; the parameters are limit, node, source and alert_type",
            ),
            (&[("limit", "3"), ("limit", "4")], "limit is given twice; give it once"),
        ];
        for (parameters, text) in table {
            assert_eq!(query(parameters), Err(text.to_owned()));
        }
    }
}
