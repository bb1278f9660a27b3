//! A frame of the screen: state in, cells out.

use std::time::Duration;

use jiff::tz::TimeZone;
use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::figure::quantile;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::summary::{Presence, Verdict};
use plimsoll_schemas::unit::Unit;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Clear, Paragraph, Row, Table};

use super::limits::STALE_AFTER;
use super::page::{AlertLine, BudgetLine, NodeLine, Page};
use super::pane::{Pane, Panes};
use super::state::{Mode, Reachability, State};
use super::text::{age, count, fit, headroom};
use crate::time_range::shown;

/// Lines above the lists: title, nodes with alerts, samples. The status line is below them.
const ABOVE: u16 = 3;
/// Columns below which the title has the mesh alone.
const NARROW: u16 = 60;
/// Lines of a list without rows: its headings.
const HEADINGS: u16 = 1;

const HELP: &str = "
 Tab, arrows     next list; move within it      s   next order    r   reverse
 PgUp PgDn       ten rows                       /   filter by name, node, state
 Home End        first, last row                Esc clear the filter
 Enter, z        only this list                 p   pause
 a               budgets of all nodes           q   quit          Ctrl-L redraw

 HEADROOM  share of the limit that is left
 DEPTH MAX messages in the node's outbox: now, and max in its last interval
 HELD      samples in the node or the broker that are not merged yet
 UNACC     unaccounted: samples missing from runs of the node that have ended
 stale     no data for this long: no node with samples of the budget is up
 A budget of a node is listed while its alert is pending or firing.";

/// What the frame is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Theme {
    /// Whether colours are used; emphasis is used in any case.
    pub(super) has_colour: bool,
}

impl Theme {
    fn of(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    fn bad(self) -> Style {
        self.of(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn warning(self) -> Style {
        self.of(Color::Yellow)
    }

    fn good(self) -> Style {
        self.of(Color::Green)
    }

    /// Of what fires, so bad is it.
    fn firing(self, severity: Severity) -> Style {
        match severity {
            Severity::Info => Style::new(),
            Severity::Warning => self.warning(),
            Severity::Critical => self.bad(),
        }
    }
}

/// The time that the frame is of.
#[derive(Clone, Copy, Debug)]
struct Shown {
    /// That of the page, in seconds since 1970.
    at_seconds: f64,
    /// For how long no request has been answered, if that is long.
    lost: Option<Duration>,
}

impl Shown {
    fn of(state: &State) -> Self {
        // One late answer does not count as lost: ages would appear and vanish with each.
        let lost = Some(state.lost_for()).filter(|lost| *lost >= STALE_AFTER);
        Self { at_seconds: state.page().at_seconds, lost }
    }

    /// An age on the page as it is now.
    fn aged(self, seconds: f64) -> f64 {
        seconds + self.lost.unwrap_or_default().as_secs_f64()
    }
}

pub(super) fn draw(frame: &mut Frame, state: &State, theme: Theme) {
    let area = frame.area();
    line(frame, 0, title(state, area.width).style(Modifier::BOLD));
    line(frame, 1, nodes_and_alerts(state, theme));
    line(frame, 2, samples(state.page(), theme));
    let below = if state.hint().is_some() { 2 } else { 1 };
    let lists = area.height.saturating_sub(ABOVE + below);
    let mut top = ABOVE;

    for (pane, height) in heights(state.panes(), lists) {
        let part = Rect::new(0, top, area.width, height).intersection(area);
        list(frame, part, state, pane, theme);
        top += height;
    }

    if let Some(hint) = state.hint() {
        line(frame, area.height.saturating_sub(2), Line::from(fit(hint, area.width)));
    }
    line(frame, area.height.saturating_sub(1), status(state, theme));
    if state.mode() == Mode::Help {
        help(frame);
    }
}

fn line(frame: &mut Frame, y: u16, text: Line<'_>) {
    let area = frame.area();
    frame.render_widget(text, Rect::new(0, y, area.width, 1).intersection(area));
}

fn title(state: &State, width: u16) -> Line<'static> {
    let page = state.page();
    let left = format!("plimsoll top  mesh {}  {}", page.mesh, state.url());
    let right = format!("broker {}", page.broker);
    let right_width = u16::try_from(right.len()).unwrap_or(u16::MAX);
    if page.broker.is_empty() || width < NARROW {
        return Line::from(fit(&left, width));
    }
    let left = fit(&left, width.saturating_sub(right_width.saturating_add(1)));
    let used = Span::raw(&left).width() + right.len();
    Line::from(format!("{left}{}{right}", " ".repeat(usize::from(width).saturating_sub(used))))
}

fn nodes_and_alerts(state: &State, theme: Theme) -> Line<'static> {
    let page = state.page();
    let lost = Shown::of(state).lost;
    let ago = lost.map_or_else(String::new, |lost| format!("{} ago: ", age(lost.as_secs_f64())));
    let firing = page.alerts.iter().filter(|row| row.state == AlertState::Firing);
    let worst = firing.map(|row| row.severity).max().unwrap_or_default();
    let of_state = |state| page.alerts.iter().filter(|row| row.state == state).count() as u64;
    // Of the nodes that are listed, the worst: the summary has no sum of all depths (A120).
    let depth = page.nodes.iter().fold(0_u64, |sum, row| sum.saturating_add(row.outbox_depth));

    Line::from(vec![
        Span::raw(format!("{ago}nodes {} up, ", count(page.up))),
        above_zero(page.silent, "silent", theme.bad()),
        Span::raw(format!(", {} left   alerts ", count(page.left))),
        above_zero(of_state(AlertState::Firing), "firing", theme.firing(worst)),
        Span::raw(", "),
        above_zero(of_state(AlertState::Pending), "pending", theme.warning()),
        Span::raw(format!("   depth {}", count(depth))),
    ])
}

fn samples(page: &Page, theme: Theme) -> Line<'static> {
    let Page { recorded, merged, held, unaccounted, unread, lost, .. } = page;
    let [recorded, merged, held] = [recorded, merged, held].map(|n| count(*n));

