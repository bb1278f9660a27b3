//! Names the straggler among peers that do the same work, with a stated bound on false names.
//!
//! A [`Cohort`] takes what each [`Peer`] reports of each [`Interval`], and returns an
//! [`Evaluation`]: the culprits, by how much they are slower, since when, in which class of time,
//! at what cost, and with what chance that noise alone would show as much. Over a week the expected
//! number of false names is at most one, over all peers of all rules. The crate has no input or
//! output, no clock and no randomness: the same reports in any order have the same result.
//!
//! # Method
//!
//! A peer is healthy if it is no slower than the median peer by more than 3 % of the median peer's
//! work per step. Two rules say what *slower* is ([`Rule`]): under a barrier it is to wait less,
//! otherwise it is to take longer.
//!
//! 1. Intervals are merged into *bins*: one interval, or as many as the median peer needs for one
//!    step (`cohort`). A peer's excess in a bin is relative to the median peer's, so what slows all
//!    peers alike cancels out (`judged`).
//! 2. Five bins are a *block*, one ending with every bin. Its level is their median. What the level
//!    before the block predicts is taken off; the rest is the *residual* (`member`, `noise`).
//! 3. Residuals are divided by a standard deviation that all peers and their past show, with
//!    allowances for its error, for a peer that varies more than others, for sudden noise, and for
//!    dependence that reaches beyond a block (`noise`).
//! 4. Each residual multiplies the peer's *evidence* (`evidence`), and e-values of all peers decide
//!    who is named (`naming`). A name ends when the excess is shown to be over (`suspicion`).
//!
//! Files, from the bottom up: `limits`, `order`, `ring`; `report` and `setup` are what comes in;
//! `evidence` and `noise`; `suspicion` and `member` are one peer; `culprit` is what goes out;
//! `judged` is one bin, `naming` the decision, `cohort` all of it. DESIGN A180, A181.
//!
//! # Limits
//!
//! - A peer that is slow in fewer than half of its bins is not found: medians leave these bins out.
//!   At many steps in a bin each bin has a part of them, and it is found. For bursts of slow steps
//!   a second cohort takes the same reports in intervals of 15 seconds, as a further rule.
//! - A peer whose noise has just become louder may be named within its first minutes.
//! - None is named in the first 120 bins or more, in which the noise is learned, nor of two peers.
//!
//! # How the aggregator feeds it
//!
//! One [`Cohort`] for each operation and cohort of ranks whose steps may be compared: same run,
//! same role. Of each rank and second of event time it needs a [`StepTimes`]:
//!
//! | number | from |
//! |---|---|
//! | steps | samples of the operation that spans a step |
//! | nanoseconds of each class of work | sums of the operations of input, compute, checkpoint |
//! | nanoseconds of each class of waiting | the same of sync; `waits least` needs it |
//!
//! These are counts and sums of the snapshots' histograms, which are exact; no quantile and no
//! single sample is needed. A class without samples where steps were made is reported as 0 if the
//! rank is known to measure it, and left out otherwise. Several snapshots of one second add up. The
//! aggregator calls [`Cohort::evaluate`] once a second with the second that is running, and with
//! the number of peers of all cohorts as [`Hypotheses`]. It counts refused reports by reason.
//! Evidence is not kept over a restart: a cohort learns for two minutes or more, and a name that
//! held before it is found anew.

mod cohort;
mod culprit;
mod evidence;
mod judged;
pub mod limits;
mod member;
mod naming;
mod noise;
mod order;
mod report;
mod ring;
mod setup;
mod suspicion;

pub use cohort::{Cohort, ReportError};
pub use culprit::{Counts, Culprit, Evaluation, Excess};
pub use limits::CULPRITS_MAX;
pub use naming::Hypotheses;
pub use report::{Class, Interval, Peer, StepTimes};
pub use setup::{ClassKind, Rule, Setup, SetupError};
