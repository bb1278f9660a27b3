//! What is allowed and probably not meant: said beside rules, never against them.

use crate::budget::{Budget, PACES, Window};
use crate::rule::{About, Rules};

/// Heap bytes that one operation of 100 samples a second takes in one window longer than 5m: a
/// dozen settled slots of 4 KiB.
const WINDOW_KIB: usize = 50;

impl Rules {
    /// What should be thought over, one line each, where nodes keep windows up to one and these
    /// receivers of notices are defined.
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
        for threshold in &self.thresholds {
            advice.extend(of_routes("rule", threshold.name.as_str(), &threshold.about, receivers));
        }
        advice
    }
}

/// Paces that more than all samples would have to be over the limit for.
fn of_objective(budget: &Budget) -> Option<String> {
    let objective = budget.objective?;
    let out_of_reach = PACES.iter().filter(|pace| pace.factor * (1.0 - objective) >= 1.0);
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

fn of_routes(kind: &str, name: &str, about: &About, receivers: &[String]) -> Option<String> {
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
    use crate::budget::effective;
    use crate::rule::file::shipped;

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
    fn what_is_probably_not_meant_is_said_in_one_line_each() {
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
        let scaled = Rules { time_scale: 60, ..Rules::default() };
        assert_eq!(scaled.advice(Window::FiveMinutes, &[]).len(), 1);
    }
}
