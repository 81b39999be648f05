"""Nodes, disks, a network and an etcd in one process, with a clock that jumps: thousands of stories a minute.

    python -m tests.replication.simulation --seeds 200000 [--from SEED] [--break NAME]

Every node is the product's own state machines on a simulated disk, and its leader a real store. Faults come by chance:
power cuts and kills, leaders that hand over, connections that break or fall silent, requests to etcd that are lost,
late, or carried out without an answer, leases that end too early, processes that stop and go on. Then all is quiet, and
everything must be live again. Checked: nothing confirmed is lost, nothing settled comes back, no message came back less
often than was told before, none that was delivered comes again as if for the first time, no queue that was answered for
is missing, no stream offset ever means two messages, whether the leader or a follower shows it, no two leaders confirm
at the same time.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import time
from collections.abc import Callable
from functools import partial
from random import Random

from tests.broker.still_world import StillHost
from tests.replication import sabotage
from tests.replication.simulated_reader import FollowerReader
from tests.replication.wire import heard
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import body_in, message_of
from warren.amqp.fields import table_of
from warren.broker.node import Node
from warren.broker.operate import definitions
from warren.broker.queue.entry import Entry
from warren.broker.queue.outcome import TAKEN
from warren.broker.settings import Settings
from warren.broker.stream.stream import Stream
from warren.replication import files, messages
from warren.replication.disk import ReplicatedDisk
from warren.replication.election import (
    Campaign,
    ChangeMembers,
    ClusterView,
    Dismiss,
    LeaderKey,
    Look,
    Member,
    Request,
    Role,
)
from warren.replication.files import copy_differences
from warren.replication.follower import Fenced, Follower
from warren.replication.leader import Link, Replicas
from warren.replication.messages import Garbled, PeerMessage
from warren.replication.ops import OpMoment, Window
from warren.store.chores import SyncJob
from warren.store.damage import damaged_parts
from warren.store.definitions_recovery import recover_definitions
from warren.store.recovery import recover

START = 1_700_000_000_000
TTL = 1000
PATIENCE = 300
# How long faults come, and how long the quiet after them may take until all is well.
STORM = 6_000
QUIET = 15_000
STREAM = "story"
BLOCK = 256


class Violation(Exception):
    pass


def body_of(entry: Entry) -> str:
    return body_in(entry).rstrip(".")


class Dice(Random):
    def randint(self, least: int, most: int) -> int:
        """The same numbers as Random's, which takes three times as long: every event waits for a time that is drawn."""
        count = most - least + 1
        bits = count.bit_length()
        drawn = self.getrandbits(bits)
        while drawn >= count:
            drawn = self.getrandbits(bits)
        return least + drawn


class Clock:
    def __init__(self) -> None:
        self.now = 0
        self._events: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._count = 0

    def after(self, delay: int, what: Callable[..., None], *whereof: object) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, what, whereof))

    def run(self, is_so: Callable[[], bool], patience: int) -> bool:
        """Until it is so, or nobody waits for it any more."""
        end = self.now + patience
        while self.now < end and self._events:
            if is_so():
                return True
            self.now, _, what, whereof = heapq.heappop(self._events)
            what(*whereof)
        return is_so()


