//! Checks of this machine: sockets, drops of the kernel, buffers, disks, files with secrets.

use plimsoll_node::limits::SOCKET_RECEIVE_BYTES;
use plimsoll_schemas::figure::{bytes, counted};

use super::super::finding::{DoctorReport, Finding};
use super::super::limits::{DISK_FREE_MIN, DISK_FREE_SHARE};
use super::super::machine::{
    CaptureFacts, DiskFacts, MachineFacts, Room, SecretFacts, SocketFacts, SocketState, UdpFacts,
};

pub(in super::super) fn check(facts: &MachineFacts, report: &mut DoctorReport) {
    report.add("sockets", each(&facts.sockets, socket));
    let rmem_max = facts.rmem_max.as_ref().copied();
    report.add("kernel_drops", facts.udp.as_ref().map(udp).map_err(Clone::clone));
    report.add("rmem_max", rmem_max.map(buffers).map_err(Clone::clone));
    report.add("disk", each(&facts.disks, disk));
    report.add("secrets", each(&facts.secrets, secret));
    report.add("captures", facts.captures.as_ref().map(captures).map_err(Clone::clone));
}

/// What keeps the node from carrying out orders although they are enabled.
fn captures(facts: &CaptureFacts) -> Vec<Finding> {
    let refused = |why, fix| {
        let what = format!("all orders are refused: {why}");
        Finding::error("captures.enabled of the node", what, fix)
    };
    let key = "set confirm.key_file to the aggregators' key";
    let credentials = "give the node credentials: plimsoll nats-config";
    let findings = [
        (!facts.has_key).then(|| refused("the node has no key to verify them with", key)),
        (!facts.is_identified)
            .then(|| refused("any client of the broker could send some", credentials)),
        facts.absent.as_ref().map(|reason| {
            let what = format!("nothing listens on captures.socket: {reason}");
            let fix = "systemctl enable --now plimsoll-profiler.socket, or PLIMSOLL_CAPTURES=1 \
                       in the jobs";
            Finding::error(&facts.socket.display().to_string(), what, fix)
        }),
    ];
    findings.into_iter().flatten().collect()
}

fn each<T>(
    facts: &Result<Vec<T>, String>,
    check: impl Fn(&T) -> Option<Finding>,
) -> Result<Vec<Finding>, String> {
    match facts {
        Ok(facts) if facts.is_empty() => Err("nothing of this kind in the settings".to_owned()),
        Ok(facts) => Ok(facts.iter().filter_map(check).collect()),
        Err(reason) => Err(reason.clone()),
    }
}

fn socket(SocketFacts { key, path, wanted_mode, state }: &SocketFacts) -> Option<Finding> {
    let place = path.display().to_string();
    let error = |what: String, fix: &str| Some(Finding::error(&place, what, fix));
    let warning = |what: String, fix: &str| Some(Finding::warning(&place, what, fix));

    match state {
        SocketState::Missing(reason) => error(
            format!("{key} does not exist: {reason}"),
            "start plimsoll-node, or correct the key",
        ),
        SocketState::NoSocket => {
            error(format!("{key} is not a socket"), "remove the file, or set another path")
        }
        SocketState::Socket { refused: Some(reason), .. } => {
            error(format!("nothing listens on {key}: {reason}"), "start plimsoll-node")
        }
        SocketState::Socket { mode, .. } if mode & !wanted_mode != 0 => warning(
            format!("{key} has mode {mode:04o}; listen.mode is {wanted_mode:04o}"),
            &format!("chmod {wanted_mode:04o} {place}"),
        ),
        // Anyone may then put another socket in its place.
        SocketState::Socket { directory_mode, .. } if directory_mode & 0o1002 == 0o002 => warning(
            format!("every user may write to the directory of {key} ({directory_mode:04o})"),
            &format!("chmod o-w {}", path.parent().unwrap_or(path).display()),
        ),
        // Another user put it there, so it is not of the node that this directory is for.
        SocketState::Socket { owner, directory_owner, .. }
            if owner != directory_owner && *directory_owner != 0 && *owner != 0 =>
        {
            warning(
                format!("{key} is owned by user {owner}, its directory by {directory_owner}"),
                "run one node per socket, as the user who owns the directory",
            )
        }
        SocketState::Socket { .. } => None,
    }
}

