//! Checks of listeners and connections that reach beyond this machine without TLS or credentials.

use std::net::SocketAddr;

use plimsoll_aggregator::config::Config as AggregatorConfig;
use plimsoll_node::config::Config as NodeConfig;
use plimsoll_runtime::settings::BusSettings;

use super::super::finding::{DoctorReport, Finding};
use super::super::settings::Local;

/// Checks both programs' settings.
pub(in super::super) fn check(local: &Local, report: &mut DoctorReport) {
    report.add("listeners", local.node.as_ref().map(of_node).map_err(Clone::clone));
    report.add("listeners", local.aggregator.as_ref().map(of_aggregator).map_err(Clone::clone));
}

fn of_node(config: &NodeConfig) -> Vec<Finding> {
    let any = "any client that reaches it can write metrics of this node";
    let fix = "with a proxy for TLS and authentication in front of it";
    let otlp = [("otlp.http", config.otlp.http), ("otlp.grpc", config.otlp.grpc)];
    let otlp = otlp.into_iter().filter_map(|(key, at)| Some((key, at?)));
    let intake = config.listen.addresses().chain(otlp);
    let intake = intake.filter_map(|(key, at)| exposed("node", key, at, any, fix));
    let http = &config.http;
    let guards = Guards {
        has_tls: http.certificate_file.is_some(),
        has_token: http.reader_token_file.is_some(),
    };
    let pages = http.address.and_then(|address| exposed_pages("node", address, guards));
    intake.chain(pages).chain(bus("node", &config.bus)).collect()
}

fn of_aggregator(config: &AggregatorConfig) -> Vec<Finding> {
    let http = &config.http;
    let guards = Guards {
        has_tls: http.certificate_file.is_some(),
        has_token: http.reader_token_file.is_some(),
    };
    let address = exposed_pages("aggregator", http.address, guards);
    address.into_iter().chain(bus("aggregator", &config.bus)).collect()
}

/// What keeps strangers from a program's pages.
#[derive(Clone, Copy)]
struct Guards {
    has_tls: bool,
    /// Whether readers need a token.
    has_token: bool,
}

fn exposed_pages(program: &str, address: SocketAddr, guards: Guards) -> Option<Finding> {
    let (what, fix) = match guards {
        Guards { has_tls: true, has_token: true } => return None,
        Guards { has_tls: false, has_token: false } => (
            "reading needs no token, and TLS is off",
            "or http.certificate_file, http.key_file and http.reader_token_file",
        ),
        Guards { has_tls: false, has_token: true } => {
            ("tokens are sent without TLS", "or http.certificate_file and http.key_file")
        }
        Guards { has_tls: true, has_token: false } => {
            ("reading needs no token", "or http.reader_token_file")
        }
    };
    exposed(program, "http.address", address, what, fix)
}

fn exposed(
    program: &str,
    key: &str,
    address: SocketAddr,
    what: &str,
    fix: &str,
) -> Option<Finding> {
    let ip = address.ip();
    if ip.to_canonical().is_loopback() {
        return None;
    }
    let what = format!("listens beyond this machine: {what}");
    let fix = format!("set {key} = \"127.0.0.1:{}\", {fix}", address.port());
    Some(Finding::warning(&format!("{key} of the {program}, {address}"), what, &fix))
}

fn bus(program: &str, bus: &BusSettings) -> Vec<Finding> {
    let urls = bus.url.split(',').map(str::trim).filter(|url| !url.is_empty());

    let has_credentials = bus.token.is_some()
        || bus.user.is_some()
        || bus.nkey_seed_file.is_some()
        || bus.credentials_file.is_some();

    let finding = |url: &str| {
        let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
        let (secret, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if url.starts_with("tls://") || is_loopback(host) {
            return None;
        }

        let what = if has_credentials || !secret.is_empty() {
            "messages and credentials cross the network without TLS"
        } else {
            "messages cross the network without TLS, and anyone there can send some"
        };

        let fix = format!("set bus.url = \"tls://{host}\" and credentials, on both sides");
        let place = format!("bus.url of the {program}, {host}");
        Some(Finding::warning(&place, what.to_owned(), &fix))
    };

    urls.filter_map(finding).collect()
}

fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.trim_matches(['[', ']']);
    name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(found: &[Finding]) -> Vec<&str> {
        found.iter().map(|found| found.place.as_str()).collect()
    }

    #[test]
    fn defaults_reach_nobody_else() {
        assert_eq!(of_node(&NodeConfig::default()), []);
        assert_eq!(of_aggregator(&AggregatorConfig::default()), []);
    }

    #[test]
    fn each_exposed_listener_is_named_with_the_key_that_closes_it() {
        let mut node = NodeConfig::default();
        node.listen.udp = Some(([0, 0, 0, 0], 8125).into());
        node.http.address = Some("[::]:9901".parse().unwrap());
        node.otlp.grpc = Some("[::ffff:127.0.0.1]:4317".parse().unwrap());
        let found = of_node(&node);
        let expected =
            ["listen.udp of the node, 0.0.0.0:8125", "http.address of the node, [::]:9901"];
        assert_eq!(places(&found), expected);
        assert!(found[0].fix.starts_with("set listen.udp = \"127.0.0.1:8125\""), "{found:?}");
        let mut aggregator = AggregatorConfig::default();
        aggregator.http.address = ([10, 0, 0, 7], 9900).into();
        let found = of_aggregator(&aggregator);
        assert_eq!(places(&found), ["http.address of the aggregator, 10.0.0.7:9900"]);
        assert!(found[0].what.contains("TLS is off"), "{found:?}");
        aggregator.http.reader_token_file = Some("/t".into());
        let found = of_aggregator(&aggregator);
        assert!(found[0].what.contains("tokens are sent without TLS"), "{found:?}");
        assert!(found[0].fix.ends_with("or http.certificate_file and http.key_file"), "{found:?}");
        aggregator.http.certificate_file = Some("/c".into());
        assert_eq!(of_aggregator(&aggregator), []);
    }

    #[test]
    fn a_broker_elsewhere_without_tls_is_named_without_its_password() {
        let of =
            |url: &str| bus("node", &BusSettings { url: url.to_owned(), ..BusSettings::default() });
        for fine in ["nats://127.0.0.1:4222", "nats://u:p@localhost", "nats://[::1]:1", "tls://h"] {
            assert_eq!(of(fine), [], "{fine}");
        }
        let found = of("nats://u:hush@broker:4222, tls://b");
        assert_eq!(places(&found), ["bus.url of the node, broker:4222"]);
        assert!(found[0].what.contains("credentials cross"), "{found:?}");
        assert!(!format!("{found:?}").contains("hush"));
        assert!(of("nats://broker")[0].what.contains("anyone there"));
    }
}
