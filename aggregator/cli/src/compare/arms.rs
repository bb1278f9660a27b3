//! `--arms LABEL`: one run or range split by the values of a label, each compared with the first.

use std::collections::BTreeMap;

use plimsoll_compare::{Comparison, Named, Options, Side, Verdict, compare_runs, table};
use serde::Serialize;

/// The label, and the values that were named, the one that is A first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arms {
    pub(super) label: String,
    pub(super) values: Vec<String>,
}

/// Each arm by its value, compared with the first.
#[derive(Serialize)]
pub(super) struct ComparedArms {
    pub(super) verdict: Verdict,
    /// The arm that is A.
    a: String,
    arms: BTreeMap<String, Comparison>,
}

pub(super) fn arms(text: &str) -> Result<Arms, String> {
    let (label, values) = text.split_once('=').unwrap_or((text, ""));
    let values: Vec<String> =
        values.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect();
    if label.is_empty() || (text.contains('=') && values.is_empty()) {
        return Err("write it as LABEL or LABEL=A,B, such as variant=blue,green".to_owned());
    }
    let twice = |(at, value): (usize, &String)| values[..at].contains(value);
    if values.iter().enumerate().any(twice) {
        return Err("a value is given twice".to_owned());
    }
    Ok(Arms { label: label.to_owned(), values })
}

impl ComparedArms {
    /// Compares all arms with the first of at least two. All their intervals hold together.
    pub(super) fn of(runs: &[Named<Side>], options: Options) -> Self {
        let (first, others) = runs.split_at(1);
        let options = Options { others: others.len().saturating_sub(1), ..options };
        let compared = |arm: &Named<Side>| {
            let arm = Named { name: arm.name, of: arm.of };
            (arm.name.to_owned(), compare_runs([first, &[arm]], &options))
        };
        let arms: BTreeMap<String, Comparison> = others.iter().map(compared).collect();
        let verdict = Verdict::of_all(arms.values().map(|one| one.verdict));
        Self { verdict, a: first.iter().map(|arm| arm.name).collect(), arms }
    }

    pub(super) fn table(&self) -> String {
        let arm = |(name, one): (&String, &Comparison)| {
            format!("A: {}, B: {name}\n\n{}\n", self.a, table::table(one))
        };
        let arms: String = self.arms.iter().map(arm).collect();
        format!("{arms}verdict of all arms: {}\n", self.verdict.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_is_compared_with_the_first_and_the_worst_decides() {
        let empty = Side::default();
        let arms = ["v=a", "v=b", "v=c"].map(|name| Named { name, of: &empty });
        let found = ComparedArms::of(&arms, Options::default());
        assert_eq!((found.verdict, found.a.as_str()), (Verdict::NotComparable, "v=a"));
        assert_eq!(found.arms.keys().collect::<Vec<_>>(), ["v=b", "v=c"]);
        let text = found.table();
        assert!(text.starts_with("A: v=a, B: v=b\n\n"), "{text}");
        assert!(text.ends_with("\nverdict of all arms: not comparable\n"), "{text}");
    }

    #[test]
    fn the_first_value_that_is_named_is_a() {
        let of = |text: &str| arms(text).map(|arms| (arms.label, arms.values.join("|")));
        let found = |label: &str, values: &str| Ok((label.to_owned(), values.to_owned()));
        assert_eq!(of("variant"), found("variant", ""));
        assert_eq!(of("variant=green"), found("variant", "green"));
        assert_eq!(of("variant=green,blue"), found("variant", "green|blue"));
        for text in ["", "=a", "variant=", "variant=a,a"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
