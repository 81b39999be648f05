"""Writes the data folder tests/store/golden: every kind of file and of record, in a few KB, the same bytes each time.

Run it (`python -m tests.store.golden_folder`) only when the format gets a new version on purpose; then keep the old
folder beside the new one, under its version's name, for as long as that version can be read.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import FRAME_MAX, StoredWorld
from warren.amqp.fields import Field, table_of
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.broker.message import Message, Origin
from warren.broker.operate import administer
from warren.broker.queue.outcome import TAKEN
from warren.broker.rules.access import User
from warren.store.definitions_recovery import recover_definitions

FOLDER = Path(__file__).with_name("golden")
MESSAGES = "messages"
SEGMENT_BYTES = 2048
# All that is declared, with the incarnations that the files are made with.
QUEUES: dict[str, tuple[str, dict[str, object]]] = {
    "orders": ("orders-incarnation", {}),
    "audit": ("audit-incarnation", {}),
    "ranked": ("ranked-incarnation", {"x-max-priority": 2}),
    "fleeting": ("fleeting-incarnation", {}),
    "tried": ("tried-incarnation", {"x-queue-type": "quorum"}),
    "once": ("once-incarnation", {"x-message-deduplication": True, "x-deduplication-header": "n"}),
    "story": ("story-incarnation", {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 1200}),
}


def message(number: int, keys: list[str], hidden: int = 0) -> Message:
    """One whose exchange, keys, properties and body tell which it is."""
    properties = Properties()
    properties.delivery_mode = 2
    properties.priority = number % 3
    properties.message_id = f"id-{number}"
    properties.headers = {"n": Field("I", number), "x-stream-filter-value": Field("S", f"part {number % 2}")}
    body = bytes(range(number % 128)) + b"." * 60
    content = content_frames(1, encode_properties(properties), body, FRAME_MAX)
    made = Message(Origin("amq.fanout", keys, hidden), content, 7, len(body))
    made.persistent = True
    made.priority = number % 3
    return made


def publish(world: StoredWorld, made: Message, *names: str) -> None:
    for name in names:
        assert world.node.monitor.publish(world.queue(name), made) == TAKEN
    world.settle_down()


def make_world() -> StoredWorld:
    return fill_world(StoredWorld(SimulatedDisk(), segment_bytes=SEGMENT_BYTES, pieces=1))


def fill_world(world: StoredWorld) -> StoredWorld:
    recover_definitions(world.store, [])
    assert world.store.definitions is not None
    world.node.recorder = world.store.definitions
    define(world)
    for name, (incarnation, arguments) in QUEUES.items():
        world.vhost.add_queue(name, True, False, table_of(arguments), incarnation)
    world.vhost.add_queue("deleted", True, False, {}, "deleted-incarnation")
    for number in (61, 62, 63):
        publish(world, message(number, [f"key.{number}"]), "tried", "once")
    _give_back(world, 3)
    for number in range(40):
        keys = [f"key.{number}"] if number % 4 else [f"key.{number}", "cc.ä", "bcc"]
        made = message(number, keys, hidden=len(keys) // 2)
        made.ttl = {35: 5_000, 36: 600_000}.get(number, made.ttl)
        publish(world, made, "orders", *(["audit"] if number % 2 else []))
        publish(world, made, "ranked" if number < 9 else "story")
        if number in (3, 20):
            publish(world, made, "deleted")
        if number > 30:
            world.ack_next("orders")
            world.settle_down()
    world.delete("deleted")
    for _ in range(15):
        world.ack_next("orders")
    world.settle_down()
    world.compact(world.compactable()[0])
    _leave_settled_marks(world)
    # A long queue pages out even these; a restart drops them.
    for number in range(100, 106):
        passing = message(number, ["passing"])
        passing.persistent = False
        publish(world, passing, "fleeting")
    # In a younger segment than the first time, and an id that is younger than the file of them.
    _give_back(world, 1)
    publish(world, message(65, ["key.65"]), "once")
    # In hand when the broker ends.
    world.get("orders")
    world.get("orders")
    world.settle_down()
    world.store.close()
    return world


def _give_back(world: StoredWorld, count: int) -> None:
    held = [entry for entry in (world.get("tried") for _ in range(count)) if entry is not None]
    world.queue("tried").requeue(held)
    world.settle_down()


def _leave_settled_marks(world: StoredWorld) -> None:
    """A segment in which nothing lives, but whose records settle entries of others: it goes when they say so."""
    world.roll()
    for number in range(200, 205):
        publish(world, message(number, ["settled"]), "fleeting")
        world.ack_next("orders")
    while world.ack_next("fleeting") is not None:
        world.settle_down()
    world.roll()
    world.settle_down()


def define(world: StoredWorld) -> None:
    """A part of it before the log is folded into a base, and a part after."""
    node = world.node
    # The world has one that nobody recorded.
    del node.vhosts["/"]
    node.add_vhost("/", "Default virtual host")
    world.vhost = node.vhosts["/"]
    administer.put_user(node, User("guest", "not a hash", "rabbit_password_hashing_sha256", ["administrator"]))
    administer.set_permission(node, "guest", "/", ".*", ".*", ".*")
    log = world.store.definitions
    assert log is not None
    log.fold_at = 1
    world.settle_down()
    log.fold_at = 1 << 30


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    (folder / MESSAGES).mkdir(parents=True)
    for name, data in make_world().disk.files().items():
        (folder / MESSAGES / name).write_bytes(data)


if __name__ == "__main__":
    main()
