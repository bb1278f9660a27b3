//! What each user of a mesh must be permitted at the broker, and nothing more.
//!
//! DESIGN S38.

use crate::ids::{MeshName, NodeName, Partition};
use crate::subject::{
    Lane, PREFIX, SnapshotKind, above, alert_filter, alert_stream, answer_subject, ask_subject,
    bucket_stream, bucket_subject, capture_subject, confirm_subject, dead_stream, dead_subject,
    lane_filter, lane_stream, lease_bucket, partitions_filter, silences_subject,
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

/// How a mesh is set up at its broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Aggregators create missing streams.
    pub creates_streams: bool,
    /// Partitions that the broker divides the nodes into, at most `limits::wire::PARTITIONS_MAX`;
    /// 0 for a mesh without.
    pub partitions: u16,
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
    /// What `user` needs. An aggregator of a mesh with partitions reads one of them and publishes
    /// roll-ups in the mesh above; without a name for that mesh it may not.
    #[must_use]
    pub fn of(mesh: &MeshName, user: BrokerUser<'_>, layout: Layout) -> Self {
        let inbox = format!("{}.>", inbox_prefix(mesh, user));
        let mut permissions = match user {
            BrokerUser::Node(node) => of_node(mesh, node, layout),
            BrokerUser::Aggregator => of_aggregator(mesh, layout),
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
    pub fn of_leaf<'a>(
        mesh: &MeshName,
        nodes: impl IntoIterator<Item = &'a NodeName>,
        layout: Layout,
    ) -> Self {
        let mut all = Self::default();
        for node in nodes {
            let Self { publish, mut subscribe } = of_node(mesh, node, layout);
            all.publish.extend(publish);
            subscribe.push(format!("{}.>", inbox_prefix(mesh, BrokerUser::Node(node))));
            all.subscribe.append(&mut subscribe);
        }
        all
    }
}

fn of_node(mesh: &MeshName, node: &NodeName, layout: Layout) -> Permissions {
    let node_token = node.token();
    let lane = |lane: Lane| format!("{PREFIX}.{mesh}.{}.{node_token}.*", lane.as_str());
    let lanes = Lane::ALL.map(lane);
    // The broker checks the subject that a message is mapped to: DESIGN S80.
    let mapped = Lane::ALL.into_iter().filter(|_| layout.partitions > 0).map(|lane| {
        let lane = partitions_filter(mesh, lane);
        lane.replace('>', &format!("{node_token}.*"))
    });
    let others = [dead_subject(mesh, node), answer_subject(mesh, node, "*")];
    Permissions {
        publish: lanes.into_iter().chain(mapped).chain(others).collect(),
        subscribe: vec![
            confirm_subject(mesh, node),
            ask_subject(mesh, node),
            capture_subject(mesh, node),
        ],
    }
}

fn of_aggregator(mesh: &MeshName, layout: Layout) -> Permissions {
    let Layout { creates_streams, partitions } = layout;
    let every = |kind: &str| format!("{PREFIX}.{mesh}.{kind}.*");
    let silences = silences_subject(mesh);
    let mut publish = vec![
        alert_filter(mesh),
        every("confirm"),
        every("ask"),
        every("capture"),
        silences.clone(),
    ];
    let lanes = lane_streams(mesh, partitions);

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

    let lanes = Lane::ALL.map(|lane| match partitions {
        0 => lane_filter(mesh, lane, None),
        _ => partitions_filter(mesh, lane),
    });

    let answers = format!("{PREFIX}.{mesh}.answer.*.*");
    let mut subscribe: Vec<_> = lanes.into_iter().chain([answers, silences]).collect();

    if partitions > 0 {
        let leases = lease_bucket(mesh);
        publish.push(bucket_subject(&leases, '*'));
        publish.extend(of_stream(&bucket_stream(&leases), creates_streams));
    }

    if partitions > 0
        && let Ok(above) = above(mesh)
    {
        // A wildcard stands for a whole token: for every publisher, not for `shard-*`.
        publish.push(format!(
            "{PREFIX}.{above}.{}.*.{}",
            Lane::Normal.as_str(),
            SnapshotKind::Shard.as_str()
        ));

        let stream = lane_stream(&above, Lane::Normal, None);
        publish.extend(of_stream(&stream, creates_streams));
        subscribe.push(format!("{PREFIX}.{above}.confirm.*"));
    }

    Permissions { publish, subscribe }
}

/// The streams of the lanes of a mesh, or of all its partitions.
fn lane_streams(mesh: &MeshName, partitions: u16) -> Vec<String> {
    let of = |partition| Lane::ALL.map(|lane| lane_stream(mesh, lane, partition));
    match partitions {
        0 => of(None).to_vec(),
        _ => Partition::first(partitions).flat_map(|partition| of(Some(partition))).collect(),
    }
}

/// Looking at a stream and its messages, and creating it.
fn of_stream(stream: &str, creates_streams: bool) -> impl Iterator<Item = String> {
    let creates = creates_streams.then_some("CREATE");
    let requests = ["INFO", "MSG.GET"].into_iter().chain(creates);
    requests.map(move |request| format!("$JS.API.STREAM.{request}.{stream}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { creates_streams: true, partitions: 0 };

    #[test]
    fn a_node_is_permitted_its_own_subjects_alone() {
        let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n1").unwrap());
        let Permissions { publish, subscribe } =
            Permissions::of(&mesh, BrokerUser::Node(&node), LAYOUT);
        let expected = [
            "plimsoll.v1.m.emergency.n1.*",
            "plimsoll.v1.m.normal.n1.*",
            "plimsoll.v1.m.dead.n1",
            "plimsoll.v1.m.answer.n1.*",
            "_INBOX.m.node.n1.>",
        ];
        assert_eq!(publish, expected);
        let expected = [
            "plimsoll.v1.m.confirm.n1",
            "plimsoll.v1.m.ask.n1",
            "plimsoll.v1.m.capture.n1",
            "_INBOX.m.node.n1.>",
        ];
        assert_eq!(subscribe, expected);
    }

    #[test]
    fn a_leaf_node_may_send_and_receive_what_its_nodes_may_and_no_more() {
        let mesh = MeshName::new("m").unwrap();
        let nodes = ["n1", "n2"].map(|name| NodeName::new(name).unwrap());
        let leaf = Permissions::of_leaf(&mesh, &nodes, LAYOUT);
        for node in &nodes {
            let Permissions { publish, subscribe } =
                Permissions::of(&mesh, BrokerUser::Node(node), LAYOUT);
            let inbox = format!("_INBOX.m.node.{node}.>");
            let sent = publish.iter().filter(|subject| **subject != inbox);
            assert!(sent.clone().all(|subject| leaf.publish.contains(subject)), "{leaf:?}");
            assert!(subscribe.iter().all(|subject| leaf.subscribe.contains(subject)));
        }
        assert_eq!((leaf.publish.len(), leaf.subscribe.len()), (8, 8));
        assert!(!leaf.publish.iter().any(|subject| subject.starts_with("$JS")));
    }

    #[test]
    fn partitions_let_nodes_publish_where_the_broker_maps_them_and_aggregators_read_there() {
        let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n1").unwrap());
        let of = |user, creates_streams, partitions| {
            Permissions::of(&mesh, user, Layout { creates_streams, partitions })
        };
        let user = BrokerUser::Node(&node);
        let mapped = of(user, true, 4).publish;
        assert!(mapped.contains(&"plimsoll.v1.m.part.*.normal.n1.*".to_owned()), "{mapped:?}");
        let former = of(user, true, 0);
        assert!(former.publish.iter().all(|subject| mapped.contains(subject)));
        assert_eq!(
            (former.publish.len() + 2, former.subscribe),
            (mapped.len(), of(user, true, 4).subscribe)
        );
        let Permissions { publish, subscribe } = of(BrokerUser::Aggregator, true, 4);
        for subject in [
            "$JS.API.CONSUMER.CREATE.PLIMSOLL_m_part=3_normal",
            "$JS.API.STREAM.CREATE.PLIMSOLL_m_part=0_emergency",
            "$KV.plimsoll_m_leases.*",
            "$JS.API.STREAM.CREATE.KV_plimsoll_m_leases",
            "$JS.API.STREAM.MSG.GET.KV_plimsoll_m_leases",
            "plimsoll.v1.m-all.normal.*.shard",
            "$JS.API.STREAM.MSG.GET.PLIMSOLL_m-all_normal",
        ] {
            assert!(publish.contains(&subject.to_owned()), "{subject}: {publish:?}");
        }
        let has = |subject: &str| publish.iter().any(|permitted| permitted.contains(subject));
        assert!(!has("part=4") && !has("PLIMSOLL_m_normal"), "{publish:?}");
        assert!(subscribe.contains(&"plimsoll.v1.m-all.confirm.*".to_owned()));
        assert!(subscribe.contains(&"plimsoll.v1.m.part.*.normal.>".to_owned()));
        let creates = |subject: &&String| subject.contains("STREAM.CREATE");
        let managed = of(BrokerUser::Aggregator, false, 4).publish;
        assert_eq!(managed.iter().filter(creates).count(), 0, "{managed:?}");
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
            let layout = Layout { creates_streams: creates, partitions: 0 };
            let publish = Permissions::of(&mesh, BrokerUser::Aggregator, layout).publish;
            publish.iter().filter(|subject| subject.contains("CREATE.PLIMSOLL_m_")).count()
        };
        assert_eq!((creates(true), creates(false)), (6, 2));
    }
}
