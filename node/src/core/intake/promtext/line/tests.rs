//! Lines one by one, and held against a writer of lines.

use proptest::prelude::*;

use super::*;

/// A row as text: name, labels, value.
fn got(line: &[u8]) -> Result<String, Reject> {
    let mut labels = Vec::new();
    Ok(match parse(line, &mut labels)? {
        Line::Row(row) => {
            assert_eq!(pairs(row.labels), labels, "labels are read twice alike");
            let labels = labels.iter().map(|(key, value)| format!("{key}={value:?}"));
            format!("{}{{{}}} {}", row.name, labels.collect::<Vec<_>>().join(","), row.value)
        }
        Line::Type(name, kind) => format!("type {name} {kind:?}"),
        Line::Unit(name, unit) => format!("unit {name} {unit}"),
        Line::End => "end".to_owned(),
        Line::Ignored => String::new(),
    })
}

#[test]
fn lines_are_read_or_refused_by_reason() {
    use Reject::{Encoding, Name, Number, Shape, Timestamp, Type};
    for (line, expected) in [
        ("a 1", Ok("a{} 1")),
        ("  a\t 1.50 \r", Ok("a{} 1.5")),
        ("a{} 1", Ok("a{} 1")),
        ("a {b=\"c\"} 1", Ok("a{b=\"c\"} 1")),
        ("a{b=\"c\",d=\"\",} 1e3", Ok("a{b=\"c\",d=\"\"} 1000")),
        ("a{ b = \"c\" , d=\"}\" }2", Ok("a{b=\"c\",d=\"}\"} 2")),
        ("a:b_1{le=\"+Inf\"} +Inf", Ok("a:b_1{le=\"+Inf\"} inf")),
        ("a NaN 1700000000000", Ok("a{} NaN")),
        ("a -Inf 1.7e9", Ok("a{} -inf")),
        ("a 1 # {trace=\"x\"} 0.5 1.7", Ok("a{} 1")),
        ("a 1 2 # {} 3", Ok("a{} 1")),
        (r#"a{b="\\ \" \n \x #"} 1"#, Ok(r#"a{b="\\ \" \n \\x #"} 1"#)),
        ("a{b=\"größe\"} 1", Ok("a{b=\"größe\"} 1")),
        ("", Ok("")),
        ("# a remark", Ok("")),
        ("#HELP", Ok("")),
        ("# HELP a what it is", Ok("")),
        ("# TYPE a histogram", Ok("type a Histogram")),
        ("#  TYPE\ta   untyped", Ok("type a Untyped")),
        ("# UNIT a_seconds seconds", Ok("unit a_seconds seconds")),
        ("# EOF", Ok("end")),
        ("# EOF of what", Ok("")),
        ("# TYPE a heap", Err(Type)),
        ("# TYPE a", Err(Type)),
        ("1a 1", Err(Name)),
        ("{\"a\"} 1", Ok("a{} 1")),
        ("{ \"a.b\" , c=\"d\" } 1", Ok("a.b{c=\"d\"} 1")),
        ("a{\"b\"=\"c\"} 1", Ok("a{b=\"c\"} 1")),
        ("# TYPE \"a.b\" histogram", Ok("type a.b Histogram")),
        ("{b=\"c\"} 1", Err(Name)),
        ("a{\"b\"} 1", Err(Name)),
        ("{\"a\\n\"} 1", Err(Name)),
        ("{b=\"c\",\"a\"} 1", Err(Shape)),
        ("größe 1", Err(Name)),
        ("a.b 1", Err(Name)),
        ("a", Err(Shape)),
        ("a{b=\"c\"}", Err(Shape)),
        ("a{b=\"c\" 1", Err(Shape)),
        ("a{b=\"c} 1", Err(Shape)),
        ("a{b=\"c\\", Err(Shape)),
        ("a{b=c} 1", Err(Shape)),
        ("a{b} 1", Err(Shape)),
        ("a{,} 1", Err(Shape)),
        ("a{b=\"c\"d=\"e\"} 1", Err(Shape)),
        ("a{b=\"c\",b=\"c\"} 1", Err(Shape)),
        ("a 1 2 3", Err(Shape)),
        ("a one", Err(Number)),
        ("a 0x10", Err(Number)),
        ("a 1 yesterday", Err(Timestamp)),
        ("a 1 NaN", Err(Timestamp)),
    ] {
        let read = got(line.as_bytes());
        assert_eq!(read, expected.map(str::to_owned), "{line:?}");
    }
    assert_eq!(got(b"a{b=\"\xff\"} 1"), Err(Encoding));
    assert_eq!(got(b"a{b=\"\\n\xff\"} 1"), Err(Encoding));
    assert_eq!(got(b"# TYPE \xff gauge"), Err(Encoding));
}

#[test]
fn a_line_and_its_labels_are_bounded() {
    let row = |labels: usize| {
        let labels: Vec<_> = (0..labels).map(|n| format!("k{n}=\"\"")).collect();
        format!("a{{{}}} 1", labels.join(","))
    };
    assert!(got(row(ROW_LABELS_MAX).as_bytes()).is_ok());
    assert_eq!(got(row(ROW_LABELS_MAX + 1).as_bytes()), Err(Reject::TooLong));
    let long = |bytes: usize| format!("a{{b=\"{}\"}} 1", "x".repeat(bytes - 9));
    assert!(got(long(LINE_BYTES_MAX).as_bytes()).is_ok());
    assert!(got(long(LINE_BYTES_MAX + 1).as_bytes()).is_err_and(|why| why == Reject::TooLong));
    let help = format!("# HELP a {}", "x".repeat(LINE_BYTES_MAX));
    assert_eq!(got(help.as_bytes()), Ok(String::new()), "nothing of it is read");
}

/// A row in the form that the format requires.
fn written(name: &str, labels: &[(String, String)], value: f64) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<_> =
        labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    format!("{name}{{{}}} {value:?}", labels.join(","))
}

proptest! {
    #[test]
    fn a_row_comes_back_as_it_was_written(
        name in "[a-zA-Z_:][a-zA-Z0-9_:]{0,9}",
        labels in proptest::collection::btree_map(
            "[a-z_][a-z0-9_]{0,5}", "[a-c\"\\\\\n,{}=#é ]{0,6}", 0..5),
        value in any::<f64>(),
    ) {
        let labels: Vec<_> = labels.into_iter().collect();
        let line = written(&name, &labels, value);
        let mut read = Vec::new();
        let Line::Row(row) = parse(line.as_bytes(), &mut read).unwrap() else { panic!("{line}") };
        prop_assert_eq!((row.name, row.value.to_bits()), (&name[..], value.to_bits()));
        let read: Vec<_> = read.iter().map(|(k, v)| ((*k).to_owned(), v.to_string())).collect();
        prop_assert_eq!(read, labels);
    }

    #[test]
    fn no_bytes_are_more_than_a_refusal(line in proptest::collection::vec(
        prop_oneof![Just(b'"'), Just(b'\\'), Just(b'{'), Just(b'}'), Just(b'='), Just(b','),
            Just(b' '), Just(b'#'), Just(b'a'), Just(b'1'), any::<u8>()],
        0..40,
    )) {
        let _outcome = got(&line);
    }
}
