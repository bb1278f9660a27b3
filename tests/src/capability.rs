//! What the tests may do on this machine, read from the kernel. It is not found out by trying: an
//! attempt that fails for another reason must fail its test.

/// The bit of `CAP_SYS_ADMIN` in the capability sets of `/proc/self/status`.
const SYS_ADMIN: u32 = 21;

/// Whether this process may mount file systems.
#[must_use]
pub fn may_mount() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective(&status).is_some_and(|set| set & (1 << SYS_ADMIN) != 0)
}

fn effective(status: &str) -> Option<u64> {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_capabilities_are_read_from_the_status_file() {
        assert_eq!(effective("CapPrm:\t00ff\nCapEff:\t0000000000200000\n"), Some(1 << SYS_ADMIN));
        assert_eq!(effective("CapPrm:\t00ff\n"), None);
    }
}