    let mut parts = vec![
        Span::raw(format!("samples {recorded} recorded = {merged} merged + {held} held + ")),
        above_zero(*lost, "lost", theme.bad()),
    ];

    // These are rare, and all five do not fit into 80 columns.
    for (n, what, style) in
        [(*unread, "unread", theme.warning()), (*unaccounted, "unaccounted", theme.bad())]
    {
        if n > 0 {
            parts.extend([Span::raw(" + "), above_zero(n, what, style)]);
        }
    }

    Line::from(parts)
}

fn above_zero(n: u64, what: &str, style: Style) -> Span<'static> {
    let style = if n > 0 { style } else { Style::new() };
    Span::styled(format!("{} {what}", count(n)), style)
}

/// The height of each list. Each gets its headings and a row; the rest goes round to those with
/// rows left, so that a short list leaves its room to a long one.
fn heights(panes: &Panes, lines: u16) -> Vec<(Pane, u16)> {
    if let Some(pane) = panes.zoomed() {
        return vec![(pane, lines)];
    }
    let wanted = Pane::ALL.map(|pane| panes.rows(pane).len().max(1));

    let mut given = [1_usize; 3];
    let headings = usize::from(HEADINGS) * given.len();
    let mut rest = usize::from(lines).saturating_sub(headings + given.len());

    while rest > 0 && given.iter().zip(&wanted).any(|(given, wanted)| given < wanted) {
        for (given, wanted) in given.iter_mut().zip(&wanted) {
            let more = usize::from(*given < *wanted && rest > 0);
            *given += more;
            rest -= more;
        }
    }

    // Blank lines between the lists, while there is room.
    let blank = |n: usize| u16::from(rest > n);
    let heights = given.map(|rows| u16::try_from(rows).unwrap_or(u16::MAX) + HEADINGS);
    let [a, b, c] = heights;
    vec![(Pane::Budgets, a + blank(0)), (Pane::Nodes, b + blank(1)), (Pane::Alerts, c)]
}

