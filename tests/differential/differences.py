"""Every difference between Warren and RabbitMQ 3.10.8 that was looked at and is meant, with its reason.

A Rule is one reason that shows in many sessions alike: what RabbitMQ's lines have, and what stands there in Warren's.
A Difference is one place in one session, for answers that come somewhere else altogether.
Whatever else differs fails a test, and so does an entry that no longer occurs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Rule:
    reason: str
    # A pattern that the session's name holds, one that the line holds, and the line's replacement.
    sessions: str
    rabbitmq: str
    warren: str

    def applied_to(self, session: str, line: str) -> str:
        if not re.search(self.sessions, session):
            return line
        return re.sub(self.rabbitmq, self.warren, line)


@dataclass(frozen=True)
class Difference:
    reason: str
    session: str
    # "connection 1, channel 1"
    stream: str
    # Consecutive lines of the stream; none on either side means that the other has lines at the end.
    rabbitmq: tuple[str, ...]
    warren: tuple[str, ...]


@dataclass(frozen=True)
class Missing:
    """What Warren does not have yet: the sessions are played, and must differ until they are compared like the rest."""

    reason: str
    # A pattern that the session's name holds.
    sessions: str

    def covers(self, session: str) -> bool:
        return re.search(self.sessions, session) is not None


CURRENT: Final = "as RabbitMQ 4.3 does: "
CRASH: Final = "RabbitMQ's process crashes and takes the connection along; Warren says what is wrong"
_ZERO: Final = "connection 1, channel 0"
_ONE: Final = "connection 1, channel 1"


def _properties(session: str, text: str, code: str = "502 reply_text='SYNTAX_ERROR") -> Rule:
    return Rule(
        CRASH,
        f"framing: properties {session}",
        "reply_code=541 reply_text='INTERNAL_ERROR' class_id=0 method_id=0",
        f"reply_code={code} - {text}' class_id=60 method_id=40",
    )


# The verb that was refused, by session.
_READ: Final = (
    "permissions: (get|consume|purge|.*without read)|topic read|"
    "dead letter without read|alternate exchange without read"
)
_WRITE: Final = (
    "permissions: (publish|.*without write|bind absent things with nothing|topic write|topic permission with)"
)
_CONFIGURE: Final = "permissions: (.*without configure|declare a reserved exchange with nothing|pattern)"

RULES: Final = (
    Rule(
        CURRENT + "a stream is called so",
        "queue types: stream",
        r"consumer prefetch count is not set for 'queue 'q' in vhost '/''",
        "consumer prefetch count is not set for stream queue 'q' in vhost '/'",
    ),
    Rule(
        CURRENT + "a stream is called so",
        "queue types: stream consumed without acks",
        "automatic acknowledgement not supported by stream queues queue",
        "automatic acknowledgement not supported by stream queue",
    ),
    Rule(
        CURRENT + "the first delivery carries no count",
        "quorum queue",
        r"headers='\{x-delivery-count=l:0\}' ",
        "",
    ),
    *(
        Rule(CURRENT + "a refusal names what was missing", sessions, r"- access to", f"- {verb} access to")
        for sessions, verb in ((_READ, "read"), (_WRITE, "write"), (_CONFIGURE, "configure"))
    ),
    Rule(
        CURRENT + "x-last-death-* tell of the last death",
        "",
        r"(x-death=A:\[F:\{count=l:\d+, exchange=('[^']*'), (?:original-expiration='[^']*', )?"
        r"queue=('[^']*'), reason=('[^']*').*?x-first-death-reason='\w+')",
        r"\1, x-last-death-exchange=\2, x-last-death-queue=\3, x-last-death-reason=\4",
    ),
    Rule(
        "Warren tells its own version; product and version stay RabbitMQ's for clients that branch on them",
        "handshake: ",
        r"('product', 'version')\]",
        r"\1, 'warren_version']",
    ),
    Rule(
        CURRENT + "the limit stands without brackets",
        "connection: user at the channel limit",
        r"user limit of \((\d+)\)",
        r"user limit of \1",
    ),
    Rule(
        "RabbitMQ names alarms in no particular order",
        "connection: blocked by alarms",
        "low on disk & memory",
        "low on memory & disk",
    ),
    Rule(
        CURRENT + "a body that is too large or too long is refused as soon as that is known",
        "framing: header announcing more than 512 mib",
        "505 reply_text='UNEXPECTED_FRAME - .*?'",
        "501 reply_text='FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912'",
    ),
    Rule(
        CURRENT + "a body that is too large or too long is refused as soon as that is known",
        "framing: body longer than announced",
        "505 reply_text='UNEXPECTED_FRAME - .*?'",
        "501 reply_text='FRAME_ERROR - content body frame exceeds remaining content size'",
    ),
    Rule(
        CURRENT + "the expiration is checked before user_id",
        "publish: expiration and user id both wrong",
        "user_id property set to 'somebody' but authenticated user was 'guest'",
        "invalid expiration 'abc': no_integer",
    ),
    _properties("cut off", "properties end too early"),
    _properties("whose flags are missing", "content header frame is too short", "501 reply_text='FRAME_ERROR"),
    _properties("whose headers are no table", "field table key exceeds its table"),
    _properties("whose headers hold a bad type", "unknown field table type 122"),
    _properties("with bytes left over", "bytes left over after the last property"),
    Rule(
        CURRENT + "replies are numbered like all deliveries",
        "reply to: question and answer",
        r"delivery_tag=1 (.*another answer)",
        r"delivery_tag=2 \1",
    ),
)


def _refused_type(session: str, kind: str, connection: str = "connection 1") -> tuple[Difference, ...]:
    reason = CURRENT + "an unknown exchange type costs the channel only"
    word = "invalid" if kind == "" else "unknown"
    gone = f"connection.close reply_code=503 reply_text=\"COMMAND_INVALID - {word} exchange type '{kind}'\""
    said = f"channel.close reply_code=406 reply_text=\"PRECONDITION_FAILED - unknown exchange type '{kind}'\""
    ids = " class_id=40 method_id=10"
    return (
        Difference(reason, session, f"{connection}, channel 0", (gone + ids, "socket closed"), ()),
        Difference(reason, session, f"{connection}, channel 1", (), (said + ids,)),
    )


def _instead(
    reason: str, session: str, stream: str, rabbitmq: tuple[str, ...], other: str, warren: tuple[str, ...]
) -> tuple[Difference, ...]:
    """What RabbitMQ says on one channel, Warren says otherwise on another."""
    return (Difference(reason, session, stream, rabbitmq, ()), Difference(reason, session, other, (), warren))


_UNIMPLEMENTED: Final = "reply_code=503 reply_text='COMMAND_INVALID - unimplemented method' class_id={} method_id={}"
_SYNTAX: Final = "reply_code=502 reply_text='SYNTAX_ERROR - {}' class_id=50 method_id=10"


def _negotiation(field: str, value: int, verdict: str) -> Difference:
    told = f"negotiated {field} = {value}{verdict}"
    close = f"connection.close reply_code=530 reply_text='NOT_ALLOWED - {told}' class_id=10 method_id=30"
    return Difference(
        CURRENT + "a refused tune-ok is told before the connection ends",
        f"handshake: tune-ok with {field} {value}",
        _ZERO,
        ("socket closed",),
        (close, "socket closed"),
    )


def _named(session: str, close: str) -> Difference:
    """Both end the connection, but only Warren says why."""
    return Difference(
        CRASH, f"framing: {session}", _ZERO, ("socket closed",), (f"connection.close {close}", "socket closed")
    )


def _refusal(what: str, ids: str, verb: str = "configure") -> str:
    text = f"ACCESS_REFUSED - {verb} access to {what} in vhost '/' refused for user 'alice'"
    return f'channel.close reply_code=403 reply_text="{text}" {ids}'


def _timeouts() -> tuple[Difference, ...]:
    reason = CURRENT + "x-consumer-timeout is an argument of queues, checked and compared"
    declared = "queue.declare-ok queue='q' message_count=0 consumer_count=0"
    argument = "arg 'x-consumer-timeout' for queue 'q' in vhost '/'"
    said = "channel.close reply_code=406 reply_text={} class_id=50 method_id=10"
    known = "the value '60000' of type 'signedint'"
    inequivalent = {
        "with another": "received '70000' but current is '60000'",
        "without its": f"received none but current is {known}",
        "with a new": f"received {known} but current is none",
    }
    negative = said.format(f'"PRECONDITION_FAILED - invalid {argument}: {{value_negative,-1}}"')
    text = said.format(repr(f'PRECONDITION_FAILED - invalid {argument}: "expected integer, got longstr"'))
    return (
        Difference(reason, "queue arguments: x-consumer-timeout is -1", _ONE, (declared,), (negative,)),
        Difference(reason, "queue arguments: x-consumer-timeout is '60000'", _ONE, (declared,), (text,)),
        *(
            Difference(
                reason,
                f"queue arguments: redeclared {title} x-consumer-timeout",
                _ONE,
                (declared, declared),
                (declared, said.format(f'"PRECONDITION_FAILED - inequivalent {argument}: {verdict}"')),
            )
            for title, verdict in inequivalent.items()
        ),
    )


def _floats() -> tuple[Difference, ...]:
    reason = CURRENT + "headers are compared strictly: 1 is not 1.0"
    session = "routing: headers with whole numbers as floats"
    got = "basic.get-ok delivery_tag={} redelivered=False exchange='x' routing_key='' message_count={} | {} | {}"
    return (
        Difference(
            reason,
            session,
            _ONE,
            (
                got.format(1, 0, "headers='{a=d:1.0}'", b"a=1.0"),
                "basic.get-empty cluster_id=''",
                got.format(2, 1, "headers='{b=I:1}'", b"b=1"),
                got.format(3, 0, "headers='{b=d:1.0}'", b"b=1.0"),
            ),
            ("basic.get-empty cluster_id=''", got.format(1, 0, "headers='{b=d:1.0}'", b"b=1.0")),
        ),
    )


def _delivery_mode(mode: int) -> Difference:
    refused = f"PRECONDITION_FAILED - invalid message: {{delivery_mode_unknown,{mode}}}"
    taken = "basic.get-ok delivery_tag=1 redelivered=False exchange='' routing_key='q' message_count=0"
    return Difference(
        CURRENT + "only 2 is persistent, and other numbers are not refused",
        f"publish: delivery mode {mode}",
        _ONE,
        (f"channel.close reply_code=406 reply_text='{refused}' class_id=60 method_id=40",),
        (f"{taken} | delivery_mode={mode} | b'hello'", "basic.get-empty cluster_id=''"),
    )


_IN_Q: Final = "for queue 'q' in vhost '/'"


def _stream_delivery(number: int) -> str:
    return (
        f"basic.deliver consumer_tag='c' delivery_tag={number} redelivered=False exchange='' routing_key='q' "
        f"| headers='{{x-stream-offset=l:{number - 1}}}' delivery_mode=2 | b'{number}'"
    )


def _streams() -> tuple[Difference, ...]:
    crash = ("connection.close reply_code=541 reply_text='INTERNAL_ERROR' class_id=0 method_id=0", "socket closed")
    closed = 'channel.close reply_code=406 reply_text="PRECONDITION_FAILED - '
    offsets = ": use first, last, next, an offset, a timestamp or an interval such as 1h"
    found: list[Difference] = []
    for age in ("soon", ""):
        refusal = f"{closed}invalid arg 'x-max-age' {_IN_Q}: invalid_max_age\" class_id=50 method_id=10"
        found += _instead(CRASH, f"queue arguments: stream with x-max-age {age!r}", _ZERO, crash, _ONE, (refusal,))
    for what in ("an unknown offset", "an offset of a wrong type"):
        refusal = f"{closed}invalid arg 'x-stream-offset' {_IN_Q}{offsets}\" class_id=60 method_id=20"
        found += _instead(CRASH, f"queue types: stream consumed at {what}", _ZERO, crash, _ONE, (refusal,))
    for tail, session, before, after in (
        (90, "streams: reject brings nothing back", 1, 3),
        (120, "streams: nack of several brings nothing back", 2, 4),
    ):
        refused = (
            (
                'connection.close reply_code=540 reply_text="NOT_IMPLEMENTED - basic.nack and basic.reject not supported by '
                f"stream queues queue 'q' in vhost '/'\" class_id=60 method_id={tail}"
            ),
            "note: the session broke off: waited for basic.deliver, got connection.close",
        )
        come = tuple(_stream_delivery(number) for number in range(before + 1, after + 1))
        reason = CURRENT + "whatever a reader says of a message makes room for the next"
        found += _instead(reason, session, _ZERO, refused, "connection 1, channel 2", come)
    found.append(
        Difference(
            "an exclusive consumer is alone, on every type of queue",
            "streams: exclusive reader and another",
            "connection 2, channel 2",
            ("basic.consume-ok consumer_tag='two'",),
            (
                (
                    "channel.close reply_code=403 reply_text=\"ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use\" "
                    "class_id=60 method_id=20"
                ),
            ),
        )
    )
    found.append(
        Difference(
            "who asks for care when deleting is heard; RabbitMQ deletes the stream with all that is in it",
            "streams: deleted if empty with messages",
            _ONE,
            ("queue.delete-ok message_count=0",),
            (f"{closed}queue 'q' in vhost '/' not empty\" class_id=50 method_id=40",),
        )
    )
    return tuple(found)


DIFFERENCES: Final = (
    *_refused_type("exchanges: type '' is refused", ""),
    *_refused_type("exchanges: type 'x-unknown' is refused", "x-unknown"),
    *_refused_type("exchanges: type 'direct ' is refused", "direct "),
    *_refused_type("exchanges: type 'ünbekannt' is refused", "ünbekannt"),
    *_refused_type("permissions: declare an exchange of unknown type with nothing", "x-none", "connection 2"),
    _negotiation("frame_max", 0, " (no limit) is higher than the maximum allowed value (131072)"),
    _negotiation("frame_max", 1, " is lower than the minimum allowed value (4096)"),
    _negotiation("frame_max", 4095, " is lower than the minimum allowed value (4096)"),
    _negotiation("frame_max", 131073, " is higher than the maximum allowed value (131072)"),
    _negotiation("channel_max", 0, " (no limit) is higher than the maximum allowed value (2047)"),
    _negotiation("channel_max", 2048, " is higher than the maximum allowed value (2047)"),
    _negotiation("channel_max", 65535, " is higher than the maximum allowed value (2047)"),
    _named("method of an unknown class", _UNIMPLEMENTED.format(99, 10)),
    _named("unknown method of class queue", _UNIMPLEMENTED.format(50, 99)),
    _named("unknown method of class basic", _UNIMPLEMENTED.format(60, 99)),
    _named("unknown method of class connection", _UNIMPLEMENTED.format(10, 99)),
    _named("unknown class on channel 0", _UNIMPLEMENTED.format(99, 10)),
    _named("table field of type z", _SYNTAX.format("unknown field table type 122")),
    _named("table field of type C", _SYNTAX.format("unknown field table type 67")),
    _named("table field without a value", _SYNTAX.format("field table key exceeds its table")),
    _named("table field cut off", _SYNTAX.format("field table value exceeds its table")),
    _named("table long string cut off", _SYNTAX.format("field table value exceeds its table")),
    _named("nested table cut off", _SYNTAX.format("field table value exceeds its table")),
    *_instead(
        "a table may nest 16 deep, for nothing from the wire is trusted",
        "framing: table nested forty deep",
        _ONE,
        ("queue.declare-ok queue='q' message_count=0 consumer_count=0",),
        _ZERO,
        ("connection.close " + _SYNTAX.format("field table nested deeper than 16"), "socket closed"),
    ),
    *_instead(
        CRASH,
        "framing: properties continued in a second word of flags",
        _ZERO,
        ("connection.close reply_code=541 reply_text='INTERNAL_ERROR' class_id=0 method_id=0", "socket closed"),
        _ONE,
        (
            (
                "basic.get-ok delivery_tag=1 redelivered=False exchange='' routing_key='q' message_count=0 "
                "| content_type='ab' | b'ok'"
            ),
            "basic.get-empty cluster_id=''",
        ),
    ),
    *_instead(
        CRASH,
        "queue arguments: x-queue-master-locator is 'nowhere'",
        _ZERO,
        ("connection.close reply_code=541 reply_text='INTERNAL_ERROR' class_id=0 method_id=0", "socket closed"),
        _ONE,
        ("queue.declare-ok queue='q' message_count=0 consumer_count=0",),
    ),
    *(_delivery_mode(mode) for mode in (0, 3, 255)),
    Difference(
        CURRENT + "asking passively takes some permission, whichever",
        "permissions: declare a queue passively with nothing",
        "connection 2, channel 1",
        ("queue.declare-ok queue='q' message_count=0 consumer_count=0",),
        (_refusal("queue 'q'", "class_id=50 method_id=10"),),
    ),
    Difference(
        CURRENT + "asking passively takes some permission, whichever",
        "permissions: declare an exchange passively with nothing",
        "connection 2, channel 1",
        ("exchange.declare-ok",),
        (_refusal("exchange 'x'", "class_id=40 method_id=10"),),
    ),
    Difference(
        CURRENT + "permission on topics is asked for every routing key",
        "permissions: topic write is checked for extra keys",
        "connection 2, channel 1",
        (),
        (_refusal("topic 'forbidden.key' in exchange 'x'", "class_id=60 method_id=40", "write"),),
    ),
    Difference(
        CURRENT + "mirrored queues and their argument are gone",
        "consumers: argument x-cancel-on-ha-failover is 'true'",
        _ONE,
        (
            (
                "channel.close reply_code=406 reply_text=\"PRECONDITION_FAILED - invalid arg 'x-cancel-on-ha-failover' "
                "for queue 'q' in vhost '/': {unacceptable_type,longstr}\" class_id=60 method_id=20"
            ),
        ),
        ("basic.consume-ok consumer_tag='c'",),
    ),
    *_timeouts(),
    *_floats(),
    Difference(
        CURRENT + "the first frames may have 8192 bytes",
        "handshake: start ok of six thousand bytes",
        _ZERO,
        ("socket closed",),
        ("connection.tune channel_max=2047 frame_max=131072 heartbeat=60",),
    ),
    Difference(
        CURRENT + "AMQP 0-8 is gone",
        "handshake: protocol header of AMQP 0-8",
        _ZERO,
        (
            (
                "connection.start version_major=8 version_minor=0 mechanisms='PLAIN AMQPLAIN' locales='en_US' "
                "server_properties=['capabilities', 'cluster_name', 'copyright', 'information', 'platform', 'product', "
                "'version', 'warren_version'] capabilities=['']"
            ),
        ),
        ("protocol header 0 0 9 1",),
    ),
    Difference(
        CURRENT + "mandatory looks at the routing, which found the queue when the message was published",
        "transactions: queue deleted before the commit",
        _ONE,
        ("basic.return reply_code=312 reply_text='NO_ROUTE' exchange='' routing_key='q' |  | b'hello'",),
        (),
    ),
    Difference(
        CURRENT + "a reply address that can be read counts as routed",
        "reply to: question and answer",
        "connection 2, channel 1",
        (
            (
                "basic.return reply_code=312 reply_text='NO_ROUTE' exchange='' "
                "routing_key='amq.rabbitmq.reply-to-<1>' | correlation_id='1' | b'answer'"
            ),
        ),
        (),
    ),
    Difference(
        "as RabbitMQ 3.13 does: the last death is summarised too, also after a client's own x-death",
        "dead letters: with an x-death of its own",
        "connection 1, channel 1",
        (
            "basic.get-ok delivery_tag=2 redelivered=False exchange='' routing_key='dead' message_count=0 | headers=\"{x-death=A:[F:{count=l:1, exchange='x', queue='q', reason='rejected', routing-keys=A:['the.key'], time=T:<now>}]}\" | b'hello'",
        ),
        (
            "basic.get-ok delivery_tag=2 redelivered=False exchange='' routing_key='dead' message_count=0 | headers=\"{x-death=A:[F:{count=l:1, exchange='x', queue='q', reason='rejected', routing-keys=A:['the.key'], time=T:<now>}], x-last-death-exchange='x', x-last-death-queue='q', x-last-death-reason='rejected'}\" | b'hello'",
        ),
    ),
    Difference(
        "as RabbitMQ 3.13 does: the last death is summarised too, also after a client's own x-death",
        "dead letters: with an empty x-death of its own",
        "connection 1, channel 1",
        (
            "basic.get-ok delivery_tag=2 redelivered=False exchange='' routing_key='dead' message_count=0 | headers=\"{x-death=A:[F:{count=l:1, exchange='x', queue='q', reason='rejected', routing-keys=A:['the.key'], time=T:<now>}]}\" | b'hello'",
        ),
        (
            "basic.get-ok delivery_tag=2 redelivered=False exchange='' routing_key='dead' message_count=0 | headers=\"{x-death=A:[F:{count=l:1, exchange='x', queue='q', reason='rejected', routing-keys=A:['the.key'], time=T:<now>}], x-last-death-exchange='x', x-last-death-queue='q', x-last-death-reason='rejected'}\" | b'hello'",
        ),
    ),
    Difference(
        "as RabbitMQ 3.13 does: the last death is summarised too, also after a client's own x-death",
        "dead letters: x death given by a client",
        "connection 1, channel 1",
        (
            "basic.get-ok delivery_tag=2 redelivered=False exchange='' routing_key='dead' message_count=0 | headers=\"{x-death=A:[F:{count=l:6, exchange='', queue='q', reason='rejected', routing-keys=A:['q']}]}\" | b'hello'",
        ),
        (
            "basic.get-ok delivery_tag=2 redelivered=False exchange='' routing_key='dead' message_count=0 | headers=\"{x-death=A:[F:{count=l:6, exchange='', queue='q', reason='rejected', routing-keys=A:['q']}], x-last-death-exchange='', x-last-death-queue='q', x-last-death-reason='rejected'}\" | b'hello'",
        ),
    ),
    Difference(
        "a value that names nothing is refused; RabbitMQ's process crashes",
        "queue arguments: x-queue-master-locator is 1",
        "connection 1, channel 0",
        ("connection.close reply_code=541 reply_text='INTERNAL_ERROR' class_id=0 method_id=0", "socket closed"),
        (),
    ),
    Difference(
        "a value that names nothing is refused; RabbitMQ's process crashes",
        "queue arguments: x-queue-master-locator is 1",
        "connection 1, channel 1",
        (),
        (
            "channel.close reply_code=406 reply_text=\"PRECONDITION_FAILED - invalid arg 'x-queue-master-locator' for queue 'q' in vhost '/': {unacceptable_type,signedint}\" class_id=50 method_id=10",
        ),
    ),
    Difference(
        "as RabbitMQ 4.3 does: the limit must be an integer",
        "queue arguments: quorum queue with x-delivery-limit '3'",
        "connection 1, channel 1",
        ("queue.declare-ok queue='q' message_count=0 consumer_count=0",),
        (
            "channel.close reply_code=406 reply_text='PRECONDITION_FAILED - invalid arg \\'x-delivery-limit\\' for queue \\'q\\' in vhost \\'/\\': \"expected integer, got longstr\"' class_id=50 method_id=10",
        ),
    ),
    Difference(
        "an exclusive consumer is alone, on every type of queue",
        "queue types: quorum queue and an exclusive consumer",
        "connection 2, channel 1",
        ("basic.consume-ok consumer_tag='two'",),
        (
            "channel.close reply_code=403 reply_text=\"ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use\" class_id=60 method_id=20",
        ),
    ),
    *_streams(),
)

MISSING: Final = (Missing("the plug-in exchange x-recent-history is not there", "recent history"),)
