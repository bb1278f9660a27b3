//! Hands the fuzzer's bytes to the rule that the variable `RULE` names.

#![no_main]

use std::sync::LazyLock;

use plimsoll_fuzz::{RULES, Rule};

static CHECK: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("RULE").unwrap_or_default();
    let rule = RULES.iter().find(|rule| rule.name == name);
    let Some(Rule { check, .. }) = rule else { panic!("RULE={name}: name a rule of RULES") };
    *check
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| CHECK(bytes));
