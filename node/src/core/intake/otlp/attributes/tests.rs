//! Attributes in any order and of any kind.

use super::*;
use crate::core::intake::otlp::writer::Writer;

fn state() -> FixedState {
    FixedState::with_seed(7)
}

fn with(value: &Writer) -> Writer {
    Writer::default().message(7, &Writer::default().text(1, "k").message(2, value))
}

#[test]
fn the_order_of_attributes_changes_nothing_and_each_of_them_something() {
    let pair = |key, value| Writer::default().attribute(7, key, value).0;
    let hash = |parts: &[Vec<u8>]| Attributes::new(&parts.concat(), 7).hash(&state());
    let (a, b, c) = (pair("a", "1"), pair("b", "2"), pair("b", "1"));
    assert_eq!(hash(&[a.clone(), b.clone()]), hash(&[b.clone(), a.clone()]));
    let all = [vec![], vec![a.clone()], vec![a.clone(), b.clone()], vec![a, c], vec![b]];
    let different: std::collections::BTreeSet<u64> = all.iter().map(|parts| hash(parts)).collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn values_become_text_and_what_is_nested_does_not() {
    for (value, expected) in [
        (Writer::default().text(1, "é"), Some("é")),
        (Writer::default().varint(2, 1), Some("true")),
        (Writer::default().varint(2, 0), Some("false")),
        (Writer::default().varint(3, (-5_i64).cast_unsigned()), Some("-5")),
        (Writer::default().double(4, 0.5), Some("0.5")),
        (Writer::default(), Some("")),
        (Writer::default().bytes(5, b""), None),
        (Writer::default().bytes(6, b""), None),
        (Writer::default().bytes(7, b"x"), None),
    ] {
        let bytes = with(&value).0;
        let attributes = Attributes::new(&bytes, 7);
        assert_eq!(attributes.get("k").as_deref(), expected);
        let mut pairs = Pairs::default();
        pairs.add_all(attributes);
        assert_eq!(
            (pairs.iter().count(), pairs.nested),
            match expected {
                Some(_) => (1, 0),
                None => (0, 1),
            }
        );
    }
}

#[test]
fn labels_are_named_first_and_the_rest_follows_in_order_of_keys() {
    let point = Writer::default().attribute(7, "z.a", "1").attribute(7, "b", "2").0;
    let resource = Writer::default().attribute(1, "service.name", "shop").0;
    let resource = Attributes::new(&resource, 1).list();
    let named = ["service.name=service", "absent=x"].map(|text| LabelOf::read(text).unwrap());
    let mut pairs = Pairs::default();
    pairs.add("service", "own");
    pairs.add_named(&named, |key| resource.get(key));
    pairs.add_all(Attributes::new(&point, 7));
    let all: Vec<_> = pairs.iter().collect();
    assert_eq!(all, [("service", "own"), ("b", "2"), ("z_a", "1")]);
}

#[test]
fn attributes_beyond_the_bound_separate_series_only() {
    let attribute = |n: usize| Writer::default().attribute(7, &format!("k{n}"), "v").0;
    let many = |n| (0..n).flat_map(attribute).collect::<Vec<u8>>();
    let (most, more) = (many(OTLP_ATTRIBUTES_MAX), many(OTLP_ATTRIBUTES_MAX + 3));
    let [most, more] = [&most, &more].map(|bytes| Attributes::new(bytes, 7));
    assert_ne!(most.hash(&state()), more.hash(&state()));
    let mut pairs = Pairs::default();
    pairs.add_all(more);
    assert_eq!((pairs.iter().count(), pairs.beyond), (OTLP_ATTRIBUTES_MAX, 3));
}

#[test]
fn what_every_point_needs_is_found_without_a_second_pass() {
    let junk = [0x78, 1].repeat(100_000);
    let attribute = |key| Writer::default().attribute(1, key, "v").0;
    let message = [attribute("a"), junk, attribute("b")].concat();
    let listed = Attributes::new(&message, 1).list();
    // Walked each time, this would be half a minute at best and hours in a body of its full size.
    for _ in 0..100_000 {
        assert_eq!(listed.get("b").as_deref(), Some("v"));
        assert_eq!(listed.get("c"), None);
    }
}
