"""Headers: binding arguments name headers and values; `x-match` says whether all of them or any must be there.

Bindings are indexed by what they ask for, so a message meets only those that ask for one of its own headers.
"""

from __future__ import annotations

from decimal import Decimal

from warren.amqp.fields import Field, Table, type_name
from warren.amqp.tables import encode_table
from warren.broker.exchanges.base import Binding, Destination, Envelope, Exchange
from warren.broker.exchanges.targets import Targets
from warren.broker.terms import erlang_value
from warren.errors import PreconditionFailed

# Stands where a void argument asks for no value: the header must only be there. No term is empty.
_PRESENT = b""


class HeadersExchange(Exchange):
    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name, "headers")
        self.looks_beyond_keys = True
        # Header name -> term -> rules, by identity of their binding.
        self._rules: dict[str, dict[bytes, dict[tuple[bool, str, str, bytes], _Rule]]] = {}
        # `all` of nothing is always true.
        self._always = Targets()

    def check_binding(self, binding: Binding) -> None:
        field = binding.arguments.get("x-match")
        if field is None:
            return
        if field.tag != "S":
            raise PreconditionFailed(
                f"Invalid x-match field type {type_name(field.tag)} (value {erlang_value(field)}); expected longstr"
            )
        if field.value not in ("all", "any", "all-with-x", "any-with-x"):
            raise PreconditionFailed(
                f"Invalid x-match field value {erlang_value(field)}; expected all, any, all-with-x, or any-with-x"
            )

    def add(self, binding: Binding) -> None:
        rule = _Rule(binding)
        if rule.is_always():
            self._always.add(binding.destination)
        for name, term in rule.entrances():
            self._rules.setdefault(name, {}).setdefault(term, {})[binding.identity] = rule

    def remove(self, binding: Binding) -> None:
        rule = _Rule(binding)
        if rule.is_always():
            self._always.discard(binding.destination)
        for name, term in rule.entrances():
            by_term = self._rules[name]
            del by_term[term][binding.identity]
            if not by_term[term]:
                del by_term[term]
            if not by_term:
                del self._rules[name]

    def match(self, envelope: Envelope) -> list[Destination]:
        found = self._always.listed().copy()
        headers = envelope.headers
        if headers is None:
            return found
        for name, field in headers.items():
            by_term = self._rules.get(name)
            if by_term is None:
                continue
            self._collect(by_term, _PRESENT, headers, found)
            self._collect(by_term, _term(field), headers, found)
        return found

    def _collect(
        self,
        by_term: dict[bytes, dict[tuple[bool, str, str, bytes], _Rule]],
        term: bytes,
        headers: Table,
        found: list[Destination],
    ) -> None:
        rules = by_term.get(term)
        if rules is None:
            return
        for rule in rules.values():
            if rule.accepts(headers):
                found.append(rule.destination)


class _Rule:
    """What one binding asks of the headers."""

    def __init__(self, binding: Binding) -> None:
        match = binding.arguments.get("x-match")
        mode = match.value if match is not None else "all"
        with_x = mode in ("all-with-x", "any-with-x")
        self.destination = binding.destination
        self.is_any = mode in ("any", "any-with-x")
        self.asked: list[tuple[str, bytes]] = []
        for name, field in binding.arguments.items():
            if name == "x-match" or (not with_x and name.startswith("x-")):
                continue
            self.asked.append((name, _PRESENT if field.value is None else _term(field)))
        # Of one that asks for all, what is still to be seen where its entrance was met.
        self._others = self.asked[1:]

    def is_always(self) -> bool:
        return not self.is_any and not self.asked

    def entrances(self) -> list[tuple[str, bytes]]:
        """Where to index it: `any` is found by each of its wishes, `all` by its first, whichever that is."""
        return self.asked if self.is_any else self.asked[:1]

    def accepts(self, headers: Table) -> bool:
        """For a message that met one entrance."""
        if self.is_any:
            return True
        for name, term in self._others:
            field = headers.get(name)
            if field is None:
                return False
            if term != _PRESENT and term != _term(field):
                return False
        return True


def _term(field: Field) -> bytes:
    """A value in the form in which equal means equal to RabbitMQ: of one kind and exact, whatever the wire's tag.

    1 as a byte equals 1 as a long, but not 1.0, "1" or true; 1.0 as a decimal is not 1.00.
    """
    value = field.value
    if isinstance(value, str):
        return b"s" + value.encode(errors="surrogatepass")
    if isinstance(value, bytes):
        return b"s" + value
    if value is None:
        return b"V"
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return b"i%d" % value
    if isinstance(value, float):
        return f"f{value!r}".encode()
    if isinstance(value, Decimal):
        return f"D{value.as_tuple()}".encode()
    return b"F" + encode_table({"": field})
