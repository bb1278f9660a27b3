//! The operations that the system records of itself. They are apart from what jobs send: in
//! totals, in the reasons of loss and in how severe an alert about them may be.
//!
//! DESIGN S28.

use crate::ids::{Operation, Series};

/// From a node's outbox to the broker's acknowledgement; each node records it without labels.
pub const PUBLISH: &str = "publish";
/// From a notification's change to its receiver's answer; the aggregator records it.
pub const NOTIFICATION_DELIVERY: &str = "notification_delivery";
/// From a node's sending of a message until it is merged; the aggregator records it.
pub const MESSAGE_DELIVERY: &str = "message_delivery";

/// All of them. A node refuses samples of jobs under these names.
pub const OWN_OPERATIONS: [&str; 3] = [PUBLISH, NOTIFICATION_DELIVERY, MESSAGE_DELIVERY];

/// The reason under which lost samples of these operations are counted, whatever the cause was.
pub const OWN_LOST: &str = "own";

/// Whether the system records this operation of itself. Lists of what is worst have those of jobs
/// before these.
#[must_use]
pub fn is_own(operation: &Operation) -> bool {
    is_own_name(operation.as_str())
}

/// The same of an operation's name on a page.
#[must_use]
pub fn is_own_name(operation: &str) -> bool {
    OWN_OPERATIONS.contains(&operation)
}

/// Whether aggregators alone record this operation, so that no node has samples of it.
///
/// DESIGN S32.
#[must_use]
pub fn is_of_aggregators(operation: &Operation) -> bool {
    [NOTIFICATION_DELIVERY, MESSAGE_DELIVERY].contains(&operation.as_str())
}

/// Whether a series in a node's message holds samples that the node took of itself: those have no
/// labels.
#[must_use]
pub fn is_own_series(series: &Series) -> bool {
    series.labels.is_empty() && is_own(&series.operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Labels;

    #[test]
    fn a_series_is_the_systems_own_by_its_operation_and_only_without_labels() {
        let labels = || Labels::new([("rank", "0")]).unwrap();
        let series = |name: &str| Series::plain(Operation::new(name).unwrap());
        for name in OWN_OPERATIONS {
            let operation = Operation::new(name).unwrap();
            assert!(is_own(&operation) && is_own_series(&series(name)), "{name}");
            let labelled = Series { operation, labels: labels() };
            assert!(!is_own_series(&labelled), "{name}");
        }
        for name in ["epoch_hook", "publish.errors", "publisher"] {
            assert!(!is_own_series(&series(name)), "{name}");
        }
    }

    #[test]
    fn of_the_systems_own_operations_nodes_record_publish_alone() {
        let by_nodes = OWN_OPERATIONS.into_iter().filter(|name| {
            let operation = Operation::new(name).unwrap();
            !is_of_aggregators(&operation)
        });
        assert_eq!(by_nodes.collect::<Vec<_>>(), [PUBLISH]);
        assert!(!is_of_aggregators(&Operation::new("epoch_hook").unwrap()));
    }
}
