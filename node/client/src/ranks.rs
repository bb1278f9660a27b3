//! Labels of a rank: which process of a job this one is, as the job's launcher states it.
//!
//! Reads the variables of one launcher and never mixes two: `torchrun` below `srun` sets both, and
//! a rank of the one with the size of the other describes no process.
//!
//! DESIGN N84.

use std::ffi::OsString;

use crate::limits::{RANK_DIGITS_MAX, RANK_SHOWN_CHARS_MAX};

/// The labels, and the variables of each launcher in the same order. The first launcher whose rank
/// is set counts: a script that exports `WORLD_SIZE` alone is no launcher.
const LABELS: [&str; 3] = ["rank", "local_rank", "world_size"];
const LAUNCHERS: [[&str; 3]; 3] = [
    ["RANK", "LOCAL_RANK", "WORLD_SIZE"],
    ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"],
];

/// The labels of the first launcher found. A value that is no number is a problem and no label.
pub(crate) fn rank_labels(
    variable: impl Fn(&str) -> Option<OsString>,
    problems: &mut Vec<String>,
) -> Vec<(String, String)> {
    let found = LAUNCHERS.into_iter().find(|[rank, ..]| variable(rank).is_some());
    let mut labels = Vec::new();

    for (key, name) in LABELS.into_iter().zip(found.into_iter().flatten()) {
        let Some(value) = variable(name) else { continue };
        let value = value.to_string_lossy();
        if is_number(&value) {
            labels.push((key.to_owned(), value.into_owned()));
            continue;
        }
        let shown: String = value.chars().take(RANK_SHOWN_CHARS_MAX).collect();
        problems.push(format!(
            "{name} is {shown:?}, which is no rank or size, so the label {key} is left out: write \
             1 to {RANK_DIGITS_MAX} digits without a leading zero, or set PLIMSOLL_RANKS=off"
        ));
    }

    labels
}

/// One number has one spelling, so that no rank has two groups.
fn is_number(text: &str) -> bool {
    let is_canonical = text == "0" || !text.starts_with('0');
    is_canonical
        && (1..=RANK_DIGITS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Variables<'a> = &'a [(&'a str, &'a str)];

    const TORCHRUN: Variables<'_> = &[("RANK", "3"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "8")];
    const SLURM: Variables<'_> =
        &[("SLURM_PROCID", "5"), ("SLURM_LOCALID", "0"), ("SLURM_NTASKS", "64")];
    const MPI: Variables<'_> = &[
        ("OMPI_COMM_WORLD_RANK", "0"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
    ];

    /// Labels of these variables, of which a later one replaces an earlier one, and the problems.
    fn read(parts: &[Variables<'_>]) -> (Vec<(String, String)>, Vec<String>) {
        let variable = |wanted: &str| {
            let all = parts.iter().rev().flat_map(|part| part.iter());
            let mut of_name = all.filter(|(name, _)| *name == wanted);
            of_name.next().map(|(_, value)| OsString::from(value)).filter(|value| !value.is_empty())
        };
        let mut problems = Vec::new();
        (rank_labels(variable, &mut problems), problems)
    }

    fn text(labels: &[(String, String)]) -> String {
        let pairs = labels.iter().map(|(key, value)| format!("{key}={value}"));
        let pairs: Vec<_> = pairs.collect();
        pairs.join(" ")
    }

    #[test]
    fn one_launcher_states_all_labels() {
        let (torchrun, slurm, mpi) = (
            "rank=3 local_rank=1 world_size=8",
            "rank=5 local_rank=0 world_size=64",
            "rank=0 local_rank=2 world_size=4",
        );
        for (what, parts, expected) in [
            ("nothing", &[][..], ""),
            ("torchrun", &[TORCHRUN], torchrun),
            ("srun", &[SLURM], slurm),
            ("mpirun", &[MPI], mpi),
            ("torchrun below srun", &[SLURM, TORCHRUN], torchrun),
            ("mpirun in an allocation", &[MPI, SLURM], slurm),
            ("a rank of torchrun alone", &[SLURM, MPI, &[("RANK", "3")]], "rank=3"),
            ("a size without a rank", &[SLURM, &[("WORLD_SIZE", "9")]], slurm),
            ("an empty rank", &[MPI, &[("RANK", ""), ("WORLD_SIZE", "9")]], mpi),
        ] {
            let (labels, problems) = read(parts);
            assert_eq!((text(&labels).as_str(), problems.len()), (expected, 0), "{what}");
        }
    }

    #[test]
    fn only_plain_numbers_of_seven_digits_are_labels() {
        for value in ["0", "7", "9999999"] {
            let (labels, problems) = read(&[TORCHRUN, &[("WORLD_SIZE", value)]]);
            let expected = format!("rank=3 local_rank=1 world_size={value}");
            assert_eq!((text(&labels), problems.len()), (expected, 0), "{value}");
        }
        let long = "x".repeat(999);
        for value in ["-1", "+1", "1.0", "1e3", " 1", "1\n", "01", "10000000", "٣", &long] {
            let (labels, problems) = read(&[SLURM, TORCHRUN, &[("RANK", value)]]);
            assert_eq!(text(&labels), "local_rank=1 world_size=8", "{value}");
            let shown: String = value.chars().take(40).collect();
            let problem = format!(
                "RANK is {shown:?}, which is no rank or size, so the label rank is left out: \
                 write 1 to 7 digits without a leading zero, or set PLIMSOLL_RANKS=off"
            );
            assert_eq!(problems, [problem]);
        }
    }

    proptest! {
        #[test]
        fn no_environment_mixes_launchers(are_set in any::<[[bool; 3]; 3]>()) {
            // The value of a variable is the number of its launcher.
            let variable = |wanted: &str| {
                let at = LAUNCHERS.as_flattened().iter().position(|name| *name == wanted)?;
                are_set[at / 3][at % 3].then(|| (at / 3).to_string().into())
            };
            let mut problems = Vec::new();
            let labels = rank_labels(variable, &mut problems);
            let first = are_set.iter().position(|[rank, ..]| *rank);
            let expected = first.map_or(0, |n| are_set[n].iter().filter(|is_set| **is_set).count());
            prop_assert_eq!((labels.len(), problems.len()), (expected, 0));
            let own = first.map(|n| n.to_string()).unwrap_or_default();
            prop_assert!(labels.iter().all(|(_, value)| *value == own));
        }
    }
}
