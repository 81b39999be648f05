"""Every setting of a queue in one table: as argument of a declaration, as key of a policy, or both.

The keys of policies for exchanges are here as well: one policy may hold both. What arguments and policies are held to,
how an operator's value wins, what may change in place and the table in docs/queue-options.md all follow from the rows.
"""

from __future__ import annotations

from typing import Final

from warren.broker.rules.setting_kinds import (
    NUMBER_MAX,
    Age,
    Bounded,
    Choice,
    Flag,
    Kind,
    Milliseconds,
    Number,
    ShortText,
    Text,
    Version,
)
from warren.broker.terms import erlang_term

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"
QUEUE_TYPES: Final = (CLASSIC, QUORUM, STREAM)

# How the value of an operator's policy and that of the other policy become one.
NOT_FOR_OPERATORS: Final = ""
LEAST: Final = "least"
GREATEST: Final = "greatest"
OPERATORS: Final = "the operator's"


class Setting:
    """One row. `x-` before its name is the argument, its name the key in a policy."""

    def __init__(
        self,
        name: str,
        kind: Kind,
        types: tuple[str, ...],
        refusal: str = "",
        operator: str = NOT_FOR_OPERATORS,
        fixed: str = "",
        is_argument: bool = True,
        is_strict: bool = True,
    ) -> None:
        self.name = name
        self.kind = kind
        # The types of queue that know it.
        self.types = types
        # How a policy's refusal ends. Empty: it is no key of a policy.
        self.refusal = refusal
        self.operator = operator
        # Why the argument cannot change while the queue lives.
        self.fixed = fixed
        self.argument = "x-" + name
        self.is_argument = is_argument
        # A policy that holds it passes over queues of other types as a whole.
        self.is_strict = is_strict and len(types) > 0

    def merge(self, value: object, operator_value: object) -> object:
        if self.operator == OPERATORS or not isinstance(value, int) or not isinstance(operator_value, int):
            return operator_value
        # A negative number is no limit: the other one is the stricter.
        if self.operator == GREATEST or value < 0 or operator_value < 0:
            return max(value, operator_value)
        return min(value, operator_value)


_NONE: Final = ()
_MORTAL: Final = (CLASSIC, QUORUM)
_NEW_CACHE: Final = "the cache is made once: declare a new queue"
_SEGMENT: Final = Number(0, 3_000_000_000)
_FILTER: Final = Number(16, 255)
_STRATEGIES: Final = ("at-most-once", "at-least-once")
_WHEN: Final = ("always", "when-synced")
# Nacked or rejected messages wait, those whose consumer went away, or both.
_RETRIES: Final = ("all", "failed", "returned", "disabled")


def _policy_only(name: str, kind: Kind, types: tuple[str, ...], refusal: str, operator: str = "") -> Setting:
    return Setting(name, kind, types, refusal, operator, is_argument=False)


def _lenient(name: str, kind: Kind, types: tuple[str, ...], refusal: str, operator: str = "") -> Setting:
    """A policy may hold it for queues that do not know it."""
    return Setting(name, kind, types, refusal, operator, is_strict=False)


