"""`warren serve`: runs the broker until a signal, and exits 0 when it could stop in order."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import click

from warren.assembly import Assembly, name_of
from warren.config import OPTIONS, Config, flag_of, help_of
from warren.config_loading import load, take_over
from warren.core import IS_COMPILED, describe_core
from warren.errors import WarrenError
from warren.server.collector import spare_everyone
from warren.server.logs import Log
from warren.server.loop import new_event_loop
from warren.server.notify import READY, STOPPING, notify, reloading
from warren.server.tls import NodeTls, context_of, etcd_context_of

DEFAULT_FILE: Final = "warren.toml"
# More than one process serves; containers often have no limit at all.
DESCRIPTORS: Final = 1_048_576
log = logging.getLogger("warren")
HELP: Final = """Start the broker.

Prints `warren ready amqp=HOST:PORT http=HOST:PORT` on standard output when it accepts connections.
SIGTERM and Ctrl-C tell the clients, wait a moment for their answers and exit 0. SIGHUP opens the log file anew and
takes over certificates and what else of the configuration can change.

Every option is also a key of the configuration file and a variable WARREN_<OPTION>; flags win over variables,
variables over the file.
"""


def serve_with(config: str | None, **flags: str | None) -> None:
    if config is None and Path(DEFAULT_FILE).exists():
        config = DEFAULT_FILE
    run(partial(load, config, os.environ, flags))


def options() -> list[click.Parameter]:
    """One flag for every option there is. Texts, as in the environment: one place reads and checks them."""
    config = click.Option(
        ["--config"], metavar="FILE", envvar="WARREN_CONFIG", help=f"Configuration file; else ./{DEFAULT_FILE}."
    )
    return [
        config,
        *(click.Option([f"--{flag_of(name)}"], metavar="VALUE", help=help_of(name)) for name in OPTIONS),
    ]


serve: Final = click.Command("serve", callback=serve_with, params=options(), help=HELP)


def raise_descriptor_limit() -> None:
    """To what this process may have: the usual soft limit of 1024 is from a time of select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, DESCRIPTORS) if hard >= 0 else DESCRIPTORS
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run(read: Callable[[], Config]) -> None:
    """`read` gives the configuration, and on SIGHUP once more."""
    raise_descriptor_limit()
    config = read()
    output = Log()
    output.open(config)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_live_in_cluster(config, read, output) if config.cluster else _live(config, read, output))


async def _live(config: Config, read: Callable[[], Config], output: Log) -> None:
    # From the first moment on: a start may take long, and the signal would end the process.
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)
    assembly = Assembly(config)
    await assembly.start()
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGHUP, lambda: reload(config, read, output, [], assembly.reload)
    )
    spare_everyone()
    if not IS_COMPILED:
        log.info("core: %s", describe_core())
    amqp, http = name_of(assembly.amqp_address), name_of(assembly.http_address)
    log.info("ready: amqp=%s http=%s data=%s", amqp, http, config.data_dir or "none")
    print(f"warren ready amqp={amqp} http={http}", flush=True)  # noqa: T201
    notify(READY)
    failure = await _wait_for_the_end(assembly.server.failure)
    notify(STOPPING)
    await assembly.stop()
    log.info("stopped")
    # It may also have come on the way down.
    if failure is None and assembly.server.failure.done():
        failure = assembly.server.failure.result()
    if failure is not None:
        raise WarrenError(f"stopped because {failure}")


async def _live_in_cluster(config: Config, read: Callable[[], Config], output: Log) -> None:
    # Loaded only now: most brokers are alone.
    from warren.cluster.node import ClusterNode

    node = ClusterNode(config)

    def say(role: str) -> None:
        # Who leads has read all that was taken over.
        spare_everyone()
        amqp, http = node.addresses()
        print(f"warren ready amqp={amqp} http={http} role={role}", flush=True)  # noqa: T201
        notify(READY)

    node.on_role = say
    # Where it follows there is no broker yet; the one that it will have begins with what was taken over.
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGHUP, lambda: reload(config, read, output, [node.config], node.reload)
    )
    await node.start()
    failure = await _wait_for_the_end(node.failure)
    notify(STOPPING)
    await node.stop()
    if failure is not None:
        raise WarrenError(f"stopped because {failure}")


def reload(
    config: Config, read: Callable[[], Config], output: Log, others: list[Config], follow: Callable[[], None]
) -> None:
    """Never ends the process: what is wrong is told, and all stays as it was. `others` are copies of the `config` that
    it was started with, in which a port or a name may be another; `follow` is told when they have changed."""
    notify(reloading())
    try:
        wanted = read()
        if wanted.has_tls:
            context_of(wanted)
        if wanted.has_cluster_tls:
            NodeTls(wanted)
        etcd_context_of(wanted)
        output.open(wanted)
        fixed = take_over(config, wanted)
        for other in others:
            take_over(other, wanted)
        follow()
    except WarrenError as error:
        log.error("the configuration is not reloaded: %s", error)
    else:
        log.info("the configuration is reloaded")
        for name in fixed:
            log.warning("%s has changed, and needs a restart", name)
    notify(READY)


async def _wait_for_the_end(failure: asyncio.Future[BaseException]) -> BaseException | None:
    """None when a signal asked for it. A second signal then ends the process at once."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, _stop_for, number, asked)
    failure.add_done_callback(lambda _: asked.set())
    await asked.wait()
    for number in signals:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
    return failure.result() if failure.done() else None


def _stop_for(number: signal.Signals, asked: asyncio.Event) -> None:
    log.info("stopping: %s", number.name)
    asked.set()
