//! Published advisories about nats-server, and which of them a version has.
//!
//! From <https://advisories.nats.io>, whose newest note is of [`NEWEST`]; notes about clients, the
//! Go tool chain and servers before 2.9 are left out. An advisory names fixed versions; a
//! version of an older line without a fix of its own is affected.

/// Date of the newest note that was considered.
pub const NEWEST: &str = "2026-06-29";

/// A version as its first three numbers.
type Version = (u32, u32, u32);

pub struct Advisory {
    /// Its CVE, or its GHSA where it has no CVE.
    pub id: &'static str,
    /// What must be configured for it to matter; `all` if nothing.
    pub needs: &'static str,
    since: Version,
    /// The first fixed version of each line that has one, ascending.
    fixed: &'static [Version],
}

const fn note(
    id: &'static str,
    needs: &'static str,
    since: Version,
    fixed: &'static [Version],
) -> Advisory {
    Advisory { id, needs, since, fixed }
}

/// All, in the order in which they were published.
pub const ADVISORIES: [Advisory; 30] = [
    note("CVE-2023-47090", "accounts", (2, 2, 0), &[(2, 9, 23), (2, 10, 2)]),
    note("CVE-2023-46129", "auth callout", (2, 10, 0), &[(2, 10, 4)]),
    note("CVE-2025-30215", "accounts", (2, 2, 0), &[(2, 10, 27), (2, 11, 1)]),
    note("CVE-2026-27571", "websocket", (2, 2, 0), &[(2, 11, 12), (2, 12, 3)]),
    note("CVE-2026-27889", "websocket", (2, 2, 0), &[(2, 11, 14), (2, 12, 5)]),
    note("CVE-2026-29785", "leafnodes", (2, 0, 0), &[(2, 11, 14), (2, 12, 5)]),
    note("CVE-2026-33216", "mqtt", (2, 0, 0), &[(2, 11, 15), (2, 12, 6)]),
    note("CVE-2026-33215", "mqtt", (2, 0, 0), &[(2, 11, 15), (2, 12, 6)]),
    note("CVE-2026-33217", "mqtt", (2, 0, 0), &[(2, 11, 15), (2, 12, 6)]),
    note("CVE-2026-33246", "leafnodes", (2, 0, 0), &[(2, 11, 15), (2, 12, 6)]),
    note("CVE-2026-33223", "all", (2, 0, 0), &[(2, 11, 15), (2, 12, 6)]),
    note("CVE-2026-33218", "leafnodes", (2, 0, 0), &[(2, 11, 15), (2, 12, 6)]),
    note("CVE-2026-33219", "websocket", (2, 0, 0), &[(2, 11, 15), (2, 12, 6)]),
    note("CVE-2026-33222", "jetstream", (2, 0, 0), &[(2, 11, 15), (2, 12, 6)]),
    note("CVE-2026-33248", "verify_and_map", (2, 0, 0), &[(2, 11, 15), (2, 12, 6)]),
    note("CVE-2026-33247", "monitoring", (2, 0, 0), &[(2, 11, 15), (2, 12, 6)]),
    note("CVE-2026-33249", "all", (2, 0, 0), &[(2, 11, 15), (2, 12, 6)]),
    note("GHSA-38x3-76xf-cq45", "no_auth_user", (2, 0, 0), &[(2, 11, 16), (2, 12, 7), (2, 14, 0)]),
    note("GHSA-wh7g-5m82-pmhr", "permissions", (2, 0, 0), &[(2, 11, 16), (2, 12, 7), (2, 14, 0)]),
    note("GHSA-jx8g-9g95-6322", "permissions", (2, 0, 0), &[(2, 11, 16), (2, 12, 7), (2, 14, 0)]),
    note("GHSA-3g5q-cfh2-cq67", "leafnodes", (2, 0, 0), &[(2, 11, 17), (2, 12, 8)]),
    note("GHSA-p3j5-5hrq-p75h", "leafnodes", (2, 0, 0), &[(2, 12, 12), (2, 14, 3)]),
    note("GHSA-4g68-3pwx-5vfj", "mqtt", (2, 0, 0), &[(2, 12, 12), (2, 14, 3)]),
    note("GHSA-qrcv-3558-gj4f", "mqtt", (2, 0, 0), &[(2, 12, 9), (2, 14, 1)]),
    note("GHSA-g33f-6538-grxh", "jwt", (2, 0, 0), &[(2, 12, 10), (2, 14, 2)]),
    note("GHSA-hmmp-q8cx-v964", "no_auth_user", (2, 0, 0), &[(2, 12, 12), (2, 14, 3)]),
    note("GHSA-r72h-j7qq-v6qg", "mqtt", (2, 0, 0), &[(2, 12, 12), (2, 14, 3)]),
    note("GHSA-7qmq-8cc4-hxwg", "mqtt", (2, 0, 0), &[(2, 12, 12), (2, 14, 3)]),
    note("GHSA-p957-7v2w-g93g", "websocket", (2, 0, 0), &[(2, 12, 12), (2, 14, 3)]),
    note("GHSA-q59r-vq66-pxc2", "all", (2, 0, 0), &[(2, 12, 12), (2, 14, 3)]),
];

