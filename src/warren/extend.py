"""What extensions are written against: base classes, and what their methods are handed. See docs/extensions.md.

These names are kept from release to release, wherever in the broker they live.
"""

from warren.broker.exchanges.base import Destination, Envelope, Exchange, ExchangeDecorator
from warren.broker.queue.decorators import QueueDecorator
from warren.broker.queue.queue import Queue
from warren.broker.rules.setting_kinds import Choice, Flag, Kind, Number, Text
from warren.broker.session.channel import Channel
from warren.broker.session.interceptors import Interceptor
from warren.broker.session.tracer import Tracer

__all__ = [
    "Channel",
    "Choice",
    "Destination",
    "Envelope",
    "Exchange",
    "ExchangeDecorator",
    "Flag",
    "Interceptor",
    "Kind",
    "Number",
    "Queue",
    "QueueDecorator",
    "Text",
    "Tracer",
]
