//! The three lists of the screen: which rows pass the filter, in which order, and the cursor.
//!
//! Owns indices into a page, never rows: a new page is arranged anew.

use std::cmp::{Ordering, Reverse};
use std::ops::Range;

use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::own_operations::is_own_name;
use plimsoll_schemas::summary::Verdict;
use ratatui::crossterm::event::KeyCode;

use super::page::{AlertLine, BudgetLine, NodeLine, Page};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Budgets,
    Nodes,
    Alerts,
}

impl Pane {
    /// From the top of the screen.
    pub(super) const ALL: [Self; 3] = [Self::Budgets, Self::Nodes, Self::Alerts];

    /// Its orders, the first one being the order in which it starts.
    const fn orders(self) -> &'static [&'static str] {
        match self {
            Self::Budgets => &["worst", "name", "p99", "headroom"],
            Self::Nodes => &["worst", "name", "headroom", "depth", "held", "lost", "seen"],
            Self::Alerts => &["state", "rule", "since"],
        }
    }
}

/// Rows of a jump by page keys.
const JUMP: usize = 10;

#[derive(Debug, Default)]
struct List {
    order: usize,
    is_reversed: bool,
    cursor: usize,
    /// Indices into the page.
    rows: Vec<usize>,
}

/// All lists, and which one the keys move.
#[derive(Debug)]
pub(super) struct Panes {
    focus: Pane,
    /// The list in focus has the whole screen.
    is_zoomed: bool,
    /// Budgets of nodes without a pending or firing alert are listed too.
    has_all_scopes: bool,
    filter: String,
    lists: [List; 3],
}

impl Default for Panes {
    fn default() -> Self {
        Self {
            focus: Pane::Nodes,
            is_zoomed: false,
            has_all_scopes: false,
            filter: String::new(),
            lists: Default::default(),
        }
    }
}

impl Panes {
    /// Filters and sorts all lists.
    pub(super) fn arrange(&mut self, page: &Page) {
        let wanted = self.filter.to_lowercase();
        let all = self.has_all_scopes;
        let [budgets, nodes, alerts] = &mut self.lists;

        budgets.arrange(
            &page.budgets,
            |row| (all || is_shown(row)) && holds(&wanted, &budget_words(row)),
            compare_budgets,
        );

        nodes.arrange(
            &page.nodes,
            |row| holds(&wanted, &[&row.node, row.presence.as_str()]),
            compare_nodes,
        );

        alerts.arrange(&page.alerts, |row| holds(&wanted, &alert_words(row)), compare_alerts);
    }

    pub(super) fn edit_filter(&mut self, page: &Page, edit: impl FnOnce(&mut String)) {
        edit(&mut self.filter);
        self.arrange(page);
    }

    /// Handles a key; false if it means nothing here.
    pub(super) fn on_key(&mut self, page: &Page, code: KeyCode) -> bool {
        let list = &mut self.lists[self.focus as usize];
        let last = list.rows.len().saturating_sub(1);

        match code {
            KeyCode::Up | KeyCode::Char('k') => list.cursor = list.cursor.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => list.cursor = (list.cursor + 1).min(last),
            KeyCode::PageUp => list.cursor = list.cursor.saturating_sub(JUMP),
            KeyCode::PageDown => list.cursor = (list.cursor + JUMP).min(last),
            KeyCode::Home => list.cursor = 0,
            KeyCode::End => list.cursor = last,
            KeyCode::Tab | KeyCode::Right => self.focus = self.neighbour(1),
            KeyCode::BackTab | KeyCode::Left => self.focus = self.neighbour(2),
            KeyCode::Enter | KeyCode::Char('z') => self.is_zoomed = !self.is_zoomed,
            KeyCode::Char('s') => {
                list.order = (list.order + 1) % self.focus.orders().len();
                list.is_reversed = false;
                self.arrange(page);
            }
            KeyCode::Char('r') => {
                list.is_reversed = !list.is_reversed;
                self.arrange(page);
            }
            KeyCode::Char('a') => {
                self.has_all_scopes = !self.has_all_scopes;
                self.arrange(page);
            }
            _ => return false,
        }

        true
    }

    fn neighbour(&self, steps: usize) -> Pane {
        Pane::ALL[(self.focus as usize + steps) % Pane::ALL.len()]
    }

    /// The rows of a list that a screen with room for `room` shows: the cursor is among them.
    pub(super) fn visible(&self, pane: Pane, room: usize) -> Range<usize> {
        let list = &self.lists[pane as usize];
        // Lists that the keys do not move show their first rows, which are the worst.
        let cursor = if pane == self.focus { list.cursor } else { 0 };
        let most = list.rows.len().saturating_sub(room);
        let from = cursor.saturating_sub(room / 2).min(most);
        from..(from + room).min(list.rows.len())
    }

