//! Finds the shortest plan that still breaks the same invariant, by leaving steps out.
//!
//! DESIGN D6.

use super::plan::{Plan, Step};

/// Events spent on one failure, in all runs together.
const EVENTS_MAX: u64 = 1_000_000;

/// One run of a plan that may be shorter than needed.
pub struct Attempt {
    pub is_broken: bool,
    pub events: u64,
}

/// The plan with the fewest steps found that `attempt` finds broken.
pub fn shrink(plan: &Plan, attempt: impl Fn(&Plan) -> Attempt) -> Plan {
    let mut best = plan.clone();
    let mut spent = 0;
    let mut chunk = best.steps.len().div_ceil(2).max(1);

    loop {
        let mut at = 0;
        let mut is_smaller = false;

        while at < best.steps.len() && spent < EVENTS_MAX {
            let candidate = without(&best, at, chunk);
            let Attempt { is_broken, events } = attempt(&candidate);
            spent += events;

            if is_broken {
                best = candidate;
                is_smaller = true;
            } else {
                at += chunk;
            }
        }

        if spent >= EVENTS_MAX || (chunk == 1 && !is_smaller) {
            return best;
        }
        chunk = (chunk / 2).max(1);
    }
}

fn without(plan: &Plan, at: usize, chunk: usize) -> Plan {
    let kept = |(place, _): &(usize, &Step)| *place < at || *place >= at + chunk;
    let steps = plan.steps.iter().enumerate().filter(kept).map(|(_, step)| *step).collect();
    Plan { steps, ..plan.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_steps_that_matter_are_left() {
        let plan = Plan::draw(5, 200);
        let wanted = [plan.steps[13], plan.steps[150]];
        let attempt = |plan: &Plan| {
            let is_broken = wanted.iter().all(|step| plan.steps.contains(step));
            Attempt { is_broken, events: 1 }
        };
        assert_eq!(shrink(&plan, attempt).steps, wanted);
    }
}
