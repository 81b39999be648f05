"""Warren: a message broker that speaks AMQP 0-9-1 as RabbitMQ does.

`with Broker() as broker: broker.url` starts a real one inside this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.testing import Broker

__all__ = ["Broker", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # Looked up when first asked for, so that `import warren.amqp` does not load a server.
    if name == "Broker":
        from warren.testing import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
