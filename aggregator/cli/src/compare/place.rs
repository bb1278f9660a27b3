//! Where a side is, and its runs from there.

use anyhow::{Context, Result};
use jiff::Zoned;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::ids::Operation;

use super::aggregator::{Source, Stored, named};
use super::loaded::LoadedRun;
use super::source::load;
use crate::interval_log::Unit;

/// Where a side is: `run:NAMES`, `range:FROM/TO` or a file.
pub(crate) enum Place {
    Stored(Stored),
    File(Option<Unit>),
}

impl Place {
    /// # Errors
    /// When a range cannot be parsed.
    pub(crate) fn of(text: &str, unit: Option<Unit>) -> Result<Self> {
        let stored = named(text, &Zoned::now())?;
        Ok(stored.map_or(Self::File(unit), Self::Stored))
    }
}

/// The runs of a side. The aggregator is asked if it has them.
///
/// # Errors
/// When they cannot be read; names the side.
pub(crate) async fn runs(
    api: impl FnOnce() -> Result<Api>,
    text: &str,
    place: &Place,
    operations: &[Operation],
) -> Result<Vec<LoadedRun>> {
    match place {
        Place::File(unit) => {
            let side = load(text.as_ref(), *unit)?;
            Ok(vec![LoadedRun { name: text.to_owned(), side }])
        }
        Place::Stored(stored) => {
            let api = api()?;
            let source = Source::of(&api, operations).await?;
            source.runs(text, stored).await.with_context(|| text.to_owned())
        }
    }
}
