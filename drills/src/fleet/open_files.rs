//! Whether this process may open as many connections as a run needs.

use anyhow::{Context, Result, bail};

use super::limits::OTHER_FILES_MAX;

/// Checks the limit of open files, which the broker inherits.
///
/// # Errors
/// When it is too low; the text has the command that raises it.
pub fn check(connections: u32) -> Result<()> {
    let limits = std::fs::read_to_string("/proc/self/limits").context("/proc/self/limits")?;
    check_limit(connections, soft_limit(&limits).context("/proc/self/limits names no limit")?)
}

fn check_limit(connections: u32, limit: u64) -> Result<()> {
    let needed = u64::from(connections) + OTHER_FILES_MAX;
    if limit < needed {
        bail!(
            "{connections} connections need {needed} open files, and the limit is {limit}; raise it \
             with `ulimit -n {needed}`"
        );
    }
    Ok(())
}

/// The soft limit, which is what the kernel enforces.
fn soft_limit(limits: &str) -> Option<u64> {
    let row = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match row.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        limit => limit.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_read_as_the_kernel_writes_it() {
        let row = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  524288  files\n";
        assert_eq!(soft_limit(row), Some(1_024));
        assert_eq!(soft_limit("Max open files unlimited unlimited files"), Some(u64::MAX));
        assert_eq!(soft_limit("Max processes 1 1 processes"), None);
        assert!(check(1).is_ok());
    }

    #[test]
    fn too_low_a_limit_is_refused_with_the_command_that_raises_it() {
        assert!(check_limit(768, 1_024).is_ok());
        let refused = check_limit(769, 1_024).unwrap_err().to_string();
        assert!(
            refused.contains("limit is 1024") && refused.contains("ulimit -n 1025"),
            "{refused}"
        );
    }
}
