//! Parses events and service checks in DogStatsD's format, cut to what a message holds.
//!
//! `_e{<bytes of title>,<bytes of text>}:title|text[|d:unix seconds][|h:host][|k:key]
//! [|p:normal or low][|t:error, warning, info or success][|#tags][|c:container]` and
//! `_sc|name|status[|d:unix seconds][|h:host][|#tags][|c:container][|m:message]`. The source type
//! (`s:`) and fields of later versions are ignored.

use crate::limits::LINE_BYTES_MAX;
use plimsoll_schemas::limits::wire::{EVENT_TEXT_BYTES_MAX, EVENT_TITLE_BYTES_MAX};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{AlertType, Event, EventSource};

use crate::core::intake::lines::{unix_seconds, whole};
use crate::core::intake::reject::Reject;
use crate::core::intake::series::{LabelRules, LineLabelStats};

const EVENT: &[u8] = b"_e{";
const SERVICE_CHECK: &[u8] = b"_sc|";
pub(crate) fn is_event(line: &[u8]) -> bool {
    line.starts_with(EVENT) || line.starts_with(SERVICE_CHECK)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedEvent {
    pub(crate) event: Event,
    /// Texts that were cut.
    pub(crate) cut: u64,
    /// Statistics of its tags, if not all became labels unchanged.
    pub(crate) labels: Option<LineLabelStats>,
}

/// Parses a line for which [`is_event`] holds.
pub(crate) fn parse(now: Wall, line: &[u8], rules: &LabelRules) -> Result<ParsedEvent, Reject> {
    if line.len() > LINE_BYTES_MAX {
        return Err(Reject::TooLong);
    }
    let line = str::from_utf8(line).map_err(|_| Reject::Encoding)?;
    let draft = if line.as_bytes().starts_with(EVENT) { event(line) } else { check(line) };
    draft.map(|draft| draft.finish(now, rules)).ok_or(Reject::Event)
}

#[derive(Default)]
struct EventFields<'a> {
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

fn event(line: &str) -> Option<EventFields<'_>> {
    let (lengths, body) = line.strip_prefix("_e{")?.split_once("}:")?;
    let (title, text) = lengths.split_once(',')?;
    let length = |text: &str| {
        let length = whole(text.as_bytes(), LINE_BYTES_MAX as u64)?;
        usize::try_from(length).ok()
    };
    // By its stated length, since a title or text may contain bars.
    let (title, rest) = body.split_at_checked(length(title)?)?;
    let (text, rest) = rest.strip_prefix('|')?.split_at_checked(length(text)?)?;
    let mut draft = EventFields { title, text: unescaped(text), ..EventFields::default() };
    for field in fields(rest)? {
        draft.add(field);
    }
    (!title.is_empty()).then_some(draft)
}

fn check(line: &str) -> Option<EventFields<'_>> {
    let mut fields = line.strip_prefix("_sc|")?.split('|');
    let title = fields.next().filter(|name| !name.is_empty())?;

    let alert_type = match fields.next()? {
        "0" => AlertType::Success,
        "1" => AlertType::Warning,
        "2" => AlertType::Error,
        "3" => AlertType::Info,
        _ => return None,
    };

    let mut draft = EventFields { is_check: true, title, alert_type, ..EventFields::default() };
    for field in fields {
        match field.strip_prefix("m:") {
            Some(message) => draft.text = unescaped(&message.replace("m\\:", "m:")),
            None => draft.add(field),
        }
    }

    Some(draft)
}

/// The fields after the text, each of which starts with a bar.
fn fields(rest: &str) -> Option<impl Iterator<Item = &str>> {
    let is_bounded = rest.is_empty() || rest.starts_with('|');
    is_bounded.then(|| rest.split('|').skip(1))
}

fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n")
}

impl<'a> EventFields<'a> {
    /// Applies a field. Unknown ones are ignored: an event is worth more than the spelling of its
    /// priority.
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

    fn finish(self, now: Wall, rules: &LabelRules) -> ParsedEvent {
        let mut cut = 0;
        let mut fit = |text: &str, max: usize| {
            // Between characters: a text that is no UTF-8 would make the message unreadable.
            let kept = &text[..text.floor_char_boundary(max)];
            cut += u64::from(kept.len() < text.len());
            kept.to_owned()
        };

        let (labels, stats) = rules.read(self.tags, self.container);
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

        ParsedEvent { event, cut, labels: stats }
    }
}
