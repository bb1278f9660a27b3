//! What a rule about stragglers detects, and how soon, in words for `--check-config`.

use plimsoll_blame::limits::{FALSE_NAMES_PER_WEEK, FLOOR, PEERS_MIN};
use plimsoll_schemas::figure::{number, percent};
use plimsoll_schemas::rule::{Straggler, StragglerMethod};

/// Two lines: what is compared, and how soon a slow peer is named. The figures are those of
/// `blame/RESULTS.md`.
pub fn reach(rule: &Straggler) -> [String; 2] {
    let Straggler { name, operation, method, by, cohort, work, wait, .. } = rule;
    let operation = match operation {
        Some(operation) => format!("steps of {operation:?}"),
        None => "steps of each operation with phases".to_owned(),
    };

    let same = ["run"].into_iter().chain(cohort.iter().map(String::as_str)).collect::<Vec<_>>();
    let (floor, work, wait) = (percent(FLOOR), work.join(", "), wait.join(", "));
    let median = format!("the median {by} of the same {}", same.join(" and "));
    let (name, needs) = (name.as_str(), format!("at least {PEERS_MIN} must report"));

    let (does, soon) = match method {
        StragglerMethod::WaitsLeast => (
            format!("waits less ({wait}) than {median}, by {floor} of that one's work ({work})"),
            "58 of 100 within 30 s and 95 within 55 s at one step a second, all within 30 s at ten",
        ),
        StragglerMethod::Slowest => (
            format!("works longer ({work}) than {median}, by {floor}"),
            "66 of 100 within 30 s and 95 within 48 s at one step a second, 98 within 30 s at ten",
        ),
    };

    [
        format!("straggler {name:?}: {operation}: names the {by} that {does}; {needs}"),
        format!(
            "straggler {name:?}: of 64 peers one that is 20 % slower is named: {soon}, once it has \
             learned for two to six minutes; at most {} false name a week over all rules",
            number(FALSE_NAMES_PER_WEEK)
        ),
    ]
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::rule::file::shipped;

    use super::*;

    #[test]
    fn the_shipped_rule_states_what_it_detects_and_how_soon() {
        let shipped = shipped().stragglers.remove(0);
        let [compared, soon] = reach(&shipped);
        assert_eq!(
            compared,
            "straggler \"straggler\": steps of each operation with phases: names the rank that \
             waits less (sync) than the median rank of the same run and role, by 3 % of that \
             one's work (input, compute, checkpoint); at least 3 must report"
        );
        let slowest = Straggler { method: StragglerMethod::Slowest, ..shipped };
        let [_, of_slowest] = reach(&slowest);
        assert!(soon.contains("95 within 55 s") && of_slowest.contains("95 within 48 s"), "{soon}");
    }
}
