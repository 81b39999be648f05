"""Every setting of a queue in one table: as argument of a declaration, as key of a policy, or both.

The keys of policies for exchanges are here as well: one policy may hold both. What arguments and policies are held to,
how an operator's value wins, what may change in place and the table in docs/queue-options.md all follow from the rows.
"""

from __future__ import annotations

from typing import Final

from warren.amqp.constants import MAX_EXPIRY_MS
from warren.amqp.fields import Field, type_name
from warren.broker.terms import erlang_term

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"
QUEUE_TYPES: Final = (CLASSIC, QUORUM, STREAM)

# Larger numbers would not survive JSON in other tools, and would overflow when a clock is added to them.
# Of a short string, in bytes.
SHORT_MAX: Final = 255
NUMBER_MAX: Final = 2**53 - 1

_INTEGER_TAGS: Final = "bBsuIilL"


def is_integer(field: Field) -> bool:
    return field.tag in _INTEGER_TAGS


def integer(field: Field) -> int:
    value = field.value
    return value if isinstance(value, int) else 0


def integer_problem(field: Field) -> str:
    return "" if is_integer(field) else f'"expected integer, got {type_name(field.tag)}"'


def _type_problem(field: Field) -> str:
    return f"{{unacceptable_type,{type_name(field.tag)}}}"


# -- kinds of values ---------------------------------------------------------------------------------------------------


class Kind:
    """What values a setting takes. Anything, unless a kind says otherwise."""

    def problem(self, field: Field) -> str:
        """Of an argument: empty when the value will do, else the reason in RabbitMQ's (Erlang's) words."""
        return ""

    def takes(self, value: object) -> bool:
        """Of a policy."""
        return True

    def text(self) -> str:
        """For people."""
        return "anything"