impl Advisory {
    fn affects(&self, version: Version) -> bool {
        let line = |(major, minor, _): Version| (major, minor);
        let fix = self.fixed.iter().find(|fixed| line(**fixed) == line(version));
        let is_fixed = match (fix, self.fixed.last()) {
            (Some(fix), _) => version >= *fix,
            // A line that began after the newest fix has it.
            (None, Some(newest)) => version > *newest,
            (None, None) => false,
        };
        version >= self.since && !is_fixed
    }
}

/// The advisories that a version is affected by; `None` if it is no version.
pub fn of(version: &str) -> Option<Vec<&'static Advisory>> {
    let version = parse(version)?;
    Some(ADVISORIES.iter().filter(|advisory| advisory.affects(version)).collect())
}

/// The first three numbers of a version such as `2.10.26` or `2.12.0-RC.1`.
fn parse(version: &str) -> Option<Version> {
    let numbers = version.trim_start_matches('v').split(['-', '+']).next()?;
    let mut parts = numbers.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

/// The least version that no advisory here affects, for a mend.
pub const SOUND: &str = "2.14.3 (or 2.12.12)";

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(version: &str) -> Vec<&'static str> {
        of(version).unwrap().iter().map(|advisory| advisory.id).collect()
    }

    #[test]
    fn a_version_is_affected_until_the_fix_of_its_line() {
        for (version, id, expected) in [
            ("2.9.10", "CVE-2023-47090", true),
            ("2.9.23", "CVE-2023-47090", false),
            ("2.10.1", "CVE-2023-47090", true),
            ("2.10.2", "CVE-2023-47090", false),
            ("2.11.0", "CVE-2023-47090", false),
            ("2.9.10", "CVE-2023-46129", false),
            ("2.10.3", "CVE-2023-46129", true),
            ("2.10.29", "CVE-2026-33219", true),
            ("2.11.16", "GHSA-38x3-76xf-cq45", false),
            ("2.12.6", "GHSA-38x3-76xf-cq45", true),
            ("2.11.17", "GHSA-g33f-6538-grxh", true),
            ("2.12.10", "GHSA-g33f-6538-grxh", false),
            ("2.14.1", "GHSA-g33f-6538-grxh", true),
            ("2.14.2-RC.1", "GHSA-g33f-6538-grxh", false),
        ] {
            assert_eq!(ids(version).contains(&id), expected, "{version} {id}");
        }
    }

    #[test]
    fn the_versions_of_a_mend_are_sound_and_those_before_are_not() {
        for version in ["2.12.12", "2.14.3", "2.15.1", "3.0.0"] {
            assert_eq!(ids(version), [""; 0], "{version}");
        }
        for version in ["2.12.11", "2.14.2", "2.11.99", "2.9.10"] {
            assert!(!ids(version).is_empty(), "{version}");
        }
        assert_eq!(of("unknown").map(|found| found.len()), None);
    }

    #[test]
    fn each_advisory_is_listed_once_with_fixes_in_order() {
        let mut seen = std::collections::BTreeSet::new();
        for advisory in &ADVISORIES {
            assert!(seen.insert(advisory.id), "{} twice", advisory.id);
            assert!(advisory.fixed.is_sorted() && !advisory.fixed.is_empty(), "{}", advisory.id);
        }
    }
}
