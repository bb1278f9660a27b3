//! `plimsoll nats-config`: the users of a mesh for nats-server's configuration, each with a key and
//! the permissions that it needs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use nkeys::KeyPair;
use plimsoll_bus::read_secret;
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::stdout::print_line;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::limits::wire::PARTITIONS_MAX;
use plimsoll_schemas::permissions::{BrokerUser, Layout, Permissions};
use plimsoll_schemas::subject::{Lane, PREFIX, above, partition_mapping};

/// Bytes of a list of names: 100 000 names of the maximum length.
const NAMES_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Generate nats-server users and keys for a mesh
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll nats-config --keys ./keys n1 n2 n3 > users.conf
  plimsoll nats-config --keys ./keys --nodes-from nodes.txt --mesh lab > users.conf
  plimsoll nats-config --keys ./keys n1 n2 --leaf west=west.txt > users.conf
  plimsoll nats-config --keys ./keys --nodes-from nodes.txt --partitions 4 > users.conf

Include the output in nats-server's configuration (include \"users.conf\"), reload it, and give each
process its seed: bus.nkey_seed_file = \"/etc/plimsoll/node.nk\". Seeds that exist in the folder are
reused, so the command can be repeated when nodes are added; then reload nats-server with
`nats-server --signal reload`. deploy/nats has a configuration with TLS that includes the output.")]
pub struct NatsConfigArgs {
    /// Names of nodes
    nodes: Vec<NodeName>,
    /// Read more names of nodes from this file, one per line; - reads standard input
    #[arg(long, value_name = "FILE")]
    nodes_from: Option<PathBuf>,
    /// Folder of the seeds: aggregator.nk, operator.nk and node-NAME.nk; missing ones are created
    #[arg(long, value_name = "DIR")]
    keys: PathBuf,
    /// Name of the mesh
    #[arg(long, default_value_t = plimsoll_aggregator::config::Config::default().mesh)]
    mesh: MeshName,
    /// One user for the leaf node of a site, with the permissions of all nodes in this file.
    /// Its password is in leaf-NAME.nk
    #[arg(long, value_name = "NAME=FILE", value_parser = leaf)]
    leaf: Vec<(NodeName, PathBuf)>,
    /// The operator creates the streams (bus.streams = "managed"): the aggregator may not
    #[arg(long)]
    managed_streams: bool,
    /// Divide the nodes into N partitions, each read by its own aggregator; also prints the mapping
    /// of subjects, and a user for the aggregators above them
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(PARTITIONS_MAX)))]
    partitions: Option<u16>,
}

/// Makes missing keys and prints the users.
///
/// # Errors
/// When names or seeds cannot be read, or seeds not be written.
pub fn nats_config(args: &NatsConfigArgs) -> Result<Exit> {
    let mut nodes: BTreeSet<NodeName> = args.nodes.iter().cloned().collect();
    if let Some(path) = &args.nodes_from {
        nodes.extend(names(path)?);
    }
    if nodes.is_empty() && args.leaf.is_empty() {
        bail!("name at least one node, or give --nodes-from FILE");
    }

    let made = DirBuilder::new().recursive(true).mode(0o700).create(&args.keys);
    made.with_context(|| format!("--keys {}", args.keys.display()))?;

    let mut text = format!(
        "# Users of the mesh {}, each with the permissions it needs, from `plimsoll \
         nats-config`.\nauthorization {{\n  users = [\n",
        args.mesh
    );

    let layout = Layout {
        creates_streams: !args.managed_streams,
        partitions: args.partitions.unwrap_or_default(),
    };

    let others = [BrokerUser::Aggregator, BrokerUser::Operator];
    for user in others.into_iter().chain(nodes.iter().map(BrokerUser::Node)) {
        let name = match user {
            BrokerUser::Node(node) => format!("node-{node}"),
            BrokerUser::Aggregator => "aggregator".to_owned(),
            BrokerUser::Operator => "operator".to_owned(),
        };

        let key = public_key(&args.keys.join(format!("{name}.nk")))?;
        let mut permissions = Permissions::of(&args.mesh, user, layout);
        if args.partitions.is_some() && user == BrokerUser::Operator {
            // Alerts of the whole fleet are published in the mesh
            // above the partitions, which an operator reads too.
            permissions.subscribe.push(format!("{PREFIX}.{}.>", above(&args.mesh)?));
        }
        write_user(&mut text, &name, &format!("nkey: {key}"), &permissions)?;
    }

    if args.partitions.is_some() {
        let mesh = above(&args.mesh).context("the mesh above the partitions")?;
        let name = "aggregator-above";
        let key = public_key(&args.keys.join(format!("{name}.nk")))?;
        // It reads roll-ups of all partitions as one stream, and its own mesh has none.
        let layout = Layout { partitions: 0, ..layout };
        let permissions = Permissions::of(&mesh, BrokerUser::Aggregator, layout);
        write_user(&mut text, name, &format!("nkey: {key}"), &permissions)?;
    }

    for (site, path) in &args.leaf {
        let name = format!("leaf-{site}");
        let key = key_pair(&args.keys.join(format!("{name}.nk")))?;
        let password = key.seed()?;
        let served = names(path)?;
        let permissions = Permissions::of_leaf(&args.mesh, &served, layout);
        let identity = format!("user: {name:?}, password: {password:?}");
        write_user(&mut text, &name, &identity, &permissions)?;
    }

    text.push_str("  ]\n}");

    if let Some(partitions) = args.partitions {
        text.push('\n');
        text.push_str(&mappings(&args.mesh, partitions));
    }

    print_line(text);
    Ok(Exit::Success)
}

