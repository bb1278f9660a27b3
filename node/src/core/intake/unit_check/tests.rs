//! The unit check on values as clients print them.

use proptest::prelude::*;

use super::*;

fn operation(name: &str) -> Operation {
    Operation::new(name).unwrap()
}

/// Sends each text as a line; returns the number of lines until the operation was decided.
fn feed(check: &mut UnitCheck, name: &str, texts: &[String]) -> Option<usize> {
    let is_named = name.ends_with("seconds");
    let is_decided = |text: &String| check.on_line(&operation(name), text.as_bytes(), is_named);
    texts.iter().position(is_decided).map(|line| line + 1)
}

/// Twenty durations in nanoseconds that differ in all digits, between a tenth of `scale` and it.
fn durations_ns(scale: u64) -> impl Iterator<Item = u64> {
    (1..=20_u64).map(move |n| scale / 10 + (n * 7_919_876_543) % (scale * 9 / 10))
}

/// A clock reading as a float of seconds, as Python has it, so long after `boot_s`.
#[expect(clippy::cast_precision_loss, reason = "as Python loses it")]
fn float_clock(boot_s: f64, ns: u64) -> f64 {
    (boot_s + ns as f64 / 1e9) - boot_s
}

fn is_suspect(texts: &[String]) -> bool {
    let mut check = UnitCheck::default();
    assert!(feed(&mut check, "op", texts).is_some(), "undecided: {texts:?}");
    !check.suspects.is_empty()
}

#[test]
fn seconds_of_a_python_clock_are_suspect_whatever_the_uptime() {
    for boot_s in [10.0, 86_400.0, 5e6, 1.8e9] {
        for scale in [3_000_000, 30_000_000, 900_000_000] {
            let texts: Vec<_> =
                durations_ns(scale).map(|ns| float_clock(boot_s, ns).to_string()).collect();
            assert!(is_suspect(&texts), "{boot_s} {scale}: {texts:?}");
        }
    }
}

#[test]
fn milliseconds_of_every_usual_clock_are_plausible() {
    type Print = fn(u64) -> String;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "as clients lose it"
    )]
    let prints: [(&str, Print); 10] = [
        ("whole microseconds", |ns| format!("{:.3}", (ns / 1_000) as f64 / 1e3)),
        ("six decimals", |ns| format!("{:.6}", ns as f64 / 1e6)),
        ("nanoseconds by a million", |ns| (ns as f64 / 1e6).to_string()),
        ("seconds times a thousand", |ns| (ns as f64 / 1e9 * 1e3).to_string()),
        ("single precision", |ns| format!("{:.12}", f64::from((ns as f64 / 1e6) as f32))),
        ("performance.now", |ns| ((5e6 + ns as f64 / 1e6) - 5e6).to_string()),
        ("time.monotonic, a day up", |ns| (float_clock(86_400.0, ns) * 1e3).to_string()),
        ("time.monotonic, a year up", |ns| (float_clock(3e7, ns) * 1e3).to_string()),
        ("time.time", |ns| (float_clock(1.8e9, ns) * 1e3).to_string()),
        ("rounded to milliseconds", |ns| ((ns as f64 / 1e6).round()).to_string()),
    ];
    for (about, print) in prints {
        for scale in [40_000, 500_000, 990_000, 30_000_000] {
            let texts: Vec<_> = durations_ns(scale).map(print).collect();
            assert!(!is_suspect(&texts), "{about}, {scale}: {texts:?}");
        }
    }
}

#[test]
fn few_decimals_are_suspect_only_below_a_name_of_seconds() {
    let texts = ["0.25", "0.031", "0.5"].map(str::to_owned);
    let texts: Vec<_> = texts.iter().cycle().take(20).cloned().collect();
    let mut check = UnitCheck::default();
    assert_eq!(feed(&mut check, "load", &texts), Some(20));
    assert_eq!(feed(&mut check, "load_seconds", &texts), Some(20));
    assert_eq!(check.suspects, [operation("load_seconds")]);
}

#[test]
fn values_of_a_millisecond_and_more_decide_with_the_third() {
    let mut check = UnitCheck::default();
    let slow = ["1.5", "12.000000001234", "30"].map(str::to_owned);
    assert_eq!(feed(&mut check, "op", &slow), Some(3));
    let mut warm: Vec<_> =
        durations_ns(30_000_000).map(|ns| float_clock(10.0, ns).to_string()).collect();
    warm[..2].fill("2.071234567891".to_owned());
    assert_eq!(feed(&mut check, "warm", &warm), Some(20));
    assert_eq!(check.suspects, [operation("warm")], "two slow first calls hide nothing");
}

#[test]
fn an_operation_is_reported_once_with_example_and_setting() {
    let mut check = UnitCheck::default();
    let texts = vec!["0.0301234567891".to_owned(); 60];
    assert_eq!(feed(&mut check, "train.step", &texts), Some(20));
    for text in &texts {
        assert!(check.on_line(&operation("train.step"), text.as_bytes(), false));
    }
    assert_eq!(
        check.take_warnings(),
        ["train.step looks like seconds: 0.0301234567891|ms is recorded as 30.123 us. If it is, \
          set units.patterns = [\"train.step=s\"], or use_ms=True in the datadog client"]
    );
    assert_eq!(check.take_warnings(), Vec::<String>::new());
}

#[test]
fn a_packed_line_is_read_value_by_value() {
    let mut check = UnitCheck::default();
    let packed = ["0.0301234567891"; 20].join(":");
    assert!(!check.on_line(&operation("op"), &packed.as_bytes()[..packed.len() - 16], false));
    assert!(check.on_line(&operation("op"), packed.as_bytes(), false));
    assert_eq!(check.suspects, [operation("op")]);
}

#[test]
fn a_flood_of_names_stays_bounded_and_reported_operations_stay_reported() {
    let mut check = UnitCheck::default();
    let packed = ["0.0301234567891"; 20].join(":");
    assert!(check.on_line(&operation("op"), packed.as_bytes(), false));
    for n in 0..3 * UNIT_CHECK_OPERATIONS_MAX {
        check.on_line(&operation(&format!("flood{n}")), b"0.5", false);
        assert!(check.by_operation.len() <= UNIT_CHECK_OPERATIONS_MAX);
    }
    assert!(check.on_line(&operation("op"), packed.as_bytes(), false));
    assert_eq!((&check.suspects[..], check.warnings.len()), (&[operation("op")][..], 1));
    for n in 0..2 * SUSPECT_UNITS_MAX {
        assert!(check.on_line(&operation(&format!("bad{n}")), packed.as_bytes(), false));
    }
    assert_eq!((check.suspects.len(), check.warnings.len()), (SUSPECT_UNITS_MAX, 64));
}

proptest! {
    #[test]
    fn whole_nanoseconds_are_never_evidence(ns in 1..1_000_000_u32) {
        prop_assert!(is_of_a_clock_in_ms(f64::from(ns) / 1e6));
        prop_assert!(is_of_a_clock_in_ms(f64::from(ns) / 1e9 * 1e3));
    }

    #[test]
    fn a_difference_of_floats_times_a_thousand_is_never_evidence(
        boot_s in 100.0..4e9_f64,
        ns in 300..900_000_u64,
    ) {
        let ms = float_clock(boot_s, ns) * 1e3;
        prop_assume!(ms > 0.0 && ms < 1.0);
        prop_assert!(is_of_a_clock_in_ms(ms), "{}", ms);
    }
}
