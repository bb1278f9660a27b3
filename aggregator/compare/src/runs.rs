//! The runs of a side, each by its name.

/// A part of a side that one run has.
#[derive(Debug)]
pub struct Named<'a, T> {
    /// The run, as it is shown.
    pub name: &'a str,
    pub of: &'a T,
}

impl<'a, T> Named<'a, T> {
    /// The run as the one at fault: the side alone if it has no other.
    pub(crate) fn of_side(&self, side: &str, runs: &[Self]) -> String {
        if runs.len() > 1 { format!("{} of {side}", self.name) } else { side.to_owned() }
    }

    /// The same run's part that `find` finds.
    pub(crate) fn part<U>(&self, find: impl Fn(&'a T) -> Option<&'a U>) -> Option<Named<'a, U>> {
        find(self.of).map(|of| Named { name: self.name, of })
    }
}

/// Why something is not comparable that some runs do not have.
pub(crate) fn missing<T, U>(
    [a, b]: [&[Named<'_, T>]; 2],
    [of_a, of_b]: [&[Named<'_, U>]; 2],
) -> Option<String> {
    if of_a.is_empty() || of_b.is_empty() {
        let side = if of_b.is_empty() { "A" } else { "B" };
        return Some(format!("only {side} has it"));
    }
    let lacks = |side: &str, all: &[Named<'_, T>], of: &[Named<'_, U>]| {
        let run = all.iter().find(|run| of.iter().all(|other| other.name != run.name))?;
        Some(format!("{} of {side} does not have it", run.name))
    };
    lacks("A", a, of_a).or_else(|| lacks("B", b, of_b))
}