    /// The indices of all rows of a list.
    pub(super) fn rows(&self, pane: Pane) -> &[usize] {
        &self.lists[pane as usize].rows
    }

    /// The row under the cursor, if the keys move this list.
    pub(super) fn cursor(&self, pane: Pane) -> Option<usize> {
        (pane == self.focus).then_some(self.lists[pane as usize].cursor)
    }

    /// The order of a list, and whether it is reversed.
    pub(super) fn order(&self, pane: Pane) -> (&'static str, bool) {
        let list = &self.lists[pane as usize];
        (pane.orders().get(list.order).copied().unwrap_or_default(), list.is_reversed)
    }

    /// The list with the whole screen.
    pub(super) fn zoomed(&self) -> Option<Pane> {
        self.is_zoomed.then_some(self.focus)
    }

    pub(super) fn filter(&self) -> &str {
        &self.filter
    }
}

impl List {
    fn arrange<T>(
        &mut self,
        rows: &[T],
        is_wanted: impl Fn(&T) -> bool,
        compare: impl Fn(usize, &T, &T) -> Ordering,
    ) {
        self.rows = (0..rows.len()).filter(|row| is_wanted(&rows[*row])).collect();
        let order = self.order;
        // Order 0 is the page's own unless a comparison refines it; sorting is stable.
        self.rows.sort_by(|a, b| compare(order, &rows[*a], &rows[*b]));
        if self.is_reversed {
            self.rows.reverse();
        }
        // The cursor keeps its place, not its row, which moves with each page.
        self.cursor = self.cursor.min(self.rows.len().saturating_sub(1));
    }
}

fn is_shown(row: &BudgetLine) -> bool {
    row.node.is_none() || matches!(row.alert, AlertState::Firing | AlertState::Pending)
}

fn holds(wanted: &str, words: &[&str]) -> bool {
    wanted.is_empty() || words.iter().any(|word| word.to_lowercase().contains(wanted))
}

fn budget_words(row: &BudgetLine) -> [&str; 5] {
    let node = row.node.as_deref().unwrap_or("fleet");
    [&row.budget, &row.operation, node, row.verdict.as_str(), row.alert.as_str()]
}

fn alert_words(row: &AlertLine) -> [&str; 6] {
    let node = row.node.as_deref().unwrap_or("fleet");
    [&row.rule, &row.operation, node, row.state.as_str(), row.severity.as_str(), &row.summary]
}

/// How bad a budget is; the worst is the least.
fn badness(row: &BudgetLine) -> u8 {
    match (row.alert, row.verdict) {
        (AlertState::Firing, _) => 0,
        (AlertState::Pending, _) => 1,
        (_, Verdict::Breach) => 2,
        (_, Verdict::Uncertain) => 3,
        (_, Verdict::Within) => 4,
        (_, Verdict::Insufficient) => 5,
        (_, Verdict::NoData) => 6,
    }
}

fn compare_budgets(order: usize, a: &BudgetLine, b: &BudgetLine) -> Ordering {
    match order {
        0 => {
            let rank = |row: &BudgetLine| (badness(row), is_own_name(&row.operation));
            rank(a).cmp(&rank(b)).then_with(|| least_first(a.headroom, b.headroom))
        }
        1 => (&a.budget, &a.node).cmp(&(&b.budget, &b.node)),
        2 => Reverse(a.p99_ns).cmp(&Reverse(b.p99_ns)),
        _ => least_first(a.headroom, b.headroom),
    }
}

fn compare_nodes(order: usize, a: &NodeLine, b: &NodeLine) -> Ordering {
    match order {
        0 => Ordering::Equal,
        1 => a.node.cmp(&b.node),
        2 => least_first(a.headroom, b.headroom),
        3 => b.outbox_depth_max.cmp(&a.outbox_depth_max),
        4 => b.held.cmp(&a.held),
        5 => b.lost.cmp(&a.lost),
        _ => b.seen_seconds.total_cmp(&a.seen_seconds),
    }
}

fn compare_alerts(order: usize, a: &AlertLine, b: &AlertLine) -> Ordering {
    match order {
        0 => Ordering::Equal,
        1 => (&a.rule, &a.node).cmp(&(&b.rule, &b.node)),
        _ => a.since_seconds.total_cmp(&b.since_seconds),
    }
}

/// Ascending, with what is unknown last.
fn least_first(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
