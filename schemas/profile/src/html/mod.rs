//! A flame graph as one HTML file that needs nothing else: a tree to zoom and search, as a flame or
//! an icicle graph, coloured by share or by module, and a table of functions.
//!
//! The tree is data for a script that draws what is visible on a canvas, so that tens of thousands
//! of nodes stay quick. The file's policy forbids it any request.

#[cfg(test)]
mod tests;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plimsoll_schemas::figure;
use serde_json::{Value, json};

use crate::colour::ColourBy;
use crate::difference::Difference;
use crate::flame::{Detail, FlameGraph, FlameNode, detailed, detailed_difference};
use crate::functions::functions;
use crate::labels::ThreadState;
use crate::limits::PAGE_FUNCTIONS_MAX;
use crate::profile::Profile;
use crate::shown::{shown, units};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("flame.js");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
const KEYS: &str = "click or Enter: zoom; Esc: reset; /: search; arrows: move";

/// The page of a profile, of threads in one state or of all.
#[must_use]
pub fn of_profile(
    title: &str,
    profile: &Profile,
    state: Option<ThreadState>,
    colour: ColourBy,
) -> String {
    let graph = detailed(profile, state, Detail::WHOLE);
    let all = functions(profile, state);
    let whole = graph.root.value.max(f64::MIN_POSITIVE);
    let cell = |value: u64| Cell {
        value: value as f64,
        text: format!(
            "{} ({})",
            units(value as f64, &graph.unit),
            figure::percent(value as f64 / whole)
        ),
    };
    let rows = all.iter().take(PAGE_FUNCTIONS_MAX).map(|of| Row {
        name: shown(of.frame.function.as_str()),
        place: shown(&of.frame.to_string()),
        cells: [cell(of.own), cell(of.total)],
    });
    page(title, &graph, colour, &Table { heads: ["self", "total"], rows: rows.collect() })
}

/// The page of a culprit beside its peer.
#[must_use]
pub fn of_difference(title: &str, difference: &Difference) -> String {
    let graph = detailed_difference(difference, Detail::WHOLE);
    let cell = |value: f64| Cell { value: value.abs(), text: per_second(value, &graph.unit) };
    let ranked = difference.rank(PAGE_FUNCTIONS_MAX);
    let rows = ranked.iter().map(|of| Row {
        name: shown(of.frame.function.as_str()),
        place: shown(&of.frame.to_string()),
        cells: [cell(of.own.delta()), cell(of.total.delta())],
    });
    let heads = ["self: more or less", "total: more or less"];
    page(title, &graph, ColourBy::default(), &Table { heads, rows: rows.collect() })
}

fn per_second(value: f64, unit: &str) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{}/s", units(value, unit))
}

/// Functions beside two figures each.
struct Table {
    heads: [&'static str; 2],
    rows: Vec<Row>,
}

struct Row {
    /// What a search for it looks for.
    name: String,
    place: String,
    cells: [Cell; 2],
}

struct Cell {
    /// By which it is sorted.
    value: f64,
    text: String,
}

fn page(title: &str, graph: &FlameGraph, colour: ColourBy, table: &Table) -> String {
    let is_difference = graph.root.delta.is_some();
    let colours =
        [("name", ColourBy::Name), ("share", ColourBy::Share), ("module", ColourBy::Module)];
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width";
                title { (shown(title)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (shown(title)) }
                div class="controls" {
                    input id="search" type="search" placeholder="search"
                        aria-label="Search for functions or files";
                    button id="flip" type="button" { "icicle" }
                    @if is_difference {
                        span { "red: culprit more, blue: less; width: mean of both" }
                    } @else {
                        label { "colour by "
                            select id="colour" {
                                @for (word, by) in colours {
                                    option value=(word) selected[by == colour] { (word) }
                                }
                            }
                        }
                    }
                    button id="reset" type="button" { "reset" }
                }
                canvas id="flame" tabindex="0" role="img" aria-label="Flame graph"
                    aria-describedby="status" {}
                p id="status" role="status" data-keys=(KEYS) { (KEYS) }
                (draw(table))
                script id="data" type="application/json" { (PreEscaped(columns(graph))) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn draw(table: &Table) -> Markup {
    html! {
        table {
            caption { "Functions; one that is recursive counts once" }
            thead {
                tr {
                    @for (at, head) in table.heads.iter().enumerate() {
                        th { button type="button" class="sort" data-column=(at) { (head) } }
                    }
                    th { "function" }
                }
            }
            tbody {
                @for row in &table.rows {
                    tr {
                        @for cell in &row.cells { td data-value=(cell.value) { (cell.text) } }
                        td { button type="button" class="find" data-name=(row.name) { (row.place) } }
                    }
                }
            }
        }
    }
}

/// The tree as JSON for a script that draws it: nodes before what they call, in columns. Of many
/// nodes it is read in a fifth of the time that nested objects take.
#[must_use]
pub fn columns(graph: &FlameGraph) -> String {
    let mut columns = Columns::default();
    columns.add(&graph.root, 0);
    let delta_max = columns.deltas.iter().fold(0.0, |max: f64, delta| max.max(delta.abs()));
    let data = json!({
        "kind": graph.kind,
        "unit": graph.unit,
        "isDifference": graph.root.delta.is_some(),
        "deltaMax": delta_max,
        "names": columns.names,
        "name": columns.name,
        "line": columns.line,
        "depth": columns.depth,
        "value": columns.values,
        "own": columns.own,
        "delta": columns.deltas,
    });
    // Nothing in it may end the script that holds it.
    data.to_string().replace('<', "\\u003c")
}

#[derive(Default)]
struct Columns<'a> {
    /// Each function's name and file once, with its colours by name and by module.
    names: Vec<Value>,
    known: std::collections::HashMap<(&'a str, &'a str), usize>,
    name: Vec<usize>,
    line: Vec<u32>,
    depth: Vec<usize>,
    values: Vec<f64>,
    own: Vec<f64>,
    /// Empty unless it is a difference.
    deltas: Vec<f64>,
}

impl<'a> Columns<'a> {
    fn add(&mut self, node: &'a FlameNode, depth: usize) {
        let (name, file) = (&node.name, &node.file);
        let at = *self.known.entry((name, file)).or_insert_with(|| {
            let colour = |by: ColourBy| by.of(name, file, 0.0);
            let colours = [ColourBy::Name, ColourBy::Module].map(colour);
            self.names.push(json!([shown(name), shown(file), colours[0], colours[1]]));
            self.names.len() - 1
        });
        self.name.push(at);
        self.line.push(node.line);
        self.depth.push(depth);
        self.values.push(node.value);
        self.own.push(node.own);
        self.deltas.extend(node.delta);
        node.children.iter().for_each(|child| self.add(child, depth + 1));
    }
}
