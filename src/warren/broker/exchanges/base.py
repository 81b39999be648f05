"""What every exchange is: a name, bindings that leave it, and one question: where does this envelope go?

A type of exchange is one file beside this one that overrides `add`, `remove` and `match`.
Nothing here knows of queues: a binding leads to a Destination, which may be a queue or an exchange.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from warren.amqp.fields import Table
from warren.amqp.tables import encode_table
from warren.broker.message import Message
from warren.broker.rules.setting_kinds import Kind

# Of most bindings.
_NO_ARGUMENTS: Final = encode_table({})


class Destination:
    """What a binding may lead to. Queues and exchanges are both."""

    def __init__(self, vhost: str, name: str, is_exchange: bool) -> None:
        self.vhost = vhost
        self.name = name
        self.is_exchange = is_exchange
        # The store's position at which it is durable as it was declared.
        self.recorded: i64 = 0


class Envelope:
    """What an exchange may look at: never the body."""

    def __init__(
        self,
        keys: list[str],
        headers: Table | None = None,
        correlation_id: str = "",
        message_id: str = "",
        timestamp: int = 0,
        draw: i64 = 0,
    ) -> None:
        # The routing key first, then CC and BCC.
        self.keys = keys
        self.headers = headers
        self.correlation_id = correlation_id
        self.message_id = message_id
        self.timestamp = timestamp
        # A random number handed in, because the core draws none: random exchanges pick by it.
        self.draw = draw

    @staticmethod
    def of(message: Message, draw: i64) -> Envelope:
        """All that routes this message, whichever way it comes: a field left out here is left out for every way."""
        properties = message.properties()
        return Envelope(
            message.origin.keys,
            properties.headers,
            properties.correlation_id or "",
            properties.message_id or "",
            properties.timestamp or 0,
            draw,
        )


class Binding:
    def __init__(self, source: str, destination: Destination, routing_key: str, arguments: Table) -> None:
        self.source = source
        self.destination = destination
        self.routing_key = routing_key
        self.arguments = arguments
        # Same key with other arguments is another binding; the order of the arguments makes none.
        self.identity: tuple[bool, str, str, bytes] = (
            destination.is_exchange,
            destination.name,
            routing_key,
            encode_table({name: arguments[name] for name in sorted(arguments)}) if arguments else _NO_ARGUMENTS,
        )


@mypyc_attr(allow_interpreted_subclasses=True)
class ExchangeDecorator:
    """Extension point: destinations that join those of the exchange's own type (merged, deduplicated)."""

    def policy_keys(self) -> dict[str, Kind]:
        """Keys of its own that policies may hold, and what values they take. Asked once."""
        return {}

    def active_for(self, exchange: Exchange) -> bool:
        """Asked when the exchange is made and when its `effective_policy` may have changed.

        Of itself not where the broker speaks: events and the firehose are no clients' messages.
        """
        return not exchange.name.startswith("amq.rabbitmq.")

    def route(self, exchange: Exchange, envelope: Envelope) -> list[Destination]:
        return []


class Exchange(Destination):
    def __init__(self, vhost: str, name: str, type: str) -> None:
        super().__init__(vhost, name, True)
        self.type = type
        self.durable = True
        self.auto_delete = False
        self.internal = False
        self.arguments: Table = {}
        # By Binding.identity, in the order in which they were made.
        self.bindings: dict[tuple[bool, str, str, bytes], Binding] = {}
        # Exchanges bound to this one, with how many bindings lead to each.
        self._exchanges: dict[str, int] = {}
        self.decorators: list[ExchangeDecorator] = []
        # Effective alternate exchange and policy: the argument, else what a policy says. Set by the vhost.
        self.alternate: str | None = None
        self.policy: str | None = None
        self.effective_policy: dict[str, object] = {}
        # True where the same keys may lead elsewhere next time (headers, hashes of properties, random).
        self.looks_beyond_keys = False
        self.published_in: i64 = 0
        self.published_out: i64 = 0

    def check_binding(self, binding: Binding) -> None:
        """Refuse (PreconditionFailed) a binding that this type cannot serve."""

    def bind(self, binding: Binding) -> bool:
        """True when the binding is new."""
        if binding.identity in self.bindings:
            return False
        self.bindings[binding.identity] = binding
        if binding.destination.is_exchange:
            name = binding.destination.name
            self._exchanges[name] = self._exchanges.get(name, 0) + 1
        self.add(binding)
        return True

    def unbind(self, identity: tuple[bool, str, str, bytes]) -> Binding | None:
        binding = self.bindings.pop(identity, None)
        if binding is None:
            return None
        if binding.destination.is_exchange:
            name = binding.destination.name
            self._exchanges[name] -= 1
            if not self._exchanges[name]:
                del self._exchanges[name]
        self.remove(binding)
        return binding

    def leads_nowhere(self) -> bool:
        """Whatever is published to it."""
        return not self.bindings and self.alternate is None and not self.decorators

    def leads_to_exchanges(self) -> bool:
        return bool(self._exchanges) or self.alternate is not None

    def next_exchanges(self) -> list[str]:
        """Names of the exchanges that a message may go to from here, the alternate included."""
        names = list(self._exchanges)
        if self.alternate is not None:
            names.append(self.alternate)
        return names

    def add(self, binding: Binding) -> None:
        """Index a new binding."""
        self.bindings_changed()

    def remove(self, binding: Binding) -> None:
        """Forget an indexed binding."""
        self.bindings_changed()

    def bindings_changed(self) -> None:
        """Of a type that has no index: forget what was made of all of them, until a message asks."""

    def match(self, envelope: Envelope) -> list[Destination]:
        """Destinations of this exchange's own bindings; may hold one more than once. Callers must not change it."""
        return []


class PickingExchange(Exchange):
    """Sends a message to one of its destinations, which are listed anew when the bindings have changed."""

    def __init__(self, vhost: str, name: str, type: str) -> None:
        super().__init__(vhost, name, type)
        self._listed: list[Destination] | None = None

    def bindings_changed(self) -> None:
        self._listed = None

    def destinations(self) -> list[Destination]:
        if self._listed is None:
            self._listed = self.list_destinations()
        return self._listed

    def list_destinations(self) -> list[Destination]:
        raise NotImplementedError
