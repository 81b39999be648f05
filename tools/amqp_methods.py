"""The methods of AMQP 0-9-1 in RabbitMQ's dialect, as one table, and src/warren/amqp/methods.py made from it.

    make methods

A line is a method with its arguments in the order of the wire: name:type, and =default where that is not zero, empty
or false. Their numbers are in src/warren/amqp/constants.py. Types are those of the spec, as ArgumentReader and
ArgumentWriter have them; any_shortstr is a short string that need not be UTF-8 when it comes in, as of publishers'
own texts. Bits that follow each other share an octet.

Why the classes are written out and not made when Warren starts: docs/decisions/0021-methods-from-a-table.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

TABLE: Final = """
connection.start             version_major:octet version_minor:octet=9 server_properties:table
                             mechanisms:longstr=PLAIN locales:longstr=en_US
connection.start-ok          client_properties:table mechanism:shortstr=PLAIN response:longstr locale:shortstr=en_US
connection.secure            challenge:longstr
connection.secure-ok         response:longstr
connection.tune              channel_max:short frame_max:long heartbeat:short
connection.tune-ok           channel_max:short frame_max:long heartbeat:short
connection.open              virtual_host:shortstr=/ capabilities:shortstr insist:bit
connection.open-ok           known_hosts:shortstr
connection.close             reply_code:short reply_text:shortstr class_id:short method_id:short
connection.close-ok
connection.blocked           reason:shortstr
connection.unblocked
connection.update-secret     new_secret:longstr reason:shortstr
connection.update-secret-ok

channel.open                 out_of_band:shortstr
channel.open-ok              channel_id:longstr
channel.flow                 active:bit=1
channel.flow-ok              active:bit=1
channel.close                reply_code:short reply_text:shortstr class_id:short method_id:short
channel.close-ok

access.request               realm:shortstr=/data exclusive:bit passive:bit=1 active:bit=1 write:bit=1 read:bit=1
access.request-ok            ticket:short=1

exchange.declare             ticket:short exchange:shortstr type:shortstr=direct passive:bit durable:bit
                             auto_delete:bit internal:bit no_wait:bit arguments:table
exchange.declare-ok
exchange.delete              ticket:short exchange:shortstr if_unused:bit no_wait:bit
exchange.delete-ok
exchange.bind                ticket:short destination:shortstr source:shortstr routing_key:shortstr
                             no_wait:bit arguments:table
exchange.bind-ok
exchange.unbind              ticket:short destination:shortstr source:shortstr routing_key:shortstr
                             no_wait:bit arguments:table
exchange.unbind-ok

queue.declare                ticket:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit
                             no_wait:bit arguments:table
queue.declare-ok             queue:shortstr message_count:long consumer_count:long
queue.bind                   ticket:short queue:shortstr exchange:shortstr routing_key:shortstr
                             no_wait:bit arguments:table
queue.bind-ok
queue.purge                  ticket:short queue:shortstr no_wait:bit
queue.purge-ok               message_count:long
queue.delete                 ticket:short queue:shortstr if_unused:bit if_empty:bit no_wait:bit
queue.delete-ok              message_count:long
queue.unbind                 ticket:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
queue.unbind-ok

basic.qos                    prefetch_size:long prefetch_count:short global_:bit
basic.qos-ok
basic.consume                ticket:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit
                             exclusive:bit no_wait:bit arguments:table
basic.consume-ok             consumer_tag:shortstr
basic.cancel                 consumer_tag:shortstr no_wait:bit
basic.cancel-ok              consumer_tag:shortstr
basic.publish                ticket:short exchange:any_shortstr routing_key:any_shortstr mandatory:bit immediate:bit
basic.return                 reply_code:short reply_text:any_shortstr exchange:any_shortstr routing_key:any_shortstr
basic.deliver                consumer_tag:any_shortstr delivery_tag:longlong redelivered:bit
                             exchange:any_shortstr routing_key:any_shortstr
basic.get                    ticket:short queue:shortstr no_ack:bit
basic.get-ok                 delivery_tag:longlong redelivered:bit exchange:any_shortstr routing_key:any_shortstr
                             message_count:long
basic.get-empty              cluster_id:shortstr
basic.ack                    delivery_tag:longlong multiple:bit
basic.reject                 delivery_tag:longlong requeue:bit=1
basic.recover-async          requeue:bit
basic.recover                requeue:bit
basic.recover-ok
basic.nack                   delivery_tag:longlong multiple:bit requeue:bit=1

confirm.select               no_wait:bit
confirm.select-ok

tx.select
tx.select-ok
tx.commit
tx.commit-ok
tx.rollback
tx.rollback-ok
"""

METHODS_FILE: Final = Path(__file__).parents[1] / "src" / "warren" / "amqp" / "methods.py"
LINE: Final = 120
# What a type of the wire is in Python, and what it is unless the table says otherwise.
TYPES: Final = {
    "bit": ("bool", "False"),
    "octet": ("int", "0"),
    "short": ("int", "0"),
    "long": ("int", "0"),
    "longlong": ("int", "0"),
    "shortstr": ("str", '""'),
    "any_shortstr": ("str", '""'),
    "longstr": ("bytes", 'b""'),
    "table": ("Table | None", "None"),
}

HEAD: Final = '''\
"""Methods of AMQP 0-9-1, one class each. Generated: edit the table in tools/amqp_methods.py, then run `make methods`.

A method may be changed in place, and knows how its arguments lie on the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from mypy_extensions import i64

from warren.amqp import constants
from warren.amqp.fields import Table
from warren.amqp.method import Method as Method
from warren.amqp.method import Names
from warren.amqp.method import encode_method as encode_method
from warren.amqp.reader import ArgumentReader
from warren.amqp.writer import ArgumentWriter
from warren.errors import CommandInvalid
'''

TAIL: Final = '''

