"""What became of some publishes, in a form in which two brokers can be compared: by names, message for message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Queue = tuple[str, str]


@dataclass
class Outcome:
    # By message: (code, text), "returned", and ack or nack.
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    returns: list[str] = field(default_factory=list)
    confirms: dict[str, str] = field(default_factory=dict)
    # By queue: messages in the order in which they entered, and left as dead letters, with the reason.
    entered: dict[Queue, list[str]] = field(default_factory=dict)
    dead_lettered: dict[Queue, list[str]] = field(default_factory=dict)
    # By queue, in order: (message, exchange, routing key, x-death).
    contents: dict[Queue, list[tuple[str, str, str, Any]]] = field(default_factory=dict)
