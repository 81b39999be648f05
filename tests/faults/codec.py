"""Damaged bytes for the codec: nothing but a refusal that is declared may come of them, and what is read reads again.

    python -m tests.faults.codec [--inputs 20000000] [--seed 1]

One JSON line: how many inputs, how many of them were read, and what escaped.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Final

from warren.amqp import methods
from warren.amqp.fields import plain_table, table_of
from warren.amqp.methods import METHODS, decode_method
from warren.amqp.properties import Properties, decode_properties, encode_properties, peek_properties
from warren.amqp.tables import check_table, decode_table, encode_table
from warren.client.session import frame_of
from warren.errors import AmqpError

TABLE: Final = table_of(
    {
        "text": "wörter",
        "number": 1 << 40,
        "small": -1,
        "truth": True,
        "nothing": None,
        "decimal": Decimal("1.25"),
        "list": [1, "two", {"three": [3.0, b"\xff\x00"]}],
        "deep": {"a": {"b": {"c": {"d": [[[]]]}}}},
    }
)


@dataclass
class Report:
    seed: int
    inputs: int = 0
    read: int = 0
    seconds: float = 0.0
    escaped: list[str] = field(default_factory=list)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Some bytes otherwise: flipped, set to extremes, cut, doubled, put in, or taken from elsewhere."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(out) + 1)
        kind = chance.randrange(7)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, 0xCE, chance.randrange(256)))
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + chance.randrange(1, 9)]
        elif kind == 4:
            out[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 5:
            size = chance.randrange(1, 33)
            out[at:at] = out[at : at + size]
        else:
            length = chance.choice((0, 1, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, len(out)))
            out[at : at + 4] = length.to_bytes(4, "big")
        if not out:
            break
    return bytes(out)


def read_table(data: bytes) -> None:
    check_table(data, 0, len(data))
    table = decode_table(data, 0, len(data))
    plain_table(table)
    # Whatever was let in can be written again, and says the same.
    again = encode_table(table)[4:]
    if encode_table(decode_table(again, 0, len(again)))[4:] != again:
        raise AssertionError("a table reads otherwise when it was written again")


def read_properties(data: bytes) -> None:
    peek_properties(data, 0, len(data))
    again = encode_properties(decode_properties(data, 0, len(data)))
    if encode_properties(decode_properties(again, 0, len(again))) != again:
        raise AssertionError("properties read otherwise when they were written again")


def read_method(method_id: int) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        method = decode_method(method_id, data, 0, len(data))
        again = frame_of(method)[11:-1]
        if frame_of(decode_method(method_id, again, 0, len(again))) != frame_of(method):
            raise AssertionError(f"{method.name} reads otherwise when it was written again")

    return read


def seeds() -> list[tuple[bytes, Callable[[bytes], None]]]:
    """Whole ones of every kind, and who reads them."""
    properties = Properties(headers=TABLE, delivery_mode=2, expiration="1000", reply_to="q", timestamp=1, user_id="u")
    found: list[tuple[bytes, Callable[[bytes], None]]] = [
        (encode_table(TABLE)[4:], read_table),
        (encode_properties(properties), read_properties),
        (encode_properties(Properties(content_type="text/plain", priority=9)), read_properties),
    ]
    examples = [
        methods.QueueDeclare(queue="q", arguments=TABLE),
        methods.BasicConsume(queue="q", arguments=TABLE),
        methods.BasicPublish(exchange="x", routing_key="k"),
        methods.ConnectionStartOk(client_properties=TABLE, mechanism="PLAIN", response=b"\0guest\0guest"),
        *[each() for each in METHODS],
    ]
    return found + [(frame_of(method)[11:-1], read_method(method.id)) for method in examples]


def fuzz(inputs: int, seed: int) -> Report:
    report = Report(seed)
    chance = random.Random(seed)
    known = seeds()
    began = time.monotonic()
    while report.inputs < inputs:
        data, read = chance.choice(known)
        data = damaged(data, chance)
        report.inputs += 1
        try:
            read(data)
            report.read += 1
        except AmqpError:
            pass
        except Exception as error:  # noqa: BLE001 (whatever it is, it should not have come out)
            report.escaped.append(f"{type(error).__name__}: {error}: {data.hex()}")
            if len(report.escaped) == 10:
                break
    report.seconds = round(time.monotonic() - began, 1)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--inputs", type=int, default=20_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = fuzz(options.inputs, options.seed)
    sys.stdout.write(json.dumps(asdict(report)) + "\n")
    sys.exit(bool(report.escaped))


if __name__ == "__main__":
    main()
