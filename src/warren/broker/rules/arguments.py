"""The x-arguments of queues: whether they can be, when two declarations are the same, and what they come down to.

Which there are and what values they take: queue_settings.py.
"""

from __future__ import annotations

from mypy_extensions import i64

from warren.amqp.fields import Field, Table, type_name
from warren.broker.rules.queue_settings import (
    ARGUMENTS,
    CLASSIC,
    QUORUM,
    SETTINGS,
    STREAM,
    arguments_of,
    stream_size_problem,
)
from warren.broker.rules.setting_kinds import integer, is_integer, is_short
from warren.errors import PreconditionFailed


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
    """Refuse (406) the first argument whose value cannot be, then the first that this type of queue does not know."""
    if not arguments:
        return
    what = resource("queue", name, vhost)
    dead_letters = arguments.get("x-dead-letter-exchange")
    if dead_letters is not None and dead_letters.tag != "S":
        raise wrong_type("x-dead-letter-exchange", dead_letters, what)
    known = arguments_of(type_)
    for setting in (ARGUMENTS["x-queue-type"], *known):
        key = setting.argument
        field = arguments.get(key)
        if field is None:
            continue
        problem = setting.kind.problem(field)
        if not problem and key == "x-dead-letter-routing-key" and "x-dead-letter-exchange" not in arguments:
            problem = "routing_key_but_no_dlx_defined"
        if problem:
            raise PreconditionFailed(f"invalid arg '{key}' for {what}: {problem}")
    for key in arguments:
        if key in ARGUMENTS and ARGUMENTS[key] not in known:
            raise PreconditionFailed(f"invalid arg '{key}' for {what} of queue type rabbit_{type_}_queue")


def check_stream_arguments(arguments: Table, name: str, vhost: str, can_archive: bool) -> None:
    """What RabbitMQ finds out only when it makes the stream, and what needs files."""
    if not arguments:
        return
    for setting in arguments_of(STREAM):
        field = arguments.get(setting.argument)
        problem = "" if field is None else stream_size_problem(setting.argument, integer(field))
        if problem:
            raise PreconditionFailed(problem)
    archive = arguments.get("x-archive")
    if archive is not None and archive.value is True and not can_archive:
        what = resource("queue", name, vhost)
        raise PreconditionFailed(
            f"invalid arg 'x-archive' for {what}: this broker keeps nothing on disk, start it with a data folder"
        )


def check_queue_equivalence(now: Table, before: Table, type_: str, name: str, vhost: str) -> None:
    """Redeclared with other arguments: 406. Arguments that no queue type knows are not compared."""
    for setting in arguments_of(type_):
        key = setting.argument
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
    both_integers = is_integer(one) and is_integer(other)
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

    def __init__(self, arguments: Table, policy: dict[str, object], type_: str, delivery_limit: int) -> None:
        """The last is that of quorum queues which say nothing of it."""
        self.ttl: i64 = _least("message-ttl", arguments, policy)
        self.expires: i64 = _least("expires", arguments, policy)
        self.max_length: i64 = _least("max-length", arguments, policy)
        self.max_bytes: i64 = _least("max-length-bytes", arguments, policy)
        self.delivery_limit: i64 = _least("delivery-limit", arguments, policy)
        self.consumer_timeout: i64 = _least("consumer-timeout", arguments, policy)
        self.overflow = _text("overflow", arguments, policy) or "drop-head"
        if type_ == QUORUM and self.overflow == "reject-publish-dlx":
            # As RabbitMQ does: quorum queues do not know this mode.
            self.overflow = "drop-head"
        self.dead_letter_exchange = _text("dead-letter-exchange", arguments, policy)
        key = _text("dead-letter-routing-key", arguments, policy)
        # A longer one is refused now, but may have been declared before: then letters keep their own keys.
        self.dead_letter_routing_key = key if key is None or is_short(key) else None
        self.exact_ttl = _value("exact-message-ttl", arguments, policy) is True
        self.retry_type = _text("delayed-retry-type", arguments, policy) or "all"
        self.retry_min: i64 = _least("delayed-retry-min", arguments, policy)
        self.retry_max: i64 = _least("delayed-retry-max", arguments, policy)
        if self.retry_type == "disabled":
            self.retry_min = -1
        retry_limit = _least("delayed-retry-limit", arguments, policy)
        is_limited = SETTINGS["delivery-limit"].argument in arguments or "delivery-limit" in policy or retry_limit >= 0
        if type_ != QUORUM:
            self.delivery_limit = -1
        elif not is_limited:
            self.delivery_limit = delivery_limit
        if retry_limit >= 0 and (self.delivery_limit < 0 or retry_limit < self.delivery_limit):
            self.delivery_limit = retry_limit
        self.rejects_when_full = self.overflow != "drop-head"
        # A stream is cut by whole segments, not by messages.
        self.has_length_limit = type_ != STREAM and (self.max_length >= 0 or self.max_bytes >= 0)


def _least(name: str, arguments: Table, policy: dict[str, object]) -> i64:
    """The stricter of argument and policy."""
    field = arguments.get(SETTINGS[name].argument)
    from_policy = policy.get(name)
    if field is None:
        return from_policy if isinstance(from_policy, int) else -1
    own = integer(field)
    return min(own, from_policy) if isinstance(from_policy, int) and own >= 0 else own


def _value(name: str, arguments: Table, policy: dict[str, object]) -> object:
    """The argument wins over the policy."""
    field = arguments.get(SETTINGS[name].argument)
    return policy.get(name) if field is None else field.value


def _text(name: str, arguments: Table, policy: dict[str, object]) -> str | None:
    value = _value(name, arguments, policy)
    return value if isinstance(value, str) else None