fn list(frame: &mut Frame, area: Rect, state: &State, pane: Pane, theme: Theme) {
    let panes = state.panes();
    let room = usize::from(area.height.saturating_sub(HEADINGS));
    let visible = panes.visible(pane, room);

    let (columns, fixed): (&[(&str, u16)], u16) = match pane {
        Pane::Budgets => (&BUDGETS, total(&BUDGETS)),
        Pane::Nodes => {
            // Names need the room while nothing is unaccounted for.
            let has_unaccounted = state.page().nodes.iter().any(|row| row.unaccounted > 0);
            let shown = if has_unaccounted { &NODES[..] } else { &NODES[..NODES.len() - 1] };
            (shown, total(shown))
        }
        Pane::Alerts => (&ALERTS, total(&ALERTS)),
    };

    let flexible = area.width.saturating_sub(fixed).max(1);
    let mut rows = Vec::with_capacity(visible.len() + 1);
    let shown = Shown::of(state);

    for place in visible.clone() {
        let Some(index) = panes.rows(pane).get(place) else { continue };
        let page = state.page();

        let row = match pane {
            Pane::Budgets => {
                page.budgets.get(*index).map(|row| budget(row, flexible, theme, shown))
            }
            Pane::Nodes => page.nodes.get(*index).map(|row| node(row, flexible, theme, shown)),
            Pane::Alerts => page.alerts.get(*index).map(|row| alert(row, flexible, theme, shown)),
        };

        let is_cursor = panes.cursor(pane) == Some(place);
        let style = if is_cursor { Modifier::REVERSED } else { Modifier::empty() };
        rows.extend(row.map(|row| row.style(Style::new().add_modifier(style))));
    }

    if rows.is_empty() {
        rows.push(Row::new([Cell::from(nothing(state, pane))]).style(Modifier::DIM));
    }
    let hidden = panes.rows(pane).len().saturating_sub(visible.len());

    let headings = columns.iter().enumerate().map(|(at, (name, width))| match at {
        0 => Cell::from(fit(&heading(state, pane, name, hidden), flexible)),
        _ => aligned(name, *width),
    });

    let widths = columns.iter().map(|(_, width)| match width {
        0 => Constraint::Length(flexible),
        width => Constraint::Length(*width),
    });

    let emphasis = if panes.cursor(pane).is_some() { Modifier::BOLD } else { Modifier::DIM };
    let headings = Row::new(headings).style(emphasis | Modifier::UNDERLINED);
    frame.render_widget(Table::new(rows, widths).header(headings).column_spacing(1), area);
}

/// Columns and their widths; 0 takes what is left. Widths above 0 of the first columns of text are
/// aligned left, those named in [`LEFT`] too.
const BUDGETS: [(&str, u16); 7] = [
    ("BUDGET", 0),
    ("SCOPE", 14),
    ("LIMIT", 13),
    ("P50", 8),
    ("P99", 8),
    ("HEADROOM", 8),
    ("STATE", 10),
];
const NODES: [(&str, u16); 11] = [
    ("NODE", 0),
    ("STATE", 6),
    ("SEEN", 4),
    ("HEADROOM", 8),
    ("DEPTH", 5),
    ("MAX", 5),
    ("REROUTE", 7),
    ("DROPS", 5),
    ("HELD", 5),
    ("LOST", 5),
    ("UNACC", 5),
];
const ALERTS: [(&str, u16); 6] =
    [("ALERT", 0), ("STATE", 10), ("SEVERITY", 8), ("SCOPE", 14), ("FOR", 4), ("SUMMARY", 23)];
const LEFT: [&str; 4] = ["SCOPE", "STATE", "SEVERITY", "SUMMARY"];

fn total(columns: &[(&str, u16)]) -> u16 {
    columns.iter().map(|(_, width)| width + 1).sum::<u16>().saturating_sub(1)
}

