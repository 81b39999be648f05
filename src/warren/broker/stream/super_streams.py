"""Super streams: one stream in partitions. RabbitMQ makes them of what is there: an exchange with x-super-stream, and
bindings to streams that say in x-stream-partition-order which partition each is.

Publishing is routing; whoever reads asks for the partitions, in their order.
"""

from __future__ import annotations

from warren.broker.exchanges.base import Binding, Exchange
from warren.broker.queue.queue import Queue
from warren.broker.rules.queue_settings import STREAM
from warren.broker.rules.setting_kinds import integer, is_integer


def is_super_stream(exchange: Exchange) -> bool:
    field = exchange.arguments.get("x-super-stream")
    return field is not None and field.value is True


def partitions(exchange: Exchange) -> list[str]:
    """The names of the streams behind it: by their number, those without one last and by name."""
    bound = [binding for binding in exchange.bindings.values() if _leads_to_stream(binding)]
    ordered: dict[str, bool] = {}
    for binding in sorted(bound, key=_order):
        ordered[binding.destination.name] = True
    return list(ordered)


def _leads_to_stream(binding: Binding) -> bool:
    destination = binding.destination
    return isinstance(destination, Queue) and destination.type == STREAM


def _order(binding: Binding) -> tuple[int, int, str]:
    field = binding.arguments.get("x-stream-partition-order")
    if field is None or not is_integer(field):
        return 1, 0, binding.destination.name
    return 0, integer(field), binding.destination.name
