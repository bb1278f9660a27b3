//! What each user of a mesh must be permitted at the broker, and nothing more.
//!
//! DESIGN S38.

use crate::ids::{MeshName, NodeName};
use crate::subject::{
    Lane, PREFIX, alert_filter, alert_stream, answer_subject, ask_subject, confirm_subject,
    dead_stream, dead_subject, lane_filter, lane_stream, silences_subject,
};

/// A user of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerUser<'a> {
    /// One node.
    Node(&'a NodeName),
    /// An aggregator.
    Aggregator,
    /// A person who looks at all messages and looks after the streams.
    Operator,
}

/// Subjects, with the wildcards of NATS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Those that the user may publish to.
    pub publish: Vec<String>,
    /// Those that it may subscribe to.
    pub subscribe: Vec<String>,
}

/// First tokens of the subjects on which a user receives answers. No other user may subscribe
/// below them.
#[must_use]
pub fn inbox_prefix(mesh: &MeshName, user: BrokerUser<'_>) -> String {
    match user {
        BrokerUser::Node(node) => format!("_INBOX.{mesh}.node.{}", node.token()),
        BrokerUser::Aggregator => format!("_INBOX.{mesh}.aggregator"),
        BrokerUser::Operator => format!("_INBOX.{mesh}.operator"),
    }
}

impl Permissions {
    /// What `user` needs. An aggregator that `creates_streams` may create them.
    #[must_use]
    pub fn of(mesh: &MeshName, user: BrokerUser<'_>, creates_streams: bool) -> Self {
        let inbox = format!("{}.>", inbox_prefix(mesh, user));
        let mut permissions = match user {
            BrokerUser::Node(node) => of_node(mesh, node),
            BrokerUser::Aggregator => of_aggregator(mesh, creates_streams),
            BrokerUser::Operator => Self {
                publish: vec!["$JS.API.>".to_owned(), "$JS.ACK.>".to_owned()],
                subscribe: vec![format!("{PREFIX}.{mesh}.>")],
            },
        };
        permissions.publish.push(inbox.clone());
        permissions.subscribe.push(inbox);
        permissions
    }
}

impl Permissions {
    /// What the leaf node of a site needs of the hub: what its nodes need together. Their inboxes
    /// receive answers through it; what they publish there stays at the site.
    #[must_use]
    pub fn of_leaf<'a>(mesh: &MeshName, nodes: impl IntoIterator<Item = &'a NodeName>) -> Self {
        let mut all = Self::default();
        for node in nodes {
            let Self { publish, mut subscribe } = of_node(mesh, node);
            all.publish.extend(publish);
            subscribe.push(format!("{}.>", inbox_prefix(mesh, BrokerUser::Node(node))));
            all.subscribe.append(&mut subscribe);
        }
        all
    }
}

fn of_node(mesh: &MeshName, node: &NodeName) -> Permissions {
    let node_token = node.token();
    let lane = |lane: Lane| format!("{PREFIX}.{mesh}.{}.{node_token}.*", lane.as_str());
    let lanes = Lane::ALL.map(lane);
    let others = [dead_subject(mesh, node), answer_subject(mesh, node, "*")];
    Permissions {
        publish: lanes.into_iter().chain(others).collect(),
        subscribe: vec![confirm_subject(mesh, node), ask_subject(mesh, node)],
    }
}

fn of_aggregator(mesh: &MeshName, creates_streams: bool) -> Permissions {
    let every = |kind: &str| format!("{PREFIX}.{mesh}.{kind}.*");
    let silences = silences_subject(mesh);
    let mut publish = vec![alert_filter(mesh), every("confirm"), every("ask"), silences.clone()];
    let lanes = Lane::ALL.map(|lane| lane_stream(mesh, lane));
    for stream in &lanes {
        publish.extend([
            format!("$JS.API.CONSUMER.CREATE.{stream}"),
            format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.*"),
            format!("$JS.API.STREAM.MSG.GET.{stream}"),
        ]);
    }
    for stream in lanes.iter().chain([&alert_stream(mesh), &dead_stream(mesh)]) {
        publish.push(format!("$JS.API.STREAM.INFO.{stream}"));
        if creates_streams {
            publish.push(format!("$JS.API.STREAM.CREATE.{stream}"));
        }
    }
    if creates_streams {
        // Whether the mesh is a new one beside others.
        publish.push("$JS.API.STREAM.NAMES".to_owned());
    }
    publish.push("$JS.API.INFO".to_owned());
    let lanes = Lane::ALL.map(|lane| lane_filter(mesh, lane));
    let answers = format!("{PREFIX}.{mesh}.answer.*.*");
    Permissions { publish, subscribe: lanes.into_iter().chain([answers, silences]).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_permitted_its_own_subjects_alone() {
        let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n1").unwrap());
        let Permissions { publish, subscribe } =
            Permissions::of(&mesh, BrokerUser::Node(&node), true);
        let expected = [
            "plimsoll.v1.m.emergency.n1.*",
            "plimsoll.v1.m.normal.n1.*",
            "plimsoll.v1.m.dead.n1",
            "plimsoll.v1.m.answer.n1.*",
            "_INBOX.m.node.n1.>",
        ];
        assert_eq!(publish, expected);
        let expected = ["plimsoll.v1.m.confirm.n1", "plimsoll.v1.m.ask.n1", "_INBOX.m.node.n1.>"];
        assert_eq!(subscribe, expected);
    }

    #[test]
    fn a_leaf_node_may_send_and_receive_what_its_nodes_may_and_no_more() {
        let mesh = MeshName::new("m").unwrap();
        let nodes = ["n1", "n2"].map(|name| NodeName::new(name).unwrap());
        let leaf = Permissions::of_leaf(&mesh, &nodes);
        for node in &nodes {
            let Permissions { publish, subscribe } =
                Permissions::of(&mesh, BrokerUser::Node(node), true);
            let inbox = format!("_INBOX.m.node.{node}.>");
            let sent = publish.iter().filter(|subject| **subject != inbox);
            assert!(sent.clone().all(|subject| leaf.publish.contains(subject)), "{leaf:?}");
            assert!(subscribe.iter().all(|subject| leaf.subscribe.contains(subject)));
        }
        assert_eq!((leaf.publish.len(), leaf.subscribe.len()), (8, 6));
        assert!(!leaf.publish.iter().any(|subject| subject.starts_with("$JS")));
    }

    #[test]
    fn a_node_may_be_called_like_another_user() {
        let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("aggregator").unwrap());
        let of = |user| inbox_prefix(&mesh, user);
        assert_ne!(of(BrokerUser::Node(&node)), of(BrokerUser::Aggregator));
    }

    #[test]
    fn an_aggregator_creates_streams_only_where_nobody_else_does() {
        let mesh = MeshName::new("m").unwrap();
        let creates = |creates| {
            let publish = Permissions::of(&mesh, BrokerUser::Aggregator, creates).publish;
            publish.iter().filter(|subject| subject.contains("CREATE.PLIMSOLL_m_")).count()
        };
        assert_eq!((creates(true), creates(false)), (6, 2));
    }
}
