"""The one place that calls extensions: what one raises is told in the log, and nobody else pays for it.

Each extension is installed behind a guard of its own kind. A fault is told once for each of its methods, with its name
and where it happened; what it was asked goes on as if it had not been there. Only an interceptor can refuse: what it
raises of warren.errors goes to the client whose method it was, and so does 541 for anything else. And what it hands
back is looked at here: the core behind it believes what types say.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from warren.amqp.fields import Table
from warren.amqp.methods import Method
from warren.amqp.tables import encode_table
from warren.broker.exchanges.base import Destination, Envelope, Exchange, ExchangeDecorator
from warren.broker.queue.decorators import QueueDecorator
from warren.broker.queue.queue import Queue
from warren.broker.rules.queue_settings import SETTINGS, Setting
from warren.broker.session.interceptors import Interceptor
from warren.broker.session.tracer import Tracer
from warren.broker.world import ERROR
from warren.errors import AmqpError, InternalError, WarrenError

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel
    from warren.broker.world import Host


class Faults:
    """Of one extension."""

    def __init__(self, host: Host, extension: object) -> None:
        self.name = name_of(extension)
        self._host = host
        self._told: set[str] = set()

    def tell(self, call: str) -> None:
        """Once for each call: one that fails for every message must not fill the disk with its log."""
        if call in self._told:
            return
        self._told.add(call)
        text = f"extension {self.name} failed in {call}, and is passed over there; this is told once"
        self._host.log(ERROR, f"{text}\n{traceback.format_exc()}")

    def of(self, call: str) -> Guarded:
        return Guarded(self, call)


class Guarded:
    """A call of one: what it raises ends here."""

    def __init__(self, faults: Faults, call: str) -> None:
        self._faults = faults
        self._call = call

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._faults.tell(self._call)
        return True


def learn_keys(known: dict[str, Setting], decorator: ExchangeDecorator | QueueDecorator) -> None:
    """The keys of policies that it brings."""
    name = name_of(decorator)
    try:
        keys = decorator.policy_keys()
    except Exception as error:
        raise _stops_start(name, "policy_keys", error) from error
    for key, kind in keys.items():
        if key in SETTINGS or key in known:
            raise WarrenError(f"{name} wants the policy key {key}, which is taken")
        known[key] = Setting(key, kind, (), f"is not a valid {key} value", is_argument=False)


def name_of(extension: object) -> str:
    kind = type(extension)
    return f"{kind.__module__}:{kind.__qualname__}"


def _stops_start(name: str, call: str, error: Exception) -> WarrenError:
    """Asked when it is installed, it is part of the configuration."""
    return WarrenError(f"{name} failed in {call}: {error!r}")


class GuardedInterceptor(Interceptor):
    def __init__(self, interceptor: Interceptor, host: Host) -> None:
        super().__init__()
        self.name = type(interceptor).__name__
        self._inner = interceptor
        self._faults = Faults(host, interceptor)

    def applies_to(self) -> list[str]:
        try:
            return self._inner.applies_to()
        except Exception as error:
            raise _stops_start(self._faults.name, "applies_to", error) from error

    def intercept(self, channel: Channel, method: Method) -> Method:
        try:
            answer = self._inner.intercept(channel, method)
            if not isinstance(answer, Method) or answer.id != method.id:
                raise TypeError(f"{method.name} was answered by {answer!r}")
            return answer
        except AmqpError:
            raise
        except Exception as error:
            raise self._failed("intercept") from error

    def intercept_content(self, channel: Channel, properties: bytes, body: bytes) -> tuple[bytes, bytes]:
        try:
            new_properties, new_body = self._inner.intercept_content(channel, properties, body)
            if not isinstance(new_properties, bytes) or not isinstance(new_body, bytes):
                raise TypeError(f"neither properties nor body may be anything but bytes: {type(new_body)}")
            return new_properties, new_body
        except AmqpError:
            raise
        except Exception as error:
            raise self._failed("intercept_content") from error

    def _failed(self, call: str) -> InternalError:
        self._faults.tell(call)
        # No detail for the peer.
        return InternalError("unexpected error")


class GuardedExchangeDecorator(ExchangeDecorator):
    def __init__(self, decorator: ExchangeDecorator, host: Host) -> None:
        super().__init__()
        self._inner = decorator
        self._faults = Faults(host, decorator)

    def active_for(self, exchange: Exchange) -> bool:
        with self._faults.of("active_for"):
            return bool(self._inner.active_for(exchange))
        return False

    def route(self, exchange: Exchange, envelope: Envelope) -> list[Destination]:
        with self._faults.of("route"):
            return [each for each in self._inner.route(exchange, envelope) if _is_there(each)]
        return []


def _is_there(destination: object) -> bool:
    """A queue that was deleted since is none."""
    if isinstance(destination, Queue):
        return not destination.deleted
    if isinstance(destination, Destination) and destination.is_exchange:
        return True
    raise TypeError(f"{destination!r} is neither a queue of the broker nor an exchange's Destination")


class GuardedQueueDecorator(QueueDecorator):
    def __init__(self, decorator: QueueDecorator, host: Host) -> None:
        super().__init__()
        self._inner = decorator
        self._faults = Faults(host, decorator)

    def active_for(self, queue: Queue) -> bool:
        with self._faults.of("active_for"):
            return bool(self._inner.active_for(queue))
        return False

    def startup(self, queue: Queue) -> None:
        with self._faults.of("startup"):
            self._inner.startup(queue)

    def shutdown(self, queue: Queue) -> None:
        with self._faults.of("shutdown"):
            self._inner.shutdown(queue)

    def policy_changed(self, queue: Queue) -> None:
        with self._faults.of("policy_changed"):
            self._inner.policy_changed(queue)

    def consumer_state_changed(self, queue: Queue) -> None:
        with self._faults.of("consumer_state_changed"):
            self._inner.consumer_state_changed(queue)


class GuardedTracer(Tracer):
    def __init__(self, tracer: Tracer, host: Host) -> None:
        super().__init__()
        self._inner = tracer
        self._faults = Faults(host, tracer)

    def publish_started(self, vhost: str, exchange: str, routing_key: str, headers: Table | None) -> Table | None:
        with self._faults.of("publish_started"):
            answer = self._inner.publish_started(vhost, exchange, routing_key, headers)
            if answer is not None:
                # What cannot be written must come out here.
                encode_table(answer)
            return answer
        return None

    def routed(self, queues: list[str]) -> None:
        with self._faults.of("routed"):
            self._inner.routed(queues)

    def publish_ended(self, refusal: str) -> None:
        with self._faults.of("publish_ended"):
            self._inner.publish_ended(refusal)

    def delivered(self, vhost: str, queue: str, headers: Table | None, redelivered: bool) -> None:
        with self._faults.of("delivered"):
            self._inner.delivered(vhost, queue, headers, redelivered)
