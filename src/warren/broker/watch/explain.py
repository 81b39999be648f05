"""Why a message goes where it goes: each exchange on its way, the bindings that matched, and some that did not.

The question is put to the exchange types themselves, one binding at a time, so there is no second set of rules.
"""

from __future__ import annotations

from typing import Final

from warren.amqp.fields import plain_table
from warren.broker.exchanges.base import Binding, Destination, Envelope, Exchange
from warren.broker.exchanges.default import DefaultExchange
from warren.broker.exchanges.delayed import DelayedExchange, delay_of
from warren.broker.exchanges.route import destinations
from warren.broker.exchanges.types import create

# Of one exchange: bindings that are looked at one by one, and that are shown.
BINDINGS_MAX: Final = 2000
MATCHES_SHOWN: Final = 100
MISSES_SHOWN: Final = 20
# Types that choose among their bindings: a binding alone would always be chosen.
_PICKING: Final = ("x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random")


class Match:
    """One binding, and why it did or did not match."""

    def __init__(self, binding: Binding, why: str) -> None:
        self.binding = binding
        self.why = why


class RouteStep:
    """One exchange that the message came to."""

    def __init__(self, exchange: str, type: str) -> None:
        self.exchange = exchange
        self.type = type
        self.matches: list[Match] = []
        self.misses: list[Match] = []
        self.notes: list[str] = []


def explain(exchanges: dict[str, Exchange], exchange: Exchange, envelope: Envelope) -> list[RouteStep]:
    """In the order in which route() asks them."""
    steps: list[RouteStep] = []
    seen = {exchange.name}
    waiting = [exchange]
    for reached in waiting:
        found = destinations(reached, envelope)
        steps.append(_step(reached, envelope, found))
        for destination in found:
            following = exchanges.get(destination.name) if destination.is_exchange else None
            if following is not None and destination.name and destination.name not in seen:
                seen.add(destination.name)
                waiting.append(following)
    return steps


def _step(exchange: Exchange, envelope: Envelope, found: list[Destination]) -> RouteStep:
    step = RouteStep(exchange.name, exchange.type)
    if isinstance(exchange, DefaultExchange):
        names = [destination.name for destination in found]
        step.notes.append(f"the key names the queue: {', '.join(names)}" if names else "the key names no queue")
        return step
    if isinstance(exchange, DelayedExchange) and delay_of(envelope.headers) > 0:
        step.notes.append(f"x-delay: it waits {delay_of(envelope.headers)} ms in the exchange's schedule")
        return step
    _judge(exchange, envelope, found, step)
    if not step.matches and exchange.alternate is not None:
        step.notes.append(f"no binding matched: on to the alternate exchange '{exchange.alternate}'")
    elif not step.matches:
        step.notes.append("no binding matched")
    if exchange.decorators:
        step.notes.append(f"{len(exchange.decorators)} decorators may have added destinations")
    if len(exchange.bindings) > BINDINGS_MAX:
        step.notes.append(f"only the first {BINDINGS_MAX} of {len(exchange.bindings)} bindings are explained")
    return step


def _judge(exchange: Exchange, envelope: Envelope, found: list[Destination], step: RouteStep) -> None:
    looked_at = 0
    for binding in exchange.bindings.values():
        looked_at += 1
        if looked_at > BINDINGS_MAX:
            return
        is_match = _matches(exchange, binding, envelope, found)
        kept = step.matches if is_match else step.misses
        if len(kept) < (MATCHES_SHOWN if is_match else MISSES_SHOWN):
            kept.append(Match(binding, _why(exchange, binding, envelope, is_match)))


def _matches(exchange: Exchange, binding: Binding, envelope: Envelope, found: list[Destination]) -> bool:
    inner = exchange.inner if isinstance(exchange, DelayedExchange) else exchange
    if inner.type in _PICKING:
        return binding.destination in found
    alone = create(inner.type, exchange.vhost, exchange.name, True, False, False, exchange.arguments)
    alone.bind(binding)
    return len(alone.match(envelope)) > 0


def _why(exchange: Exchange, binding: Binding, envelope: Envelope, is_match: bool) -> str:
    type_ = exchange.inner.type if isinstance(exchange, DelayedExchange) else exchange.type
    keys = " or ".join([f"'{key}'" for key in envelope.keys])
    if type_ == "fanout":
        return "a fanout exchange sends to every binding"
    if type_ == "direct":
        return f"key {keys} {'equals' if is_match else 'is not'} '{binding.routing_key}'"
    if type_ == "topic":
        return f"pattern '{binding.routing_key}' {'matches' if is_match else 'does not match'} {keys}"
    if type_ == "headers":
        arguments = plain_table(binding.arguments)
        mode = arguments.get("x-match", "all")
        wanted = ", ".join([f"{name}={arguments[name]}" for name in arguments if not name.startswith("x-")])
        return f"x-match={mode} of {wanted or 'nothing'}: {'met' if is_match else 'not met'}"
    return "chosen for this message" if is_match else "another binding was chosen"
