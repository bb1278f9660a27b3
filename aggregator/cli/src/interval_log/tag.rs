//! The tag of a line: the operation, and the node if one is named.
//!
//! A tag cannot hold a comma, a blank or the end of a line. Neither an operation nor a node's name
//! can hold a semicolon, so one separates them.

use plimsoll_schemas::ids::{IdError, NodeName, Operation};

/// The operation of lines without a tag.
const UNTAGGED: &str = "untagged";
const NODE: &str = ";node=";

/// The tag of an operation on a node.
pub(super) fn tag(operation: &Operation, node: Option<&NodeName>) -> String {
    node.map_or_else(|| operation.to_string(), |node| format!("{operation}{NODE}{node}"))
}

pub(super) fn parse(tag: Option<&str>) -> Result<(Operation, Option<NodeName>), IdError> {
    let tag = tag.unwrap_or(UNTAGGED);
    let (operation, node) = tag.split_once(NODE).map_or((tag, None), |(one, two)| (one, Some(two)));
    Ok((Operation::new(operation)?, node.map(NodeName::new).transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_reads_back_with_and_without_a_node() {
        let operation = Operation::new("kernel:fetch/2").unwrap();
        for node in [None, Some(NodeName::new("rack-1_b").unwrap())] {
            let text = tag(&operation, node.as_ref());
            assert_eq!(parse(Some(&text)), Ok((operation.clone(), node)));
        }
        assert_eq!(parse(None).unwrap().0.as_str(), "untagged");
        assert!(parse(Some("a|b")).is_err());
        assert!(parse(Some("a;node=b;c")).is_err());
    }
}
