"""Extensions that the live broker and the path are given alike. Workers import them by name."""

from __future__ import annotations

from warren.amqp.fields import Field
from warren.amqp.methods import BasicPublish, Method
from warren.amqp.properties import decode_properties, encode_properties
from warren.errors import NotAllowed, PreconditionFailed
from warren.extend import Channel, Destination, Envelope, Exchange, ExchangeDecorator, Interceptor, Kind, Text

HERE = "tests.spark.path.extensions"


class Change(Interceptor):
    """Another key, exchange, TTL, priority, header and body, by what the message is and when it comes."""

    def applies_to(self) -> list[str]:
        return ["basic.publish"]

    def intercept(self, channel: Channel, method: Method) -> Method:
        assert isinstance(method, BasicPublish)
        if method.routing_key.startswith("old."):
            method.routing_key = method.routing_key.replace("old.", "new.", 1)
        if method.exchange == "gone":
            return BasicPublish(exchange="e", routing_key=method.routing_key, mandatory=True)
        return method

    def intercept_content(self, channel: Channel, properties: bytes, body: bytes) -> tuple[bytes, bytes]:
        changed = decode_properties(properties, 0, len(properties))
        if changed.app_id == "short":
            changed.expiration = "20"
        if changed.app_id == "urgent":
            changed.priority = 5
        second = channel.connection.node.wall_seconds() % 2
        changed.headers = {**(changed.headers or {}), "half": Field("S", "even" if second == 0 else "odd")}
        return encode_properties(changed), body + b" " * 40 if b":7" in body else body


class Refuse(Interceptor):
    def applies_to(self) -> list[str]:
        return ["basic.publish"]

    def intercept(self, channel: Channel, method: Method) -> Method:
        assert isinstance(method, BasicPublish)
        if channel.user != "guest":
            raise NotAllowed(f"{channel.user} publishes nothing")
        if method.routing_key == "secret":
            raise PreconditionFailed(f"no {method.routing_key} to {method.exchange}")
        if method.routing_key == "broken":
            raise ValueError("a mistake of the extension's")
        return method

    def intercept_content(self, channel: Channel, properties: bytes, body: bytes) -> tuple[bytes, bytes]:
        if len(body) > 50:
            raise PreconditionFailed("too much of it")
        return properties, body


class Copy(ExchangeDecorator):
    """Where a policy says so: what carries the header `copy` goes on to the exchange of that name."""

    def policy_keys(self) -> dict[str, Kind]:
        return {"copies": Text()}

    def active_for(self, exchange: Exchange) -> bool:
        return "copies" in exchange.effective_policy

    def route(self, exchange: Exchange, envelope: Envelope) -> list[Destination]:
        asked = (envelope.headers or {}).get("copy")
        if envelope.keys[0] == "broken":
            raise ValueError("a mistake of the extension's")
        return [] if asked is None else [Destination(exchange.vhost, str(asked.value), True)]


CHANGE = f"{HERE}:Change"
REFUSE = f"{HERE}:Refuse"
COPY = f"{HERE}:Copy"
