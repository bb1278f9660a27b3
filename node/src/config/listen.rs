//! The `[listen]` section: sockets for samples, and who may send to them.
//!
//! DESIGN N71.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Group, User};
use serde::{Deserialize, Deserializer};

use super::section::{few, section};
use crate::limits::{LISTEN_USERS_MAX, SOCKET_PATH_BYTES_MAX};
use plimsoll_runtime::directory;
use plimsoll_runtime::optional::{address_or_none, path_or_none};

/// Owner and group may send.
const DEFAULT_MODE: u32 = 0o660;

section! {
    pub struct Listen {
        #[serde(deserialize_with = "address_or_none")]
        pub udp: Option<SocketAddr> = Some(SocketAddr::from(([127, 0, 0, 1], 8125))),
        #[serde(deserialize_with = "path_or_none")]
        pub unix: Option<PathBuf> = None,
        #[serde(deserialize_with = "path_or_none")]
        pub stream: Option<PathBuf> = None,
        #[serde(deserialize_with = "mode")]
        pub mode: u32 = DEFAULT_MODE,
        pub group: String = String::new(),
        pub users: Vec<String> = Vec::new(),
    }
}

/// Who may send over Unix sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketAccess {
    /// Mode of their files.
    pub mode: u32,
    /// Group of their files; `None` leaves that of the process.
    pub group: Option<u32>,
    /// The users who may send; `None` means all whom the mode admits.
    pub users: Option<BTreeSet<u32>>,
}

impl Default for SocketAccess {
    fn default() -> Self {
        Self { mode: DEFAULT_MODE, group: None, users: None }
    }
}

impl SocketAccess {
    pub fn admits(&self, user: u32) -> bool {
        self.users.as_ref().is_none_or(|users| users.contains(&user))
    }
}

impl Listen {
    pub fn access(&self) -> Result<SocketAccess, String> {
        let group = (!self.group.is_empty()).then(|| group(&self.group)).transpose()?;
        few("listen.users", self.users.len(), LISTEN_USERS_MAX, "users")?;
        let users = self.users.iter().map(|name| user(name)).collect::<Result<BTreeSet<_>, _>>()?;
        let users = (!users.is_empty()).then_some(users);
        Ok(SocketAccess { mode: self.mode, group, users })
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.unix.is_some() && self.unix == self.stream {
            let text = "listen.stream must not be the path of listen.unix; choose another";
            return Err(text.to_owned());
        }

        for (key, path) in [("listen.unix", &self.unix), ("listen.stream", &self.stream)] {
            path.as_deref().map_or(Ok(()), |path| check_socket(key, path))?;
        }
        let SocketAccess { users, .. } = self.access()?;

        match self.addresses().next() {
            Some((key, address)) if users.is_some() => Err(format!(
                "listen.users: any user may send to {key} = \"{address}\", which shows no sender; \
                 set {key} = \"\", or remove the list"
            )),
            _ => Ok(()),
        }
    }

    /// Addresses with their keys. None shows who sends to it.
    pub fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let addresses = [("listen.udp", self.udp)];
        addresses.into_iter().filter_map(|(key, address)| Some((key, address?)))
    }
}

/// What a start would find wrong with the path of a socket, without binding it.
fn check_socket(key: &str, path: &Path) -> Result<(), String> {
    directory::check_parent(key, path)?;
    let shown = path.display();
    let bytes = path.as_os_str().len();

    if bytes > SOCKET_PATH_BYTES_MAX {
        return Err(format!(
            "{key}: {shown} has {bytes} bytes; the path of a socket has at most \
             {SOCKET_PATH_BYTES_MAX}"
        ));
    }

    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            Err(format!("{key}: {shown} exists and is not a socket; name another path"))
        }
        _ => Ok(()),
    }
}

fn group(text: &str) -> Result<u32, String> {
    let named = Group::from_name(text).ok().flatten();
    number("listen.group", "group", text, named.map(|group| group.gid.as_raw()))
}

fn user(text: &str) -> Result<u32, String> {
    let named = User::from_name(text).ok().flatten();
    number("listen.users", "user", text, named.map(|user| user.uid.as_raw()))
}

fn number(key: &str, kind: &str, text: &str, named: Option<u32>) -> Result<u32, String> {
    named.or_else(|| text.parse().ok()).ok_or_else(|| {
        format!("{key}: this machine has no {kind} {text:?}; create it, or write its number")
    })
}

fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| {
        serde::de::Error::custom(format!("{text:?} is not an octal mode such as \"0660\""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_at_which_no_socket_can_be_is_found_before_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("plain"), "").unwrap();
        let _socket = std::os::unix::net::UnixDatagram::bind(at("socket")).unwrap();
        let long = at(&"x".repeat(SOCKET_PATH_BYTES_MAX - dir.path().as_os_str().len() - 1));
        let check = |path: PathBuf| Listen { unix: Some(path), ..Listen::default() }.check();
        assert_eq!((check(at("socket")), check(long.clone())), (Ok(()), Ok(())));
        for (path, text) in [
            (at("plain"), "exists and is not a socket"),
            (dir.path().to_owned(), "exists and is not a socket"),
            (at(&format!("{}y", long.file_name().unwrap().display())), "has 108 bytes"),
            (PathBuf::from("unix:///tmp/x"), "write only the path, as in /tmp"),
        ] {
            let error = check(path).unwrap_err();
            assert!(error.starts_with("listen.unix: ") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn users_and_groups_are_named_or_numbered() {
        let listen = Listen {
            udp: None,
            group: "root".to_owned(),
            users: vec!["root".to_owned(), "12345".to_owned()],
            ..Listen::default()
        };
        let access = listen.access().unwrap();
        assert_eq!((access.mode, access.group), (0o660, Some(0)));
        for (user, is_admitted) in [(0, true), (12_345, true), (7, false)] {
            assert_eq!(access.admits(user), is_admitted, "{user}");
        }
        let any = Listen::default().access().unwrap();
        assert_eq!(any, SocketAccess::default());
        assert!(any.admits(7));
    }
}