fn udp(UdpFacts { of_port, buffer_errors }: &UdpFacts) -> Vec<Finding> {
    let fix = format!(
        "sysctl -w net.core.rmem_max={SOCKET_RECEIVE_BYTES} and restart the node; or use \
         listen.unix, where senders wait"
    );

    match of_port {
        Some((port, Some(drops))) if *drops > 0 => {
            let what = format!("the kernel dropped {} of the node", counted(*drops, "datagram"));
            vec![Finding::error(&format!("UDP port {port}"), what, &fix)]
        }
        Some((port, None)) => {
            let what = "nothing listens on listen.udp".to_owned();
            let fix = "start plimsoll-node, or correct listen.udp";
            vec![Finding::error(&format!("UDP port {port}"), what, fix)]
        }
        Some((_, Some(_))) => Vec::new(),
        // The kernel does not count them by program.
        None if *buffer_errors > 0 => {
            let drops = counted(*buffer_errors, "datagram");
            let what = format!("the kernel dropped {drops} of some program");
            vec![Finding::warning("/proc/net/snmp", what, &fix)]
        }
        None => Vec::new(),
    }
}

fn buffers(rmem_max: u64) -> Vec<Finding> {
    if rmem_max >= SOCKET_RECEIVE_BYTES as u64 {
        return Vec::new();
    }
    let what = format!(
        "receive buffers are limited to {rmem_max} bytes; a node that is not root asks for \
         {SOCKET_RECEIVE_BYTES}"
    );
    let fix = format!(
        "sysctl -w net.core.rmem_max={SOCKET_RECEIVE_BYTES}, and the same line in /etc/sysctl.d"
    );
    vec![Finding::warning("net.core.rmem_max", what, &fix)]
}

#[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
fn disk(DiskFacts { key, path, room }: &DiskFacts) -> Option<Finding> {
    let place = path.display().to_string();
    let Room { free, total } = match room {
        Ok(room) => *room,
        Err(reason) => {
            let what = format!("the disk of {key} cannot be read: {reason}");
            return Some(Finding::warning(&place, what, "check that it is mounted"));
        }
    };

    let (left, all) = (bytes(free as f64), bytes(total as f64));
    let what = format!("{left} of {all} free for {key}");
    let fix = format!("free some space, or set {key} to a larger disk");
    // Bytes decide the error: the files of a mesh need some room whatever the size of the disk.
    if free < DISK_FREE_MIN {
        return Some(Finding::error(&place, what, &fix));
    }
    let is_low = (free as f64) < DISK_FREE_SHARE * total as f64;
    is_low.then(|| Finding::warning(&place, what, &fix))
}

