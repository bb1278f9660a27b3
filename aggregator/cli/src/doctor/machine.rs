//! Facts of this machine: sockets, counters of the kernel, disks, files with secrets.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};

use plimsoll_runtime::settings::{BusSettings, is_identified};

use super::settings::Local;

/// Everything that is read. Each part may be unknown for a reason.
pub(super) struct MachineFacts {
    pub(super) sockets: Result<Vec<SocketFacts>, String>,
    pub(super) udp: Result<UdpFacts, String>,
    pub(super) rmem_max: Result<u64, String>,
    pub(super) disks: Result<Vec<DiskFacts>, String>,
    pub(super) secrets: Result<Vec<SecretFacts>, String>,
    pub(super) captures: Result<CaptureFacts, String>,
}

/// What an order of a capture needs.
pub(super) struct CaptureFacts {
    pub(super) socket: PathBuf,
    /// Why nothing listens there. A user whom the socket does not admit cannot find out.
    pub(super) absent: Option<String>,
    pub(super) has_key: bool,
    pub(super) is_identified: bool,
}

/// A Unix socket that settings name.
pub(super) struct SocketFacts {
    pub(super) key: &'static str,
    pub(super) path: PathBuf,
    /// The mode that the settings give it.
    pub(super) wanted_mode: u32,
    pub(super) state: SocketState,
}

/// What is at a socket's path.
pub(super) enum SocketState {
    /// Nothing, or it cannot be read.
    Missing(String),
    /// Another kind of file.
    NoSocket,
    Socket {
        mode: u32,
        owner: u32,
        directory_mode: u32,
        directory_owner: u32,
        /// Why it cannot be connected to.
        refused: Option<String>,
    },
}

/// What the kernel counts of UDP.
pub(super) struct UdpFacts {
    /// The node's port, and the datagrams that the kernel dropped at its socket.
    pub(super) of_port: Option<(u16, Option<u64>)>,
    /// Datagrams dropped for lack of buffers by any socket of the machine.
    pub(super) buffer_errors: u64,
}

/// A disk that settings name a file on.
pub(super) struct DiskFacts {
    pub(super) key: &'static str,
    pub(super) path: PathBuf,
    pub(super) room: Result<Room, String>,
}

/// The room on a disk, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) free: u64,
    pub(super) total: u64,
}

/// A file with a secret.
pub(super) struct SecretFacts {
    pub(super) key: String,
    pub(super) path: PathBuf,
    /// Its mode, or why it cannot be read.
    pub(super) mode: Result<u32, String>,
    /// Whether the group that may read it can be one of jobs, and not of the process alone.
    pub(super) has_group_of_jobs: bool,
}

pub(super) fn read(local: &Local) -> MachineFacts {
    let port = local.node.as_ref().ok().and_then(|node| Some(node.listen.udp?.port()));
    MachineFacts {
        sockets: sockets(local),
        udp: udp(port),
        rmem_max: text("/proc/sys/net/core/rmem_max").and_then(|text| {
            text.trim().parse().map_err(|_| "rmem_max is not a number".to_owned())
        }),
        disks: disks(local),
        secrets: secrets(local),
        captures: captures(local),
    }
}

fn captures(local: &Local) -> Result<CaptureFacts, String> {
    let config = local.node.as_ref().map_err(Clone::clone)?;
    if !config.captures.enabled {
        return Err("captures.enabled is not set".to_owned());
    }
    let socket = config.captures.socket.clone();
    let connected = UnixStream::connect(&socket).err();
    let absent = connected.filter(|error| error.kind() != io::ErrorKind::PermissionDenied);
    let of_node = local.identities().into_iter().flatten().find(|of| of.node.is_some());
    Ok(CaptureFacts {
        socket,
        absent: absent.map(|error| error.to_string()),
        has_key: config.confirm.key_file.is_some(),
        is_identified: of_node.is_some_and(|identity| is_identified(&identity.bus)),
    })
}

