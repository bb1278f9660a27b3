//! The plot: how many culprits are named by which second, and false names a week.

use std::fmt::Write;

use crate::rows::Row;
use crate::simulation::Calm;
use crate::table::{calm, slow, within};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 330.0;
/// The left panel: its edges, and the seconds along it.
const LEFT: (f64, f64) = (50.0, 420.0);
const SECONDS: u64 = 120;
/// The right panel's bars, and the decades along them.
const BARS: (f64, f64) = (640.0, 840.0);
const DECADES: (f64, f64) = (-2.0, 7.0);
const TOP: f64 = 40.0;
const BOTTOM: f64 = 290.0;

/// Curves: label, rule, colour, dashes.
const CURVES: [(&str, &str, &str, &str); 7] = [
    ("waits least, 8 ranks, 1/s, 0.8", "Plimsoll", "#1f77b4", ""),
    ("waits least, 64 ranks, 1/s, 0.8", "Plimsoll", "#d62728", ""),
    ("waits least, 1000 ranks, 1/s, 0.8", "Plimsoll", "#2ca02c", ""),
    ("waits least, 64 ranks, 1/s, 0.95", "Plimsoll", "#9467bd", ""),
    ("waits least, 64 ranks, 10/s, 0.8", "Plimsoll", "#7f7f7f", ""),
    ("waits least, 64 ranks, 1/s, 0.8", "TraceML: waits least, by 10 %", "#d62728", "2 3"),
    ("waits least, 64 ranks, 1/s, 0.8", "Ingero: median + 3 MAD", "#d62728", "8 4"),
];
/// Bars: those of these labels.
const BAR_LABELS: [&str; 3] = [
    "waits least, 8 ranks, 1/s, 0.8",
    "waits least, 64 ranks, 1/s, 0.8",
    "waits least, 1000 ranks, 1/s, 0.8",
];

pub(crate) fn plot(rows: &[Row]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut svg, (LEFT.0, 20.0), "Culprits (+20 %) by seconds until named");
    text(&mut svg, (470.0, 20.0), "False names a week (bars to the left end: none seen)");
    delays(&mut svg, rows);
    false_names(&mut svg, rows);
    svg + "</svg>\n"
}

fn delays(svg: &mut String, rows: &[Row]) {
    let x = |second: u64| LEFT.0 + (LEFT.1 - LEFT.0) * second as f64 / SECONDS as f64;
    let y = |share: f64| BOTTOM - (BOTTOM - TOP) * share;
    for percent in [0, 50, 95, 100] {
        let at = y(f64::from(percent) / 100.0);
        line(svg, (LEFT.0, at), (LEFT.1, at), "#ddd");
        text(svg, (10.0, at + 3.0), &format!("{percent} %"));
    }
    for second in (0..=SECONDS).step_by(30) {
        line(svg, (x(second), TOP), (x(second), BOTTOM), "#ddd");
        text(svg, (x(second) - 6.0, BOTTOM + 14.0), &format!("{second} s"));
    }

    for (place, (label, contender, colour, dashes)) in CURVES.into_iter().enumerate() {
        let mut all = slow(rows);
        let Some((_, _, delays)) = all.find(|row| (row.0, row.1) == (label, contender)) else {
            continue;
        };
        let share = |second| within(&delays, second) as f64 / delays.seconds.len() as f64;
        let points =
            (0..=SECONDS).map(|second| format!("{:.1},{:.1}", x(second), y(share(second))));
        let points = points.collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" stroke-dasharray=\"{dashes}\"/>"
        );
        let at = (LEFT.0 + 175.0, 190.0 + 14.0 * place as f64);
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"195\" height=\"14\" fill=\"white\"/>\
             <path d=\"M{:.1} {:.1}h16\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"/>",
            at.0 - 4.0,
            at.1 - 10.0,
            at.0,
            at.1 - 3.0,
        );
        let short = label.trim_start_matches("waits least, ");
        let of = contender.split([':', ',']).next().unwrap_or(contender);
        text(svg, (at.0 + 20.0, at.1), &format!("{of}: {short}"));
    }
}

fn false_names(svg: &mut String, rows: &[Row]) {
    let x = |decade: f64| {
        let share = (decade - DECADES.0) / (DECADES.1 - DECADES.0);
        BARS.0 + (BARS.1 - BARS.0) * share.clamp(0.0, 1.0)
    };
    for decade in [-2, 0, 2, 4, 6] {
        line(svg, (x(f64::from(decade)), TOP), (x(f64::from(decade)), BOTTOM), "#ddd");
        let words = format!("{}", 10_f64.powi(decade));
        text(svg, (x(f64::from(decade)) - 6.0, BOTTOM + 14.0), &words);
    }
    let of_plot = |label: &str| BAR_LABELS.contains(&label);
    let bars = calm(rows).into_iter().filter(|(label, ..)| of_plot(label));
    for (place, (label, contender, calm)) in bars.enumerate() {
        let at = TOP + 14.0 + 20.0 * place as f64;
        let ranks = label.trim_start_matches("waits least, ").split(',').next().unwrap_or_default();
        let of = contender.split([':', ',']).next().unwrap_or(&contender);
        text(svg, (470.0, at), &format!("{of}, {ranks}"));
        let end = x(rate(&calm).log10());
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"9\" fill=\"{}\"/>",
            BARS.0,
            at - 8.0,
            (end - BARS.0).max(1.0),
            if contender == "Plimsoll" { "#d62728" } else { "#999" },
        );
    }
}

fn rate(calm: &Calm) -> f64 {
    calm.names as f64 / calm.hours * 168.0
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, at: (f64, f64), words: &str) {
    let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{words}</text>", at.0, at.1);
}
