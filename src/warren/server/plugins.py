"""Interceptors and decorators that the configuration names as `package.module:Class`."""

from __future__ import annotations

from importlib import import_module
from typing import TypeVar

from warren.errors import WarrenError

T = TypeVar("T")


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
