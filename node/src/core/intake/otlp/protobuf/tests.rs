//! Bytes right and wrong, and what is left of them.

use proptest::prelude::*;

use super::*;
use crate::core::intake::otlp::schema::{METRICS, TRACES};
use crate::core::intake::otlp::writer::{Writer, varint};

fn fault(bytes: &[u8]) -> &'static str {
    check(&METRICS, bytes).unwrap_err().what
}

#[test]
fn each_wire_type_is_read_and_a_group_is_passed_over() {
    let group = [0x1b, 0x08, 0x01, 0x23, 0x24, 0x1c];
    let bytes = [
        &Writer::default().varint(1, u64::MAX).fixed(2, 7).bytes(3, b"ab").0[..],
        &group,
        &[0x2d, 1, 2, 3, 4],
    ]
    .concat();
    let read: Vec<_> = fields(&bytes).collect();
    let expected = [
        (1, Wire::Varint(u64::MAX)),
        (2, Wire::Fixed64(7)),
        (3, Wire::Bytes(b"ab")),
        (3, Wire::Group),
        (5, Wire::Fixed32(0x0403_0201)),
    ];
    assert_eq!(read, expected);
}

#[test]
fn malformed_text_is_named() {
    let deep = (0..200).fold(Writer::default(), |inner, _| Writer::default().message(99, &inner));
    for (bytes, what) in [
        (&[0x08][..], "ends within a number"),
        (&[0x08, 0x80], "ends within a number"),
        (&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1], "more than ten bytes"),
        (&[0x0a, 5, 1], "ends within a field"),
        (&[0x0a, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1], "ends within a field"),
        (&[0x09, 1, 2, 3], "ends within a field"),
        (&[0x00, 0], "impossible number"),
        (&[0x0e, 0], "unknown wire type"),
        (&[0x0c], "unknown wire type"),
        (&[0x0b, 0x14], "unknown wire type"),
        (&[0x0b], "ends within a number"),
        (&[0x0b; 200], "nested too deeply"),
    ] {
        assert!(fault(bytes).contains(what), "{bytes:?}: {}", fault(bytes));
    }
    assert_eq!(check(&METRICS, &deep.0), Ok(0), "unknown fields are no depth");
}

#[test]
fn values_within_values_are_bounded_in_depth() {
    let nest = |levels| {
        let value = (0..levels).fold(Writer::default().text(1, "v"), |inner, _| {
            Writer::default().message(5, &Writer::default().message(1, &inner))
        });
        let attribute = Writer::default().text(1, "k").message(2, &value);
        let resource = Writer::default().message(1, &attribute);
        Writer::default().message(1, &Writer::default().message(1, &resource)).0
    };
    assert_eq!(check(&TRACES, &nest(40)), Ok(0));
    let fault = check(&TRACES, &nest(60)).unwrap_err();
    assert_eq!(fault.what, "is nested too deeply");
}

#[test]
fn texts_and_lists_are_checked_and_points_counted() {
    let body = |point: Writer| {
        let data = Writer::default().message(1, &point).message(1, &point);
        let metric = Writer::default().text(1, "a").message(9, &data);
        let scope = Writer::default().message(2, &metric);
        Writer::default().message(1, &Writer::default().message(2, &scope)).0
    };
    assert_eq!(check(&METRICS, &body(Writer::default())), Ok(2));
    let odd = check(&METRICS, &body(Writer::default().bytes(6, &[1; 9]))).unwrap_err();
    let expected = "has a list that ends within a number";
    assert_eq!(odd, Fault { of: "histogram point", what: expected });
    let attribute = Writer::default().message(9, &Writer::default().bytes(1, b"\xff"));
    let text = check(&METRICS, &body(attribute)).unwrap_err();
    assert_eq!(text, Fault { of: "attribute", what: "has a text that is not UTF-8" });
}

#[test]
fn signed_numbers_are_what_their_writer_meant() {
    for value in [0, -1, 1, i32::MIN, i32::MAX, -10, 20] {
        let bytes = Writer::default().signed(1, value).0;
        let Some((1, Wire::Varint(number))) = fields(&bytes).next() else { panic!("{bytes:?}") };
        assert_eq!(zigzag(number), value);
    }
}

#[test]
fn numbers_of_any_size_are_written_as_protobuf_has_them() {
    for (number, bytes) in [
        (0, vec![0]),
        (127, vec![0x7f]),
        (128, vec![0x80, 0x01]),
        (u64::MAX, [vec![0xff; 9], vec![0x01]].concat()),
    ] {
        let mut written = Vec::new();
        push_varint(&mut written, number);
        assert_eq!(written, bytes, "{number}");
    }
}

proptest! {
    #[test]
    fn numbers_come_back(number in any::<u64>(), shift in 0..64_u32) {
        let number = number >> shift;
        let bytes = varint(number);
        let mut rest = &bytes[..];
        prop_assert_eq!((take_varint(&mut rest), rest), (Ok(number), &[][..]));
    }

    #[test]
    fn any_bytes_end_in_fields_or_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let all = Fields { rest: &bytes }.count();
        prop_assert!(all <= bytes.len());
        let _fault: Result<usize, Fault> = check(&METRICS, &bytes);
    }
}
