//! Limits of a control group and of the groups above it, and which of them is the tightest.

use plimsoll_schemas::hardware::MissingReading;

use super::super::root::{Kept, Root};
use super::super::scale::Raw;
use super::super::table::{self, NO_LIMIT};
use super::controller::Controller;

/// One file of the group and of each above it: its own first.
pub(super) fn upwards(root: &Root, controller: &Controller, file: &str) -> Vec<Kept> {
    controller.folders().map(|folder| root.kept(&format!("{folder}/{file}"))).collect()
}

/// The tightest of several limits, and which one that is: the first if there is none. A group
/// without the file is the topmost one, or one for which no limit may be set.
pub(super) fn tightest(limits: impl Iterator<Item = Raw>) -> (usize, Raw) {
    let mut tightest = (0, Err(NO_LIMIT));
    for (position, limit) in limits.enumerate() {
        match (tightest.1, limit) {
            (Ok(known), Ok(limit)) if known <= limit => {}
            (_, Ok(limit)) => tightest = (position, Ok(limit)),
            (_, Err(why)) if why == NO_LIMIT || why == MissingReading::unsupported("not_found") => {
            }
            // A limit that cannot be read may be the tightest.
            (_, Err(why)) => return (0, Err(why)),
        }
    }
    tightest
}

/// `max` or a number, which may be as large as to mean the same.
pub(super) fn limit(text: &str) -> Raw {
    if text.trim() == "max" {
        return Err(NO_LIMIT);
    }
    table::limit(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_of_several_limits_holds_and_none_is_no_number() {
        let absent = Err(MissingReading::unsupported("not_found"));
        let broken = Err(MissingReading::failed("not_a_number"));
        for (limits, want) in [
            (vec![Ok(5.0), Ok(3.0), Err(NO_LIMIT), absent, Ok(3.0)], (1, Ok(3.0))),
            (vec![Err(NO_LIMIT), absent, Ok(7.0)], (2, Ok(7.0))),
            (vec![absent, Err(NO_LIMIT)], (0, Err(NO_LIMIT))),
            (vec![], (0, Err(NO_LIMIT))),
            (vec![Ok(5.0), broken, Ok(3.0)], (0, broken)),
        ] {
            assert_eq!(tightest(limits.iter().copied()), want, "{limits:?}");
        }
    }

    #[test]
    fn a_limit_is_a_configured_number() {
        assert_eq!(limit("1073741824\n"), Ok(1_073_741_824.0));
        assert_eq!(limit("0"), Ok(0.0));
        for none in ["max\n", "9223372036854771712", "9223372036854710272"] {
            assert_eq!(limit(none), Err(NO_LIMIT), "{none}");
        }
        assert_eq!(limit("lots"), Err(MissingReading::failed("not_a_number")));
    }
}
