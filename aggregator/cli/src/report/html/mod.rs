//! A document as one HTML page without scripts and without anything from elsewhere. It follows the
//! reader's light or dark scheme, and each plot has a table beside it. Templates escape all texts.
//!
//! DESIGN A85.

mod colour_scale;
mod distribution;
mod epochs;
mod heatmap;
mod time_axis;

use jiff::tz::TimeZone;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use plimsoll_schemas::figure::counted;

use super::document::{Document, OperationResult};
use super::epochs::ID as EPOCHS;
use super::limits::OPERATIONS_DRAWN_MAX;
use super::sections::{sections, title};
use super::tables::{Cell, Section, Table, Tone};
use colour_scale::ColourScale;

/// Cells with more are sentences, which need some width where the page has little.
const PROSE_BYTES: usize = 60;
const STYLE: &str = include_str!("style.css");
/// A reader's browser executes and loads nothing, even if a text escaped its place.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

pub(super) fn page(of: &Document, zone: &TimeZone) -> String {
    let title = title(of);
    let sections = sections(of, zone);
    let drawn: Vec<&OperationResult> = of.operations.iter().take(OPERATIONS_DRAWN_MAX).collect();

    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) ": report" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a class="skip" href="#about" { "Skip to the report" }

                header {
                    h1 { (title) }
                    p class="lead" { (of.summary) }
                    (navigation(&sections, !drawn.is_empty()))
                }

                main {
                    @for part in sections {
                        @let is_operations = part.id == "operations";
                        @if part.id == EPOCHS { (of_epochs(of, part)) } @else { (section(&part)) }
                        @if is_operations && !drawn.is_empty() {
                            (plots(&drawn, of.operations.len(), zone))
                        }
                    }
                }

                footer { "Latencies come from exact counts in buckets of 0.1 %." }
            }
        }
    };

    page.into_string() + "\n"
}

fn navigation(sections: &[Section], with_plots: bool) -> Markup {
    html! {
        nav aria-label="Sections" {
            ul {
                @for section in sections {
                    li { a href={ "#" (section.id) } { (section.heading) } }
                    @if section.id == "operations" && with_plots {
                        li { a href="#distributions" { "Distributions" } }
                        li { a href="#over-time" { "Over time" } }
                    }
                }
            }
        }
    }
}

fn section(of: &Section) -> Markup {
    html! {
        section id=(of.id) aria-labelledby={ (of.id) "-heading" } {
            h2 id={ (of.id) "-heading" } { (of.heading) }
            @for paragraph in &of.paragraphs { p { (paragraph) } }
            @for of in &of.tables { (table(of)) }
        }
    }
}

/// Epochs have their plot in place of a table alone.
fn of_epochs(of: &Document, part: Section) -> Markup {
    let (id, heading) = (part.id, part.heading);
    let Some(plot) = epochs::figure(of, part) else { return Markup::default() };
    html! {
        section id=(id) aria-labelledby={ (id) "-heading" } {
            h2 id={ (id) "-heading" } { (heading) }
            (figure(of.epoch_operation.as_deref().unwrap_or_default(), &plot))
        }
    }
}

/// A plot of one operation, in words, and its figures as a table.
struct Figure {
    plot: Markup,
    words: String,
    table: Table,
}

fn figure(operation: &str, of: &Figure) -> Markup {
    html! {
        h3 { (operation) }
        figure {
            (of.plot)
            figcaption { (of.words) }
            details {
                summary { (of.table.caption) }
                (table(&of.table))
            }
        }
    }
}

/// A picture with its title and its words for those who do not see it.
struct Picture<'a> {
    id: String,
    size: (f64, f64),
    title: String,
    words: &'a str,
}

impl Picture<'_> {
    fn of(self, content: &Markup) -> Markup {
        let Self { id, size: (width, height), title, words } = self;
        html! {
            svg viewBox={ "0 0 " (width) " " (height) } role="img"
                aria-labelledby={ (id) " " (id) "-words" } {
                title id=(id) { (title) }
                desc id={ (id) "-words" } { (words) }
                (content)
            }
        }
    }
}

/// Wide ones scroll by themselves, also with the keyboard.
fn table(of: &Table) -> Markup {
    if of.rows.is_empty() {
        return html! { @if !of.empty.is_empty() { p { (of.empty) } } };
    }
    let is_figure = |column: usize| {
        of.rows.iter().all(|row| row.get(column).is_some_and(|cell| cell.tone == Tone::Figure))
    };

    html! {
        div class="scroll" role="region" tabindex="0" aria-label=(of.caption) {
            table {
                caption { (of.caption) }

                thead {
                    tr {
                        @for (column, name) in of.heading.iter().enumerate() {
                            th scope="col" class=[is_figure(column).then_some("figure")] { (name) }
                        }
                    }
                }

                tbody {
                    @for row in &of.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @let class = class(cell);
                                @if column == 0 {
                                    th scope="row" class=[class] { (cell.words) }
                                } @else {
                                    td class=[class] { (cell.words) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn class(cell: &Cell) -> Option<&'static str> {
    match cell.tone {
        Tone::Text => (cell.words.len() > PROSE_BYTES).then_some("prose"),
        Tone::Figure => Some("figure"),
        Tone::Good => Some("good"),
        Tone::Open => Some("open"),
        Tone::Bad => Some("bad"),
    }
}

fn plots(drawn: &[&OperationResult], of_all: usize, zone: &TimeZone) -> Markup {
    let counts = drawn.iter().flat_map(|of| of.over_time.counts.iter().flatten());
    let scale = ColourScale::new(counts.copied().max().unwrap_or_default());
    let left_out = of_all - drawn.len();

    html! {
        section id="distributions" aria-labelledby="distributions-heading" {
            h2 id="distributions-heading" { "Distributions" }
            p { "Share of samples by latency, on a logarithmic axis. The dashed line is the "
                "limit." }
            @for (at, of) in drawn.iter().enumerate() {
                (figure(&of.operation, &distribution::figure(of, at)))
            }
            @if left_out > 0 {
                p { (counted(left_out as u64, "more operation")) " in the table without a plot." }
            }
        }
        section id="over-time" aria-labelledby="over-time-heading" {
            h2 id="over-time-heading" { "Over time" }
            p { "Samples by time and latency. All operations share one scale of colours. The line "
                "at the top of each column is its exact maximum. A strip below marks columns that "
                "are incomplete, or whose completeness is unknown." }
            (scale.legend())
            @for (at, of) in drawn.iter().enumerate() {
                (figure(&of.operation, &heatmap::figure(of, at, &scale, zone)))
            }
        }
    }
}
