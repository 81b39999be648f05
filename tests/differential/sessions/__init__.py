"""The sessions, one file per chapter of the protocol. Importing a file lists its sessions."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Imports every chapter."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
