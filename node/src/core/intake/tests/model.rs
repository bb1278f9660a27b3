//! A naive reading of the protocol, to which the fast one must come out equal.

use std::collections::BTreeMap;

use plimsoll_schemas::histogram::layout::{MAX_NS, index_of};

use super::*;

/// What a datagram comes to: samples by series and bucket, sums, last values, refusals.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    histograms: BTreeMap<String, BTreeMap<usize, u64>>,
    counters: BTreeMap<String, f64>,
    gauges: BTreeMap<String, f64>,
    refused: BTreeMap<&'static str, u64>,
}

/// One value, as text, in nanoseconds. Plain decimals exactly, by whole numbers alone.
fn latency(text: &str, decimals: u32) -> Result<u64, &'static str> {
    let value: f64 = text.parse().map_err(|_| "number")?;
    if !value.is_finite() {
        return Err("number");
    }
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && text.len() <= 19;
    if is_plain {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits: u128 = format!("0{whole}{part}").parse().unwrap();
        let scaled =
            digits * 10_u128.pow(decimals + 1) / 10_u128.pow(u32::try_from(part.len()).unwrap());
        let rounded = (scaled + 5) / 10;
        return Ok(u64::try_from(rounded).unwrap_or(u64::MAX));
    }
    if value < 0.0 {
        return Err("negative");
    }
    Ok(integer((value * 10_f64.powi(i32::try_from(decimals).unwrap())).round()))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and what is above the integer's range saturates"
)]
fn integer(value: f64) -> u64 {
    value as u64
}

fn series(name: &str, tags: &str) -> String {
    let mut labels = BTreeMap::new();
    for tag in tags.split(',').filter(|tag| !tag.is_empty()) {
        let (key, value) = tag.split_once(':').unwrap_or((tag, ""));
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let key: String = key.chars().map(|c| if fits(c) { c } else { '_' }).collect();
        let value: String = value.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
        if !key.is_empty() {
            labels.entry(key).or_insert(value);
        }
    }
    let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    if labels.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(",")) }
}

impl Outcome {
    fn line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let line = str::from_utf8(line).map_err(|_| "encoding")?.trim_end_matches('\r');
        let fields: Vec<&str> = line.split('|').collect();
        let (name, values) =
            fields[0].split_once(':').filter(|_| fields.len() > 1).ok_or("shape")?;
        if values.is_empty() {
            return Err("shape");
        }
        match fields[1] {
            "ms" | "h" | "d" | "c" | "g" | "ps" | "bytes" | "count" => {}
            "s" => return Err("unsupported"),
            _ => return Err("type"),
        }
        let (mut weight, mut tags) = (1.0, "");
        for field in &fields[2..] {
            if let Some(rate) = field.strip_prefix('@') {
                let rate: f64 = rate.parse().map_err(|_| "rate")?;
                let holds = rate > 0.0 && rate <= 1.0 && 1.0 / rate <= 1e6;
                weight = holds.then_some(1.0 / rate).ok_or("rate")?;
            } else if let Some(rest) = field.strip_prefix('#') {
                tags = rest;
            } else if let Some(at) = field.strip_prefix('T') {
                let is_time = at.bytes().all(|b| b.is_ascii_digit()) && at.len() < 11;
                let at = at.parse::<u64>().ok().filter(|at| is_time && *at > 0);
                at.filter(|at| *at < 9_223_372_035).ok_or("timestamp")?;
            }
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
        if name.is_empty() || name.len() > 128 || !name.chars().all(fits) {
            return Err("name");
        }
        let (bare, suffix) = name.rsplit_once(['_', '.', '-', '/']).unwrap_or(("", name));
        let unit = match fields[1] {
            "h" | "d" if suffix == "bytes" => suffix,
            kind => kind,
        };
        let series = match unit {
            "ps" | "bytes" | "count" => {
                let bare = if suffix == unit && !bare.is_empty() { bare } else { name };
                series(&format!("{bare}:{unit}"), tags)
            }
            _ => series(name, tags),
        };
        let decimals = match (unit, suffix) {
            ("bytes" | "ps", _) => 0,
            ("count", _) => 3,
            ("h" | "d", "seconds") => 9,
            ("h" | "d", "us") => 3,
            ("h" | "d", "ns") => 0,
            _ => 6,
        };
        let values = values.split(':');
        match fields[1] {
            "c" | "g" => {
                let values: Result<Vec<f64>, _> = values.map(str::parse).collect();
                let values = values.map_err(|_| "number")?;
                if values.iter().any(|value| !value.is_finite()) {
                    return Err("number");
                }
                if fields[1] == "g" {
                    self.gauges.insert(series, values[values.len() - 1]);
                } else {
                    *self.counters.entry(series).or_default() +=
                        values.iter().map(|value| value * weight).sum::<f64>();
                }
            }
            _ => {
                let values: Result<Vec<u64>, _> = values.map(|v| latency(v, decimals)).collect();
                let buckets = self.histograms.entry(series);
                let values = values?;
                let buckets = buckets.or_default();
                for value in values {
                    *buckets.entry(index_of(value.min(MAX_NS))).or_default() += integer(weight);
                }
            }
        }
        Ok(())
    }

