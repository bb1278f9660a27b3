//! What a rule about stragglers detects, and how soon, in words for `--check-config`.

use plimsoll_blame::limits::{FALSE_NAMES_PER_WEEK, FLOOR, PEERS_MIN};
use plimsoll_schemas::figure::{number, percent};
use plimsoll_schemas::rule::{Straggler, StragglerMethod};

/// What is compared, and how soon a slow peer is named. The figures are those of
/// `blame/RESULTS.md`.
pub fn reach(rule: &Straggler) -> String {
    let Straggler { name, operation, method, by, cohort, work, wait, .. } = rule;
    let steps = operation.as_ref().map_or("each operation with phases", |of| of.as_str());
    let same = ["run"].into_iter().chain(cohort.iter().map(String::as_str)).collect::<Vec<_>>();
    let (same, work, wait) = (same.join(" and "), work.join(", "), wait.join(", "));

    let (does, soon) = match method {
        StragglerMethod::WaitsLeast => (
            format!("waits less ({wait}) by {} of the median's work ({work})", percent(FLOOR)),
            "59 of 100 within 30 s and 95 within 55 s at one step a second, all within 30 s at ten",
        ),
        StragglerMethod::Slowest => (
            format!("works longer ({work}) by {}", percent(FLOOR)),
            "66 of 100 within 30 s and 95 within 48 s at one step a second, 98 within 30 s at ten",
        ),
    };

    format!(
        "straggler {:?}: steps of {steps}: names the {by} that {does} than the median {by} of \
         the same {same}; at least {PEERS_MIN} must report; of 64 one that is 20 % slower is \
         named: {soon}, once it has learned for two to six minutes; at most {} false name a week \
         over all rules",
        name.as_str(),
        number(FALSE_NAMES_PER_WEEK)
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::rule::file::shipped;

    use super::*;

    #[test]
    fn the_shipped_rule_states_what_it_detects_and_how_soon() {
        let shipped = shipped().stragglers.remove(0);
        let text = reach(&shipped);
        let compared = "straggler \"straggler\": steps of each operation with phases: \
                        names the rank that waits less (sync) by 3 % of the median's work (input, \
                        compute, checkpoint) than the median rank of the same run and role; at \
                        least 3 must report; of 64 one";
        assert!(text.starts_with(compared), "{text}");
        let slowest = Straggler { method: StragglerMethod::Slowest, ..shipped };
        assert!(text.contains("95 within 55 s") && reach(&slowest).contains("95 within 48 s"));
    }
}
