//! Events on the bus beside the notifications.

use serde::{Deserialize, Serialize};

use super::evidence::LatencyEvidence;
use crate::ids::MeshName;
use crate::scope::AlertKey;
use crate::subject::LATENCY_HIGH;

/// One evaluation has found a budget exceeded, whatever the state of its alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename = "latency_high")]
pub struct LatencyHigh {
    /// The mesh it happened in.
    pub mesh: MeshName,
    /// The budget, and where it was exceeded.
    #[serde(flatten)]
    pub key: AlertKey,
    /// Time of the evaluation, in seconds since 1970.
    pub at_seconds: f64,
    /// The evidence.
    pub evidence: LatencyEvidence,
}

impl LatencyHigh {
    /// Its name: in its payload, and the last part of its subject.
    pub const NAME: &str = LATENCY_HIGH;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::{Notification, Scope};
    use crate::budget::Window;
    use crate::ids::{Operation, RuleName};

    #[test]
    fn an_event_names_itself_and_is_not_taken_for_a_notification() {
        let event = LatencyHigh {
            mesh: MeshName::new("m").unwrap(),
            key: AlertKey {
                rule: RuleName::new("epoch_hook").unwrap(),
                scope: Scope::Fleet,
                operation: Operation::new("epoch_hook").unwrap(),
            },
            at_seconds: 1.5,
            evidence: LatencyEvidence {
                quantile: 0.99,
                value_seconds: 0.03,
                lower_seconds: 0.029,
                limit_seconds: 0.018,
                window: Window::TenSeconds,
                samples: 200,
                upper_seconds: None,
                over: 9,
                uncertain: 0,
                stretch: None,
                within_seconds: None,
                overdispersion: 1.0,
                learning: false,
            },
        };
        let text = serde_json::to_string(&event).unwrap();
        assert!(text.starts_with(r#"{"event":"latency_high","mesh":"m","rule":"#), "{text}");
        assert_eq!(serde_json::from_str::<LatencyHigh>(&text).unwrap(), event);
        assert!(serde_json::from_str::<Notification>(&text).is_err());
    }
}
