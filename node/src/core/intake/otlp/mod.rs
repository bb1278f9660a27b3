//! OpenTelemetry in: what a body of OTLP says, as points and latencies. Refuses what cannot be
//! one, each with a reason that its producer is told in words.
//!
//! A body's way: [`json`] writes JSON as the same message in Protocol Buffers, [`protobuf`] walks
//! all of it, so that a malformed one changes nothing; then [`metrics`] reads its points, each a
//! [`data_point`], and [`traces`] reads spans by [`rules`]. [`attributes`] tell streams apart and
//! become labels; [`schema`] holds the numbers of it all. What a point adds is not decided here.

mod attributes;
mod data_point;
pub mod figures;
pub mod glob;
mod json;
mod metrics;
mod protobuf;
pub mod rules;
mod schema;
mod seen;
mod traces;
mod words;

use std::collections::BTreeSet;

use crate::limits::{OTLP_MESSAGE_BYTES_MAX, OTLP_POINTS_MAX};
use foldhash::fast::FixedState;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::time::Now;

use data_point::Lists;
use figures::OtlpFigures;
use seen::Seen;

use super::Intake;
use super::reject::Reject;
use super::rules::Rules;
use crate::core::Core;

/// What a body tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `ExportMetricsServiceRequest`.
    Metrics,
    /// `ExportTraceServiceRequest`.
    Traces,
}

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

/// What became of a body that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Points or spans that were not taken; the rest of the body was.
    pub refused: u64,
    /// Why the first of them was not, and what would help.
    pub message: Option<String>,
}

/// A body that cannot be read: nothing of it is taken. Says what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

/// What is known of OTLP from one body to the next.
pub(in crate::core) struct Otlp {
    rules: Rules,
    state: FixedState,
    lists: Lists,
    seen: Seen,
    figures: OtlpFigures,
    /// Reasons that were told to the operator.
    warned: BTreeSet<Reject>,
    warnings: Vec<String>,
}

impl Malformed {
    fn new(of: &str, what: &dyn ToString) -> Self {
        let mut text = format!("{of}: {}", what.to_string());
        text.truncate(text.floor_char_boundary(OTLP_MESSAGE_BYTES_MAX));
        Self(text)
    }
}

impl Otlp {
    /// Nothing yet. `seed` is a number that a sender does not choose.
    pub(in crate::core) fn new(rules: Rules, seed: u64) -> Self {
        Self {
            rules,
            state: FixedState::with_seed(seed),
            lists: Lists::default(),
            seen: Seen::default(),
            figures: OtlpFigures::default(),
            warned: BTreeSet::new(),
            warnings: Vec::new(),
        }
    }

    /// Takes a body into `intake`, or refuses all of it where there is none any more.
    ///
    /// # Errors
    /// When it cannot be read whole; then nothing of it is taken.
    pub(in crate::core) fn on_body(
        &mut self,
        intake: Option<&mut Intake>,
        now: Now,
        (signal, encoding): (Signal, Encoding),
        body: &[u8],
    ) -> Result<Outcome, Malformed> {
        let message = match signal {
            Signal::Metrics => &schema::METRICS,
            Signal::Traces => &schema::TRACES,
        };
        let written;
        let read = match encoding {
            Encoding::Protobuf => Ok(body),
            Encoding::Json => match json::to_protobuf(message, body) {
                Ok(bytes) => {
                    written = bytes;
                    Ok(&written[..])
                }
                Err(malformed) => Err(malformed),
            },
        };
        let checked = read.and_then(|body| Ok((body, items(message, body)?)));
        self.figures.on_body(signal, checked.is_ok());
        let (body, items) = checked?;
        let Some(intake) = intake else {
            let message = "the node is leaving; send this again to the one that follows";
            return Ok(Outcome { refused: items, message: Some(message.to_owned()) });
        };
        Ok(match signal {
            Signal::Metrics => self.on_metrics(intake, now, body),
            Signal::Traces => self.on_traces(intake, body),
        })
    }

    /// Tells the producer why the first was refused, and the operator of each reason once.
    fn on_item(
        &mut self,
        outcome: &mut Outcome,
        taken: Result<(), Reject>,
        words: impl Fn(Reject) -> String,
    ) {
        let Err(reason) = taken else { return };
        outcome.refused += 1;
        outcome.message.get_or_insert_with(|| words(reason));
        if self.warned.insert(reason) {
            self.warnings.push(words(reason));
        }
    }

    /// What came so far.
    pub(in crate::core) fn figures(&self) -> OtlpFigures {
        self.figures.clone()
    }
}

impl Core {
    /// Takes one body of OTLP: each point or span of it is taken or refused. A leaving node refuses
    /// all of them, so whoever can still ask for another try should.
    ///
    /// # Errors
    /// When it cannot be read whole; then nothing of it is taken.
    pub fn on_otlp(
        &mut self,
        now: Now,
        signal: Signal,
        encoding: Encoding,
        body: &[u8],
    ) -> Result<Outcome, Malformed> {
        let intake = (!self.leaving).then_some(&mut self.intake);
        self.otlp.on_body(intake, now, (signal, encoding), body)
    }

    /// What the operator should know, once for each reason: many an SDK keeps to itself what its
    /// producer is told.
    pub fn take_otlp_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.otlp.warnings)
    }
}

/// How many points or spans a body holds.
fn items(message: &'static schema::Message, body: &[u8]) -> Result<u64, Malformed> {
    let items =
        protobuf::check(message, body).map_err(|fault| Malformed::new(fault.of, &fault.what))?;
    if items > OTLP_POINTS_MAX {
        let what =
            format!("{items} points or spans, more than {OTLP_POINTS_MAX}; send fewer at once");
        return Err(Malformed::new(message.name, &what));
    }
    Ok(items as u64)
}

/// A name as an operation: what does not fit becomes `_`.
fn fit_operation(name: &str) -> Result<Operation, Reject> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
    let fit: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    Operation::new(fit).map_err(|_| Reject::Name)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod writer;
