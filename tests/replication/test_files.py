"""What the store writes a follower has byte for byte, and its files become the leader's, whatever they were."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from tests.replication.simulation import NodeMemory
from tests.replication.wire import heard
from tests.store.golden_folder import SEGMENT_BYTES, fill_world
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from warren.replication import messages
from warren.replication.disk import ReplicatedDisk
from warren.replication.files import copy_differences
from warren.replication.follower import Fenced, Follower
from warren.replication.leader import Replicas
from warren.replication.messages import BLOCK, Garbled, PeerMessage, Splitter
from warren.replication.ops import CREATE, Op, OpMoment, Window, decode_ops
from warren.store.damage import damaged_parts
from warren.store.definitions_recovery import recover_definitions

EPOCH = 7


class Pair:
    def __init__(self, leader: SimulatedDisk, follower: SimulatedDisk) -> None:
        self.leader = leader
        self.window = Window(1 << 30)
        self.disk = ReplicatedDisk(leader, self.window)
        self.files = follower
        self.memory = NodeMemory()
        self.was_copying = False
        self.follower = Follower(follower, "f", self.memory)

    def copy(self) -> int:
        """Gives how many bytes were sent."""
        op, files = self.disk.manifest()
        (answer,) = self.follower.receive(messages.manifest(EPOCH, op, files))
        self.was_copying = self.memory.is_copying
        have, damage_in = messages.read_have(answer.payload), partial(damaged_parts, self.disk)
        parts = list(copy_differences(self.disk, self.disk.digests, files, have, damage_in))
        for part in parts:
            self.follower.receive(part)
        self.follower.receive(PeerMessage(messages.CAUGHT_UP))
        return sum(len(part.payload) for part in parts if part.kind == messages.DATA)

    def moment(self) -> OpMoment | None:
        return self.follower.moment

    def follow(self) -> None:
        while self.follower.done < self.window.last:
            self.follower.receive(heard(messages.ops(self.window.after(self.follower.done, 1000))))
        (answer,) = self.follower.sync()
        assert messages.read_numbers(answer.payload) == (EPOCH, self.window.last)


def test_every_kind_of_file_that_the_store_writes_is_mirrored() -> None:
    pair = Pair(SimulatedDisk(), SimulatedDisk())
    pair.copy()
    # Every kind of file and of record, as test_golden.py has it.
    fill_world(StoredWorld(pair.disk, segment_bytes=SEGMENT_BYTES))  # type: ignore[arg-type]
    pair.follow()
    assert pair.files.files() == pair.leader.files()
    # Also what power loss would leave.
    assert pair.files.lose_all().files() == pair.leader.files()
    assert {name.rsplit(".", 1)[1] for name in pair.files.names()} == {
        "log", "index", "settled", "seen", "stream", "stream-index", "base", "definitions",
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_files_become_those_of_the_leader_whatever_they_were(seed: int) -> None:
    random = Random(seed)
    names = [f"file{number}" for number in range(6)]
    leader = {name: random.randbytes(random.choice((0, 5, BLOCK - 1, BLOCK, 2 * BLOCK + 9))) for name in names[:4]}
    follower = {}
    for name in names[1:]:
        data = bytearray(leader.get(name, b"other"))
        if data and random.random() < 0.5:
            data[random.randrange(len(data))] ^= 1
        follower[name] = bytes(data[: random.randint(0, len(data))]) + random.randbytes(random.choice((0, 0, 30)))
    pair = Pair(SimulatedDisk(leader), SimulatedDisk(follower))
    pair.copy()
    assert pair.files.lose_all().files() == leader
    assert pair.copy() == 0


def test_what_is_equal_is_not_sent_again() -> None:
    data = Random(1).randbytes(3 * BLOCK)
    pair = Pair(SimulatedDisk({"f": data}), SimulatedDisk({"f": data[: 2 * BLOCK + 5]}))
    assert pair.copy() == BLOCK


class CountingDisk(SimulatedDisk):
    bytes_read = 0

    def read(self, handle: int, size: int, offset: int) -> bytes:
        self.bytes_read += size
        return super().read(handle, size, offset)


def test_a_leader_reads_a_block_once_however_many_follow_and_again_when_it_has_changed() -> None:
    leader = CountingDisk({"f": Random(1).randbytes(3 * BLOCK + 5), "g": b"x" * BLOCK})
    pair = Pair(leader, SimulatedDisk(leader.files()))
    assert pair.copy() == 0
    assert leader.bytes_read == 4 * BLOCK + 5
    leader.bytes_read = 0
    assert pair.copy() == 0
    assert leader.bytes_read == 5
    pair.disk.replace("g", b"y" * BLOCK)
    handle = pair.disk.open("f")
    pair.disk.truncate(handle, BLOCK)
    pair.disk.close(handle)
    assert pair.copy() == BLOCK
    assert pair.files.lose_all().files() == leader.files()


def test_a_copy_is_no_state_to_lead_with_before_what_went_meanwhile_is_replaced() -> None:
    pair = Pair(SimulatedDisk({"old": b"all of it"}), SimulatedDisk())
    pair.disk.create("other", 0)
    op, files = pair.disk.manifest()
    (answer,) = pair.follower.receive(messages.manifest(EPOCH, op, files))
    # While it is compared, one file takes the place of another.
    pair.disk.replace("new", b"all of it")
    pair.disk.remove("old")
    have, damage_in = messages.read_have(answer.payload), partial(damaged_parts, pair.disk)
    for part in copy_differences(pair.disk, pair.disk.digests, files, have, damage_in):
        pair.follower.receive(part)
    pair.follower.receive(messages.caught_up(pair.window.last))
    assert pair.files.names() == ["other"]
    assert pair.follower.acknowledgement() == []
    assert pair.follower.receive(messages.numbers(messages.HEARTBEAT, EPOCH, pair.window.last)) == []
    was_copying = pair.memory.is_copying
    assert pair.follower.take_committed() == {}
    pair.follow()
    assert (was_copying, pair.memory.is_copying) == (True, False)
    assert pair.files.lose_all().files() == pair.leader.files()


@pytest.mark.parametrize("ending", ["log", "index", "stream", "stream-index", "base", "definitions"])
def test_what_is_damaged_on_the_leader_is_not_sent_over_what_is_whole(ending: str) -> None:
    disk = SimulatedDisk()
    world = StoredWorld(disk, segment_bytes=SEGMENT_BYTES)
    recover_definitions(world.store, [("vhost", ("/",), {"name": "/"})])
    fill_world(world)
    whole = disk.files()
    assert not any(damaged_parts(disk, name, len(data)) for name, data in whole.items())
    name = next(name for name in sorted(whole) if name.endswith(f".{ending}") and len(whole[name].rstrip(b"\0")) > 24)
    rotten = bytearray(whole[name])
    rotten[len(whole[name].rstrip(b"\0")) - 5] ^= 4
    pair = Pair(SimulatedDisk({**whole, name: bytes(rotten)}), SimulatedDisk(whole))
    assert pair.copy() == 0
    assert pair.files.lose_all().files() == whole
    # Who has nothing of it gets what there is, so that what follows stands where it should.
    pair = Pair(SimulatedDisk({**whole, name: bytes(rotten)}), SimulatedDisk())
    pair.copy()
    assert pair.files.lose_all().files() == {**whole, name: bytes(rotten)}
    # And one that is damaged itself is repaired.
    pair = Pair(SimulatedDisk(whole), SimulatedDisk({**whole, name: bytes(rotten)}))
    pair.copy()
    assert pair.files.lose_all().files() == whole


class LazyDisk(SimulatedDisk):
    def read(self, handle: int, size: int, offset: int) -> bytes:
        raise AssertionError("nothing has to be read")


def resumed(pair: Pair) -> Pair:
    """The next epoch, in which the follower leads and the leader, which has closed its files, follows."""
    follower = Pair(pair.files, LazyDisk(pair.leader.files()))
    follower.follower = Follower(follower.files, "l", pair.memory, OpMoment(EPOCH, pair.window.last))
    return follower


def test_one_whose_files_are_of_the_moment_that_the_leader_began_with_needs_nothing_but_ops() -> None:
    pair = Pair(SimulatedDisk({"f": b"x" * (BLOCK + 1)}), SimulatedDisk())
    pair.copy()
    assert len(pair.follower.acknowledgement()) == 1
    assert pair.moment() == OpMoment(EPOCH, 0)
    handle = pair.disk.create("g", 100)
    pair.disk.append(handle, b"abc")
    pair.follower.receive(heard(messages.ops(pair.window.after(0, 1000))))
    # Not before it is durable.
    assert pair.moment() is None
    pair.follow()
    moment = pair.moment()
    assert moment == OpMoment(EPOCH, pair.window.last)
    again = resumed(pair)
    replicas = Replicas("f", EPOCH + 1, set(), again.window, moment)
    assert messages.read_hello(again.follower.greeting().payload) == ("l", EPOCH, moment)
    assert replicas.can_resume(moment)
    assert not replicas.can_resume(OpMoment(EPOCH, moment.op - 1))
    assert not replicas.can_resume(OpMoment(EPOCH - 1, moment.op))
    assert not replicas.can_resume(None)
    handle = again.disk.open("g")
    again.disk.truncate(handle, 3)
    again.disk.close(handle)
    (answer,) = again.follower.receive(messages.resume(EPOCH + 1, again.disk.first_files))
    assert messages.read_numbers(answer.payload) == (EPOCH + 1, 0)
    assert (pair.memory.epoch, pair.memory.is_copying) == (EPOCH + 1, False)
    while again.follower.done < again.window.last:
        again.follower.receive(heard(messages.ops(again.window.after(again.follower.done, 1000))))
    again.follower.sync()
    assert again.files.lose_all().files() == pair.files.files() == {"f": b"x" * (BLOCK + 1), "g": b"abc"}
    assert again.follower.moment == OpMoment(EPOCH + 1, again.window.last)


def test_ops_that_are_forgotten_cannot_be_gone_on_with() -> None:
    window = Window(1000)
    replicas = Replicas("me", EPOCH, set(), window, OpMoment(3, 4))
    assert replicas.can_resume(OpMoment(3, 4))
    for _ in range(100):
        window.add(CREATE, "f")
    assert not replicas.can_resume(OpMoment(3, 4))


def test_files_that_are_no_others_by_name_only_are_not_gone_on_with() -> None:
    pair = Pair(SimulatedDisk({"f": b"x"}), SimulatedDisk())
    pair.copy()
    for files in ({"f": 1, "g": 0}, {}):
        again = resumed(pair)
        with pytest.raises(Garbled):
            again.follower.receive(messages.resume(EPOCH + 1, files))
        # It is compared when it calls again.
        assert again.follower.moment is None
    with pytest.raises(Garbled):
        Follower(SimulatedDisk({"f": b"x"}), "f", NodeMemory()).receive(messages.resume(EPOCH, {"f": 1}))


def test_a_leader_of_an_older_epoch_is_not_followed() -> None:
    pair = Pair(SimulatedDisk(), SimulatedDisk())
    pair.memory.epoch = EPOCH + 1
    with pytest.raises(Fenced):
        pair.copy()


def test_the_epoch_is_remembered_before_anything_is_acknowledged() -> None:
    pair = Pair(SimulatedDisk(), SimulatedDisk())
    pair.copy()
    assert pair.memory.epoch == EPOCH
    # And while its files were half another's, nobody could have taken it for whole.
    assert (pair.was_copying, pair.memory.is_copying) == (True, False)


@pytest.mark.parametrize(
    "message",
    [
        PeerMessage(messages.DATA, b"x"),
        messages.file_from("nobody", 0),
        PeerMessage(messages.OPS, b"\x00" * 8 + Op(1, CREATE, "f").head()),
        PeerMessage(messages.MANIFEST, b"short"),
        PeerMessage(messages.HELLO),
    ],
)
def test_what_no_leader_says_ends_the_connection(message: PeerMessage) -> None:
    with pytest.raises(Garbled):
        Follower(SimulatedDisk(), "f", NodeMemory()).receive(message)


def test_ops_out_of_order_are_refused_and_repeated_ones_are_not_done_twice() -> None:
    pair = Pair(SimulatedDisk(), SimulatedDisk())
    pair.copy()
    first = heard(messages.ops([Op(1, CREATE, "f")]))
    pair.follower.receive(first)
    pair.follower.receive(first)
    assert pair.files.names() == ["f"]
    with pytest.raises(Garbled):
        pair.follower.receive(heard(messages.ops([Op(3, CREATE, "g")])))


def test_messages_are_put_together_from_any_pieces() -> None:
    data = b"".join(messages.numbers(messages.ACK, number).encode() for number in range(50))
    random, splitter, found = Random(2), Splitter(), []
    while data:
        size = random.randint(1, 40)
        found += splitter.feed(data[:size])
        data = data[size:]
    assert [messages.read_numbers(message.payload)[0] for message in found] == list(range(50))
    with pytest.raises(Garbled):
        splitter.feed(b"GET / HTTP/1.1\r\n\r\n")


def test_a_window_forgets_the_oldest() -> None:
    window = Window(10_000)
    for number in range(100):
        window.add(CREATE, f"f{number}", data=b"x" * 744)
    assert (window.last, window.has_after(90), window.has_after(89)) == (100, True, False)
    assert [op.number for op in window.after(98, 1 << 20)] == [99, 100]
    assert [op.number for op in window.after(90, 10)] == [91]
    encoded = b"".join(op.head() + op.data for op in window.after(95, 1 << 20))
    assert decode_ops(96, encoded, 0) == window.after(95, 1 << 20)
