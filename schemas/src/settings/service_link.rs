//! Variables that Kubernetes sets for every service of a namespace, whatever the service's name.
//!
//! For a service named `plimsoll-aggregator`, each container gets `PLIMSOLL_AGGREGATOR_PORT` and a
//! few more. None of them is meant as a setting, and no setting has such a name.

/// Whether a variable's name, after our prefix, is such a link. The service's name may continue
/// after the prefix: `plimsoll-aggregator-metrics` results in `METRICS_SERVICE_HOST`.
pub(crate) fn is_service_link(name: &str, value: &str) -> bool {
    let words: Vec<&str> = name.split('_').collect();
    (0..words.len()).any(|at| {
        let (service, link) = words.split_at(at);
        // An empty word is our own `__`, which separates a section from its key.
        !service.contains(&"") && is_link(link, service.is_empty() || value.contains("://"))
    })
}

fn is_link(words: &[&str], is_port: bool) -> bool {
    let number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    match words {
        ["SERVICE", "HOST"] | ["SERVICE", "PORT", ..] => true,
        ["PORT"] => is_port,
        ["PORT", port, "TCP" | "UDP" | "SCTP", ..] => number(port),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_of_a_service_is_a_link() {
        for name in [
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_HTTP",
            "PORT",
            "PORT_9900_TCP",
            "PORT_9900_TCP_PROTO",
            "PORT_9900_TCP_PORT",
            "PORT_9900_TCP_ADDR",
            "PORT_8125_UDP",
            "METRICS_SERVICE_HOST",
            "METRICS_PORT",
            "METRICS_PORT_9900_TCP_ADDR",
        ] {
            assert!(is_service_link(name, "tcp://10.0.0.7:9900"), "{name}");
        }
    }

    #[test]
    fn correct_keys_get_no_suggestion() {
        for name in [
            "HTTP_PORT",
            "HTTP__PORT",
            "PORTS",
            "PORT_TCP",
            "PORT_X_TCP",
            "SERVICE",
            "BUS__SERVICE_HOST",
            "BUS__PORT_1_TCP",
            "",
        ] {
            assert!(!is_service_link(name, "9900"), "{name}");
        }
    }
}
