"""What the parts of a definitions file have in common: each checks, applies and exports one kind of definition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from warren.broker.exchanges.base import Exchange
from warren.broker.rules.document import Item

if TYPE_CHECKING:
    from warren.broker.node import Node
    from warren.broker.vhost.vhost import VHost


class Names:
    """What will exist once a document is imported: what does already, and what the document brings."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.vhosts: set[str] = set(node.vhosts)
        self.users: set[str] = set(node.access.users)
        self.exchanges: dict[tuple[str, str], Exchange] = {}
        self.queues: set[tuple[str, str]] = set()
        # How many that are for each vhost.
        self.coming: dict[str, int] = {}
        # Queues with reserved names: not imported, and neither are bindings to them.
        self.passed_over: set[tuple[str, str]] = set()

    def vhost(self, item: Item) -> str:
        name = item.text("vhost")
        if name not in self.vhosts:
            raise item.error("vhost", f"no vhost '{name}'")
        return name

    def user(self, item: Item) -> str:
        name = item.text("user")
        if name not in self.users:
            raise item.error("user", f"no user '{name}'")
        return name

    def exchange(self, vhost: str, name: str) -> Exchange | None:
        place = self.node.vhosts.get(vhost)
        existing = None if place is None else place.exchanges.get(name)
        return self.exchanges.get((vhost, name)) if existing is None else existing

    def has_queue(self, vhost: str, name: str) -> bool:
        place = self.node.vhosts.get(vhost)
        return (vhost, name) in self.queues or (place is not None and name in place.queues)


class Section:
    """One list of the document. `kind` is its name in the Recorder."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind

    def check(self, item: Item, names: Names) -> bool:
        """Refuse with DefinitionsError what cannot be applied, and add to `names` what will be there.

        False for what a document may hold but an import passes over.
        """
        return True

    def apply(self, item: Item, node: Node) -> None:
        """Make it so. It was checked."""

    def export(self, node: Node, vhost: str | None) -> Iterable[dict[str, object]]:
        """Everything, or what belongs to one vhost. Between two of them others may have their turn, and change it."""
        for name in sorted(node.vhosts):
            place = node.vhosts.get(name)
            if place is not None and (vhost is None or name == vhost):
                yield from self.export_of(place)

    def export_of(self, vhost: VHost) -> Iterable[dict[str, object]]:
        return []
