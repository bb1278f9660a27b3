//! A flame graph as one SVG file for download: roots on top, callers above what they call. It
//! refers to nothing outside, is readable without its script, and escapes every name.
//!
//! The script zooms (click, Enter), searches (`/`, Ctrl+F) and moves between functions (arrow
//! keys). A page that embeds a flame graph draws the tree itself, so that it needs no script that
//! its policy forbids.

#[cfg(test)]
mod tests;

use maud::{Markup, PreEscaped, html};
use plimsoll_schemas::figure;

use crate::colour::{ColourBy, of_delta};
use crate::flame::{FlameGraph, FlameNode};
use crate::shown::{shown, units};

/// Pixels of the picture and its parts. The script reads them from the picture.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const HEAD: f64 = 62.0;
const ROW: f64 = 17.0;
/// Of a character of 11 pixels in a font of fixed width.
const CHARACTER: f64 = 6.62;
/// Fewer characters of a name say nothing.
const CHARACTERS_MIN: usize = 3;

const STYLE: &str = "\
text{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;\
fill:#111;pointer-events:none}\
.title{font-size:15px;font-weight:600}\
.frame{cursor:pointer}\
.frame rect{stroke:#fff;stroke-width:.5}\
.frame:hover rect,.frame:focus rect{stroke:#000;stroke-width:1.5}\
.frame:focus{outline:none}\
.found rect{fill:#d63bd6}\
.above rect{opacity:.55}\
.hidden{display:none}";
const SCRIPT: &str = include_str!("zoom.js");
const KEYS: &str = "click or Enter: zoom; Esc: reset; / or Ctrl+F: search; arrows: move";

/// The picture. Its title is any text, such as the node and the time.
#[must_use]
pub fn render(title: &str, graph: &FlameGraph) -> String {
    render_coloured(title, graph, ColourBy::default())
}

/// The same in other colours, unless it is of a difference.
#[must_use]
pub fn render_coloured(title: &str, graph: &FlameGraph, colour: ColourBy) -> String {
    let mut frames = Vec::new();
    place(&graph.root, 0, MARGIN, &mut frames);
    let depth_max = frames.iter().map(|frame| frame.depth).max().unwrap_or_default();
    let height = HEAD + ROW * (depth_max as f64 + 1.0) + MARGIN;
    let delta_max = frames.iter().filter_map(|frame| frame.node.delta).fold(0.0, max_size);

    let picture = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(WIDTH) height=(height)
            viewBox={ "0 0 " (WIDTH) " " (height) } data-margin=(MARGIN) data-row=(ROW)
            data-character=(CHARACTER) data-characters-min=(CHARACTERS_MIN) {
            title id="title" { (shown(title)) }
            style { (PreEscaped(STYLE)) }
            rect width="100%" height="100%" fill="#fff" {}
            text class="title" x=(MARGIN) y="22" { (shown(title)) }
            text x=(MARGIN) y="40" { (summary(graph)) }
            text id="status" x=(MARGIN) y="55" { (KEYS) }
            g id="frames" role="tree" aria-labelledby="title" {
                @for frame in &frames { (frame.draw(graph, colour, delta_max)) }
            }
            script { (PreEscaped("<![CDATA[\n")) (PreEscaped(SCRIPT)) (PreEscaped("]]>")) }
        }
    };
    picture.into_string()
}

/// A node with its place.
struct PlacedFrame<'a> {
    node: &'a FlameNode,
    depth: usize,
    x: f64,
    width: f64,
    /// Of the node among all.
    share: f64,
}

fn place<'a>(root: &'a FlameNode, depth: usize, x: f64, frames: &mut Vec<PlacedFrame<'a>>) {
    let whole = frames.first().map_or(root.value, |first| first.node.value);
    let share = if whole > 0.0 { root.value / whole } else { 1.0 };
    let width = share * (WIDTH - 2.0 * MARGIN);
    frames.push(PlacedFrame { node: root, depth, x, width, share });

    let mut x = x;
    for child in &root.children {
        place(child, depth + 1, x, frames);
        x += child.value / whole * (WIDTH - 2.0 * MARGIN);
    }
}

impl PlacedFrame<'_> {
    fn draw(&self, graph: &FlameGraph, colour: ColourBy, delta_max: f64) -> Markup {
        let node = self.node;
        let y = HEAD + ROW * self.depth as f64;
        let fill = match node.delta {
            Some(delta) => of_delta(delta, delta_max),
            None => colour.of(&node.name, &node.file, self.share),
        };
        let label = fitting(&location(node), self.width);
        let tabindex = if self.depth == 0 { 0 } else { -1 };
        html! {
            g class="frame" role="treeitem" tabindex=(tabindex) aria-level=(self.depth + 1) {
                title { (location(node)) "\n" (self.figures(graph)) }
                rect x=(px(self.x)) y=(y) width=(px(self.width)) height=(ROW - 1.0) fill=(fill) {}
                text x=(px(self.x + 3.0)) y=(y + 12.0) { (label) }
            }
        }
    }

    /// `1.2 s (34.5 %), self 0.3 s`, or both sides and how they differ.
    fn figures(&self, graph: &FlameGraph) -> String {
        let node = self.node;
        let value = |units| value(units, graph);
        let Some(delta) = node.delta else {
            let share = figure::percent(self.share);
            return format!("{} ({share}), self {}", value(node.value), value(node.own));
        };
        let (culprit, peer) = sides(node, graph);
        let sign = if delta > 0.0 { "+" } else { "" };
        format!("{sign}{}: culprit {culprit}, peer {peer}", value(delta))
    }
}

/// What the picture shows, in one line.
fn summary(graph: &FlameGraph) -> String {
    let root = &graph.root;
    let kind = shown(&graph.kind);
    if root.delta.is_none() {
        return format!("{kind}: {}", value(root.value, graph));
    }
    let (culprit, peer) = sides(root, graph);
    format!(
        "{kind}: culprit {culprit}, peer {peer}; red: culprit more, blue: less; width: mean of both"
    )
}

/// `function (file:line)`, without characters that act on what shows them.
fn location(node: &FlameNode) -> String {
    let (name, file) = (shown(&node.name), shown(&node.file));
    if file.is_empty() && node.line == 0 { name } else { format!("{name} ({file}:{})", node.line) }
}

/// As much of a text as a width has room for.
fn fitting(text: &str, width: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the width of the picture; a negative one becomes 0"
    )]
    let room = ((width - 6.0) / CHARACTER) as usize;
    match text.chars().count() {
        _ if room < CHARACTERS_MIN => String::new(),
        length if length <= room => text.to_owned(),
        _ => text.chars().take(room - 1).chain(['…']).collect(),
    }
}

/// Culprit and peer of a node in a difference.
fn sides(node: &FlameNode, graph: &FlameGraph) -> (String, String) {
    let half = node.delta.unwrap_or_default() / 2.0;
    (value(node.value + half, graph), value(node.value - half, graph))
}

/// A value in its unit; per second in a difference.
fn value(of: f64, graph: &FlameGraph) -> String {
    let text = units(of, &graph.unit);
    if graph.root.delta.is_some() { text + "/s" } else { text }
}

fn max_size(max: f64, delta: f64) -> f64 {
    max.max(delta.abs())
}

fn px(at: f64) -> String {
    format!("{at:.2}")
}
