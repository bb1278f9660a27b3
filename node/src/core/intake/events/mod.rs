//! Events and service checks as DogStatsD writes them: read wholly, cut to what a message takes.
//!
//! `_e{<bytes of title>,<bytes of text>}:title|text[|d:unix seconds][|h:host][|k:key]
//! [|p:normal or low][|t:error, warning, info or success][|#tags][|c:container]` and
//! `_sc|name|status[|d:unix seconds][|h:host][|#tags][|c:container][|m:message]`. What names the
//! source's type (`s:`) and fields of later versions are passed over.

use crate::limits::LINE_BYTES_MAX;
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::limits::wire::{
    EVENT_TEXT_BYTES_MAX, EVENT_TITLE_BYTES_MAX, EVENTS_MAX, MESSAGE_BYTES_SPLIT,
};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{AlertType, Event, EventSource, Events};

use super::dogstatsd::unix_seconds;
use super::labels::{LabelRules, LineFigures};
use super::number::whole;
use super::reject::Reject;

const EVENT: &[u8] = b"_e{";
const SERVICE_CHECK: &[u8] = b"_sc|";
/// An upper bound of the bytes around an event's texts and labels: field names and numbers.
const EVENT_BYTES: usize = 128;
/// Likewise around a label.
const LABEL_BYTES: usize = 6;

/// Whether a line is one of the two.
pub(super) fn is_event(line: &[u8]) -> bool {
    line.starts_with(EVENT) || line.starts_with(SERVICE_CHECK)
}

/// An event as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) event: Event,
    /// Texts that were cut.
    pub(super) cut: u64,
    /// What became of the tags.
    pub(super) labels: Option<LineFigures>,
}

/// Reads a line for which [`is_event`] holds.
///
/// # Errors
/// When it is malformed.
pub(super) fn parse(now: Wall, line: &[u8], rules: &LabelRules) -> Result<Parsed, Reject> {
    if line.len() > LINE_BYTES_MAX {
        return Err(Reject::TooLong);
    }
    let line = str::from_utf8(line).map_err(|_| Reject::Encoding)?;
    let draft = if line.as_bytes().starts_with(EVENT) { event(line) } else { check(line) };
    draft.map(|draft| draft.finish(now, rules)).ok_or(Reject::Event)
}

/// An event in the words of its line.
#[derive(Default)]
struct Draft<'a> {
    is_check: bool,
    title: &'a str,
    text: String,
    alert_type: AlertType,
    low_priority: bool,
    at: Option<u64>,
    host: &'a str,
    key: &'a str,
    tags: &'a str,
    container: &'a str,
}

fn event(line: &str) -> Option<Draft<'_>> {
    let (lengths, body) = line.strip_prefix("_e{")?.split_once("}:")?;
    let (title, text) = lengths.split_once(',')?;
    let length = |text: &str| {
        let length = whole(text.as_bytes(), LINE_BYTES_MAX as u64)?;
        usize::try_from(length).ok()
    };
    let (title, rest) = body.split_at_checked(length(title)?)?;
    let (text, rest) = rest.strip_prefix('|')?.split_at_checked(length(text)?)?;
    let mut draft = Draft { title, text: unescaped(text), ..Draft::default() };
    for field in fields(rest)? {
        draft.add(field);
    }
    (!title.is_empty()).then_some(draft)
}

fn check(line: &str) -> Option<Draft<'_>> {
    let mut fields = line.strip_prefix("_sc|")?.split('|');
    let title = fields.next().filter(|name| !name.is_empty())?;
    let alert_type = match fields.next()? {
        "0" => AlertType::Success,
        "1" => AlertType::Warning,
        "2" => AlertType::Error,
        "3" => AlertType::Info,
        _ => return None,
    };
    let mut draft = Draft { is_check: true, title, alert_type, ..Draft::default() };
    for field in fields {
        match field.strip_prefix("m:") {
            Some(message) => draft.text = unescaped(&message.replace("m\\:", "m:")),
            None => draft.add(field),
        }
    }
    Some(draft)
}

/// The fields after the text, each of which a bar begins.
fn fields(rest: &str) -> Option<impl Iterator<Item = &str>> {
    let is_bounded = rest.is_empty() || rest.starts_with('|');
    is_bounded.then(|| rest.split('|').skip(1))
}

fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n")
}

impl<'a> Draft<'a> {
    /// What a field says, unless it says nothing that is known: an event is worth more than the
    /// spelling of its priority.
    fn add(&mut self, field: &'a str) {
        if let Some(tags) = field.strip_prefix('#') {
            self.tags = tags;
            return;
        }
        match field.split_once(':').unwrap_or((field, "")) {
            ("d", at) => self.at = unix_seconds(at.as_bytes()).or(self.at),
            ("h", host) => self.host = host,
            ("c", container) => self.container = container,
            ("k", key) => self.key = key,
            ("p", priority) if !self.is_check => self.low_priority = priority == "low",
            ("t", "error") if !self.is_check => self.alert_type = AlertType::Error,
            ("t", "warning") if !self.is_check => self.alert_type = AlertType::Warning,
            ("t", "success") if !self.is_check => self.alert_type = AlertType::Success,
            _ => {}
        }
    }

    fn finish(self, now: Wall, rules: &LabelRules) -> Parsed {
        let mut cut = 0;
        let mut fit = |text: &str, max: usize| {
            let kept = &text[..text.floor_char_boundary(max)];
            cut += u64::from(kept.len() < text.len());
            kept.to_owned()
        };
        let (labels, figures) = rules.read(self.tags, self.container);
        let is_check = self.is_check;
        let event = Event {
            source: if is_check { EventSource::ServiceCheck } else { EventSource::Event },
            title: fit(self.title, EVENT_TITLE_BYTES_MAX),
            text: fit(&self.text, EVENT_TEXT_BYTES_MAX),
            alert_type: self.alert_type,
            low_priority: self.low_priority,
            at: self.at.map_or(now, |seconds| Wall(seconds * 1_000_000_000)),
            host: fit(self.host, EVENT_TITLE_BYTES_MAX),
            aggregation_key: fit(self.key, EVENT_TITLE_BYTES_MAX),
            labels,
        };
        Parsed { event, cut, labels: figures }
    }
}

/// The events of one interval, which fit into one message.
#[derive(Default)]
pub(super) struct OpenEvents {
    events: Vec<Event>,
    bytes: usize,
}

impl OpenEvents {
    /// Adds the newest.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(super) fn push(&mut self, event: Event) -> Result<(), Reject> {
        let bytes = self.bytes + bytes(&event);
        if self.events.len() == EVENTS_MAX || bytes > MESSAGE_BYTES_SPLIT {
            return Err(Reject::EventsCap);
        }
        self.bytes = bytes;
        self.events.push(event);
        Ok(())
    }

    /// Ends the interval.
    pub(super) fn take(&mut self) -> Events {
        Events { events: std::mem::take(self).events }
    }
}

/// An upper bound of what an event takes in a message.
fn bytes(event: &Event) -> usize {
    let texts = [&event.title, &event.text, &event.host, &event.aggregation_key];
    let texts: usize = texts.into_iter().map(String::len).sum();
    texts + label_bytes(&event.labels) + EVENT_BYTES
}

fn label_bytes(labels: &Labels) -> usize {
    labels.iter().map(|(key, value)| key.len() + value.len() + LABEL_BYTES).sum()
}

#[cfg(test)]
mod tests;
