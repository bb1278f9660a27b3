//! The user as whom settings are checked: `--check-config --as-user`.
//!
//! Root may read every file, so a check by root does not find the key that the service's user may
//! not read, and the start fails later. Here the system answers for the other user: modes are not
//! computed.

use std::ffi::CString;

use nix::unistd::{Group, User, geteuid, initgroups, setgid, setuid};

/// Makes this process one of `USER` or `USER:GROUP` for the rest of its life, with the groups that
/// systemd gives a unit with these two.
///
/// # Errors
/// When there is no such user or group, or this process is not root's. The text names the flag.
pub fn change_to(text: &str) -> Result<(), String> {
    let named = text.split_once(':');
    let (name, group) = named.map_or((text, None), |(name, group)| (name, Some(group)));
    let absent = |what: &str, name: &str| format!("--as-user {text}: no {what} is called {name:?}");
    let user = User::from_name(name).ok().flatten().ok_or_else(|| absent("user", name))?;

    let gid = match group {
        None => user.gid,
        Some(name) => {
            let group = Group::from_name(name).ok().flatten();
            group.ok_or_else(|| absent("group", name))?.gid
        }
    };

    let c_name = CString::new(name).map_err(|_| absent("user", name))?;
    // Groups first: a process that is no longer root's may not change them.
    let changed =
        initgroups(&c_name, gid).and_then(|()| setgid(gid)).and_then(|()| setuid(user.uid));
    changed
        .map_err(|error| format!("--as-user {text}: only root may check as another user: {error}"))
}

/// Whether this process may read every file.
pub fn is_root() -> bool {
    geteuid().is_root()
}