class Number(Kind):
    """An argument is only kept from being negative; the range is that of policies."""

    def __init__(self, least: int = 0, most: int = NUMBER_MAX) -> None:
        self.least = least
        self.most = most

    def problem(self, field: Field) -> str:
        problem = integer_problem(field)
        if problem or integer(field) >= 0 or self.least < 0:
            return problem
        return f"{{value_negative,{integer(field)}}}"

    def takes(self, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most

    def text(self) -> str:
        if self.most != NUMBER_MAX:
            return f"{self.least} to {self.most}"
        return "a whole number" if self.least < 0 else f"a number from {self.least}"


class Bounded(Number):
    """The upper end holds for arguments too."""

    def problem(self, field: Field) -> str:
        problem = super().problem(field)
        return problem if problem or integer(field) <= self.most else f"{{max_value_exceeded,{integer(field)}}}"


class Milliseconds(Number):
    def __init__(self, least: int = 0, argument_least: int = 0) -> None:
        super().__init__(least)
        self.argument_least = argument_least

    def problem(self, field: Field) -> str:
        problem = super().problem(field)
        if problem:
            return problem
        if integer(field) < self.argument_least:
            return "{value_zero,0}"
        return f"{{value_too_large,{integer(field)}}}" if integer(field) > MAX_EXPIRY_MS else ""

    def text(self) -> str:
        return f"milliseconds from {self.least}"


class Version(Number):
    def problem(self, field: Field) -> str:
        problem = integer_problem(field)
        is_known = self.least <= integer(field) <= self.most
        return problem if problem or is_known else f"\"unsupported queue version '{integer(field)}'\""


class Flag(Kind):
    def problem(self, field: Field) -> str:
        return "" if field.tag == "t" else _type_problem(field)

    def takes(self, value: object) -> bool:
        return isinstance(value, bool)

    def text(self) -> str:
        return "true or false"


class Text(Kind):
    def problem(self, field: Field) -> str:
        value = field.value
        if field.tag != "S" or not isinstance(value, str):
            return _type_problem(field)
        return self.word_problem(value)

    def word_problem(self, value: str) -> str:
        return ""

    def takes(self, value: object) -> bool:
        return isinstance(value, str)

    def text(self) -> str:
        return "text"


class ShortText(Text):
    """What becomes a short string on the wire, a name or a key: longer than that it could never be sent."""

    def word_problem(self, value: str) -> str:
        return "" if is_short(value) else f"{{too_long,{len(value)}}}"

    def takes(self, value: object) -> bool:
        return isinstance(value, str) and is_short(value)

    def text(self) -> str:
        return f"text of at most {SHORT_MAX} bytes"


def is_short(text: str) -> bool:
    return len(text.encode("utf-8", "surrogateescape")) <= SHORT_MAX


class Choice(Text):
    """`refusal` may name the word as %s. Without one, an argument takes any word."""

    def __init__(self, words: tuple[str, ...], refusal: str = "") -> None:
        self.words = words
        self.refusal = refusal

    def word_problem(self, value: str) -> str:
        return "" if value in self.words else self.refusal.replace("%s", value)

    def takes(self, value: object) -> bool:
        return isinstance(value, str) and value in self.words

    def text(self) -> str:
        return ", ".join([f"`{word}`" for word in self.words])


class Age(Text):
    def word_problem(self, value: str) -> str:
        return "" if age_in_ms(value) > 0 else "invalid_max_age"

    def takes(self, value: object) -> bool:
        return isinstance(value, str) and age_in_ms(value) > 0

    def text(self) -> str:
        return "an age such as `7D` or `12h`"


def age_in_ms(text: str) -> int:
    """7D, 12h, ... in milliseconds; 0 when it is no age."""
    seconds = {"Y": 365 * 86400, "M": 30 * 86400, "D": 86400, "h": 3600, "m": 60, "s": 1}.get(text[-1:], 0)
    digits = text[:-1]
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10:
        return 0
    return int(digits) * seconds * 1000


# -- the table ---------------------------------------------------------------------------------------------------------

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
    Setting("max-length", Number(), _MORTAL, "is not a valid maximum length", LEAST),
    Setting("max-length-bytes", Number(), QUEUE_TYPES, "is not a valid maximum length in bytes", LEAST),
    Setting(
        "single-active-consumer",
        Flag(),
        _MORTAL,
        fixed="consumers were told whether they are active: declare a new queue",
    ),
    Setting(
        "overflow",
        Choice(("drop-head", "reject-publish", "reject-publish-dlx"), "invalid_overflow"),
        _MORTAL,
        "is not a valid overflow value",
        OPERATORS,
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
        "max-priority",
        Bounded(0, 255),
        (CLASSIC,),
        fixed="messages lie sorted by priority: declare a new queue and move them",
    ),
    Setting(
        "queue-mode",
        Choice(("default", "lazy"), "\"unsupported queue mode '%s'\""),
        (CLASSIC,),
        "is not a valid queue-mode value",
    ),
    _lenient("queue-version", Version(1, 2), (CLASSIC,), "is not a valid queue-version value", OPERATORS),
    Setting(
        "queue-master-locator",
        Choice(("client-local", "balanced", "random", "min-masters")),
        (CLASSIC,),
        "is not a valid master locator",
    ),
    Setting("delivery-limit", Number(-NUMBER_MAX), (QUORUM,), "is not a valid delivery limit", LEAST),
    Setting(
        "dead-letter-strategy",
        Choice(_STRATEGIES, "invalid_dlx_strategy"),
        (QUORUM,),
        "is not a valid dead letter strategy",
    ),
    Setting("quorum-initial-group-size", Number(-NUMBER_MAX), (QUORUM,)),
    Setting("max-in-memory-length", Number(), (QUORUM,), "is not a valid maximum memory in bytes", LEAST),
    Setting("max-in-memory-bytes", Number(), (QUORUM,), "is not a valid maximum memory in bytes", LEAST),
    Setting("max-age", Age(), (STREAM,), "is not a valid max age"),
    Setting("stream-max-segment-size-bytes", _SEGMENT, (STREAM,), "is not a valid segment size"),
    _lenient("stream-filter-size-bytes", _FILTER, (STREAM,), "is not a valid filter size. Valid range is 16-255"),
    Setting("initial-cluster-size", Number(), (STREAM,), "is not a valid cluster size"),
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
