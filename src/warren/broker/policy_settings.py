"""Every setting that a policy may hold: what values it takes, which queue types know it, how an operator's wins."""

from __future__ import annotations

from typing import Final

from warren.broker.terms import erlang_term

APPLY_TO: Final = frozenset(["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"])

# Larger numbers would not survive JSON in other tools, and would overflow when a clock is added to them.
NUMBER_MAX: Final = 2**53 - 1
SEGMENT_BYTES_MAX: Final = 3_000_000_000

# setting -> how a refusal ends, least, most.
_NUMBERS: Final[dict[str, tuple[str, int, int]]] = {
    "message-ttl": ("is not a valid message TTL", 0, NUMBER_MAX),
    "expires": ("is not a valid queue expiry", 1, NUMBER_MAX),
    "max-length": ("is not a valid maximum length", 0, NUMBER_MAX),
    "max-length-bytes": ("is not a valid maximum length in bytes", 0, NUMBER_MAX),
    "max-in-memory-length": ("is not a valid maximum memory in bytes", 0, NUMBER_MAX),
    "max-in-memory-bytes": ("is not a valid maximum memory in bytes", 0, NUMBER_MAX),
    "delivery-limit": ("is not a valid delivery limit", -NUMBER_MAX, NUMBER_MAX),
    "consumer-timeout": ("is not a valid consumer timeout", 0, NUMBER_MAX),
    "consumer-disconnected-timeout": ("is not a valid consumer disconnected timeout", 0, NUMBER_MAX),
    "queue-version": ("is not a valid queue-version value", 1, 2),
    "initial-cluster-size": ("is not a valid cluster size", 0, NUMBER_MAX),
    "target-group-size": ("is not a valid qq target count value", 1, NUMBER_MAX),
    "stream-max-segment-size-bytes": ("is not a valid segment size", 0, SEGMENT_BYTES_MAX),
    "stream-filter-size-bytes": ("is not a valid filter size. Valid range is 16-255", 16, 255),
    "delayed-retry-min": ("is not a valid delayed retry minimum delay. Must be a positive integer", 1, NUMBER_MAX),
    "delayed-retry-max": ("is not a valid delayed retry maximum delay. Must be a positive integer", 1, NUMBER_MAX),
    "delayed-retry-limit": ("is not a valid delayed retry limit", 0, NUMBER_MAX),
    "ha-sync-batch-size": ("is not a valid ha-sync-batch-size value", 1, NUMBER_MAX),
}

# setting -> how a refusal ends, words it takes.
_CHOICES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "overflow": ("is not a valid overflow value", ("drop-head", "reject-publish", "reject-publish-dlx")),
    "dead-letter-strategy": ("is not a valid dead letter strategy", ("at-most-once", "at-least-once")),
    "queue-mode": ("is not a valid queue-mode value", ("default", "lazy")),
    "queue-leader-locator": (
        "is not a valid queue leader locator value",
        ("client-local", "balanced", "random", "least-leaders"),
    ),
    "queue-master-locator": ("is not a valid master locator", ("client-local", "balanced", "random", "min-masters")),
    "delayed-retry-type": (
        "is not a valid delayed retry type. Must be one of: all, failed, returned, disabled",
        ("all", "failed", "returned", "disabled"),
    ),
    # Mirroring is gone since RabbitMQ 4.0 and means nothing on one node; old definitions files must still load.
    "ha-mode": ("is not a valid ha-mode value", ("all", "exactly", "nodes")),
    "ha-sync-mode": ("is not a valid ha-sync-mode value", ("manual", "automatic")),
    "ha-promote-on-shutdown": ("is not a valid ha-promote-on-shutdown value", ("always", "when-synced")),
    "ha-promote-on-failure": ("is not a valid ha-promote-on-failure value", ("always", "when-synced")),
}

_TEXTS: Final[dict[str, str]] = {
    "alternate-exchange": "is not a valid alternate exchange name",
    "pipeline": "is not a valid pipeline name",
    "dead-letter-exchange": "is not a valid dead letter exchange name",
    "dead-letter-routing-key": "is not a valid dead letter routing key",
    "federation-upstream": "is not a valid federation upstream name",
    "federation-upstream-set": "is not a valid federation upstream set name",
    "federation-upstream-pattern": "is not a valid federation upstream pattern name",
}

OPERATOR_KEYS: Final = frozenset(
    [
        "expires",
        "message-ttl",
        "max-length",
        "max-length-bytes",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "delivery-limit",
        "queue-version",
        "overflow",
        "target-group-size",
        "delayed-retry-type",
        "delayed-retry-min",
        "delayed-retry-max",
    ]
)

_MIRRORING: Final = ["ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure"]
_OF_STREAMS: Final = ["max-age", "stream-max-segment-size-bytes", "initial-cluster-size", "archive"]
_OF_QUORUM: Final = ["delivery-limit", "dead-letter-strategy", "max-in-memory-length", "max-in-memory-bytes"]
_OF_ALL_BUT_STREAMS: Final = [
    "expires",
    "message-ttl",
    "max-length",
    "overflow",
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "target-group-size",
]
_OF_CLASSIC: Final = ["queue-mode", "queue-master-locator"]

# A policy that holds one of these passes over queues of that type as a whole.
UNSUPPORTED: Final[dict[str, frozenset[str]]] = {
    "classic": frozenset(_OF_STREAMS + _OF_QUORUM + ["target-group-size"]),
    "quorum": frozenset(_OF_STREAMS + _OF_CLASSIC + _MIRRORING),
    "stream": frozenset(_OF_ALL_BUT_STREAMS + _OF_QUORUM + _OF_CLASSIC + _MIRRORING),
}


def refusal_of(key: str, value: object) -> str | None:
    """Empty: fine. A text: what is wrong with the value. None: no such setting."""
    if key in _NUMBERS:
        ending, least, most = _NUMBERS[key]
        return _refuse(_is_number(value, least, most), value, ending)
    if key in _CHOICES:
        ending, words = _CHOICES[key]
        return _refuse(isinstance(value, str) and value in words, value, ending)
    if key in _TEXTS:
        return _refuse(isinstance(value, str), value, _TEXTS[key])
    if key == "max-age":
        return _refuse(isinstance(value, str) and age_in_ms(value) > 0, value, "is not a valid max age")
    if key == "ha-params":
        return ""
    if key == "exact-message-ttl" or key == "archive":
        return _refuse(isinstance(value, bool), value, "is not true or false")
    return None


def age_in_ms(text: str) -> int:
    """7D, 12h, ... in milliseconds; 0 when it is no age."""
    seconds = {"Y": 365 * 86400, "M": 30 * 86400, "D": 86400, "h": 3600, "m": 60, "s": 1}.get(text[-1:], 0)
    digits = text[:-1]
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10:
        return 0
    return int(digits) * seconds * 1000


def merge_values(key: str, value: object, operator_value: object) -> object:
    if not isinstance(value, int) or not isinstance(operator_value, int):
        return operator_value
    if key == "queue-version":
        return operator_value
    if key == "delayed-retry-min" or key == "target-group-size":
        return max(value, operator_value)
    # A negative delivery limit is no limit: the other one is the stricter.
    if key == "delivery-limit" and (value < 0 or operator_value < 0):
        return max(value, operator_value)
    return min(value, operator_value)


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _refuse(fine: bool, value: object, ending: str) -> str:
    return "" if fine else f"{erlang_term(value)} {ending}"
