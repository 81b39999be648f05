"""Interceptors and decorators that the configuration names as `package.module:Class`, for every node that has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TypeVar

from warren.broker.exchanges.base import ExchangeDecorator
from warren.broker.node import Node
from warren.broker.queue.decorators import QueueDecorator
from warren.broker.session.interceptors import Interceptor
from warren.errors import WarrenError

T = TypeVar("T")


def install(
    node: Node,
    interceptors: Iterable[str] = (),
    exchange_decorators: Iterable[str] = (),
    queue_decorators: Iterable[str] = (),
) -> None:
    """Before anything is declared: policies may hold keys that decorators bring."""
    with _named("interceptors"):
        for name in interceptors:
            node.install_interceptor(made_from(name, Interceptor))
    with _named("exchange_decorators"):
        for name in exchange_decorators:
            node.install_exchange_decorator(made_from(name, ExchangeDecorator))
    with _named("queue_decorators"):
        for name in queue_decorators:
            node.install_queue_decorator(made_from(name, QueueDecorator))


@contextmanager
def _named(option: str) -> Iterator[None]:
    try:
        yield
    except WarrenError as error:
        raise WarrenError(f"{option}: {error}") from error


def made_from(name: str, kind: type[T]) -> T:
    """An instance of the class of that name; a name that leads nowhere is the user's mistake."""
    module_name, colon, class_name = name.partition(":")
    if not colon:
        raise WarrenError(f"{name!r} is not of the form package.module:Class")
    try:
        found = getattr(import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise WarrenError(f"cannot load {name}: {error}") from error
    if not isinstance(found, type) or not issubclass(found, kind):
        raise WarrenError(f"{name} is not a subclass of {kind.__module__}.{kind.__name__}")
    try:
        return found()
    except WarrenError:
        raise
    except Exception as error:
        raise WarrenError(f"cannot make {name}: {error!r}") from error
