//! Whether this process may open as many connections as a run needs.

use anyhow::{Result, bail};
use rustix::process::{Resource, getrlimit};

use super::limits::OTHER_FILES_MAX;

/// Checks the limit of open files, which the broker inherits.
///
/// # Errors
/// When it is too low; the text has the command that raises it.
pub fn check(connections: u32) -> Result<()> {
    // The soft limit, which is what the kernel enforces.
    check_limit(connections, getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_low_a_limit_is_refused_with_the_command_that_raises_it() {
        assert!(check(1).is_ok());
        assert!(check_limit(768, 1_024).is_ok());
        let refused = check_limit(769, 1_024).unwrap_err().to_string();
        assert!(
            refused.contains("limit is 1024") && refused.contains("ulimit -n 1025"),
            "{refused}"
        );
    }
}