/// The mapping that gives each node a partition by its name.
fn mappings(mesh: &MeshName, partitions: u16) -> String {
    let mapped = Lane::ALL.map(|lane| {
        let (published, stored) = partition_mapping(mesh, lane, partitions);
        format!("  {published:?}: {stored:?}\n")
    });
    format!("mappings {{\n{}}}", mapped.concat())
}

fn write_user(
    text: &mut String,
    name: &str,
    identity: &str,
    Permissions { publish, subscribe }: &Permissions,
) -> Result<()> {
    let (publish, subscribe) = (quoted(publish), quoted(subscribe));
    write!(
        text,
        "    # {name}\n    {{ {identity}, permissions: {{\n      publish: [{publish}]\n      \
         subscribe: [{subscribe}]\n    }} }}\n"
    )?;
    Ok(())
}

/// A site and the file with the names of its nodes.
fn leaf(text: &str) -> Result<(NodeName, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=FILE")?;
    Ok((NodeName::new(name).map_err(|error| error.to_string())?, path.into()))
}

/// Names of a file, one per line; empty lines and those that start with # are skipped.
fn names(path: &Path) -> Result<Vec<NodeName>> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().take(NAMES_BYTES_MAX).read_to_string(&mut text),
        false => std::fs::File::open(path)
            .and_then(|file| file.take(NAMES_BYTES_MAX).read_to_string(&mut text)),
    };

    read.with_context(|| format!("--nodes-from {}", path.display()))?;
    let lines = text.lines().map(str::trim).enumerate();

    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(at, line)| {
            NodeName::new(line).with_context(|| format!("{}, line {}", path.display(), at + 1))
        })
        .collect()
}

/// The public key of the seed in `path`, which is made if there is none.
fn public_key(path: &Path) -> Result<String> {
    Ok(key_pair(path)?.public_key())
}

fn key_pair(path: &Path) -> Result<KeyPair> {
    let place = || path.display().to_string();
    let fresh = KeyPair::new_user();
    // Never over a seed that exists: the process that has
    // it would be locked out with the next reload.
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);

    match created {
        Ok(mut file) => {
            let seed = fresh.seed().with_context(place)?;
            file.write_all(format!("{seed}\n").as_bytes()).with_context(place)?;
            Ok(fresh)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let seed = read_secret(path).with_context(place)?;
            KeyPair::from_seed(&seed).with_context(place)
        }
        Err(error) => Err(error).with_context(place),
    }
}

fn quoted(subjects: &[String]) -> String {
    let quoted: Vec<String> = subjects.iter().map(|subject| format!("{subject:?}")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_node_is_a_user_with_what_its_nodes_need_and_a_password_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (mesh, served) = (MeshName::new("m").unwrap(), NodeName::new("n1").unwrap());
        let (name, path) = leaf("west=west.txt").unwrap();
        assert_eq!((name.as_str(), path.as_path()), ("west", Path::new("west.txt")));
        assert!(leaf("west").is_err() && leaf("we.st.>=x").is_err());
        let password = key_pair(&dir.path().join("leaf-west.nk")).unwrap().seed().unwrap();
        let mut text = String::new();
        let permissions = Permissions::of_leaf(&mesh, [&served], Layout::default());
        let identity = format!("user: \"leaf-west\", password: {password:?}");
        write_user(&mut text, "leaf-west", &identity, &permissions).unwrap();
        assert!(text.contains("\"plimsoll.v1.m.normal.n1.*\""), "{text}");
        assert!(text.contains("\"_INBOX.m.node.n1.>\"") && !text.contains("$JS"), "{text}");
    }

    #[test]
    fn partitions_are_a_mapping_of_both_lanes() {
        let mesh = MeshName::new("m").unwrap();
        let expected = r#"mappings {
  "plimsoll.v1.m.emergency.*.*": "plimsoll.v1.m.part.{{partition(4,1)}}.emergency.{{wildcard(1)}}.{{wildcard(2)}}"
  "plimsoll.v1.m.normal.*.*": "plimsoll.v1.m.part.{{partition(4,1)}}.normal.{{wildcard(1)}}.{{wildcard(2)}}"
}"#;
        assert_eq!(mappings(&mesh, 4), expected);
    }

    #[test]
    fn a_list_of_names_may_have_blanks_and_notes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nodes");
        std::fs::write(&path, "n1\n\n# the second rack\n  n2  \n").unwrap();
        let names = names(&path).unwrap();
        assert_eq!(names.iter().map(NodeName::as_str).collect::<Vec<_>>(), ["n1", "n2"]);
        std::fs::write(&path, "n1\nn 2\n").unwrap();
        let error = format!("{:#}", super::names(&path).unwrap_err());
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_seed_is_made_once_and_only_its_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node-n1.nk");
        let first = public_key(&path).unwrap();
        assert_eq!(public_key(&path).unwrap(), first);
        assert!(first.starts_with('U'));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "no seed").unwrap();
        let error = format!("{:#}", public_key(&path).unwrap_err());
        assert!(error.contains("node-n1.nk") && !error.contains("no seed"), "{error}");
    }
}
