//! The rate limit of the emergency lane: a token bucket with a reserve for critical messages.
//!
//! Counts in whole nanoseconds, so that no fraction of a token is lost or invented.
//!
//! DESIGN N14.

use std::time::Duration;

use plimsoll_schemas::time::{Mono, nanos};

/// One token, in units of which `per_minute` are added each nanosecond.
const TOKEN: u64 = 60_000_000_000;

/// A bucket of tokens; each message takes one.
#[derive(Clone, Debug)]
pub(in crate::core) struct TokenBucket {
    per_minute: u64,
    capacity: u64,
    reserved: u64,
    level: u64,
    filled_at: Mono,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens, the last `reserved` of which only critical messages may
    /// take.
    pub(in crate::core) fn new(per_minute: u32, burst: u32, reserved: u32) -> Self {
        let capacity = u64::from(burst) * TOKEN;
        Self {
            per_minute: u64::from(per_minute),
            capacity,
            reserved: u64::from(reserved) * TOKEN,
            level: capacity,
            filled_at: Mono(0),
        }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// When there is none; returns the time of the next.
    pub(in crate::core) fn try_take(&mut self, now: Mono, critical: bool) -> Result<(), Mono> {
        let grown = nanos(now.since(self.filled_at)).saturating_mul(self.per_minute);
        self.level = self.level.saturating_add(grown).min(self.capacity);
        self.filled_at = self.filled_at.max(now);
        let needed = if critical { TOKEN } else { self.reserved + TOKEN };
        if self.level >= needed {
            self.level -= TOKEN;
            return Ok(());
        }
        let missing = (needed - self.level).div_ceil(self.per_minute.max(1));
        Err(self.filled_at.plus(Duration::from_nanos(missing)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn taken(bucket: &mut TokenBucket, now: Mono, critical: bool) -> usize {
        (0..1_000).take_while(|_| bucket.try_take(now, critical).is_ok()).count()
    }

    #[test]
    fn everyday_messages_leave_the_reserve_to_critical_ones() {
        let mut bucket = TokenBucket::new(120, 20, 5);
        assert_eq!(taken(&mut bucket, Mono(0), false), 15);
        assert_eq!(taken(&mut bucket, Mono(0), true), 5);
        assert_eq!(bucket.try_take(Mono(0), true), Err(Mono(0).plus(SECOND / 2)));
        assert_eq!(bucket.try_take(Mono(0), false), Err(Mono(0).plus(3 * SECOND)));
    }

    #[test]
    fn a_token_is_available_at_the_returned_time_and_not_before() {
        let mut bucket = TokenBucket::new(7, 1, 0);
        assert_eq!(bucket.try_take(Mono(0), false), Ok(()));
        let at = bucket.try_take(Mono(0), false).unwrap_err();
        assert_eq!(bucket.try_take(Mono(at.0 - 1), false), Err(at));
        assert_eq!(bucket.try_take(at, false), Ok(()));
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_makes_no_token() {
        let mut bucket = TokenBucket::new(120, 2, 0);
        assert_eq!(taken(&mut bucket, Mono(5_000_000_000), true), 2);
        assert_eq!(taken(&mut bucket, Mono(0), true), 0);
        assert_eq!(taken(&mut bucket, Mono(5_000_000_000), true), 0);
    }

    proptest! {
        #[test]
        fn no_span_sees_more_than_its_rate_and_one_burst(
            requests in prop::collection::vec((0..3_000_u64, any::<bool>()), 1..400),
            from in any::<prop::sample::Index>(),
        ) {
            let mut bucket = TokenBucket::new(120, 20, 5);
            let (mut now, mut times) = (Mono(0), Vec::new());
            for (milliseconds, critical) in requests {
                now = now.plus(Duration::from_millis(milliseconds));
                if bucket.try_take(now, critical).is_ok() {
                    times.push(now);
                }
            }
            let since = &times[from.index(times.len())..];
            let span = since[since.len() - 1].since(since[0]).as_millis();
            prop_assert!(since.len() as u128 <= span * 120 / 60_000 + 20);
        }
    }
}
