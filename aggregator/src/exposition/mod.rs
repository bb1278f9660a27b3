//! A read view as a page for Prometheus, in the format that the client accepts.
//!
//! [`writer`] implements the formats, `labelled_view` renders the labels that families share, and
//! `families` has one file for each group of metric families. This room keeps no state, and it does
//! not decide which nodes a page holds: the view does.
//!
//! DESIGN A38, A40.

mod external_labels;
mod families;
mod labelled_view;
pub mod writer;

#[cfg(test)]
mod tests;

use plimsoll_schemas::budget::Budget;

pub use families::{
    PageOptions, PageStats, ReadViewStats, RefusedStreams, ServingStats, StreamStats,
};
pub use writer::{Format, join};

use crate::core::view::View;
use labelled_view::LabelledView;
use writer::{Part, Writer};

/// A whole page: the fleet, the nodes of the view, and the aggregator itself.
pub fn page(
    view: &View,
    options: PageOptions<'_>,
    serving: &ServingStats,
    format: Format,
) -> Vec<u8> {
    let mut writer = Writer::new(format);
    let labelled = LabelledView::new(view, &writer);
    families::write_fleet(&mut writer, &labelled, options);
    families::write_aggregator(&mut writer, view, serving);
    writer.finish()
}

/// The page of a process that waits for a partition: its build, and that it stands by.
pub fn standby_page(format: Format) -> Vec<u8> {
    let mut writer = Writer::new(format);
    families::write_standby(&mut writer);
    writer.finish()
}

/// The families of the view's nodes alone, for a view without the fleet.
pub fn nodes_page(view: &View, options: PageOptions<'_>, format: Format) -> Vec<u8> {
    join(format, vec![nodes_part(view, options, format, 0)])
}

/// The same, to be joined with those of other nodes; it will have some `bytes`.
pub fn nodes_part(view: &View, options: PageOptions<'_>, format: Format, bytes: usize) -> Part {
    let mut writer = Writer::with_capacity(format, bytes);
    let labelled = LabelledView::new(view, &writer);
    families::write_nodes(&mut writer, &labelled, options);
    writer.part()
}

/// The families of the fleet and its nodes, as text.
pub fn fleet(view: &View, budgets: &[Budget]) -> String {
    let mut writer = Writer::new(Format::Text);
    let labelled = LabelledView::new(view, &writer);
    let options = PageOptions { budgets, aliases: false };
    families::write_fleet(&mut writer, &labelled, options);
    text(writer)
}

/// The families of the aggregator itself, as text.
pub fn own(view: &View) -> String {
    let mut writer = Writer::new(Format::Text);
    families::write_aggregator(&mut writer, view, &ServingStats::default());
    text(writer)
}

fn text(writer: Writer) -> String {
    String::from_utf8(writer.finish()).expect("names, numbers and escaped text are UTF-8")
}