fn text(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

fn sockets(local: &Local) -> Result<Vec<SocketFacts>, String> {
    let listen = &local.node.as_ref().map_err(Clone::clone)?.listen;
    let all = [("listen.unix", &listen.unix), ("listen.stream", &listen.stream)];
    let given = all.into_iter().filter_map(|(key, path)| Some((key, path.clone()?)));
    let facts = given.map(|(key, path)| {
        let state = socket(key, &path);
        SocketFacts { key, path, wanted_mode: listen.mode, state }
    });
    Ok(facts.collect())
}

fn socket(key: &str, path: &Path) -> SocketState {
    let directory = fs::metadata(path.parent().unwrap_or(Path::new(".")));
    // The link is not followed: one in place of the socket is a finding.
    let (file, directory) = match (fs::symlink_metadata(path), directory) {
        (Ok(file), Ok(directory)) => (file, directory),
        (Err(error), _) | (_, Err(error)) => return SocketState::Missing(error.to_string()),
    };

    if !file.file_type().is_socket() {
        return SocketState::NoSocket;
    }

    // Connecting sends nothing.
    let connected = if key == "listen.stream" {
        UnixStream::connect(path).map(drop)
    } else {
        UnixDatagram::unbound().and_then(|socket| socket.connect(path))
    };

    // A user whom the node does not admit learns nothing of who listens.
    let refused = connected.err().filter(|error| error.kind() != io::ErrorKind::PermissionDenied);

    SocketState::Socket {
        mode: file.mode() & 0o7777,
        owner: file.uid(),
        directory_mode: directory.mode() & 0o7777,
        directory_owner: directory.uid(),
        refused: refused.map(|error| error.to_string()),
    }
}

fn udp(port: Option<u16>) -> Result<UdpFacts, String> {
    let snmp = text("/proc/net/snmp")?;
    let buffer_errors = buffer_errors(&snmp).ok_or("/proc/net/snmp has no UDP figures")?;
    let of_port = port.map(|port| {
        // A socket of IPv6 may take both families'
        // datagrams, and is then in the second table alone.
        let tables = ["/proc/net/udp", "/proc/net/udp6"].map(|path| text(path).unwrap_or_default());
        (port, tables.iter().find_map(|table| drops_of(table, port)))
    });
    Ok(UdpFacts { of_port, buffer_errors })
}

/// `RcvbufErrors` of a page such as `/proc/net/snmp`: a line of names, then one of values.
fn buffer_errors(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Udp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|name| name == "RcvbufErrors")?;
    values.split_whitespace().nth(at)?.parse().ok()
}

/// The drops of the sockets at a port in a table such as `/proc/net/udp`; `None` if none listens.
fn drops_of(table: &str, port: u16) -> Option<u64> {
    let of_line = |line: &str| {
        let mut cells = line.split_whitespace();
        let (_, local_port) = cells.nth(1)?.rsplit_once(':')?;
        let is_port = u16::from_str_radix(local_port, 16).ok()? == port;
        is_port.then(|| cells.last()?.parse::<u64>().ok())?
    };
    table.lines().skip(1).filter_map(of_line).reduce(u64::saturating_add)
}

fn disks(local: &Local) -> Result<Vec<DiskFacts>, String> {
    let mut paths: Vec<(&'static str, Option<&PathBuf>)> = Vec::new();
    if let Ok(node) = &local.node {
        paths.push(("spool.path", node.spool.path.as_ref()));
        paths.push(("history.path", node.history.path.as_ref()));
    }

    if let Ok(aggregator) = &local.aggregator {
        paths.push(("state.path", aggregator.state.path.as_ref()));
        paths.push(("history.path", aggregator.history.path.as_ref()));
    }

    if let (Err(node), Err(_)) = (&local.node, &local.aggregator) {
        return Err(node.clone());
    }
    let given = paths.into_iter().filter_map(|(key, path)| Some((key, path?)));
    Ok(given.map(|(key, path)| DiskFacts { key, path: path.clone(), room: room(path) }).collect())
}

/// The room where a file is, or will be: in the nearest directory that exists.
fn room(path: &Path) -> Result<Room, String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    let there = path.ancestors().find(|path| path.exists()).ok_or("no directory exists")?;
    let of = rustix::fs::statvfs(there).map_err(|error| io::Error::from(error).to_string())?;
    let bytes = |blocks: u64| blocks.saturating_mul(of.f_frsize);
    // What is left to a program without privileges: the blocks that are reserved for root are not.
    Ok(Room { free: bytes(of.f_bavail), total: bytes(of.f_blocks) })
}

