//! The `[notifications]` section: content of notifications beside the alert itself.

use serde::Deserialize;

use crate::core::alerting::{Dashboard, DashboardError};

/// The `[notifications]` section.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Notifications {
    pub dashboard_url: Option<String>,
}

impl Notifications {
    /// The link template of an aggregator whose page is at this URL.
    ///
    /// # Errors
    /// Names the key and what is wrong with its value.
    pub fn dashboard(&self, page_url: &str) -> Result<Dashboard, String> {
        let own = || {
            format!(
                "{page_url}/?view=alert&rule={{rule}}&node={{node}}&operation={{operation}}\
                 &from={{from_ms}}&to={{to_ms}}"
            )
        };
        let template = self.dashboard_url.clone().unwrap_or_else(own);
        let wrong = |error: DashboardError| format!("notifications.dashboard_url: {error}");
        template.parse().map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PAGE_URL_BYTES_MAX;

    #[test]
    fn an_unknown_variable_names_its_key_and_the_default_is_the_aggregators_own_page() {
        let page_url = format!("http://{}", "p".repeat(PAGE_URL_BYTES_MAX - 7));
        assert!(Notifications::default().dashboard(&page_url).is_ok());
        let dashboard_url = Some("http://g/{nodes}".to_owned());
        let error = Notifications { dashboard_url }.dashboard(&page_url).unwrap_err();
        assert!(error.starts_with("notifications.dashboard_url: {nodes} is unknown"), "{error}");
    }
}
