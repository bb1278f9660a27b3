//! A view as a page for Prometheus, in the format it asks for.
//!
//! Families come one after another, each with its help and type, as the formats demand; each is
//! described once, for all formats, and written by [`writer`]. It refuses to decide what is worth
//! showing: that is the view's part.

mod accounts;
mod alerts;
mod aliases;
mod delivery;
mod events;
mod families;
mod format;
mod hardware;
mod jobs;
mod judgements;
mod labels;
mod latencies;
mod number;
mod own;
mod process;
mod protobuf;
mod rule_files;
mod rules;
mod sets;
pub mod writer;

#[cfg(test)]
mod tests;

use plimsoll_schemas::budget::Budget;

pub use format::Format;
pub use own::{Looks, Own};

use crate::core::view::View;
use families::Page;
use writer::Writer;

/// What is shown beside a view's own rows.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// What is judged.
    pub budgets: &'a [Budget],
    /// Whether the names that former systems used are shown too.
    pub aliases: bool,
}

/// A whole page: the fleet, the nodes of the view, and what the aggregator says of itself.
#[must_use]
pub fn page(view: &View, shown: Shown<'_>, own: &Own, format: Format) -> Vec<u8> {
    let mut writer = Writer::new(format);
    Page::new(view, shown, &writer).write(&mut writer);
    own::write(&mut writer, view, own);
    delivery::write(&mut writer, view);
    process::write(&mut writer);
    writer.finish()
}

/// Only what the view says of its nodes; for a view without the fleet.
#[must_use]
pub fn nodes_page(view: &View, shown: Shown<'_>, format: Format) -> Vec<u8> {
    let mut writer = Writer::new(format);
    Page::new(view, shown, &writer).write_nodes(&mut writer);
    writer.finish()
}

/// What a view says of the fleet and its nodes, as text.
#[must_use]
pub fn fleet(view: &View, budgets: &[Budget]) -> String {
    let mut writer = Writer::new(Format::Text);
    Page::new(view, Shown { budgets, aliases: false }, &writer).write(&mut writer);
    text(writer)
}

/// What the aggregator says about itself, as text.
#[must_use]
pub fn own(view: &View) -> String {
    let mut writer = Writer::new(Format::Text);
    own::write(&mut writer, view, &Own::default());
    delivery::write(&mut writer, view);
    process::write(&mut writer);
    text(writer)
}

fn text(writer: Writer) -> String {
    String::from_utf8(writer.finish()).expect("names, numbers and escaped text are UTF-8")
}