# All of the above, in the order of the spec.
METHODS: Final[list[type[Method]]] = Method.__subclasses__()
_DECODERS: Final[dict[int, Callable[[ArgumentReader], Method]]] = {method.id: method.decode for method in METHODS}
_NAMES: Final[dict[int, str]] = {method.id: method.name for method in METHODS}


def decode_method(method_id: int, data: bytes, start: i64, end: i64) -> Method:
    """The method whose arguments fill `data` from start to end exactly."""
    reader = ArgumentReader(data, start, end)
    method = _read(method_id, reader)
    reader.finish()
    return method


def _read(method_id: int, reader: ArgumentReader) -> Method:
    # What comes by the million and is not taken apart by the reader skips the table.
    if method_id == constants.BASIC_GET:
        return BasicGet.decode(reader)
    decode = _DECODERS.get(method_id)
    if decode is None:
        raise CommandInvalid("unimplemented method", method_id)
    return decode(reader)


def method_name(method_id: int) -> str:
    """As the spec prints it; "none" for an id that names nothing, such as the 0 of an error outside any method."""
    return _NAMES.get(method_id, "none")
'''


class Argument:
    def __init__(self, text: str) -> None:
        declared, _, default = text.partition("=")
        self.name, self.type = declared.split(":")
        self.python, self.default = TYPES[self.type]
        if default:
            written = {"str": f'"{default}"', "bytes": f'b"{default}"', "bool": "True", "int": default}
            self.default = written[self.python]


def methods() -> dict[str, list[Argument]]:
    table: dict[str, list[Argument]] = {}
    for line in TABLE.splitlines():
        words = line.split()
        if words and not line.startswith(" "):
            table[words.pop(0)] = []
        if words:
            table[next(reversed(table))] += [Argument(word) for word in words]
    return table


def class_name(method: str) -> str:
    return "".join(word.capitalize() for word in method.replace(".", "-").split("-"))


def in_lines(indent: int, before: str, items: list[str], after: str) -> list[str]:
    """As ruff formats them: on one line, or the items of a call on one of their own, or each on its own."""
    space = " " * indent
    whole = f"{space}{before}{', '.join(items)}{after}"
    if len(whole) <= LINE:
        return [whole]
    inner = f"{space}    {', '.join(items)}"
    is_call = not before.endswith(" (")
    rows = [inner] if is_call and len(inner) <= LINE else [f"{space}    {item}," for item in items]
    return [space + before, *rows, space + after]


def class_of(method: str, arguments: list[Argument]) -> list[str]:
    name = class_name(method)
    lines = [
        f"class {name}(Method):",
        f"    id: ClassVar[int] = constants.{method.replace('.', '_').replace('-', '_').upper()}",
        f'    name: ClassVar[str] = "{method}"',
    ]
    if arguments:
        names = [f'"{argument.name}"' for argument in arguments]
        lines += in_lines(4, "fields: ClassVar[Names] = (", names, ",)" if len(names) == 1 else ")")
        lines += ["", *constructor(arguments)]
        lines += ["", "    @classmethod", f"    def decode(cls, reader: ArgumentReader) -> {name}:"]
        lines += [*decoding(name, arguments), "", "    def encode(self, writer: ArgumentWriter) -> None:"]
        lines += encoding(arguments)
    return lines


def constructor(arguments: list[Argument]) -> list[str]:
    parameters = [f"{argument.name}: {argument.python} = {argument.default}" for argument in arguments]
    lines = in_lines(4, "def __init__(", ["self", *parameters], ") -> None:")
    for argument in arguments:
        name = argument.name
        if argument.type == "table":
            # Methods must not share one.
            lines.append(f"        self.{name}: Table = {{}} if {name} is None else {name}")
        else:
            lines.append(f"        self.{name} = {name}")
    return lines


def decoding(name: str, arguments: list[Argument]) -> list[str]:
    """Arguments are read where they are passed on, but before several bits into variables: these share an octet."""
    bits = [argument for argument in arguments if argument.type == "bit"]
    read = [f"reader.{argument.type}()" for argument in arguments]
    lines: list[str] = []
    if len(bits) == 1:
        read[arguments.index(bits[0])] = "reader.octet() & 1 != 0"
    elif bits:
        first = arguments.index(bits[0])
        assert arguments[first : first + len(bits)] == bits, f"{name}: bits apart from each other"
        for at in range(first):
            lines.append(f"        {arguments[at].name} = {read[at]}")
            read[at] = arguments[at].name
        lines.append("        bits = reader.octet()")
        for bit in range(len(bits)):
            read[first + bit] = f"bits & {1 << bit} != 0"
    return [*lines, *in_lines(8, f"return {name}(", read, ")")]


def encoding(arguments: list[Argument]) -> list[str]:
    lines: list[str] = []
    bits = [argument for argument in arguments if argument.type == "bit"]
    for argument in arguments:
        if argument.type != "bit":
            lines.append(f"        writer.{argument.type.removeprefix('any_')}(self.{argument.name})")
        elif argument is bits[0]:
            packed = [f"self.{bit.name}" + (f" << {at}" if at else "") for at, bit in enumerate(bits)]
            lines.append(f"        writer.octet({' | '.join(packed)})")
    return lines


def source() -> str:
    table = methods()
    lines: list[str] = []
    for method, arguments in table.items():
        lines += ["", "", *class_of(method, arguments)]
    return HEAD + "\n".join(lines) + "\n" + TAIL


if __name__ == "__main__":
    METHODS_FILE.write_text(source())