class Etcd:
    """Transactions, one after another, and leases."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._revision = 1
        self.leader: LeaderKey | None = None
        self.members: frozenset[str] = frozenset()
        self._members_at = 0
        self._leases: dict[int, int] = {}
        # Epochs whose lease ended before its time: who led may speak until it looks again, beside its successor.
        self.ended_early: set[int] = set()

    def begin(self, members: frozenset[str]) -> None:
        self.members = members
        self._members_at = self._next()

    def _next(self) -> int:
        self._revision += 1
        return self._revision

    def expire(self) -> None:
        for lease, until in list(self._leases.items()):
            if until <= self._clock.now:
                self.revoke(lease)

    def end_early(self) -> None:
        if self.leader is not None:
            self.ended_early.add(self.leader.epoch)
            self.revoke(self.leader.lease)

    def revoke(self, lease: int) -> None:
        self._leases.pop(lease, None)
        if self.leader is not None and self.leader.lease == lease:
            self.leader = None
            self._next()

    def grant(self, lease: int) -> None:
        self._leases[lease] = self._clock.now + TTL

    def carry_out(self, request: Request, member: Member, lease: int) -> object:
        self.expire()
        if isinstance(request, Look):
            self.grant(lease)
            return ClusterView(self.leader, self.members, self._members_at)
        if isinstance(request, Campaign):
            if self.leader is not None or request.revision != self._members_at or lease not in self._leases:
                return 0
            epoch = self._next()
            self.leader = LeaderKey(member.uuid, member.process, epoch, lease)
            return epoch
        if isinstance(request, ChangeMembers):
            if self.leader is None or self.leader.epoch != request.epoch or request.revision != self._members_at:
                return 0
            self.members = request.members
            self._members_at = self._next()
            return self._members_at
        assert isinstance(request, Dismiss)
        self.revoke(request.lease)
        return True


class NodeMemory:
    """Of a node, durable at once."""

    def __init__(self) -> None:
        self.epoch = 0
        self.is_copying = False

    def remember_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def remember_copying(self, is_copying: bool) -> None:
        self.is_copying = is_copying


class Ledger:
    """What clients were told."""

    def __init__(self) -> None:
        self.published: set[str] = set()
        self.confirmed: set[str] = set()
        # Acknowledged by a consumer; of some of them a later answer says that it is durable.
        self.settled: set[str] = set()
        self.settled_for_good: set[str] = set()
        # How often a message came back, as a consumer was told; and those that were delivered at all.
        self.returns: dict[str, int] = {}
        self.delivered: set[str] = set()
        self.declared: set[str] = set()
        self.offsets: dict[int, str] = {}
        self.shown_on_followers = 0
        # The epoch of the last confirm: an older one must not confirm after it.
        self.epoch = 0

    def confirms(self, epoch: int, bodies: list[str]) -> None:
        if bodies and epoch < self.epoch:
            raise Violation(f"epoch {epoch} confirms {bodies} after epoch {self.epoch}")
        if bodies:
            self.epoch = epoch
        self.confirmed.update(bodies)

    def delivers(self, where: str, entry: Entry) -> str:
        body = body_of(entry)
        if entry.returns < self.returns.get(body, 0):
            raise Violation(f"{body} came back {self.returns[body]} times, and on {where} {entry.returns}")
        if body in self.delivered and not entry.redelivered:
            raise Violation(f"{body} was delivered, and comes on {where} as if for the first time")
        return body

    def shows_on_follower(self, offset: int, body: str) -> None:
        self.shown_on_followers += 1
        self.shows(offset, body)

    def shows(self, offset: int, body: str) -> None:
        if self.offsets.setdefault(offset, body) != body:
            raise Violation(f"offset {offset} was {self.offsets[offset]} and is {body}")


class Leading:
    """A broker in its epoch: a real store on the replicated disk, and the links to its followers."""

    def __init__(self, node: SimNode, epoch: int) -> None:
        self.node = node
        self.epoch = epoch
        world = node.world
        assert node.member.view is not None
        members, window = set(node.member.view.members), Window(world.window_bytes)
        self.replicas = Replicas(node.uuid, epoch, members, window, node.moment)
        node.moment = None
        self.disk = ReplicatedDisk(node.disk, window)
        self.store = recover(self.disk, 1024)
        self.store.is_mirrored = True
        if sabotage.is_on("forgets counts"):
            for lane in self.store.unclaimed.lanes.values():
                lane.returned = {}
        if sabotage.is_on("forgets deliveries"):
            for lane in self.store.unclaimed.lanes.values():
                lane.watermark = 0
        rows = recover_definitions(self.store, [])
        assert self.store.definitions is not None
        self.store.definitions.fold_at = 600
        self.broker = Node(StillHost(), Settings(), self.store.definitions, self.store, START)
        if definitions.restore(self.broker, rows):
            raise Violation("definitions cannot be restored")
        self.broker.start_recording()
        unclaimed = self.store.unclaimed
        unclaimed.forget_deleted()
        # A power cut may keep a file and lose the definition that was made just before: then nobody had an answer yet.
        if any(f"'{name}'" in line for line in unclaimed.lines() for name in world.ledger.declared):
            raise Violation(f"{unclaimed.lines()} belong to nobody")
        unclaimed.forget(unclaimed.incarnations())
        self.missing_members_since(world.clock.now)
        if "/" not in self.broker.vhosts:
            self.broker.add_vhost("/", "")
        self.vhost = self.broker.vhosts["/"]
        self.waiting: list[tuple[int, str, str]] = []
        self.job: tuple[SyncJob, int] | None = None
        self.is_job_run = True
        self.connections: list[Connection] = []
        # The offset of the stream's first message that nobody was shown in this epoch.
        self.shown_up_to = 0
        # It hands over: nobody is served any more, and when all is durable its store is closed.
        self.is_leaving = False
        self.is_closed = False
        self.declare("q0")
        self.declare("q1", {"x-queue-type": "quorum", "x-delivery-limit": -1})
        self.declare(STREAM, {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 500})
        # What was found may be on this node alone: nobody sees it before the others have it.
        self.opens_at = self.replicas.window.last
        self.is_open = sabotage.is_on("opens at once")
        self.work()

    def missing_members_since(self, now: int) -> None:
        for uuid in self.replicas.members:
            self.replicas.missed_since[uuid] = now

    # -- clients ---------------------------------------------------------------------------------------------------

    def declare(self, name: str, arguments: dict[str, object] | None = None) -> None:
        self.vhost.add_queue(name, True, False, table_of(arguments or {}))
        self.waiting.append((self.store.position, "declared", name))

    def client_step(self) -> None:
        world = self.node.world
        random = world.random
        chance = random.random()
        if chance < 0.55:
            world.count += 1
            body = f"m{world.count}"
            world.ledger.published.add(body)
            queue = self.vhost.queues[random.choice(("q0", "q1"))]
            assert self.broker.monitor.publish(queue, message_of(body + "." * random.randrange(80))) == TAKEN
            self.waiting.append((self.store.position, "confirmed", body))
        elif chance < 0.7:
            world.count += 1
            body = f"s{world.count}"
            self.broker.monitor.publish(self.vhost.queues[STREAM], message_of(body))
            self.waiting.append((self.store.position, "confirmed in stream", body))
        elif chance < 0.95:
            queue = self.vhost.queues[random.choice(("q0", "q1"))]
            entry = queue.get()
            if entry is not None:
                queue.hold(entry)
                body = body_of(entry)
                if self.epoch not in world.etcd.ended_early:
                    world.ledger.delivers(self.node.uuid, entry)
                    if body in world.ledger.settled_for_good:
                        raise Violation(f"{body} was settled and comes back")
                self.waiting.append((self.store.position, "delivered", body))
                if queue.type == "quorum" and random.random() < 0.3:
                    queue.requeue([entry])
                    self.waiting.append((self.store.position, "returned", f"{body} {entry.returns}"))
                    if sabotage.is_on("tells counts at once"):
                        world.ledger.returns[body] = int(entry.returns)
                    return
                queue.ack(entry)
                world.ledger.settled.add(body)
                self.waiting.append((self.store.position, "settled", body))
        else:
            self.declare(f"d{random.randrange(20)}")

    def work(self) -> None:
        """A turn, and what the thread that syncs does."""
        if sabotage.is_on("notes no counts"):
            self.store.pending.returned.clear()
        self.store.write()
        self.pump()
        if self.replicas.committed() >= self.opens_at:
            self.is_open = True
        self.show_stream()
        if self.job is None:
            job = self.store.begin_sync()
            if job is not None:
                self.job = (job, self.replicas.window.last)
                self.is_job_run = False
        if self.job is not None and not self.is_job_run and self.node.world.random.random() < 0.7:
            # The disk takes its time, and others may be faster.
            self.job[0].run(self.disk)
            self.is_job_run = True
        self.finish_sync()
        for _ in range(2 if self.is_job_run else 0):
            chore = self.store.next_chore()
            if chore is not None:
                chore.run(self.disk)
                self.store.chore_done(chore)
        self.pump()

    def finish_sync(self) -> None:
        if (
            self.job is None
            or not self.is_job_run
            or (self.replicas.committed() < self.job[1] and not sabotage.is_on("no waiting"))
        ):
            return
        job, op = self.job
        self.job = None
        self.replicas.answered = op
        self.store.sync_done(job)
        self.answer()

    def answer(self) -> None:
        node = self.node
        if not node.member.may_speak(node.now()) and not sabotage.is_on("speaks for ever"):
            return
        ledger = node.world.ledger
        ready = [item for item in self.waiting if item[0] <= self.store.synced]
        self.waiting = [item for item in self.waiting if item[0] > self.store.synced]
        ledger.confirms(self.epoch, [name for _, what, name in ready if what.startswith("confirmed")])
        for _, what, name in ready:
            if what == "settled":
                ledger.settled_for_good.add(name)
            elif what == "declared":
                ledger.declared.add(name)
            elif what == "delivered":
                ledger.delivered.add(name)
            elif what == "returned":
                body, returns = name.split()
                ledger.returns[body] = max(int(returns), ledger.returns.get(body, 0))
        self.show_stream()

    def show_stream(self) -> None:
        if not self.is_open:
            return
        stream = self.vhost.queues[STREAM]
        assert isinstance(stream, Stream)
        if self.shown_up_to >= stream.log.committed:
            return
        cursor = stream.log.cursor(self.shown_up_to)
        while cursor.next_offset < stream.log.committed and (record := cursor.next()) is not None:
            self.node.world.ledger.shows(int(record.offset), record.wire[record.suffix_size :].hex())
        self.shown_up_to = int(cursor.next_offset)
        cursor.close()

    def leave(self) -> bool:
        """A turn of one that hands over: as much as is left to do. True when the place is free."""
        if not self.is_closed:
            self.work()
            if self.is_synced():
                self.store.close()
                self.is_closed = True
        self.pump()
        if self.is_closed and self.replicas.committed() >= self.replicas.window.last:
            self.node.resign(OpMoment(self.epoch, self.replicas.window.last))
            return True
        return False

    # -- followers -------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        for connection in self.connections:
            connection.pump()

    def is_synced(self) -> bool:
        return self.job is None and self.store.position == self.store.synced and not self.store.has_work()

    def shown(self) -> int:
        return self.replicas.shown(self.is_open and (self.is_synced() or sabotage.is_on("tells unsynced")))

    def tick(self) -> None:
        heartbeat = messages.numbers(messages.HEARTBEAT, self.epoch, self.shown())
        for connection in list(self.connections):
            connection.to_follower(heartbeat)
        member = self.node.member
        while member.decided:
            self.replicas.decided(set(member.decided.pop(0)))
        proposal = self.replicas.proposal(self.node.now(), PATIENCE)
        if proposal is not None:
            if sabotage.is_on("shrinks before etcd"):
                self.replicas.members = set(proposal)
            self.replicas.propose(proposal)
            member.wanted = frozenset(proposal)


class Connection:
    """Between a leader's process and a follower's: in order, with delays, until one of them or the network ends it."""

    def __init__(self, leading: Leading, follower: SimNode) -> None:
        self.leading = leading
        self.node = follower
        self.leader_life = leading.node.life
        self.follower_life = follower.life
        self.machine = Follower(follower.disk, follower.uuid, follower.memory, follower.moment)
        self.reader = FollowerReader(follower.disk, STREAM, follower.world.ledger.shows_on_follower)
        self.link: Link | None = None
        self.is_open = True
        self.is_dumb = False
        self._last = [0, 0]
        leading.connections.append(self)
        follower.connection = self
        self.to_leader([self.machine.greeting()])

    def to_leader(self, found: list[PeerMessage]) -> None:
        for message in found:
            self._send(0, message)

    def to_follower(self, message: PeerMessage) -> None:
        self._send(1, message)

    def _send(self, direction: int, message: PeerMessage) -> None:
        world = self.node.world
        now = world.clock.now
        at = max(self._last[direction], now + world.random.randint(1, 12))
        self._last[direction] = at
        world.clock.after(at - now, self._arrive, direction, message)

    def _arrive(self, direction: int, message: PeerMessage) -> None:
        if not self.is_open:
            return
        leader, follower = self.leading.node, self.node
        world = follower.world
        if not world.can_talk(leader, follower):
            # Silence: it is lost, and with it the order of what follows.
            self.is_dumb = True
        if self.is_dumb or leader.life != self.leader_life or follower.life != self.follower_life:
            return
        if (leader if direction == 0 else follower).is_paused():
            world.clock.after(20, self._arrive, direction, message)
        elif direction == 0:
            self._leader_hears(message)
        else:
            self._follower_hears(message)

    def _follower_hears(self, message: PeerMessage) -> None:
        if self.node.member.role is Role.LEADER or self.node.leading is not None:
            self.close()
            return
        if self.leading.epoch < self.node.memory.epoch:
            self.to_leader([messages.numbers(messages.FENCED, self.node.memory.epoch)])
            return
        if message.kind == messages.MANIFEST and self.machine.is_streaming:
            # Who reads the files must go before they are changed.
            self.close()
            return
        if message.kind == messages.HEARTBEAT and sabotage.is_on("shows uncommitted"):
            message = messages.numbers(messages.HEARTBEAT, self.leading.epoch, self.machine.done)
        try:
            answers = self.machine.receive(message)
            if message.kind == messages.CAUGHT_UP:
                answers += self.machine.acknowledgement()
            if sabotage.is_on("acks unsynced") and self.machine.is_streaming:
                answers += [messages.numbers(messages.ACK, self.leading.epoch, self.machine.done)]
            elif self.node.world.random.random() < 0.7:
                answers += self.machine.sync()
        except (Fenced, Garbled):
            self.close()
            return
        committed = self.machine.take_committed()
        if committed:
            self.reader.committed(committed)
        self.to_leader(answers)

    def _leader_hears(self, message: PeerMessage) -> None:
        leading = self.leading
        if leading.node.leading is not leading:
            return
        replicas, now = leading.replicas, leading.node.now()
        if message.kind == messages.HELLO:
            uuid, epoch, moment = messages.read_hello(message.payload)
            if epoch > leading.epoch:
                leading.node.member.hurry()
                self.close()
                return
            self.link = replicas.connected(uuid, now)
            if replicas.can_resume(moment) or (moment is not None and sabotage.is_on("resumes anybody")):
                self.to_follower(messages.resume(leading.epoch, leading.disk.first_files))
                replicas.caught_up(self.link, 0)
                self.node.world.resumed += 1
                self.pump()
            else:
                self._begin_copy()
        elif message.kind == messages.HAVE and self.link is not None:
            have = messages.read_have(message.payload)
            damage_in = partial(damaged_parts, leading.disk)
            for part in copy_differences(leading.disk, leading.disk.digests, self._files, have, damage_in):
                self.to_follower(part)
            self.to_follower(messages.caught_up(replicas.window.last))
            replicas.caught_up(self.link, self._cut)
            self.pump()
        elif message.kind == messages.ACK and self.link is not None:
            epoch, op = messages.read_numbers(message.payload)
            if epoch == leading.epoch:
                replicas.acknowledged(self.link, op, now)
                leading.finish_sync()
        elif message.kind == messages.FENCED:
            leading.node.member.hurry()

    def _begin_copy(self) -> None:
        assert self.link is not None
        self.link.sent, self.link.acked = -1, -1
        self._cut, self._files = self.leading.disk.manifest()
        self.to_follower(messages.manifest(self.leading.epoch, self._cut, self._files))

    def pump(self) -> None:
        link, window = self.link, self.leading.replicas.window
        if link is None or link.sent < 0 or not self.is_open:
            return
        if not window.has_after(link.sent):
            self._begin_copy()
            return
        while link.sent < window.last:
            found = window.after(link.sent, 2000)
            link.sent = found[-1].number
            self.to_follower(heard(messages.ops(found)))

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        if self.node.connection is self:
            self.node.connection = None
            self.node.moment = self.machine.moment
        if self in self.leading.connections:
            self.leading.connections.remove(self)
        if self.link is not None:
            self.leading.replicas.lost(self.link)
            self.leading.node.member.hurry()


class SimNode:
    def __init__(self, world: World, uuid: str) -> None:
        self.world = world
        self.uuid = uuid
        self.disk = sabotage.new_disk()
        self.memory = NodeMemory()
        # Of which its files are, as long as the process lives.
        self.moment: OpMoment | None = None
        self.life = 0
        self.is_up = False
        self.paused_until = 0
        self.connection: Connection | None = None
        self.leading: Leading | None = None
        self.start()

    def now(self) -> int:
        return self.world.clock.now

    def is_paused(self) -> bool:
        return self.world.clock.now < self.paused_until

    def start(self) -> None:
        self.life += 1
        self.is_up = True
        self.lease = self.world.new_lease()
        self.member = Member(self.uuid, f"{self.uuid}.{self.life}", TTL)
        self._tick(self.life)

    def stop(self, cut: Callable[[SimulatedDisk], SimulatedDisk]) -> None:
        self.is_up = False
        self.life += 1
        self.paused_until = 0
        self._drop_connections()
        self.leading = None
        self.moment = None
        self.disk = sabotage.same_kind(cut(self.disk))

    def resign(self, moment: OpMoment) -> None:
        """It has handed over, and goes on with the files as they are."""
        if self.world.reaches_etcd(self):
            self.world.etcd.revoke(self.lease)
        self._drop_connections()
        self.leading = None
        self.moment = moment
        self.start()

    def _drop_connections(self) -> None:
        if self.connection is not None:
            self.connection.close()
        if self.leading is not None:
            for connection in list(self.leading.connections):
                connection.close()

    def restart_machine(self) -> None:
        """It led, and does not any more: as a new process would be."""
        self.stop(lambda disk: disk.kill())
        self.start()

    def _tick(self, life: int) -> None:
        if life != self.life or not self.is_up:
            return
        self.world.clock.after(self.world.random.randint(15, 30), self._tick, life)
        if self.is_paused():
            return
        self._look_after_role()
        if life != self.life:
            return
        self.ask_etcd()
        if self.leading is not None:
            if self.member.may_speak(self.now()) or sabotage.is_on("speaks for ever"):
                if self.leading.is_leaving:
                    if self.leading.leave():
                        return
                else:
                    for _ in range(self.world.random.randrange(3) if self.leading.is_open else 0):
                        self.leading.client_step()
                    self.leading.work()
            self.leading.tick()
        else:
            self.follow()

    def _look_after_role(self) -> None:
        member = self.member
        if member.role is Role.STOPPED:
            self.restart_machine()
        elif member.role is Role.LEADER and self.leading is None:
            self._drop_connections()
            assert member.view is not None
            if (
                self.memory.is_copying
                and member.view.members != {self.uuid}
                and not sabotage.is_on("half copied leads")
            ):
                # A copy had begun when it stood already.
                self.world.etcd.revoke(self.lease)
                self.restart_machine()
                return
            if member.epoch > self.memory.epoch:
                self.memory.remember_epoch(member.epoch)
            self.leading = Leading(self, member.epoch)
            self.world.failovers += 1

    def ask_etcd(self) -> None:
        member = self.member
        member.is_fit = not self.memory.is_copying or sabotage.is_on("half copied leads")
        if sabotage.is_on("outsider leads") and member.view is not None and member.role is Role.FOLLOWER:
            view = member.view
            member.view = ClusterView(view.leader, view.members | {self.uuid}, view.revision)
        request = member.next_request(self.now())
        if request is None:
            return
        life, random, clock, world = self.life, self.world.random, self.world.clock, self.world
        delay = random.randint(1, 30) if random.random() < 0.95 else random.randint(30, TTL)
        is_lost = not world.reaches_etcd(self) or (world.is_stormy() and random.random() < 0.03)

        def arrive() -> None:
            answer = world.etcd.carry_out(request, member, self.lease)
            if life != self.life:
                return
            no_answer = world.is_stormy() and random.random() < 0.03
            if not no_answer:
                clock.after(random.randint(1, 20), take, answer)

        is_done = False

        def take(answer: object) -> None:
            nonlocal is_done
            if life != self.life or is_done:
                return
            if self.is_paused():
                clock.after(20, take, answer)
                return
            is_done = True
            member.answered(request, answer, self.now())

        def give_up() -> None:
            nonlocal is_done
            if life != self.life or is_done:
                return
            if self.is_paused():
                clock.after(20, give_up)
                return
            is_done = True
            member.failed(request, self.now())

        if not is_lost:
            clock.after(delay, arrive)
        clock.after(TTL // 4, give_up)

    def follow(self) -> None:
        view = self.member.view
        if view is None or view.leader is None:
            return
        leader = self.world.nodes.get(view.leader.uuid)
        if leader is None or leader is self:
            return
        if self.connection is not None:
            if self.connection.leading is not leader.leading or self.connection.is_dumb:
                self.connection.close()
            return
        if leader.leading is not None and leader.is_up and self.world.can_talk(leader, self):
            Connection(leader.leading, self)


class World:
    def __init__(self, seed: int) -> None:
        self.random = Dice(seed)
        self.clock = Clock()
        self.etcd = Etcd(self.clock)
        self.ledger = Ledger()
        self.count = 0
        self.failovers = 0
        # How often a follower needed no copy.
        self.resumed = 0
        self._leases = 0
        self.window_bytes = self.random.choice((2_000, 20_000, 1_000_000))
        self.cut: set[frozenset[str]] = set()
        self.cut_from_etcd: set[str] = set()
        self.storm_ends = STORM
        self.nodes: dict[str, SimNode] = {}
        for number in range(self.random.choice((2, 3, 3, 3, 5))):
            self.nodes[f"n{number}"] = SimNode(self, f"n{number}")
        self.etcd.begin(frozenset({"n0"}))

    def new_lease(self) -> int:
        self._leases += 1
        self.etcd.grant(self._leases)
        return self._leases

    def is_stormy(self) -> bool:
        return self.clock.now < self.storm_ends

    def can_talk(self, one: SimNode, other: SimNode) -> bool:
        return not self.cut or frozenset({one.uuid, other.uuid}) not in self.cut

    def reaches_etcd(self, node: SimNode) -> bool:
        return node.uuid not in self.cut_from_etcd

    # -- faults ----------------------------------------------------------------------------------------------------

    def fault(self) -> None:
        if not self.is_stormy():
            return
        self.clock.after(self.random.randint(50, 600), self.fault)
        node = self.random.choice(list(self.nodes.values()))
        leaders = [one for one in self.nodes.values() if one.leading is not None]
        if leaders and self.random.random() < 0.5:
            node = self.random.choice(leaders)
        kind = self.random.choice(("kill", "power", "power", "cut", "etcd", "pause", "break", "lease", "hand over"))
        length = self.random.randint(50, 3 * TTL)
        if kind in ("kill", "power") and node.is_up:
            lost = kind == "power"
            node.stop(lambda disk: disk.crash(self.random) if lost else disk.kill())
            self.clock.after(length, lambda: None if node.is_up else node.start())
        elif kind == "cut":
            pair = frozenset({node.uuid, self.random.choice([name for name in self.nodes if name != node.uuid])})
            self.cut.add(pair)
            self.clock.after(length, self.cut.discard, pair)
        elif kind == "etcd":
            self.cut_from_etcd.add(node.uuid)
            self.clock.after(length, self.cut_from_etcd.discard, node.uuid)
        elif kind == "pause" and node.is_up:
            node.paused_until = self.clock.now + length
        elif kind == "break" and node.connection is not None:
            node.connection.close()
        elif kind == "lease":
            self.etcd.end_early()
        elif kind == "hand over" and leaders:
            for one in leaders:
                if one.leading is not None:
                    one.leading.is_leaving = True

    # -- the story -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        # Everybody joins first, in most stories.
        if self.random.random() < 0.8:
            self.clock.run(lambda: len(self.etcd.members) == len(self.nodes), 5_000)
            self.storm_ends = self.clock.now + STORM
        self.fault()
        self.clock.run(lambda: not self.is_stormy(), STORM + 1_000)
        self.cut.clear()
        self.cut_from_etcd.clear()
        for node in self.nodes.values():
            if not node.is_up:
                node.start()
        if not self.clock.run(self._is_well, QUIET):
            raise Violation(f"nobody serves, or not all follow: {self._state()}")
        self._check()

    def leader(self) -> Leading | None:
        key = self.etcd.leader
        node = None if key is None else self.nodes[key.uuid]
        if node is None or node.leading is None or key is None or node.leading.epoch != key.epoch:
            return None
        return node.leading

    def _is_well(self) -> bool:
        leading = self.leader()
        if leading is None or not leading.is_open or len(self.etcd.members) < len(self.nodes):
            return False
        links = leading.replicas.links
        return len(links) == len(self.nodes) - 1 and all(link.acked >= leading.opens_at for link in links.values())

    def _state(self) -> str:
        roles = {name: (node.member.role.value, node.is_up, node.member.reason) for name, node in self.nodes.items()}
        return f"leader {self.etcd.leader}, in sync {sorted(self.etcd.members)}, {roles}"

    def _check(self) -> None:
        """What any of the nodes would have, if it took over now: all that was promised."""
        for node in self.nodes.values():
            self._check_files(node)

    def _check_files(self, node: SimNode) -> None:
        store = recover(node.disk.kill() if node.leading is not None else node.disk.lose_all(), 1024)
        rows = recover_definitions(store, [])
        broker = Node(StillHost(), Settings(), store.definitions, store, START)
        definitions.restore(broker, rows)
        queues = broker.vhosts["/"].queues
        missing = self.ledger.declared - set(queues)
        if missing:
            raise Violation(f"{node.uuid} misses the queues {missing}")
        found: set[str] = set()
        for name in ("q0", "q1"):
            queue = queues[name]
            while (entry := queue.get()) is not None:
                queue.hold(entry)
                found.add(self.ledger.delivers(node.uuid, entry))
        confirmed = {body for body in self.ledger.confirmed if body.startswith("m")}
        lost = confirmed - found - self.ledger.settled
        if lost:
            raise Violation(f"{node.uuid} lost {sorted(lost)}")
        back = found & self.ledger.settled_for_good
        if back:
            raise Violation(f"{sorted(back)} came back on {node.uuid}")
        stream = queues[STREAM]
        assert isinstance(stream, Stream)
        cursor = stream.log.cursor(0)
        shown: dict[int, str] = {}
        while (record := cursor.next()) is not None:
            shown[int(record.offset)] = record.wire[record.suffix_size :].hex()
        for offset, body in self.ledger.offsets.items():
            if shown.get(offset) != body:
                raise Violation(f"offset {offset} on {node.uuid} was shown and is another, or gone")


def run_seed(seed: int) -> World:
    world = World(seed)
    # Files of these stories are small, and should have several blocks.
    usual = vars(files)["BLOCK"]
    vars(files)["BLOCK"] = BLOCK
    try:
        world.run()
    except Violation:
        raise
    except Exception as error:
        raise Violation(f"{type(error).__name__}: {error}") from error
    finally:
        vars(files)["BLOCK"] = usual
    return world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--break", dest="broken", default="", choices=["", *sabotage.KINDS])
    options = parser.parse_args()
    sabotage.switch(options.broken)
    begun, confirmed, failovers = time.monotonic(), 0, 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            world = run_seed(seed)
        except Violation as violation:
            sys.exit(f"seed {seed}: {violation}")
        confirmed += len(world.ledger.confirmed)
        failovers += world.failovers
    seconds = time.monotonic() - begun
    print(  # noqa: T201
        f"{options.seeds} seeds, {confirmed} confirmed, {failovers} times somebody began to lead, "
        f"0 violations, {seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
