"""x-consistent-hash: one destination per message, the same for the same key, in proportion to the bindings' weights.

The weight is the binding key. Each destination bids for each key and the highest bid wins (weighted rendezvous
hashing), so who wins depends only on what is bound now, not on the order of past binds: a restart or a Spark job
over the same definitions routes alike, and a destination that comes or goes moves no keys but its own.
"""

from __future__ import annotations

from math import log
from typing import Final

from mypy_extensions import i64

from warren.amqp.fields import Field, Table
from warren.amqp.tables import encode_table
from warren.broker.exchanges.base import Binding, Destination, Envelope, Exchange
from warren.broker.exchanges.key_hashing import HASH_BITS, hash_bytes, hash_text, mix
from warren.broker.terms import erlang_binary
from warren.errors import PreconditionFailed

MAX_WEIGHT: Final = 10_000
_HASHES: Final = float(1 << HASH_BITS)
_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")


class ConsistentHashExchange(Exchange):
    def __init__(self, vhost: str, name: str, arguments: Table) -> None:
        super().__init__(vhost, name, "x-consistent-hash")
        self._header = _text_argument(arguments, "hash-header")
        self._property = _text_argument(arguments, "hash-property")
        _check_source(self._header, self._property)
        self.looks_beyond_keys = self._header is not None or self._property is not None
        self._bidders: list[_Bidder] | None = None

    def check_binding(self, binding: Binding) -> None:
        key = binding.routing_key
        digits = key[1:] if key[:1] in ("+", "-") else key
        if not digits.isascii() or not digits.isdigit():
            raise PreconditionFailed(f"The binding key must be an integer: {erlang_binary(key)}")
        weight = int(key)
        if weight < 1:
            raise PreconditionFailed("The binding key must be greater than 0")
        if weight > MAX_WEIGHT:
            raise PreconditionFailed(f"The binding key must not exceed {MAX_WEIGHT}")

    def bindings_changed(self) -> None:
        self._bidders = None

    def match(self, envelope: Envelope) -> list[Destination]:
        bidders = self._bidders
        if bidders is None:
            bidders = _bidders_of(self.bindings)
            self._bidders = bidders
        if not bidders:
            return []
        key = self._hash(envelope)
        winner = bidders[0]
        highest = winner.bid(key)
        for bidder in bidders:
            bid = bidder.bid(key)
            if bid > highest:
                highest = bid
                winner = bidder
        return [winner.destination]

    def _hash(self, envelope: Envelope) -> i64:
        if self._header is not None:
            return _hash_header(envelope.headers, self._header)
        if self._property == "correlation_id":
            return hash_text(envelope.correlation_id)
        if self._property == "message_id":
            return hash_text(envelope.message_id)
        if self._property == "timestamp":
            return hash_text(str(envelope.timestamp))
        # The routing key alone: CC and BCC do not move a message elsewhere.
        return hash_text(envelope.keys[0])


class _Bidder:
    def __init__(self, destination: Destination, weight: int) -> None:
        self.destination = destination
        self.weight = float(weight)
        kind = "exchange" if destination.is_exchange else "queue"
        self.salt: i64 = mix(hash_text(f"{kind}:{destination.name}"))

    def bid(self, key: i64) -> float:
        # weight / -log(u) of an even u in (0, 1): the highest is this one's with probability weight / total.
        even = (float(mix(key ^ self.salt)) + 0.5) / _HASHES
        return self.weight / -log(even)


def _bidders_of(bindings: dict[tuple[bool, str, str, bytes], Binding]) -> list[_Bidder]:
    # One per destination: as in RabbitMQ a second binding to it, of another weight, adds nothing.
    by_name: dict[tuple[bool, str], _Bidder] = {}
    for binding in bindings.values():
        destination = binding.destination
        name = (destination.is_exchange, destination.name)
        if name not in by_name:
            by_name[name] = _Bidder(destination, int(binding.routing_key))
    # Sorted, so that not even a tie depends on the order of binds.
    return [by_name[name] for name in sorted(by_name)]


def _hash_header(headers: Table | None, name: str) -> i64:
    field = None if headers is None else headers.get(name)
    # Messages without the header all go one way, as RabbitMQ sends them.
    return hash_bytes(b"") if field is None else hash_bytes(_bytes_of(field))


def _bytes_of(field: Field) -> bytes:
    value = field.value
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    if isinstance(value, bytes):
        return value
    if isinstance(value, list):
        # The first element speaks for an array, as in RabbitMQ.
        return _bytes_of(value[0]) if value else b"[]"
    if isinstance(value, dict):
        return encode_table(value)
    return str(value).encode()


def _text_argument(arguments: Table, name: str) -> str | None:
    field = arguments.get(name)
    if field is None:
        return None
    if not isinstance(field.value, str):
        raise PreconditionFailed(f"{name} must be a string")
    return field.value


def _check_source(header: str | None, property: str | None) -> None:
    if header is not None and property is not None:
        raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
    if property is not None and property not in _PROPERTIES:
        raise PreconditionFailed(f"Unsupported property: {property}")
