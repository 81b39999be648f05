"""Definitions: everything that was declared and set, but no messages, in the file format of RabbitMQ.

`export` writes them, `import_` adds what a file holds, `restore` brings back what the Recorder kept. A file is read
to its end before anything changes: either all of it can be applied or nothing is, and the error says where.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from warren.broker.operate.definitions.people import Hasher, Permissions, TopicPermissions, Users
from warren.broker.operate.definitions.rules import GlobalParameters, Parameters, Policies, VHostLimits
from warren.broker.operate.definitions.section import Names, Section
from warren.broker.operate.definitions.topology import Bindings, Exchanges, Queues, VHosts
from warren.broker.rules.document import DefinitionsError, Item, item_of, values_in
from warren.broker.rules.policies import OPERATOR_POLICY, POLICY
from warren.errors import AmqpError, WarrenError

if TYPE_CHECKING:
    from warren.broker.node import Node

__all__ = ["DefinitionsError", "Hasher", "Import", "export", "exported", "head", "import_", "restore"]

# The release whose format this is. Other tools choose by it how to read the file.
RABBITMQ_VERSION: Final = "3.13.7"

_OF_ONE_VHOST: Final = ("parameters", "policies", "exchanges", "queues", "bindings")
# These name their vhost even in a file of one, as RabbitMQ's do.
_NAME_VHOST: Final = ("parameters", "policies")


def export(node: Node, vhost: str | None = None) -> dict[str, object]:
    """The whole node, or what is in one vhost (then without users)."""
    return head(node) | {name: list(items) for name, items in exported(node, vhost)}


def head(node: Node) -> dict[str, object]:
    """What a document says of itself."""
    return {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "Warren",
        "product_version": node.version,
    }


def exported(node: Node, vhost: str | None) -> list[tuple[str, Iterable[dict[str, object]]]]:
    """The lists of a document, by their names; made as they are read."""
    found: list[tuple[str, Iterable[dict[str, object]]]] = []
    for section in _sections(None):
        if vhost is None:
            found.append((section.name, section.export(node, None)))
        elif section.name in _OF_ONE_VHOST:
            items = section.export(node, vhost)
            found.append((section.name, items if section.name in _NAME_VHOST else map(_without_vhost, items)))
    return found


def import_(node: Node, document: dict[str, object], vhost: str | None = None, hasher: Hasher | None = None) -> None:
    """All of an Import at once, while nobody else is served."""
    work = Import(node, document, vhost, hasher)
    while work.go_on():
        pass


class Import:
    """Adds everything in a document, or what belongs into one vhost. Nothing is deleted or declared anew.

    An item at a time, so that whoever imports can let others have their turn: first all are checked, then applied.
    """

    def __init__(self, node: Node, document: dict[str, object], vhost: str | None, hasher: Hasher | None) -> None:
        self._node = node
        self._document = document
        self._vhost = vhost
        self._names = Names(node)
        if vhost is not None and vhost not in self._names.vhosts:
            raise DefinitionsError("", f"no vhost '{vhost}'")
        self._sections = [each for each in _sections(hasher) if vhost is None or each.name in _OF_ONE_VHOST]
        # Which section is checked, and how much of it; then what is to be applied, and how much of that was.
        self._section = 0
        self._at = 0
        self._checked: list[tuple[Section, Item]] = []
        self._applied = 0

    def go_on(self) -> bool:
        """The next item. False when there was none."""
        if self._section < len(self._sections):
            self._check_next(self._sections[self._section])
            return True
        if self._applied < len(self._checked):
            section, item = self._checked[self._applied]
            self._applied += 1
            _apply(section, item, self._node)
            return True
        for place in self._node.vhosts.values():
            place.reapply_policies()
        return False

    def _check_next(self, section: Section) -> None:
        values = values_in(self._document, section.name)
        if self._at == len(values):
            self._section += 1
            self._at = 0
            return
        item = item_of(section.name, self._at, values[self._at])
        self._at += 1
        if self._vhost is not None:
            item.fields["vhost"] = self._vhost
        if section.check(item, self._names):
            self._checked.append((section, item))


def restore(node: Node, rows: list[tuple[str, tuple[str, ...], dict[str, object]]]) -> list[str]:
    """At a start, before the node records. What was recorded was checked when it was made.

    Where a part of it was damaged, what rested on that part cannot be had either. Gives a line for each.
    """
    complaints: list[str] = []
    by_kind: dict[str, list[Item]] = {}
    for kind, key, value in rows:
        by_kind.setdefault(kind, []).append(Item(f"stored {kind} {list(key)}", value))
    sections = _sections(None)
    # These rest on the vhosts alone, which come first.
    sections[1:1] = [Policies("", OPERATOR_POLICY), VHostLimits("", "vhost_limit")]
    for section in sections:
        for item in by_kind.pop(section.kind, []):
            try:
                _apply(section, item, node)
            except DefinitionsError as error:
                complaints.append(str(error))
    for kind in by_kind:
        raise DefinitionsError("", f"nothing is known of the stored kind '{kind}'")
    return complaints


def _apply(section: Section, item: Item, node: Node) -> None:
    try:
        section.apply(item, node)
    except AmqpError as error:
        raise item.refused(error.explanation) from error
    except DefinitionsError:
        raise
    except WarrenError as error:
        raise item.refused(str(error)) from error


def _sections(hasher: Hasher | None) -> list[Section]:
    """In the order in which one rests on the other."""
    return [
        VHosts("vhosts", "vhost"),
        Users(hasher),
        Permissions("permissions", "permission"),
        TopicPermissions("topic_permissions", "topic_permission"),
        GlobalParameters("global_parameters", "global_parameter"),
        Parameters("parameters", "parameter"),
        Policies("policies", POLICY),
        Exchanges("exchanges", "exchange"),
        Queues("queues", "queue"),
        Bindings("bindings", "binding"),
    ]


def _without_vhost(item: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in item.items() if key != "vhost"}
