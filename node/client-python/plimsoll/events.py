"""An event as a DogStatsD line: something that happened, in words, for a person.

Both the length of a text and the number of pending events are bounded. A counter accompanies each
event, so that a lost event loses no count.
"""

from typing import Dict

from . import limits
from .client import CLIENT
from .names import cut, label_pairs, tag_text, with_defaults


def event_line(title: str, text: str, alert_type: str, labels: Dict[str, object]) -> str:
    """`_e{bytes of title,bytes of text}:title|text|t:type|#labels`."""
    title = _one_line(title)
    text = _one_line(text)
    sizes = f"{len(title.encode())},{len(text.encode())}"
    pairs = with_defaults(label_pairs(labels), CLIENT.registry.default_labels)
    return f"_e{{{sizes}}}:{title}|{text}|t:{alert_type}{tag_text(pairs)}"


def send_event(title: str, text: str, alert_type: str, labels: Dict[str, object]) -> None:
    """Leaves an event for the next flush; one too many is dropped and counted."""
    registry = CLIENT.registry
    if len(registry.events) < limits.EVENTS_MAX:
        registry.events.append(event_line(title, text, alert_type, labels))
    else:
        registry.drop("events")


def _one_line(text: str) -> str:
    # The protocol's own escape; lengths count it as written.
    return cut(text.replace("\r", "").replace("\n", "\\n"), limits.EVENT_TEXT_BYTES_MAX)
