//! The `[notifications]` section: content of notifications beside the alert itself.

use std::net::SocketAddr;

use serde::Deserialize;

use crate::core::alerting::{Dashboard, DashboardError};

/// The `[notifications]` section.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Notifications {
    /// Template of the page that a firing alert links to, `http://` or `https://`. Its variables
    /// are `{from_ms}` and `{to_ms}` (a time range around the alert, in milliseconds since 1970),
    /// `{mesh}`, `{rule}`, `{node}` (empty for the fleet) and `{operation}`. Default: the
    /// aggregator's own page about the rule.
    pub dashboard_url: Option<String>,
}

impl Notifications {
    /// The link template of an aggregator that serves at this address.
    ///
    /// # Errors
    /// Names the key and what is wrong with its value.
    pub fn dashboard(&self, address: SocketAddr) -> Result<Dashboard, String> {
        let own = || format!("http://{address}/api/v1/alerts?rule={{rule}}");
        let template = self.dashboard_url.clone().unwrap_or_else(own);
        let wrong = |error: DashboardError| format!("notifications.dashboard_url: {error}");
        template.parse().map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_variable_names_its_key_and_the_default_is_the_aggregators_own_page() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9900));
        assert!(Notifications::default().dashboard(address).is_ok());
        let dashboard_url = Some("http://g/{nodes}".to_owned());
        let error = Notifications { dashboard_url }.dashboard(address).unwrap_err();
        assert!(error.starts_with("notifications.dashboard_url: {nodes} is unknown"), "{error}");
    }
}
