"""The x-arguments of queues: which there are, what values they take, and when two declarations are the same."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.amqp.constants import MAX_EXPIRY_MS
from warren.amqp.fields import Field, Table, type_name
from warren.broker.policy_settings import age_in_ms
from warren.errors import PreconditionFailed

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"
QUEUE_TYPES: Final = (CLASSIC, QUORUM, STREAM)

OVERFLOW_MODES: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
LEADER_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders")
PRIORITY_MAX: Final = 255
DEDUPLICATION_CACHE_MAX: Final = 1_000_000

# Nacked or rejected messages wait, those whose consumer went away, or both.
RETRY_TYPES: Final = ("all", "failed", "returned", "disabled")

_INTEGER_TAGS: Final = "bBsuIilL"
_NATURALS: Final = (
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-delayed-retry-limit",
)
_DEDUPLICATION: Final = ("x-message-deduplication", "x-deduplication-header", "x-cache-size", "x-cache-ttl")
_FOR_ALL: Final = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-single-active-consumer",
    "x-overflow",
    "x-queue-type",
    "x-consumer-timeout",
    *_DEDUPLICATION,
    "x-exact-message-ttl",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-delayed-retry-limit",
)
_KNOWN: Final = {
    CLASSIC: (*_FOR_ALL, "x-max-priority", "x-queue-mode", "x-queue-version", "x-queue-master-locator"),
    QUORUM: (
        *_FOR_ALL,
        "x-delivery-limit",
        "x-dead-letter-strategy",
        "x-quorum-initial-group-size",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-queue-leader-locator",
    ),
    STREAM: (
        "x-queue-type",
        "x-max-age",
        "x-max-length-bytes",
        "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
        "x-archive",
        *_DEDUPLICATION,
    ),
}

# Known to one queue type or another: an error on a queue of a type that does not know it.
_OF_SOME_TYPE: Final = (*_KNOWN[CLASSIC], *_KNOWN[QUORUM], *_KNOWN[STREAM])


def resource(kind: str, name: str, vhost: str) -> str:
    """How RabbitMQ names a thing in its texts: queue 'q' in vhost '/'."""
    return f"{kind} '{name}' in vhost '{vhost}'"


def wrong_type(key: str, field: Field, what: str) -> PreconditionFailed:
    """An exchange named by something that is no name."""
    return PreconditionFailed(f"invalid type '{type_name(field.tag)}' for arg '{key}' in {what}")


def queue_type(arguments: Table) -> str:
    field = arguments.get("x-queue-type")
    return str(field.value) if field is not None else CLASSIC


def check_queue_arguments(arguments: Table, type_: str, name: str, vhost: str) -> None:
    """Refuse (406) the first argument whose value cannot be."""
    for key in _KNOWN.get(type_, _FOR_ALL):
        field = arguments.get(key)
        if field is None:
            continue
        if key == "x-dead-letter-exchange" and field.tag != "S":
            raise wrong_type(key, field, resource("queue", name, vhost))
        problem = _problem(key, field, arguments)
        if problem:
            raise PreconditionFailed(f"invalid arg '{key}' for {resource('queue', name, vhost)}: {problem}")
    for key in arguments:
        if key in _OF_SOME_TYPE and key not in _KNOWN.get(type_, _FOR_ALL):
            raise PreconditionFailed(
                f"invalid arg '{key}' for {resource('queue', name, vhost)} of queue type rabbit_{type_}_queue"
            )


def _problem(key: str, field: Field, arguments: Table) -> str:
    """Empty when the value will do, else the reason in RabbitMQ's (Erlang's) words."""
    if key == "x-expires":
        return _expiry_problem(field, zero_is_fine=False)
    if key in ("x-message-ttl", "x-cache-ttl", "x-consumer-timeout", "x-delayed-retry-min", "x-delayed-retry-max"):
        return _expiry_problem(field, zero_is_fine=True)
    if key in _NATURALS:
        return _natural_problem(field)
    if key == "x-queue-version":
        problem = integer_problem(field)
        known = field.value in (1, 2)
        return problem if problem or known else f"\"unsupported queue version '{integer(field)}'\""
    if key in ("x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes", "x-initial-cluster-size"):
        return _natural_problem(field)
    if key in ("x-delivery-limit", "x-quorum-initial-group-size"):
        return integer_problem(field)
    if key == "x-cache-size":
        return _natural_problem(field) or _bound_problem(field, DEDUPLICATION_CACHE_MAX)
    if key == "x-max-priority":
        return _natural_problem(field) or _bound_problem(field, PRIORITY_MAX)
    if key in ("x-single-active-consumer", "x-message-deduplication", "x-exact-message-ttl", "x-archive"):
        return "" if field.tag == "t" else f"{{unacceptable_type,{type_name(field.tag)}}}"
    return _text_problem(key, field, arguments)


def _text_problem(key: str, field: Field, arguments: Table) -> str:
    if field.tag != "S" or not isinstance(field.value, str):
        return f"{{unacceptable_type,{type_name(field.tag)}}}"
    if key == "x-dead-letter-routing-key" and "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"
    if key == "x-queue-type" and field.value not in QUEUE_TYPES:
        return f"\"unsupported queue type '{field.value}'\""
    if key == "x-overflow" and field.value not in OVERFLOW_MODES:
        return "invalid_overflow"
    if key == "x-delayed-retry-type" and field.value not in RETRY_TYPES:
        return "invalid_delayed_retry_type"
    if key == "x-queue-mode" and field.value not in ("default", "lazy"):
        return f"\"unsupported queue mode '{field.value}'\""
    if key == "x-queue-type" and field.value not in QUEUE_TYPES:
        return f"\"unsupported queue type '{field.value}'\""
    if key == "x-max-age" and age_in_ms(field.value) == 0:
        return "invalid_max_age"
    if key == "x-queue-leader-locator" and field.value not in LEADER_LOCATORS:
        return "invalid_queue_locator_arg"
    if key == "x-dead-letter-strategy" and field.value not in ("at-most-once", "at-least-once"):
        return "invalid_dlx_strategy"
    return ""


def is_integer(field: Field) -> bool:
    return field.tag in _INTEGER_TAGS


def integer_problem(field: Field) -> str:
    if not is_integer(field):
        return f'"expected integer, got {type_name(field.tag)}"'
    return ""


def _natural_problem(field: Field) -> str:
    problem = integer_problem(field)
    if problem:
        return problem
    return f"{{value_negative,{integer(field)}}}" if integer(field) < 0 else ""


def _bound_problem(field: Field, highest: int) -> str:
    return f"{{max_value_exceeded,{integer(field)}}}" if integer(field) > highest else ""


def _expiry_problem(field: Field, zero_is_fine: bool) -> str:
    problem = _natural_problem(field)
    if problem:
        return problem
    if not zero_is_fine and field.value == 0:
        return "{value_zero,0}"
    return f"{{value_too_large,{integer(field)}}}" if integer(field) > MAX_EXPIRY_MS else ""


def integer(field: Field) -> int:
    value = field.value
    return value if isinstance(value, int) else 0


def check_queue_equivalence(now: Table, before: Table, type_: str, name: str, vhost: str) -> None:
    """Redeclared with other arguments: 406. Arguments that no queue type knows are not compared."""
    for key in _KNOWN[type_]:
        if key == "x-queue-type" and queue_type(now) == queue_type(before):
            continue
        compare_argument(key, now.get(key), before.get(key), resource("queue", name, vhost))


def compare_argument(key: str, now: Field | None, before: Field | None, what: str) -> None:
    if now is None and before is None:
        return
    if now is not None and before is not None and _same(now, before):
        return
    alone = now is None or before is None
    received, current = _shown(now, alone), _shown(before, alone)
    raise PreconditionFailed(f"inequivalent arg '{key}' for {what}: received {received} but current is {current}")


def _same(one: Field, other: Field) -> bool:
    both_integers = one.tag in _INTEGER_TAGS and other.tag in _INTEGER_TAGS
    return (both_integers or one.tag == other.tag) and one.value == other.value


def _shown(field: Field | None, with_type: bool) -> str:
    """The type is told only opposite `none`, as RabbitMQ has it."""
    if field is None:
        return "none"
    value = str(field.value).lower() if isinstance(field.value, bool) else str(field.value)
    return f"the value '{value}' of type '{type_name(field.tag)}'" if with_type else f"'{value}'"


def compare_flag(key: str, now: bool, before: bool, what: str) -> None:
    if now != before:
        raise PreconditionFailed(
            f"inequivalent arg '{key}' for {what}: received '{str(now).lower()}' but current is '{str(before).lower()}'"
        )


class QueueOptions:
    """What the arguments and the policies of a queue come down to. -1 = no such limit."""

    def __init__(self, arguments: Table, policy: dict[str, object], type_: str) -> None:
        self.ttl: i64 = _least(arguments, "x-message-ttl", policy, "message-ttl")
        self.expires: i64 = _least(arguments, "x-expires", policy, "expires")
        self.max_length: i64 = _least(arguments, "x-max-length", policy, "max-length")
        self.max_bytes: i64 = _least(arguments, "x-max-length-bytes", policy, "max-length-bytes")
        self.delivery_limit: i64 = _least(arguments, "x-delivery-limit", policy, "delivery-limit")
        self.consumer_timeout: i64 = _least(arguments, "x-consumer-timeout", policy, "consumer-timeout")
        self.overflow = _first_text(arguments, "x-overflow", policy, "overflow") or "drop-head"
        if type_ == QUORUM and self.overflow == "reject-publish-dlx":
            # As RabbitMQ does: quorum queues do not know this mode.
            self.overflow = "drop-head"
        self.dead_letter_exchange = _first_text(arguments, "x-dead-letter-exchange", policy, "dead-letter-exchange")
        self.dead_letter_routing_key = _first_text(
            arguments, "x-dead-letter-routing-key", policy, "dead-letter-routing-key"
        )
        self.exact_ttl = _flag(arguments, "x-exact-message-ttl", policy, "exact-message-ttl")
        self.retry_type = _first_text(arguments, "x-delayed-retry-type", policy, "delayed-retry-type") or "all"
        self.retry_min: i64 = _least(arguments, "x-delayed-retry-min", policy, "delayed-retry-min")
        self.retry_max: i64 = _least(arguments, "x-delayed-retry-max", policy, "delayed-retry-max")
        if self.retry_type == "disabled":
            self.retry_min = -1
        if type_ != QUORUM:
            self.delivery_limit = -1
        retry_limit = _least(arguments, "x-delayed-retry-limit", policy, "delayed-retry-limit")
        if retry_limit >= 0 and (self.delivery_limit < 0 or retry_limit < self.delivery_limit):
            self.delivery_limit = retry_limit
        self.rejects_when_full = self.overflow != "drop-head"
        # A stream is cut by whole segments, not by messages.
        self.has_length_limit = type_ != STREAM and (self.max_length >= 0 or self.max_bytes >= 0)


def _least(arguments: Table, argument: str, policy: dict[str, object], key: str) -> i64:
    """The stricter of argument and policy."""
    field = arguments.get(argument)
    from_policy = policy.get(key)
    if field is None:
        return from_policy if isinstance(from_policy, int) else -1
    own = integer(field)
    return min(own, from_policy) if isinstance(from_policy, int) and own >= 0 else own


def _flag(arguments: Table, argument: str, policy: dict[str, object], key: str) -> bool:
    field = arguments.get(argument)
    return field.value is True if field is not None else policy.get(key) is True


def _first_text(arguments: Table, argument: str, policy: dict[str, object], key: str) -> str | None:
    """The argument wins over the policy."""
    field = arguments.get(argument)
    if field is not None:
        return str(field.value)
    from_policy = policy.get(key)
    return from_policy if isinstance(from_policy, str) else None
