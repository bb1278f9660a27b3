//! Advice about rules that are valid and probably not intended; it never rejects a rule.

use std::collections::BTreeMap;

use super::rules::Rules;
use crate::annotations::RuleAnnotations;
use crate::budget::{BURN_RATES, Budget, Window};
use crate::limits::rules::{BUDGETS_OF_ONE_ADVISED_MAX, LIMITS_SUMMED_MAX};

/// Heap bytes that one operation of 100 samples a second takes in one window longer than 5m: a
/// dozen settled slots of 4 KiB.
const WINDOW_KIB: usize = 50;

impl Rules {
    /// What should be thought over, one line each, where nodes keep windows up to one and these
    /// receivers of notifications are defined.
    #[must_use]
    pub fn advice(&self, nodes_up_to: Window, receivers: &[String]) -> Vec<String> {
        let mut advice = Vec::new();
        if self.time_scale != 1 {
            let scale = self.time_scale;
            advice.push(format!(
                "rules.time_scale is {scale}: windows of error budgets are shortened, which is \
                 for drills"
            ));
        }

        for budget in &self.budgets {
            advice.extend(of_objective(budget));
            advice.extend(of_window(budget, nodes_up_to));
            advice.extend(of_routes("budget", budget.name.as_str(), &budget.about, receivers));
        }

        advice.extend(self.of_operations());
        for threshold in &self.thresholds {
            advice.extend(of_routes("rule", threshold.name.as_str(), &threshold.about, receivers));
        }
        for straggler in &self.stragglers {
            let (name, about) = (straggler.name.as_str(), &straggler.about);
            advice.extend(of_routes("straggler", name, about, receivers));
        }
        advice
    }

    /// What many budgets of one operation cost, once each.
    fn of_operations(&self) -> Vec<String> {
        let mut advice = Vec::new();
        let mut operations: BTreeMap<&str, (usize, Vec<u64>)> = BTreeMap::new();

        for budget in &self.budgets {
            let (name, operation) = (budget.name.as_str(), budget.operation.as_str());
            let (budgets, limits) = operations.entry(operation).or_default();
            *budgets += 1;

            if *budgets == BUDGETS_OF_ONE_ADVISED_MAX + 1 {
                advice.push(format!(
                    "budget {name:?} is one more than {BUDGETS_OF_ONE_ADVISED_MAX} of \
                     {operation:?}: each is judged on every node once a second"
                ));
            }

            if limits.contains(&budget.limit_ns) {
                continue;
            }
            limits.push(budget.limit_ns);

            if limits.len() > LIMITS_SUMMED_MAX {
                let limit = budget.unit().raw_text(budget.limit_ns);
                advice.push(format!(
                    "budget {name:?}: limit {limit} is one more than {LIMITS_SUMMED_MAX} \
                     different ones of {operation:?}: no node counts what is over it, so samples \
                     in its own bucket stay uncertain"
                ));
            }
        }

        advice
    }
}

/// Paces that more than all samples would have to be over the limit for.
fn of_objective(budget: &Budget) -> Option<String> {
    let objective = budget.objective?;
    let out_of_reach = BURN_RATES.iter().filter(|pace| pace.factor * (1.0 - objective) >= 1.0);
    let paces: Vec<String> =
        out_of_reach.map(|pace| format!("{} over {}", pace.factor, pace.long)).collect();
    let most = ((1.0 / (1.0 - objective)) * 10.0).round() / 10.0;
    (!paces.is_empty()).then(|| {
        format!(
            "budget {:?}: objective {objective} is spent at no more than {most} times its pace, \
             with every sample over the limit; never reached: {}",
            budget.name.as_str(),
            paces.join(", ")
        )
    })
}

fn of_window(budget: &Budget, nodes_up_to: Window) -> Option<String> {
    if !budget.scopes.nodes || budget.window <= nodes_up_to {
        return None;
    }
    let longer = |window: &&Window| **window > nodes_up_to && **window <= budget.window;
    let kib = Window::ALL.iter().filter(longer).count() * WINDOW_KIB;
    let (name, window) = (budget.name.as_str(), budget.window);
    Some(format!(
        "budget {name:?}: window {window} is longer than windows.nodes_up_to ({nodes_up_to}), so \
         {:?} costs about {kib} KiB more on every node, at 100 samples a second; scopes = \
         [\"fleet\"] costs the nodes nothing",
        budget.operation.as_str()
    ))
}

fn of_routes(
    kind: &str,
    name: &str,
    about: &RuleAnnotations,
    receivers: &[String],
) -> Option<String> {
    let unknown = about.routes.iter().filter(|route| !receivers.contains(route));
    let unknown: Vec<String> = unknown.map(|route| format!("{route:?}")).collect();
    let known = match receivers {
        [] => "none is defined".to_owned(),
        receivers => format!("there are {}", receivers.join(", ")),
    };
    (!unknown.is_empty()).then(|| {
        format!("{kind} {name:?}: routes name no receiver {}; {known}", unknown.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::file::{effective, shipped};

    fn of(text: &str, receivers: &[&str]) -> Vec<String> {
        let text = format!("[[budget]]\nname = 'publish'\n{text}");
        let receivers: Vec<String> = receivers.iter().map(|&name| name.to_owned()).collect();
        Rules::from(effective(&[&text]).unwrap()).advice(Window::FiveMinutes, &receivers)
    }

    #[test]
    fn what_is_shipped_needs_no_advice() {
        assert_eq!(shipped().advice(Window::FiveMinutes, &[]), [""; 0]);
    }

    #[test]
    fn each_likely_mistake_is_reported_in_one_line() {
        let paces = "budget \"publish\": objective 0.9 is spent at no more than 10 times its pace, \
                     with every sample over the limit; never reached: 14.4 over 1h";
        let window = "budget \"publish\": window 1h is longer than windows.nodes_up_to (5m), so \
                      \"publish\" costs about 100 KiB more on every node, at 100 samples a second; \
                      scopes = [\"fleet\"] costs the nodes nothing";
        for (text, receivers, expected) in [
            ("objective = 0.9", &[][..], &[paces][..]),
            ("window = '1h'", &[], &[window]),
            ("window = '1h'\nscopes = ['fleet']", &[], &[]),
            (
                "routes = ['a', 'b']",
                &["b", "c"],
                &["budget \"publish\": routes name no receiver \"a\"; there are b, c"],
            ),
            (
                "routes = ['a']",
                &[],
                &["budget \"publish\": routes name no receiver \"a\"; none is defined"],
            ),
        ] {
            assert_eq!(of(text, receivers), expected, "{text}");
        }
        let of_load = |n: usize, ms: usize| {
            format!("[[budget]]\nname='b{n}'\noperation='load'\nquantile=0.9\nlimit='{ms}ms'\n")
        };
        let budgets = |limits: usize| {
            let all: String = (0..33).map(|n| of_load(n, n % limits + 1)).collect();
            of(&format!("\n{all}"), &[])
        };
        let many = "budget \"b32\" is one more than 32 of \"load\": each is judged on every node \
                    once a second";
        let fifth = "budget \"b4\": limit 5 ms is one more than 4 different ones of \"load\": no \
                     node counts what is over it, so samples in its own bucket stay uncertain";
        assert_eq!(budgets(4), [many]);
        assert_eq!(budgets(5), [fifth, many]);
        let scaled = Rules { time_scale: 60, ..Rules::default() };
        assert_eq!(scaled.advice(Window::FiveMinutes, &[]).len(), 1);
    }
}
