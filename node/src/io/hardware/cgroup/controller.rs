//! Where a controller's files of this process's group are. Pure: from `/proc/self/cgroup` and
//! `/proc/self/mountinfo`.

use crate::limits::CGROUP_DEPTH_MAX;

/// A group's folder, and the version of the hierarchy that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    mount: String,
    /// Folders below the mount.
    path: Vec<String>,
    /// The one hierarchy of the second version, which has other files.
    pub(super) is_unified: bool,
}

impl Controller {
    /// The group's folder, then those above it, up to the mount.
    pub(super) fn folders(&self) -> impl Iterator<Item = String> {
        let depths = (0..=self.path.len()).rev().take(CGROUP_DEPTH_MAX);
        depths.map(|depth| {
            let mut folder = self.mount.clone();
            self.path[..depth].iter().for_each(|name| folder.extend(["/", name.as_str()]));
            folder
        })
    }

    pub(super) fn own(&self) -> String {
        self.folders().next().unwrap_or_default()
    }
}

/// A controller in a hierarchy of its own, as the first version has them, else in the unified one.
pub(super) fn find(controller: &str, groups: &str, mounts: &str) -> Option<Controller> {
    let groups = || groups.lines().filter_map(group);
    let has = |list: &str| list.split(',').any(|one| one == controller);
    let separate = groups().find(|(controllers, _)| has(controllers)).and_then(|(_, path)| {
        let mount = mounts.lines().filter_map(mount);
        place(path, mount.filter(|mount| mount.kind == "cgroup" && has(mount.options)), false)
    });
    separate.or_else(|| {
        let (_, path) = groups().find(|(controllers, _)| controllers.is_empty())?;
        place(path, mounts.lines().filter_map(mount).filter(|mount| mount.kind == "cgroup2"), true)
    })
}

/// Controllers and path of a line such as `4:memory:/jobs/7`.
fn group(line: &str) -> Option<(&str, &str)> {
    line.split_once(':')?.1.split_once(':')
}

struct Mount<'t> {
    /// Which part of the hierarchy is mounted.
    root: &'t str,
    point: &'t str,
    kind: &'t str,
    options: &'t str,
}

fn mount(line: &str) -> Option<Mount<'_>> {
    let (before, behind) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let mut behind = behind.split(' ');
    let (root, point) = (before.next()?, before.next()?);
    Some(Mount { root, point, kind: behind.next()?, options: behind.nth(1)? })
}

/// A container's runtime may mount the group itself, and not what is above it.
fn place<'t>(
    path: &str,
    mut mounts: impl Iterator<Item = Mount<'t>>,
    is_unified: bool,
) -> Option<Controller> {
    let mount = mounts.next()?;
    let below = path.strip_prefix(mount.root.trim_end_matches('/'));
    let below = below.filter(|below| below.starts_with('/')).unwrap_or_default();
    let path: Vec<String> =
        below.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    // The group lies outside of what this process may see.
    let is_outside = path.iter().any(|name| name == "..");
    (!is_outside).then(|| Controller { mount: mount.point.to_owned(), path, is_unified })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn folders(controller: &str, groups: &str, mounts: &str) -> Option<(Vec<String>, bool)> {
        let place = find(controller, groups, mounts)?;
        Some((place.folders().collect(), place.is_unified))
    }

    const UNIFIED: &str =
        "29 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const SEPARATE: &str = "\
33 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
35 31 0:32 /docker/7f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_group_is_found_with_those_above_it_in_either_version() {
        let own = |folders: &[&str], unified| {
            Some((folders.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>(), unified))
        };
        let service = "0::/system.slice/node.service\n";
        let docker = "5:memory:/docker/7f\n3:cpu,cpuacct:/a\n0::/b\n";
        for (controller, groups, mounts, want) in [
            (
                "memory",
                service,
                UNIFIED,
                own(
                    &[
                        "/sys/fs/cgroup/system.slice/node.service",
                        "/sys/fs/cgroup/system.slice",
                        "/sys/fs/cgroup",
                    ],
                    true,
                ),
            ),
            ("cpu", "0::/\n", UNIFIED, own(&["/sys/fs/cgroup"], true)),
            ("memory", docker, SEPARATE, own(&["/sys/fs/cgroup/memory"], false)),
            (
                "cpuacct",
                docker,
                SEPARATE,
                own(&["/sys/fs/cgroup/cpu,cpuacct/a", "/sys/fs/cgroup/cpu,cpuacct"], false),
            ),
            (
                "pids",
                docker,
                SEPARATE,
                own(&["/sys/fs/cgroup/unified/b", "/sys/fs/cgroup/unified"], true),
            ),
            ("cpu", "0::/../other\n", UNIFIED, None),
            ("cpu", service, "", None),
            ("cpu", "", UNIFIED, None),
        ] {
            assert_eq!(folders(controller, groups, mounts), want, "{controller} {groups}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_or_climbs(
            groups in "([0-9]:[a-z,]{0,9}:[/.a-z]{0,40}\n|\\PC{0,9}\n){0,4}",
            mounts in "([0-9 ]{0,6}/ /[a-z/]{0,9} - cgroup2 c rw\n|\\PC{0,20}\n){0,4}",
        ) {
            if let Some(place) = find("cpu", &groups, &mounts) {
                prop_assert!(place.folders().count() <= CGROUP_DEPTH_MAX);
                prop_assert!(!place.path.iter().any(|name| name == ".."));
            }
        }
    }
}
