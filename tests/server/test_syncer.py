"""Who waits for the disk: a thread, unless the only peer there is waits for it anyway."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

from tests.store.simulated_disk import SimulatedDisk

from warren.server.turn.syncer import FEW, QUICK, QUICK_ENOUGH, Syncer
from warren.store.format import SYNCED
from warren.store.log import LogStore
from warren.store.recovery import recover


class WatchedDisk(SimulatedDisk):
    def __init__(self) -> None:
        super().__init__()
        self.syncing_threads: list[str] = []
        # Set while syncs may go on.
        self.gate = threading.Event()
        self.gate.set()
        # Seconds that a sync takes at least.
        self.delay = 0.0
        self.failure: OSError | None = None

    def sync(self, handle: int) -> None:
        self.syncing_threads.append(threading.current_thread().name)
        self.gate.wait()
        time.sleep(self.delay)
        if self.failure is not None:
            raise self.failure
        super().sync(handle)


class World:
    """A syncer and a store in which nothing but this test writes."""

    def __init__(self) -> None:
        self.disk = WatchedDisk()
        self.store: LogStore = recover(self.disk)
        # Opening a store syncs before there is a loop to wait.
        self.disk.syncing_threads.clear()
        self.is_one_alone = True
        self.fatal: list[BaseException] = []
        self.woken = 0
        self.syncer = Syncer(asyncio.get_running_loop(), self.store, self._wake, self.fatal.append, self._is_one_alone)

    def _wake(self) -> None:
        self.woken += 1

    def _is_one_alone(self) -> bool:
        return self.is_one_alone

    def change(self, count: int = 1) -> None:
        for _ in range(count):
            self.store._append(SYNCED, b"\0" * 8)
        self.store.write()

    async def sync(self) -> bool:
        """True when the loop did it."""
        self.change()
        is_done = self.syncer.kick()
        await self.syncer.finish()
        assert self.store.synced == self.store.position
        return is_done

    async def seem_quick(self) -> None:
        """As after enough syncs on a machine with nothing else to do, of which the first named the file."""
        await self.sync()
        self.syncer._quick = QUICK_ENOUGH


def on_a_loop(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def play() -> None:
        world = World()
        try:
            await test(world)
        finally:
            world.disk.gate.set()
            world.syncer.close()

    def run() -> None:
        asyncio.run(play())

    return run


@on_a_loop
async def test_the_loop_syncs_for_one_alone_after_enough_quick_syncs(world: World) -> None:
    first = [await world.sync() for _ in range(QUICK_ENOUGH)]
    assert not any(first)
    assert set(world.disk.syncing_threads) == {"warren-syncer"}
    # The disk decides when enough of them were quick; a busy machine needs more.
    for _ in range(2000):
        if await world.sync():
            break
    assert world.disk.syncing_threads[-1] == threading.main_thread().name


@on_a_loop
async def test_the_thread_syncs_when_somebody_else_has_spoken(world: World) -> None:
    await world.seem_quick()
    world.is_one_alone = False
    assert not await world.sync()


@on_a_loop
async def test_the_thread_syncs_for_one_who_sends_many(world: World) -> None:
    await world.seem_quick()
    world.change(FEW)
    assert not await world.sync()


@on_a_loop
async def test_the_loop_goes_on_while_the_thread_waits_for_a_slow_disk(world: World) -> None:
    world.disk.gate.clear()
    world.change()
    assert not world.syncer.kick()
    await asyncio.sleep(2 * QUICK)
    assert world.store.synced < world.store.position
    world.disk.gate.set()
    await world.syncer.finish()
    assert world.store.synced == world.store.position


@on_a_loop
async def test_one_slow_sync_and_the_thread_is_back(world: World) -> None:
    await world.seem_quick()
    world.disk.delay = 2 * QUICK
    await world.sync()
    world.disk.delay = 0.0
    assert not await world.sync()


@on_a_loop
async def test_a_failed_sync_in_the_loop_is_final(world: World) -> None:
    await world.seem_quick()
    world.disk.failure = OSError(5, "Input/output error")
    synced = world.store.synced
    world.change()
    assert not world.syncer.kick()
    assert world.fatal == [world.disk.failure]
    assert world.store.synced == synced
    assert not world.syncer.kick()