    fn of_model(datagram: &[u8]) -> Self {
        let mut outcome = Self::default();
        for line in datagram.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if let Err(reason) = outcome.line(line) {
                *outcome.refused.entry(reason).or_default() += 1;
            }
        }
        outcome
    }

    fn of_intake(intake: &mut Intake, datagram: &[u8]) -> Self {
        let refused = take(intake, datagram);
        let latency = intake.close(NOW).latency;
        let buckets = |histogram: &plimsoll_schemas::histogram::Histogram| {
            histogram.counts().iter().collect()
        };
        Self {
            histograms: latency
                .histograms
                .iter()
                .map(|(s, h)| (s.to_string(), buckets(h)))
                .collect(),
            counters: latency.counters.iter().map(|(s, sum)| (s.to_string(), *sum)).collect(),
            gauges: latency.gauges.iter().map(|(s, value)| (s.to_string(), *value)).collect(),
            refused,
        }
    }
}

/// Values small and exact enough that sums do not depend on their order.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[0-9]{1,4}(\\.[0-9]{1,3})?",
        2 => "[-+]?[0-9]{0,3}\\.?[0-9]{0,12}",
        1 => "[0-9]{17,21}",
        1 => prop::sample::select(vec![
            "", ".", "-1", "NaN", "inf", "1e3", "1e308", "5e-324", "0x1", "1_0", "-0", "1.5.2", "é",
        ]).prop_map(str::to_owned),
    ]
}

fn line() -> impl Strategy<Value = String> {
    let names = vec!["a", "b.c", "x_seconds", "x.us", "y/ns", "z-bytes", "", "a b", "é", "_x"];
    let name =
        prop_oneof![4 => prop::sample::select(names).prop_map(str::to_owned), 1 => "[a-c]{1,3}"];
    let values = prop::collection::vec(value(), 1..4).prop_map(|values| values.join(":"));
    let kind = prop::sample::select(vec![
        "ms", "ms", "h", "d", "c", "g", "s", "x", "", "ps", "bytes", "count",
    ]);
    let field = prop_oneof![
        3 => "#[a-c]{0,2}(:[a-c]{0,2})?(,[a-cé\\x07]{0,2}(:[a-c:]{0,2})?){0,3}",
        2 => prop::sample::select(vec![
            "@0.5", "@1", "@0.25", "@0", "@-1", "@NaN", "@1e-12", "@2", "@", "c:ci-1", "e:x", "",
            "card:low", "T0", "Tx", "T1.5", "T99999999999", "x",
        ]).prop_map(str::to_owned),
    ];
    let fields = prop::collection::vec(field, 0..3).prop_map(|fields| {
        fields.into_iter().fold(String::new(), |line, field| line + "|" + &field)
    });
    (name, values, kind, fields)
        .prop_map(|(name, values, kind, fields)| format!("{name}:{values}|{kind}{fields}"))
}

fn assert_equal(intake: &mut Intake, datagram: &[u8]) -> Result<(), TestCaseError> {
    let shown = String::from_utf8_lossy(datagram).into_owned();
    let expected = Outcome::of_model(datagram);
    let found = Outcome::of_intake(intake, datagram);
    prop_assert_eq!(&found.refused, &expected.refused, "{}", shown);
    prop_assert_eq!(&found.histograms, &expected.histograms, "{}", shown);
    prop_assert_eq!(&found.gauges, &expected.gauges, "{}", shown);
    prop_assert_eq!(found.counters.len(), expected.counters.len());
    for (series, sum) in &expected.counters {
        let found = found.counters[series];
        prop_assert!((found - sum).abs() <= sum.abs() * 1e-9 || found.abs() > 1e300, "{}", shown);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn lines_valid_and_nearly_so_come_out_as_in_the_naive_reading(
        datagrams in prop::collection::vec(prop::collection::vec(line(), 1..6), 1..4),
    ) {
        // One intake for all: what it received before must change nothing.
        let mut intake = intake();
        for lines in &datagrams {
            let datagram = lines.join("\n");
            assert_equal(&mut intake, datagram.as_bytes())?;
            assert_equal(&mut intake, datagram.replace('\n', "\r\n\n").as_bytes())?;
        }
    }

    #[test]
    fn a_damaged_line_comes_out_as_in_the_naive_reading(
        line in line(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = line.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        prop_assume!(!events::is_event(&bytes) && !bytes.starts_with(Sequence::PREFIX));
        assert_equal(&mut intake(), &bytes)?;
    }

    #[test]
    fn arbitrary_text_comes_out_as_in_the_naive_reading(
        text in "[ab:|msghdc@#T.0-9,\n\r\u{0}é-]{0,60}",
    ) {
        assert_equal(&mut intake(), text.as_bytes())?;
    }
}
