//! A report as JUnit XML, which build servers read: one test case for each expectation.

use std::fmt::Write;

use super::expectation::{Outcome, Verdict};
use super::report::Report;

pub fn document(report: &Report) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail, here and below.
    let _written = writeln!(
        text,
        "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" \
         time=\"{:.3}\">",
        escaped(&report.drill),
        report.expectations.len(),
        report.count(Verdict::Missed),
        report.count(Verdict::Skipped),
        report.took.as_secs_f64()
    );

    for outcome in &report.expectations {
        case(&mut text, &report.drill, outcome);
    }
    text + "</testsuite>\n"
}

fn case(text: &mut String, drill: &str, outcome: &Outcome) {
    let Outcome { name, expected, seen, took, verdict } = outcome;
    let [drill, name, expected, seen] = [drill, name, expected, seen].map(escaped);
    let took = took.as_secs_f64();
    let _written =
        write!(text, "  <testcase classname=\"{drill}\" name=\"{name}\" time=\"{took:.3}\">");
    let _written = match verdict {
        Verdict::Met => Ok(()),
        Verdict::Missed => {
            write!(text, "<failure message=\"expected {expected}; seen {seen}\"/>")
        }
        Verdict::Skipped => write!(text, "<skipped message=\"{seen}\"/>"),
    };
    text.push_str("</testcase>\n");
}

/// Text that is safe in an attribute. Characters that XML 1.0 cannot hold become U+FFFD.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // Written plainly, a parser would read these as blanks.
            '\n' | '\r' | '\t' => {
                let _written = write!(safe, "&#{};", u32::from(c));
            }
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }

    safe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::expectation::{Drill, Expectation, Look};
    use super::*;

    fn report(seen: &str) -> Report {
        let mut drill = Drill::begin("drill-test");
        let since = drill.elapsed();
        drill.judge(Expectation::new("one", "a"), since, Look::new(true, "a"));
        drill.judge(Expectation::new("two", "p99 > 18 ms"), since, Look::new(false, seen));
        drill.skip(Expectation::new("three", "c"), "it never fired");
        Report::new(&drill)
    }

    #[test]
    fn a_document_counts_and_names_every_expectation() {
        let document = document(&report("\"none\"\nat all"));
        for part in [
            "<testsuite name=\"drill-test\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\"",
            "name=\"one\" time=\"",
            "\"></testcase>",
            "<failure message=\"expected p99 &gt; 18 ms; seen &quot;none&quot;&#10;at all\"/>",
            "name=\"three\" time=\"",
            "\"><skipped message=\"it never fired\"/></testcase>",
        ] {
            assert!(document.contains(part), "{part} is not in {document}");
        }
        assert!(document.ends_with("</testsuite>\n"));
    }

    proptest! {
        #[test]
        fn no_text_can_break_out_of_its_attribute(seen in any::<String>()) {
            let plain = document(&report("x"));
            let any = document(&report(&seen));
            prop_assert_eq!(plain.lines().count(), any.lines().count());
            for mark in ['<', '>', '"'] {
                prop_assert_eq!(plain.matches(mark).count(), any.matches(mark).count());
            }
            let forbidden = |c: char| c < ' ' && c != '\n';
            prop_assert!(!any.chars().any(forbidden));
        }
    }
}