fn aligned(text: &str, width: u16) -> Cell<'static> {
    let side = if LEFT.contains(&text) { Alignment::Left } else { Alignment::Right };
    Cell::from(Line::from(fit(text, width)).alignment(side))
}

fn heading(state: &State, pane: Pane, name: &str, hidden: usize) -> String {
    let (order, is_reversed) = state.panes().order(pane);
    let mut text = name.to_owned();
    if (order, is_reversed) != (first_order(pane), false) {
        text += &format!(" by {order}{}", if is_reversed { ", reversed" } else { "" });
    }
    if hidden > 0 {
        text += &format!(" (+{hidden})");
    }
    text
}

fn first_order(pane: Pane) -> &'static str {
    if pane == Pane::Alerts { "state" } else { "worst" }
}

fn nothing(state: &State, pane: Pane) -> &'static str {
    match (state.has_page(), state.panes().filter().is_empty(), pane) {
        (false, _, _) => "-",
        (true, false, _) => "none matches",
        (true, true, Pane::Alerts) => "none",
        (true, true, _) => "none yet",
    }
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).alignment(Alignment::Right))
}

fn budget(row: &BudgetLine, width: u16, theme: Theme, at: Shown) -> Row<'static> {
    let unit = Unit::of(&row.operation);
    let value = |raw: Option<u64>| {
        let raw = raw.filter(|_| at.lost.is_none());
        let sign = if row.approximate && raw.is_some() { "~" } else { "" };
        raw.map_or_else(|| "-".to_owned(), |raw| sign.to_owned() + &unit.raw_text(raw))
    };

    let stale;
    // Without answers nothing on the screen is known to
    // hold any longer, whatever the last page stated.
    let is_old = at.lost.is_some() || row.verdict == Verdict::NoData;
    let known = row.freshness.age_seconds(at.at_seconds).or(at.lost.map(|_| 0.0));
    let old = known.filter(|_| is_old);

    // An alert that fires stays so without data, so it comes before the age of what was measured.
    let (state, style) = match (row.alert, row.verdict, old) {
        (AlertState::Firing, _, _) => ("FIRING", theme.bad()),
        (AlertState::Pending, _, _) => ("pending", theme.warning()),
        (_, Verdict::Breach, _) => ("breach", theme.bad()),
        (_, _, Some(seconds)) => {
            stale = format!("stale {}", age(at.aged(seconds)));
            (stale.as_str(), Style::new().add_modifier(Modifier::DIM))
        }
        (_, Verdict::NoData, None) => ("no samples", Style::new()),
        (_, Verdict::Insufficient, None) => ("too few", Style::new()),
        (_, Verdict::Within, None) => ("within", theme.good()),
        (_, Verdict::Uncertain, None) => ("uncertain", theme.warning()),
    };

    let left = row.headroom.filter(|_| at.lost.is_none());
    let left = left.map_or_else(|| "-".to_owned(), headroom);

    Row::new([
        Cell::from(fit(&row.budget, width)),
        Cell::from(fit(row.node.as_deref().unwrap_or("fleet"), 14)),
        right(fit(&format!("{} {}", quantile(row.quantile), unit.raw_text(row.limit_ns)), 13)),
        right(value(row.p50_ns)),
        right(value(row.p99_ns)),
        right(left),
        Cell::from(Span::styled(state.to_owned(), style)),
    ])
}

fn node(row: &NodeLine, width: u16, theme: Theme, at: Shown) -> Row<'static> {
    // Without answers a node is not known to be up, and green would claim it.
    let style = match row.presence {
        Presence::Up if at.lost.is_some() => Style::new().add_modifier(Modifier::DIM),
        Presence::Up => theme.good(),
        Presence::Silent => theme.bad(),
        Presence::Left => Style::new().add_modifier(Modifier::DIM),
    };

    let above = |n: u64| {
        let style = if n > 0 { theme.bad() } else { Style::new() };
        Cell::from(Line::from(Span::styled(count(n), style)).alignment(Alignment::Right))
    };

    let left = row.headroom.map_or_else(|| "-".to_owned(), headroom);
    Row::new([
        Cell::from(fit(&row.node, width)),
        Cell::from(Span::styled(row.presence.as_str(), style)),
        right(age(at.aged(row.seen_seconds))),
        right(left),
        right(count(row.outbox_depth)),
        right(count(row.outbox_depth_max)),
        right(count(row.rerouted)),
        above(row.dropped),
        right(count(row.held)),
        above(row.lost),
        above(row.unaccounted),
    ])
}