# In the order in which a declaration is checked and compared: of several faults the first is told.
_ROWS: Final = (
    Setting("expires", Milliseconds(1, 1), _MORTAL, "is not a valid queue expiry", LEAST),
    Setting("message-ttl", Milliseconds(), _MORTAL, "is not a valid message TTL", LEAST),
    Setting("dead-letter-exchange", ShortText(), _MORTAL, "is not a valid dead letter exchange name"),
    Setting("dead-letter-routing-key", ShortText(), _MORTAL, "is not a valid dead letter routing key"),
    Setting(
        "dead-letter-strategy",
        Choice(_STRATEGIES, "invalid_dlx_strategy"),
        (QUORUM,),
        "is not a valid dead letter strategy",
    ),
    Setting("max-length", Number(), _MORTAL, "is not a valid maximum length", LEAST),
    Setting("max-length-bytes", Number(), QUEUE_TYPES, "is not a valid maximum length in bytes", LEAST),
    Setting("max-in-memory-length", Number(), (QUORUM,), "is not a valid maximum memory in bytes", LEAST),
    Setting("max-in-memory-bytes", Number(), (QUORUM,), "is not a valid maximum memory in bytes", LEAST),
    Setting(
        "max-priority",
        Bounded(0, 255),
        (CLASSIC,),
        fixed="messages lie sorted by priority: declare a new queue and move them",
    ),
    Setting(
        "overflow",
        Choice(("drop-head", "reject-publish", "reject-publish-dlx"), "invalid_overflow"),
        _MORTAL,
        "is not a valid overflow value",
        OPERATORS,
    ),
    Setting(
        "queue-mode",
        Choice(("default", "lazy"), "\"unsupported queue mode '%s'\""),
        (CLASSIC,),
        "is not a valid queue-mode value",
    ),
    _lenient("queue-version", Version(1, 2), (CLASSIC,), "is not a valid queue-version value", OPERATORS),
    Setting(
        "single-active-consumer",
        Flag(),
        _MORTAL,
        fixed="consumers were told whether they are active: declare a new queue",
    ),
    Setting(
        "queue-type",
        Choice(QUEUE_TYPES, "\"unsupported queue type '%s'\""),
        QUEUE_TYPES,
        fixed="messages are kept in another way: declare a new queue and move them",
    ),
    _lenient("consumer-timeout", Milliseconds(), _MORTAL, "is not a valid consumer timeout"),
    Setting(
        "message-deduplication",
        Flag(),
        QUEUE_TYPES,
        fixed="what was seen before is not known: declare a new queue",
    ),
    Setting(
        "deduplication-header",
        Text(),
        QUEUE_TYPES,
        fixed="what was seen before is known under the old header: declare a new queue",
    ),
    Setting("cache-size", Bounded(0, 1_000_000), QUEUE_TYPES, fixed=_NEW_CACHE),
    Setting("cache-ttl", Milliseconds(), QUEUE_TYPES, fixed=_NEW_CACHE),
    _lenient("exact-message-ttl", Flag(), _MORTAL, "is not true or false"),
    _lenient(
        "delayed-retry-type",
        Choice(_RETRIES, "invalid_delayed_retry_type"),
        _MORTAL,
        f"is not a valid delayed retry type. Must be one of: {', '.join(_RETRIES)}",
        OPERATORS,
    ),
    _lenient(
        "delayed-retry-min",
        Milliseconds(1),
        _MORTAL,
        "is not a valid delayed retry minimum delay. Must be a positive integer",
        GREATEST,
    ),
    _lenient(
        "delayed-retry-max",
        Milliseconds(1),
        _MORTAL,
        "is not a valid delayed retry maximum delay. Must be a positive integer",
        LEAST,
    ),
    _lenient("delayed-retry-limit", Number(), _MORTAL, "is not a valid delayed retry limit"),
    Setting(
        "queue-master-locator",
        Choice(("client-local", "balanced", "random", "min-masters")),
        (CLASSIC,),
        "is not a valid master locator",
    ),
    Setting("delivery-limit", Number(-NUMBER_MAX), (QUORUM,), "is not a valid delivery limit", LEAST),
    Setting("quorum-initial-group-size", Number(1, argument_least=1), (QUORUM,)),
    Setting("max-age", Age(), (STREAM,), "is not a valid max age"),
    Setting("stream-max-segment-size-bytes", _SEGMENT, (STREAM,), "is not a valid segment size"),
    _lenient("stream-filter-size-bytes", _FILTER, (STREAM,), "is not a valid filter size. Valid range is 16-255"),
    Setting("initial-cluster-size", Number(argument_least=1), (STREAM,), "is not a valid cluster size"),
    _lenient(
        "queue-leader-locator",
        Choice(("client-local", "balanced", "random", "least-leaders"), "invalid_queue_locator_arg"),
        (QUORUM, STREAM),
        "is not a valid queue leader locator value",
    ),
    Setting("archive", Flag(), (STREAM,), "is not true or false"),
    _policy_only("target-group-size", Number(1), (QUORUM,), "is not a valid qq target count value", GREATEST),
    _policy_only("consumer-disconnected-timeout", Number(), _NONE, "is not a valid consumer disconnected timeout"),
    _policy_only("alternate-exchange", Text(), _NONE, "is not a valid alternate exchange name"),
    _policy_only("pipeline", Text(), _NONE, "is not a valid pipeline name"),
    _policy_only("federation-upstream", Text(), _NONE, "is not a valid federation upstream name"),
    _policy_only("federation-upstream-set", Text(), _NONE, "is not a valid federation upstream set name"),
    _policy_only("federation-upstream-pattern", Text(), _NONE, "is not a valid federation upstream pattern name"),
    # Mirroring is gone since RabbitMQ 4.0 and means nothing on one node; old definitions files must still load.
    _policy_only("ha-mode", Choice(("all", "exactly", "nodes")), (CLASSIC,), "is not a valid ha-mode value"),
    _policy_only("ha-params", Kind(), (CLASSIC,), "is not a valid ha-params value"),
    _policy_only("ha-sync-mode", Choice(("manual", "automatic")), (CLASSIC,), "is not a valid ha-sync-mode value"),
    _policy_only("ha-promote-on-shutdown", Choice(_WHEN), (CLASSIC,), "is not a valid ha-promote-on-shutdown value"),
    _policy_only("ha-promote-on-failure", Choice(_WHEN), (CLASSIC,), "is not a valid ha-promote-on-failure value"),
    _policy_only("ha-sync-batch-size", Number(1), _NONE, "is not a valid ha-sync-batch-size value"),
)