fn secret(facts: &SecretFacts) -> Option<Finding> {
    let SecretFacts { key, path, mode, has_group_of_jobs } = facts;
    let place = path.display().to_string();
    // The packages make the aggregator's token for its group, whose members operate it.
    let wrong_bits = if *has_group_of_jobs { 0o077 } else { 0o037 };

    match mode {
        Ok(mode) if mode & wrong_bits != 0 => {
            let what = format!("other users may read {key} (mode {mode:04o})");
            Some(Finding::warning(&place, what, &format!("chmod 600 {place}")))
        }
        Ok(_) => None,
        Err(reason) => {
            let what = format!("{key} cannot be read: {reason}");
            Some(Finding::error(&place, what, "correct the path, or its owner"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    const MIB: u64 = 1024 * 1024;

    fn of_socket(state: SocketState) -> Option<(Severity, String, String)> {
        let path = "/run/p/s".into();
        let facts = SocketFacts { key: "listen.unix", path, wanted_mode: 0o660, state };
        socket(&facts).map(|found| (found.severity, found.what, found.fix))
    }

    fn listening(mode: u32, owner: u32, directory_mode: u32, refused: Option<&str>) -> SocketState {
        let refused = refused.map(str::to_owned);
        SocketState::Socket { mode, owner, directory_mode, directory_owner: 7, refused }
    }

    #[test]
    fn a_socket_is_judged_by_mode_owner_directory_and_listener() {
        for (state, expected) in [
            (listening(0o660, 7, 0o755, None), None),
            (listening(0o660, 0, 0o1777, None), None),
            (listening(0o777, 7, 0o755, None), Some("mode 0777; listen.mode is 0660")),
            (listening(0o660, 7, 0o777, None), Some("every user may write to the directory")),
            (listening(0o660, 8, 0o755, None), Some("owned by user 8, its directory by 7")),
            (listening(0o660, 7, 0o755, Some("refused")), Some("nothing listens on listen.unix")),
            (SocketState::NoSocket, Some("is not a socket")),
            (SocketState::Missing("No such file".to_owned()), Some("does not exist: No such file")),
        ] {
            let found = of_socket(state);
            match expected {
                None => assert_eq!(found, None),
                Some(part) => assert!(found.as_ref().unwrap().1.contains(part), "{found:?}"),
            }
        }
        assert_eq!(of_socket(listening(0o777, 7, 0o755, None)).unwrap().2, "chmod 0660 /run/p/s");
    }

    #[test]
    fn drops_of_the_node_are_an_error_and_those_of_others_a_warning() {
        let of = |of_port, buffer_errors| {
            let found = udp(&UdpFacts { of_port, buffer_errors });
            found.into_iter().map(|of| (of.severity, of.what)).next()
        };
        let dropped = "the kernel dropped 17 datagrams of the node".to_owned();
        assert_eq!(of(Some((8125, Some(17))), 20), Some((Severity::Error, dropped)));
        assert_eq!(of(Some((8125, Some(0))), 20), None);
        assert_eq!(of(Some((8125, None)), 0).unwrap().1, "nothing listens on listen.udp");
        assert_eq!(of(None, 20).unwrap().0, Severity::Warning);
        assert_eq!(of(None, 0), None);
    }

    #[test]
    fn what_keeps_orders_of_captures_from_being_carried_out_is_named() {
        let of = |absent: Option<&str>, has_key, is_identified| {
            let (socket, absent) = ("/run/p/s".into(), absent.map(str::to_owned));
            captures(&CaptureFacts { socket, absent, has_key, is_identified })
        };
        assert_eq!(of(None, true, true), []);
        let found = of(Some("No such file"), false, false);
        let fixes: Vec<&str> = found.iter().map(|finding| &*finding.fix).collect();
        assert_eq!(
            fixes,
            [
                "set confirm.key_file to the aggregators' key",
                "give the node credentials: plimsoll nats-config",
                "systemctl enable --now plimsoll-profiler.socket, or PLIMSOLL_CAPTURES=1 in the jobs",
            ]
        );
    }

    #[test]
    fn a_small_receive_buffer_has_the_command_that_enlarges_it() {
        assert_eq!(buffers(4 * 1024 * 1024), []);
        let found = buffers(212_992);
        assert!(found[0].fix.starts_with("sysctl -w net.core.rmem_max=4194304"), "{found:?}");
    }

    #[test]
    fn a_disk_is_judged_by_bytes_and_by_share() {
        let of = |free, total| {
            let room = Ok(Room { free, total });
            disk(&DiskFacts { key: "spool.path", path: "/s".into(), room }).map(|of| of.severity)
        };
        assert_eq!(of(500 * MIB, 1_000 * MIB), None);
        assert_eq!(of(99 * MIB, 1_000 * MIB), Some(Severity::Warning));
        assert_eq!(of(63 * MIB, 100 * MIB), Some(Severity::Error));
        let room = Err("no such device".to_owned());
        let unknown = disk(&DiskFacts { key: "spool.path", path: "/s".into(), room });
        assert!(unknown.unwrap().what.contains("no such device"));
    }

    #[test]
    fn a_secret_that_others_may_read_is_named() {
        let of = |has_group_of_jobs, mode| {
            let (key, path) = ("http.token_file".to_owned(), "/t".into());
            secret(&SecretFacts { key, path, mode, has_group_of_jobs }).map(|found| found.fix)
        };
        for (has_group_of_jobs, mode, is_wrong) in [
            (true, 0o600, false),
            (true, 0o640, true),
            (false, 0o640, false),
            (false, 0o660, true),
            (false, 0o644, true),
        ] {
            let fix = is_wrong.then(|| "chmod 600 /t".to_owned());
            assert_eq!(of(has_group_of_jobs, Ok(mode)), fix, "{mode:o}");
        }
        let denied = of(false, Err("denied".into()));
        assert_eq!(denied.as_deref(), Some("correct the path, or its owner"));
    }

    #[test]
    fn what_settings_do_not_name_is_skipped() {
        let none: Result<Vec<DiskFacts>, String> = Ok(Vec::new());
        assert_eq!(each(&none, disk), Err("nothing of this kind in the settings".to_owned()));
    }
}
