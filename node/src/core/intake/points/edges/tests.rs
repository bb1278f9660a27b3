//! Edges written down, and edges against integers; times no conversion.

use proptest::prelude::*;

use super::*;
use crate::core::intake::lines::TimeUnit;

const UNITS: [(ValueUnit, u64); 4] = [
    (ValueUnit::Time(TimeUnit::Seconds), 1_000_000_000),
    (ValueUnit::Time(TimeUnit::Milliseconds), 1_000_000),
    (ValueUnit::Time(TimeUnit::Microseconds), 1_000),
    (ValueUnit::Time(TimeUnit::Nanoseconds), 1),
];

#[test]
fn an_edge_written_as_a_decimal_is_the_nanoseconds_meant() {
    for (text, unit, ns) in [
        ("0.018", ValueUnit::Time(TimeUnit::Seconds), 18_000_000),
        ("0.005", ValueUnit::Time(TimeUnit::Seconds), 5_000_000),
        ("0.1", ValueUnit::Time(TimeUnit::Seconds), 100_000_000),
        ("7.5", ValueUnit::Time(TimeUnit::Seconds), 7_500_000_000),
        ("0.7", ValueUnit::Time(TimeUnit::Milliseconds), 700_000),
        ("4.35", ValueUnit::Time(TimeUnit::Microseconds), 4_350),
        ("1e-9", ValueUnit::Time(TimeUnit::Seconds), 1),
        ("0", ValueUnit::Time(TimeUnit::Seconds), 0),
    ] {
        let expected = Edge { over_ns: ns, upto_ns: ns };
        assert_eq!(Edge::of(text.parse().unwrap(), unit), expected, "{text} {unit:?}");
    }
}

#[test]
fn an_edge_between_two_nanoseconds_is_rounded_outward() {
    let edge = |value| Edge::of(value, ValueUnit::Time(TimeUnit::Seconds));
    for (value, over_ns, upto_ns) in [
        (0.018_f64.next_down(), 17_999_999, 18_000_000),
        (0.018_f64.next_up(), 18_000_000, 18_000_001),
        (1.5e-9, 1, 2),
        (1e-30, 0, 1),
        (-1.0, 0, 0),
        (1e300, u64::MAX, u64::MAX),
    ] {
        assert_eq!(edge(value), Edge { over_ns, upto_ns }, "{value:e}");
    }
}

proptest! {
    #[test]
    fn whatever_whole_nanosecond_a_decimal_names_it_stays(
        ns in prop_oneof![0..=MAX_NS, 0..1_000_000_u64],
        unit in 0..4_usize,
    ) {
        let (unit, per) = UNITS[unit];
        let width = per.ilog10() as usize;
        let text = format!("{}.{:0width$}", ns / per, ns % per);
        prop_assert_eq!(
            Edge::of(text.parse().unwrap(), unit), Edge { over_ns: ns, upto_ns: ns }, "{}", text
        );
    }

    #[test]
    fn an_edge_is_off_by_less_than_two_nanoseconds_and_outward(
        mantissa in 1_u64 << 52..1 << 53,
        doublings in -92..-10_i32,
        unit in 0..4_usize,
    ) {
        let (unit, per) = UNITS[unit];
        let value = mantissa as f64 * f64::from(doublings).exp2();
        let (product, shift) = (u128::from(mantissa) * u128::from(per), doublings.unsigned_abs());
        let (floor, rest) = (product >> shift, product % (1 << shift));
        prop_assume!(floor < 1 << 53);
        let Edge { over_ns, upto_ns } = Edge::of(value, unit);
        if over_ns == upto_ns {
            prop_assert_eq!(over_ns as f64 / per as f64, value);
        } else {
            let ceil = floor + u128::from(rest > 0);
            prop_assert!((floor.saturating_sub(1)..=floor).contains(&over_ns.into()), "{over_ns}");
            prop_assert!((ceil..=ceil + 1).contains(&upto_ns.into()), "{upto_ns} {ceil}");
        }
    }

    #[test]
    fn a_power_equals_sixty_binary_digits(
        scale in -10..=20_i32,
        nanosecond in 0.0..41.7_f64,
        unit in 0..4_usize,
    ) {
        let (unit, per) = UNITS[unit];
        // 2^nanosecond ns, near the power of that index.
        #[expect(clippy::cast_possible_truncation, reason = "far below 2^63")]
        let index = ((nanosecond - (per as f64).log2()) * f64::from(scale).exp2()).floor() as i64;
        let (over_ns, upto_ns) = exact(scale, index, per);
        let edge = Edge::power(scale, index, unit);
        prop_assert!(edge.over_ns <= over_ns && edge.over_ns + 1 >= over_ns, "{edge:?} {over_ns}");
        prop_assert!(edge.upto_ns >= upto_ns && edge.upto_ns <= upto_ns + 1, "{edge:?} {upto_ns}");
    }
}

/// The power times `per`, rounded down and up, by integers of 64 binary places alone.
fn exact(scale: i32, index: i64, per: u64) -> (u64, u64) {
    let (doublings, mut rest, scale) = match u32::try_from(scale) {
        Ok(scale) => (index >> scale, index & ((1 << scale) - 1), scale),
        Err(_) => (index << scale.unsigned_abs(), 0, 0),
    };
    // 2^(rest / 2^scale) from its binary digits: each is the power of a root of two.
    let mut power = 1_u128 << 63;
    for place in 1..=scale {
        if rest >> (scale - place) & 1 == 1 {
            power = (power * root(place)) >> 63;
        }
    }
    rest = rest.min(1);
    let product = power * u128::from(per);
    let shift = 63 - doublings;
    if !(0..=126).contains(&shift) {
        let tiny = shift > 126;
        return if tiny { (0, 1) } else { (u64::MAX, u64::MAX) };
    }
    let floor = product >> shift;
    let is_whole = rest == 0 && product.is_multiple_of(1 << shift);
    let floor = u64::try_from(floor).unwrap_or(u64::MAX);
    (floor, floor + u64::from(!is_whole))
}

/// 2^(2^-place), with 63 binary places.
fn root(place: u32) -> u128 {
    (0..place).fold(2_u128 << 63, |root, _| (root << 63).isqrt())
}