SETTINGS: Final[dict[str, Setting]] = {row.name: row for row in _ROWS}
ARGUMENTS: Final[dict[str, Setting]] = {row.argument: row for row in _ROWS if row.is_argument}


def _known_to(*types: str) -> list[Setting]:
    return [row for row in ARGUMENTS.values() if all(type_ in row.types for type_ in types)]


_KNOWN: Final[dict[str, list[Setting]]] = {type_: _known_to(type_) for type_ in QUEUE_TYPES}
_KNOWN_TO_ANY: Final[list[Setting]] = _known_to(*_MORTAL)


def arguments_of(type_: str) -> list[Setting]:
    """Those that a queue of this type knows; of a type that there is not, what most know."""
    return _KNOWN.get(type_, _KNOWN_TO_ANY)


# A policy that holds one of these passes over queues of that type as a whole.
UNSUPPORTED: Final[dict[str, frozenset[str]]] = {
    type_: frozenset([row.name for row in _ROWS if row.is_strict and row.refusal and type_ not in row.types])
    for type_ in QUEUE_TYPES
}


def refusal_of(key: str, value: object, is_operator: bool, own: dict[str, Setting]) -> str | None:
    """Empty: fine. A text: what is wrong with the value. None: a policy, or one of an operator, has no such key.

    `own`: those of extensions.
    """
    row = SETTINGS.get(key) or own.get(key)
    if row is None or not row.refusal or (is_operator and not row.operator):
        return None
    return "" if row.kind.takes(value) else f"{erlang_term(value)} {row.refusal}"


def stream_size_problem(key: str, value: int) -> str:
    """What RabbitMQ finds out only when it makes the stream."""
    if key == "x-stream-max-segment-size-bytes" and value > _SEGMENT.most:
        return f"Exceeded max value for {key}"
    if key == "x-stream-filter-size-bytes" and not _FILTER.takes(value):
        return f"Invalid value for  {key}"
    return ""
