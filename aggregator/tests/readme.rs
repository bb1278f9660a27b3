//! The tables in the documents equal what ships: burn rates and template fields.

use std::collections::BTreeSet;

use plimsoll_aggregator::core::alerting::fields::{fields, sample};
use plimsoll_schemas::budget::{BURN_RATES, BurnRate};

const RULES: &str = include_str!("../doc/rules.md");

/// The rows of the table with this head.
fn table(head: &str) -> Vec<&'static str> {
    let (_, behind) = RULES.split_once(head).expect("the table's head");
    let rows = behind.lines().skip(2);
    rows.take_while(|row| row.starts_with('|')).collect()
}

#[test]
fn the_table_of_burn_rates_is_what_ships() {
    let row = |pace: &BurnRate| {
        let BurnRate { factor, long, short, severity, .. } = pace;
        let severity = severity.as_str();
        format!("| `<budget>_burn_{long}` | {factor} | {long} and {short} | {severity} |")
    };
    let shipped: Vec<String> = BURN_RATES.iter().map(row).collect();
    assert_eq!(table("| rule | burn rate | over | severity |"), shipped);
}

#[test]
fn the_template_fields_are_all_named() {
    let (_, behind) = RULES.split_once("The fields are ").expect("the list of fields");
    let (list, _) = behind.split_once("\n\n").expect("the end of the list");
    let named: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();
    let all = fields(&sample(), Some("key"));
    assert_eq!(named, all.keys().copied().collect::<BTreeSet<&str>>());
}
