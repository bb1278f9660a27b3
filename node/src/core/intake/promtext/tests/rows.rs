//! What rows of one page make.

use proptest::prelude::*;

use super::*;
use crate::core::intake::glob::Glob;

/// As the Python library writes it for a request of the older format.
const TEXT: &str = "\
# HELP lat_seconds L
# TYPE lat_seconds histogram
lat_seconds_bucket{le=\"0.01\",path=\"/a\\\"b\"} 1.0
lat_seconds_bucket{le=\"0.1\",path=\"/a\\\"b\"} 3.0
lat_seconds_bucket{le=\"+Inf\",path=\"/a\\\"b\"} 4.0
lat_seconds_count{path=\"/a\\\"b\"} 4.0
lat_seconds_sum{path=\"/a\\\"b\"} 7.5
# TYPE lat_seconds_created gauge
lat_seconds_created{path=\"/a\\\"b\"} 1.5e+09
# TYPE hits_total counter
hits_total 2.0
# TYPE hits_created gauge
hits_created 1.6e+09
# TYPE depth gauge
depth -2.0
# TYPE sz summary
sz{quantile=\"0.5\"} 3.0
sz{quantile=\"0.9\"} NaN
sz_count 1.0
sz_sum 3.0
plain{x=\"\"} 1 1700000000000
";

const POINTS: [&str; 7] = [
    "hits_total + 2 since 1600000000.000",
    "depth = -2",
    "sz{quantile=0.5} = 3",
    "sz_count + 1",
    "sz_sum + 3",
    "plain = 1",
    "lat_seconds{path=/a\"b} Time(Seconds) [0.01, 0.1] [1, 2, 1] sum 7.5 since 1500000000.000",
];

#[test]
fn a_page_of_either_format_becomes_points() {
    let mut desk = Desk::new(target());
    assert_eq!(desk.read(1, TEXT), POINTS);
    let openmetrics = TEXT
        .replace("# TYPE lat_seconds_created gauge\n", "# UNIT lat_seconds seconds\n")
        .replace("# TYPE hits_created gauge\n", "")
        .replace("hits_total counter", "hits counter")
        .replace("hits_total 2.0", "hits_total 2.0 # {trace=\"x\"} 1.0 1.6e9")
        + "# EOF\n";
    let mut desk = Desk::new(target());
    desk.format = Format::OpenMetrics;
    assert_eq!(desk.read(1, &openmetrics), POINTS);
    let figures = desk.figures();
    assert!(figures.is_up && figures.failures.is_empty());
    assert_eq!((figures.pages, figures.series, figures.rejected), (1, 7, 0));
}

#[test]
fn a_page_without_its_end_is_not_taken_where_its_format_demands_one() {
    let mut desk = Desk::new(target());
    desk.format = Format::OpenMetrics;
    assert_eq!(desk.read(1, "a 1\n"), [""; 0]);
    let figures = desk.figures();
    assert_eq!(figures.failures, [(Failure::Cut, 1)].into());
    assert_eq!(
        figures.failure.map(|failure| failure.to_string()).unwrap_or_default(),
        "the page does not end with # EOF, as OpenMetrics requires; see the log of the \
         target"
    );
    assert_eq!(desk.read(2, "a 1\n# EOF"), ["a = 1"]);
    assert_eq!(desk.figures().failure, None, "a page ends it");
}

#[test]
fn a_line_without_its_end_is_not_taken_because_it_may_be_a_smaller_number() {
    let mut desk = Desk::new(target());
    assert_eq!(desk.read(1, "a 1\nb 12"), ["a = 1", "b = 12"], "it is known to be whole");
    desk.is_whole = false;
    assert_eq!(desk.read(1, "a 1\nb 12"), ["a = 1"]);
    assert_eq!(desk.figures().rejected, 1);
    assert_eq!(desk.warnings, ["http://app/metrics: a line was rejected: truncated"]);
}

#[test]
fn histograms_are_put_together_from_rows_in_any_order_or_refused_alone() {
    for (rows, expected) in [
        ("a_count 3;a_bucket{le=\"2\"} 2;a_bucket{le=\"1\"} 1", Ok("[1.0, 2.0] [1, 1, 1] sum -")),
        ("a_bucket{le=\"+Inf\"} 3;a_bucket{le=\"1\"} 1;a_sum 4", Ok("[1.0] [1, 2] sum 4")),
        ("a_bucket{le=\"1\"} 1;a_bucket{le=\"1.0\"} 1;a_count 1", Ok("[1.0] [1, 0] sum -")),
        ("a_bucket{le=\"+Inf\"} 1e2;a_sum NaN", Ok("[] [100] sum -")),
        ("a_count 7;a_count 7", Ok("[] [7] sum -")),
        ("a_bucket{le=\"1\"} 2;a_bucket{le=\"2\"} 1;a_count 3", Err("counts")),
        ("a_bucket{le=\"1\"} 2;a_bucket{le=\"1\"} 3;a_count 3", Err("counts")),
        ("a_bucket{le=\"1\"} 1", Err("counts")),
        ("a_bucket{le=\"1\"} 4;a_count 3", Err("counts")),
        ("a_bucket{le=\"+Inf\"} 4;a_count 3", Err("counts")),
        ("a_count 1;a_count 2", Err("counts")),
        ("a_sum 1", Err("counts")),
        ("a_bucket 1;a_count 1", Err("bounds")),
        ("a_bucket{le=\"x\"} 1;a_count 1", Err("bounds")),
        ("a_bucket{le=\"NaN\"} 1;a_count 1", Err("bounds")),
        ("a_bucket{le=\"-Inf\"} 1;a_count 1", Err("bounds")),
        ("a_count 1.5", Err("number")),
        ("a_count -1", Err("number")),
        ("a_count NaN", Err("number")),
        ("a_bucket{le=\"+Inf\"} 1e300", Err("number")),
    ] {
        let mut desk = Desk::new(Target { unit: "ms".parse().unwrap(), ..target() });
        let text = rows.replace(';', "\nother 1\nother_count 9\n");
        let mut read = desk.read(1, &format!("{text}\nlast 2\n# TYPE a histogram\n"));
        let histograms: Vec<_> = read.extract_if(.., |point| point.starts_with("a ")).collect();
        let got = expected.map(|got| format!("a Time(Milliseconds) {got}"));
        assert_eq!(histograms, Vec::from_iter(got.ok()), "{rows}");
        assert_eq!(read.last().unwrap(), "last = 2");
        let refused =
            expected.err().map(|why| format!("http://app/metrics: \"a\" was rejected: {why}"));
        assert_eq!(desk.warnings, Vec::from_iter(refused), "{rows}");
    }
}

#[test]
fn series_of_one_histogram_differ_by_all_labels_except_bounds() {
    let page = "# TYPE a_us histogram\n\
                a_us_bucket{x=\"1\",le=\"1\",y=\"2\"} 1\n\
                a_us_bucket{x=\"2\",le=\"1\"} 5\n\
                a_us_count{y=\"2\",x=\"1\"} 1\n\
                a_us_count{z=\"\",x=\"2\"} 6\n";
    let expected = [
        "a_us{x=1,y=2} Time(Microseconds) [1.0] [1, 0] sum -",
        "a_us{x=2} Time(Microseconds) [1.0] [5, 1] sum -",
    ];
    assert_eq!(Desk::new(target()).read(1, page), expected);
}

#[test]
fn the_unit_comes_from_name_page_or_operator_only() {
    let page = |name: &str, more: &str| format!("# TYPE {name} histogram\n{more}{name}_count 1\n");
    for (name, more, unit, expected) in [
        ("a_ms", "# UNIT a_ms seconds\n", "us", Some("a_ms Time(Milliseconds)")),
        ("a", "# UNIT a seconds\n", "us", Some("a Time(Seconds)")),
        ("a", "# UNIT a lightyears\n", "us", Some("a Time(Microseconds)")),
        ("a", "", "ns", Some("a Time(Nanoseconds)")),
        ("a", "", "none", None),
        ("a_bytes", "", "s", Some("a:bytes Bytes")),
        ("a", "# UNIT a bytes\n", "s", Some("a:bytes Bytes")),
        ("a", "", "count", Some("a:count Count")),
    ] {
        let mut desk = Desk::new(Target { unit: unit.parse().unwrap(), ..target() });
        let got = desk.read(1, &page(name, more));
        let expected = expected.map(|series| format!("{series} [] [1] sum -"));
        assert_eq!(got, Vec::from_iter(expected), "{name} {more:?} {unit}");
        assert_eq!(desk.warnings.len(), usize::from(got.is_empty()));
    }
    let mut desk = Desk::new(target());
    (1..9).for_each(|at| assert_eq!(desk.read(at, &page("a", "")), [""; 0]));
    let words = "http://app/metrics: the unit of histogram \"a\" is unknown; set unit in its \
                 [[scrape]] to s, ms, us, ns, bytes or count, or remove the name from allow";
    assert_eq!((desk.warnings, desk.pages.stats()[0].rejected), (vec![words.to_owned()], 8));
}

#[test]
fn what_is_of_no_use_is_refused_or_left_out() {
    let page = "# TYPE g gaugehistogram\ng_bucket{le=\"1\"} 1\ng_gcount 1\n\
                # TYPE h_seconds histogram\nh_seconds 1\n\
                broken\n# TYPE build info\nbuild_info{v=\"1\"} 1\n\
                # TYPE s stateset\ns{s=\"on\"} 1\nNaN NaN\n";
    let mut desk = Desk::new(target());
    assert_eq!(desk.read(1, page), ["build_info{v=1} = 1", "s{s=on} = 1", "NaN = NaN"]);
    assert_eq!(desk.figures().rejected, 4);
    let got = |name: &str, why: &str| format!("http://app/metrics: {name:?} was rejected: {why}");
    let expected = [got("h_seconds", "shape"), got("g_bucket", "unsupported")];
    assert_eq!(desk.warnings, expected);
    let allow = vec![Glob::new("bui*"), Glob::new("h_seconds")];
    let mut desk = Desk::new(Target { allow, ..target() });
    assert_eq!(desk.read(1, page), ["build_info{v=1} = 1"]);
    assert_eq!((desk.figures().excluded, desk.figures().rejected), (4, 2));
}

#[test]
fn labels_of_the_operator_win_and_those_that_do_not_fit_are_counted() {
    let labels = plimsoll_schemas::ids::Labels::new([("app", "mine"), ("x", "1")]).unwrap();
    let mut desk = Desk::new(Target { labels, ..target() });
    let now = BEGAN.after(Duration::from_secs(1));
    assert_eq!(desk.read(1, "a{app=\"theirs\",y=\"2\"} 1\n"), ["a{app=mine,x=1,y=2} = 1"]);
    let page = format!("a{{y=\"{}\"}} 1\n", "é".repeat(100));
    let scrape = Scrape {
        target: 0,
        took: Duration::ZERO,
        page: Ok(Page { format: Format::Text, body: page.into_bytes(), is_whole: true }),
    };
    let received = desk.pages.on_scrape(now, &scrape, &mut |point| (point.series)().map(drop));
    assert_eq!(received.labels.sanitized, 1);
}

#[test]
fn a_page_brings_so_many_series_and_no_more() {
    let mut desk = Desk::new(Target { series_max: 2, ..target() });
    let page = "# TYPE h_ms histogram\na 1\nh_ms_bucket{le=\"1\"} 1\nh_ms_count 1\nb 1\nc 1\n";
    assert_eq!(desk.read(1, page), ["a = 1", "h_ms Time(Milliseconds) [1.0] [1, 0] sum -"]);
    let figures = desk.figures();
    assert_eq!((figures.series, figures.rejected), (2, 2));
    assert!(desk.warnings[0].contains("more than 2 series"), "{:?}", desk.warnings);
}

/// Rows of a histogram with these counts in its buckets.
fn rows(name: &str, label: u8, counts: &[u64]) -> Vec<String> {
    let mut below = 0;
    let mut rows: Vec<_> = counts
        .iter()
        .enumerate()
        .map(|(place, count)| {
            below += count;
            let last = place + 1 == counts.len();
            let le = if last { "+Inf".to_owned() } else { format!("{}", place + 1) };
            format!("{name}_bucket{{k=\"{label}\",le=\"{le}\"}} {below}\n")
        })
        .collect();
    rows.push(format!("{name}_count{{k=\"{label}\"}} {below}\n"));
    rows.push(format!("{name}_sum{{k=\"{label}\"}} 1.5\n"));
    rows
}

proptest! {
    #[test]
    fn whatever_the_order_of_rows_the_histograms_are_those_that_were_written(
        written in proptest::collection::btree_map(
            any::<u8>(), proptest::collection::vec(0_u64..1_000, 1..6), 0..6),
        seed in any::<u64>(),
    ) {
        let mut page: Vec<_> =
            written.iter().flat_map(|(k, counts)| rows("h_ns", *k, counts)).collect();
        let mut state = seed;
        for place in (1..page.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            page.swap(place, (state >> 33) as usize % (place + 1));
        }
        let page = format!("# TYPE h_ns histogram\n{}", page.concat());
        let mut read = Desk::new(target()).read(1, &page);
        read.sort_unstable();
        let mut expected: Vec<_> = written
            .iter()
            .map(|(k, counts)| {
                let bounds: Vec<_> = (1..counts.len()).map(|bound| bound as f64).collect();
                format!("h_ns{{k={k}}} Time(Nanoseconds) {bounds:?} {counts:?} sum 1.5")
            })
            .collect();
        expected.sort_unstable();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn a_page_of_anything_is_read_without_harm(
        page in "([a-c#{}=\", \\\\_\n0-9]|bucket|le|TYPE|histogram|# EOF|_count){0,80}",
    ) {
        let mut desk = Desk::new(Target { unit: "s".parse().unwrap(), ..target() });
        for at in 1..3 {
            let points = desk.read(at, &page);
            prop_assert!(points.len() <= 200, "{}", points.len());
        }
    }
}
