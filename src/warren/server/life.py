"""A server from start to stop: data folder, core, ports, alarms; and the way back, in which clients are told.

Signals and exit codes belong to the command line: this class can live in any loop, also in a test's thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Any

from warren import __version__
from warren.broker.node import Node
from warren.broker.operate import definitions
from warren.broker.operate.first_start import make_defaults
from warren.broker.session.tracer import Tracer
from warren.broker.settings import Settings
from warren.config import Config
from warren.errors import WarrenError
from warren.plugins import install, made_from
from warren.server import tls
from warren.server.alarms import AlarmWatch, disk_free, memory_total
from warren.server.folder import DataFolder, make_durably
from warren.server.leadership import Leadership
from warren.server.listeners import Listener, listen
from warren.server.origin import ClientOrigin
from warren.server.passwords import Passwords
from warren.server.turn.archiver import Archiver, WriteArchive
from warren.server.turn.clock import Clock
from warren.server.turn.gate import Gate, descriptor_limit, descriptors_for_sockets
from warren.server.turn.host import LeadershipLost, LoopHost
from warren.server.turn.syncer import Syncer
from warren.server.turn.transport import AmqpTransport, Roster
from warren.server.visitor import Visitor
from warren.store.definitions import Row
from warren.store.definitions_recovery import FoundDefinitions, recover_definitions
from warren.store.disk import RealDisk
from warren.store.inspect import MESSAGES
from warren.store.log import LogStore
from warren.store.old_definitions import FILE_NAME, load_old, put_aside
from warren.store.recovery import recover
from warren.store.segment_files import OUT_OF_DESCRIPTORS
from warren.strict_json import read_json

log = logging.getLogger("warren")

# The folder of the archives of streams, unless the configuration names another.
ARCHIVE = "archive"
# How long clients get to answer the close they are sent at the end.
DRAIN_SECONDS = 3.0
# Before an archive that could not be written is tried again.
ARCHIVE_RETRY_SECONDS = 5.0


class Server:
    """Made and used on a running loop."""

    def __init__(
        self,
        config: Config,
        passwords: Passwords | None,
        write_archive: WriteArchive,
        leadership: Leadership | None,
    ) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.clock = Clock()
        self.passwords = Passwords() if passwords is None else passwords
        self.host = LoopHost(self.loop, self.clock, self.passwords, self._fatal)
        # Resolves with the error when going on would break a promise.
        self.failure: asyncio.Future[BaseException] = self.loop.create_future()
        self.roster = Roster(self.loop)
        # Open connections have their own limit, which their clients are told of: the node's connection_max.
        self.gate = Gate(config, 0)
        self.listeners: list[Listener] = []
        self._folder = DataFolder(config.data_dir) if config.data_dir else None
        # Of a cluster's node, who holds the data folder as long as it lives.
        self._leadership = leadership
        self._store: LogStore | None = None
        self._syncer: Syncer | None = None
        self._write_archive = write_archive
        self._archiver: Archiver | None = None
        self._alarms: AlarmWatch | None = None
        self.memory_limit = int(config.memory_high_watermark * memory_total())

    async def start(self) -> None:
        """Raises WarrenError, and leaves nothing open, when the configuration cannot be met."""
        began = time.monotonic()
        try:
            if self._folder is not None:
                if self._leadership is None:
                    self._folder.open()
                self._store = self._open_store(self._folder.path / MESSAGES)
            self.node = self._make_node()
            if self._store is not None:
                self._store.unclaimed.forget_deleted()
                for line in self._store.unclaimed.lines():
                    log.error(
                        "store: %s are kept, but no such queue is defined: restore the definitions, or give the "
                        "messages up with `warren store forget %s`",
                        line,
                        self.config.data_dir,
                    )
                self._syncer = Syncer(
                    self.loop, self._store, self.host.wake, self._fatal, self._is_one_alone, self._leadership
                )
                self._archiver = Archiver(
                    self.loop, self._store.streams, self._write_archive, self.host.wake, ARCHIVE_RETRY_SECONDS
                )
            self.host.attach(self.node, self._syncer, self._archiver, self._leadership)
            if self._leadership is not None and self._syncer is not None:
                self._leadership.watch(self._syncer.mirrored, self._syncer.is_done)
                await self._leadership.wait_open()
            self._alarms = self._watch()
            self.listeners = listen(self.config, self.gate, self._make_protocol)
        except BaseException:
            self._close()
            # Ports that were opened close in the next turn of the loop.
            await asyncio.sleep(0)
            raise
        self._alarms.start()
        if self._store is not None:
            self._tell_recovered(time.monotonic() - began)

    def reload(self) -> None:
        """The configuration has changed: what can follow follows."""
        config, settings = self.config, self.node.settings
        settings.heartbeat = config.heartbeat
        settings.handshake_timeout_ms = config.handshake_timeout_ms
        settings.max_message_size = config.max_message_size
        settings.loopback_users = config.loopback_users
        self.memory_limit = int(config.memory_high_watermark * memory_total())
        if self._alarms is not None:
            self._alarms.memory_limit = self.memory_limit
            self._alarms.disk_limit = config.disk_limit
        for listener in self.listeners:
            if listener.tls is not None:
                tls.reload(listener.tls, config)

    async def stop(self, patience: float = DRAIN_SECONDS) -> None:
        """Accept no more, tell every client, wait a little for their answers, make what is left durable."""
        for listener in self.listeners:
            listener.close()
        if not self.failure.done():
            await self._say_goodbye(patience)
        await self.roster.wait_empty(0)
        self._close()

    async def _say_goodbye(self, patience: float) -> None:
        self.host.tick()
        self.node.begin_shutdown("shutdown")
        self.host.wake()
        await self.roster.wait_empty(patience)
        if self.failure.done():
            return
        try:
            self.node.flush()
        except OSError as error:
            self._fatal(error)
        if self._syncer is not None:
            finishing = asyncio.ensure_future(self._syncer.finish())
            # Where that fails meanwhile, or a leader is one no more, there is nothing left to wait for.
            either: list[asyncio.Future[Any]] = [finishing, self.failure]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finishing.cancel()

    def _tell_recovered(self, seconds: float) -> None:
        queues = [queue for vhost in self.node.vhosts.values() for queue in vhost.queues.values()]
        messages = sum(int(queue.backing.length) for queue in queues)
        if queues:
            log.info("recovered %d messages in %d queues in %.2f s", messages, len(queues), seconds)

    def _is_one_alone(self) -> bool:
        return self.roster.is_one_alone(self.clock.now())

    def _open_store(self, folder: Path) -> LogStore:
        try:
            make_durably(folder)
            disk = RealDisk(folder) if self._leadership is None else self._leadership.make_disk(folder)
            store = recover(disk, self.config.store_segment_bytes)
        except OSError as error:
            raise WarrenError(f"the messages in {folder} cannot be opened: {error}") from error
        store.is_mirrored = self._leadership is not None
        store.unsynced_max = self.config.unsynced_max
        store.can_archive = True
        store.streams.archive_root = os.path.abspath(self.config.archive_dir or folder.parent / ARCHIVE)
        return store

    def _open_definitions(self) -> list[Row]:
        store, folder = self._store, self._folder
        if store is None or folder is None:
            return []
        old = folder.path / FILE_NAME
        older: list[Row] = []
        try:
            found = FoundDefinitions(store.disk)
            if found.is_empty():
                older = load_old(old) if old.exists() else []
                if not older and store.unclaimed.lines():
                    raise WarrenError(
                        f"{folder.path} has messages of {len(store.unclaimed.lines())} queues but no definitions: "
                        f"restore them from a backup, or move the folder {MESSAGES} away"
                    )
            rows = recover_definitions(store, older, found)
            if older:
                put_aside(old)
        except OSError as error:
            raise WarrenError(f"the definitions in {folder.path} cannot be opened: {error}") from error
        for line in store.log_lines:
            log.error("%s", line)
        return rows

    def _make_protocol(self, visitor: Visitor) -> asyncio.Protocol:
        transport = AmqpTransport(self.node, self.clock, self.loop, self.roster, self.host, self.gate, visitor)
        return transport.as_protocol()

    def adopt(self, transport: asyncio.Transport, origin: ClientOrigin, data: bytes) -> None:
        """A client that came by way of another node, which says whence."""
        adopted = AmqpTransport(self.node, self.clock, self.loop, self.roster, self.host, self.gate, None, origin)
        transport.set_protocol(adopted.as_protocol())
        adopted.connection_made(transport)
        if data:
            adopted.data_received(data)

    def _make_node(self) -> Node:
        rows = self._open_definitions()
        recorder = None if self._store is None else self._store.definitions
        settings = settings_of(self.config, self.memory_limit)
        node = Node(self.host, settings, recorder, self._store, self.clock.now(), __version__)
        install(node, self.config.interceptors, self.config.exchange_decorators, self.config.queue_decorators)
        if self.config.tracer:
            node.install_tracer(made_from(self.config.tracer, Tracer))
        for line in definitions.restore(node, rows):
            log.error("%s", line)
        node.start_recording()
        if not rows:
            make_defaults(node, self.passwords)
        if self.config.definitions:
            definitions.import_(node, _read_definitions(self.config.definitions), hasher=self.passwords)
        return node

    def _watch(self) -> AlarmWatch:
        folder = None if self._folder is None else self._folder.path
        return AlarmWatch(self.loop, self._set_alarm, self.memory_limit, self.config.disk_limit, folder)

    def give_up(self) -> None:
        """Another leads: nothing that waits is answered, and nothing more is written."""
        self._fatal(LeadershipLost("another node leads"))

    def is_whole(self) -> bool:
        """Nothing has failed, neither while it lived nor when it was stopped."""
        return not self.failure.done() and (self._store is None or self._store.failure is None)

    def disk_stall(self) -> float:
        return 0.0 if self._syncer is None else self._syncer.stalled_for()

    def disk_free(self) -> int:
        return disk_free(Path.cwd() if self._folder is None else self._folder.path)

    def _set_alarm(self, name: str, is_on: bool) -> None:
        if name == "disk" and self._store is not None:
            self._store.short_of_space = is_on
        self.host.tick()
        self.node.set_alarm(name, is_on)
        self.host.wake()

    def _fatal(self, error: BaseException) -> None:
        what = "the data folder failed"
        if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
            what = f"no file descriptor is left of {descriptor_limit()}"
        if isinstance(error, LeadershipLost):
            log.warning("this node does not lead any more: %s", error)
        else:
            log.critical("%s, so nothing can be promised any more: %s", what, error)
        self.host.halt()
        if not self.failure.done():
            self.failure.set_result(error)

    def _close(self) -> None:
        if self._alarms is not None:
            self._alarms.stop()
        self.host.detach()
        if self._archiver is not None:
            self._archiver.close()
        if self._syncer is not None:
            self._syncer.close()
        if self._store is not None:
            self._store.close()
        if self._folder is not None and self._leadership is None:
            self._folder.close()


def settings_of(config: Config, memory_limit: int) -> Settings:
    settings = config.settings()
    share = (memory_limit or memory_total()) // 8
    if settings.unfinished_max == 0:
        settings.unfinished_max = max(share, 2 * settings.max_message_size)
    settings.unread_total_max = max(share, settings.unread_max)
    if settings.connection_max == 0:
        # Some must be left for strangers and for the HTTP side.
        settings.connection_max = descriptors_for_sockets(config) * 4 // 5
    return settings


def _read_definitions(path: str) -> dict[str, Any]:
    document = read_json(path)
    if not isinstance(document, dict):
        raise WarrenError(f"{path} holds no object")
    return document