fn alert(row: &AlertLine, width: u16, theme: Theme, at: Shown) -> Row<'static> {
    let style = match row.state {
        AlertState::Firing => theme.firing(row.severity),
        AlertState::Pending => theme.warning(),
        _ => Style::new(),
    };

    // A colleague is at work, or receivers are not notified.
    let mark = match (row.is_acknowledged, row.is_silenced) {
        (true, _) => "+a",
        (false, true) => "+s",
        (false, false) => "",
    };

    Row::new([
        Cell::from(fit(&row.rule, width)),
        Cell::from(Span::styled(format!("{}{mark}", row.state.as_str()), style)),
        Cell::from(row.severity.as_str()),
        Cell::from(fit(row.node.as_deref().unwrap_or("fleet"), 14)),
        right(age(at.aged(row.since_seconds))),
        Cell::from(fit(&row.summary, 23)),
    ])
}

fn status(state: &State, theme: Theme) -> Line<'static> {
    if state.mode() == Mode::Filter {
        return Line::from(format!("/{}_   Enter keeps it, Esc clears it", state.panes().filter()));
    }
    if let Some(problem) = problem(state) {
        return Line::styled(problem, theme.bad());
    }

    let mut text = String::new();
    if state.is_paused() {
        text.push_str("PAUSED   ");
    }
    if !state.panes().filter().is_empty() {
        text += &format!("filter /{}   ", state.panes().filter());
    }

    let (listed, total) = (state.page().nodes.len() as u64, state.page().nodes_total());
    if state.has_page() && listed < total {
        text += &format!("worst {listed} of {total} nodes   ");
    }
    Line::from(text + "? help  Tab list  s sort  / filter  q quit")
}

fn problem(state: &State) -> Option<String> {
    match state.link() {
        Reachability::Connecting => return Some(format!("waiting for {}", state.url())),
        Reachability::Lost { since, error, .. } => {
            let lost = age(state.now().saturating_sub(*since).as_secs_f64());
            let next = age(state.next_in().as_secs_f64().ceil());
            return Some(format!("no answer for {lost}, next attempt in {next}: {error}"));
        }
        Reachability::Answering => {}
    }

    let page = state.page();
    if page.freshness.stale {
        return Some(silence(page));
    }

    match (&page.rules_error, page.ready, page.unmatched.first()) {
        (Some(error), _, _) => Some(format!("rules: {error}")),
        (None, false, _) => Some("the aggregator still reads the streams' backlog".to_owned()),
        (None, true, Some(name)) => Some(format!("budget {name} matches no samples")),
        (None, true, None) => None,
    }
}

/// Since when there is no data, and why.
fn silence(page: &Page) -> String {
    let why = match page.broker.as_str() {
        "jetstream" | "core" => "no node sends messages".to_owned(),
        other => format!("broker {other}"),
    };
    let Some(as_of) = page.freshness.as_of_seconds else { return format!("no data yet: {why}") };
    let lasts = age((page.at_seconds - as_of).max(0.0));
    format!("no data for {lasts}, since {}: {why}", shown(as_of, &TimeZone::UTC))
}

fn help(frame: &mut Frame) {
    let area = frame.area();
    let height = u16::try_from(HELP.lines().count()).unwrap_or(u16::MAX).saturating_add(1);
    let part = Rect::new(0, ABOVE, area.width, height).intersection(area);
    frame.render_widget(Clear, part);
    frame.render_widget(Paragraph::new(HELP).style(Modifier::REVERSED), part);
}