fn secrets(local: &Local) -> Result<Vec<SecretFacts>, String> {
    let mut paths: Vec<(String, PathBuf)> = Vec::new();
    if let Ok(node) = &local.node {
        paths.extend(of_bus("node", &node.bus));
        let files = [
            ("http.reader_token_file", &node.http.reader_token_file),
            ("http.key_file", &node.http.key_file),
        ];
        paths.extend(named("node", files));
    }

    if let Ok(aggregator) = &local.aggregator {
        paths.extend(of_bus("aggregator", &aggregator.bus));
        let files = [
            ("http.token_file", &aggregator.http.token_file),
            ("http.reader_token_file", &aggregator.http.reader_token_file),
            ("http.key_file", &aggregator.http.key_file),
        ];
        paths.extend(named("aggregator", files));
    }

    if let (Err(node), Err(_)) = (&local.node, &local.aggregator) {
        return Err(node.clone());
    }

    let mode = |path: &Path| {
        let metadata = fs::metadata(path).map_err(|error| error.to_string());
        metadata.map(|file| file.mode() & 0o7777)
    };

    let facts = |(key, path): (String, PathBuf)| {
        // Its unit's group is that of the jobs that may send.
        let has_group_of_jobs = key.ends_with("of the node");
        SecretFacts { key, mode: mode(&path), path, has_group_of_jobs }
    };

    Ok(paths.into_iter().map(facts).collect())
}

fn of_bus(program: &str, bus: &BusSettings) -> impl Iterator<Item = (String, PathBuf)> {
    let files = [
        ("bus.nkey_seed_file", &bus.nkey_seed_file),
        ("bus.credentials_file", &bus.credentials_file),
    ];
    named(program, files)
}

/// The files that are given, with the keys that name them.
fn named<const N: usize>(
    program: &str,
    files: [(&str, &Option<PathBuf>); N],
) -> impl Iterator<Item = (String, PathBuf)> {
    let given = files.into_iter().filter_map(|(key, path)| Some((key, path.clone()?)));
    given.map(move |(key, path)| (format!("{key} of the {program}"), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_those_of_the_nodes_port() {
        let line = |number, local, drops| {
            format!(
                "  {number}: {local} 00000000:0000 07 00000000:00000000 00:00000000 00000000     \
                 0        0 20993 2 0000000000000000 {drops}\n"
            )
        };
        let headings = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
                        retrnsmt   uid  timeout inode ref pointer drops\n";
        let lines = line(366, "0100007F:1FBD", 17) + &line(367, "00000000:1FBE", 0);
        let table = &(headings.to_owned() + &lines);
        assert_eq!(drops_of(table, 8125), Some(17));
        assert_eq!(drops_of(table, 8126), Some(0));
        assert_eq!(drops_of(table, 9999), None);
        assert_eq!(drops_of("", 8125), None);
    }

    #[test]
    fn buffer_errors_are_found_by_their_name() {
        let snmp = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts InErrors RcvbufErrors\n\
                    Udp: 100 2 3 55\nUdpLite: InDatagrams\nUdpLite: 0\n";
        assert_eq!(buffer_errors(snmp), Some(55));
        assert_eq!(buffer_errors("Tcp: A\nTcp: 1\n"), None);
    }

    #[test]
    fn a_socket_a_file_and_nothing_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        assert!(matches!(socket("listen.unix", &path), SocketState::Missing(_)));
        fs::write(&path, "").unwrap();
        assert!(matches!(socket("listen.unix", &path), SocketState::NoSocket));
        fs::remove_file(&path).unwrap();
        let listening = UnixDatagram::bind(&path).unwrap();
        let refused = |state| match state {
            SocketState::Socket { refused, .. } => refused,
            _ => panic!("it is a socket"),
        };
        assert_eq!(refused(socket("listen.unix", &path)), None);
        drop(listening);
        assert!(refused(socket("listen.unix", &path)).unwrap().contains("refused"));
        assert!(room(&dir.path().join("absent/deeper")).unwrap().total > 0);
    }
}
