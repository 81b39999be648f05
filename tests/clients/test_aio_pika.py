"""aio-pika, and aiormq below it: futures, iterators, and connections that come back by themselves."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError, PublishError, QueueEmpty
from aio_pika.patterns import RPC

from tests.clients.conftest import Secured, close_all
from warren import Broker

PATIENCE = 30


@asynccontextmanager
async def channel_of(url: str, context: ssl.SSLContext | None = None) -> AsyncIterator[AbstractChannel]:
    async with await aio_pika.connect(url, ssl_context=context) as connection, connection.channel() as channel:
        yield channel


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def timed() -> None:
        await asyncio.wait_for(scene(), PATIENCE)

    asyncio.run(timed())


def test_what_is_published_comes_back(warren_broker: Broker) -> None:
    async def scene() -> None:
        async with channel_of(warren_broker.url) as channel:
            exchange = await channel.declare_exchange("topics", aio_pika.ExchangeType.TOPIC)
            queue = await channel.declare_queue(exclusive=True)
            await queue.bind(exchange, "news.#")
            sent = aio_pika.Message(b"body", headers={"n": 1, "real": 0.5, "list": ["a"]}, priority=2, expiration=60)
            await exchange.publish(sent, "news.today")
            received = await queue.get()
            assert (received.body, received.headers) == (b"body", sent.headers)
            assert (received.priority, received.expiration, received.routing_key) == (2, 60, "news.today")
            await received.ack()
            with pytest.raises(QueueEmpty):
                await queue.get()

    play(scene)


def test_a_publish_waits_for_its_confirm(warren_broker: Broker) -> None:
    async def scene() -> None:
        async with await aio_pika.connect(warren_broker.url) as connection:
            channel = await connection.channel(on_return_raises=True)
            full = await channel.declare_queue("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
            with pytest.raises(DeliveryError):
                await channel.default_exchange.publish(aio_pika.Message(b""), full.name)
            with pytest.raises(PublishError) as caught:
                await channel.default_exchange.publish(aio_pika.Message(b"back"), "nowhere", mandatory=True)
            returned = caught.value.message
            assert returned is not None
            assert returned.body == b"back"

    play(scene)


def test_an_iterator_takes_what_comes_and_gives_back_the_rest(warren_broker: Broker) -> None:
    async def scene() -> None:
        async with channel_of(warren_broker.url) as channel:
            queue = await channel.declare_queue("q")
            await channel.set_qos(prefetch_count=5)
            for number in range(10):
                await channel.default_exchange.publish(aio_pika.Message(str(number).encode()), "q")
            taken = []
            async with queue.iterator() as messages:
                async for message in messages:
                    async with message.process():
                        taken.append(message.body)
                    if len(taken) == 3:
                        break
            assert taken == [b"0", b"1", b"2"]
        async with channel_of(warren_broker.url) as channel:
            rest = await channel.declare_queue("q", passive=True)
            assert rest.declaration_result.message_count == 7
            first = await rest.get()
            assert (first.body, first.redelivered) == (b"3", True)

    play(scene)


def test_a_transaction_is_whole_or_nothing(warren_broker: Broker) -> None:
    async def scene() -> None:
        async with await aio_pika.connect(warren_broker.url) as connection:
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue("q")
            with pytest.raises(ZeroDivisionError):
                async with channel.transaction():
                    await channel.default_exchange.publish(aio_pika.Message(b"undone"), "q")
                    raise ZeroDivisionError
            async with channel.transaction():
                await channel.default_exchange.publish(aio_pika.Message(b"done"), "q")
            assert (await queue.get(no_ack=True)).body == b"done"

    play(scene)


def test_a_refusal_closes_the_channel_with_its_own_exception(warren_broker: Broker) -> None:
    async def scene() -> None:
        async with await aio_pika.connect(warren_broker.url) as connection:
            channel = await connection.channel()
            await channel.declare_queue("q", durable=True)
            with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'durable' for queue 'q'"):
                await channel.declare_queue("q", durable=False)
            assert (await connection.channel()).is_initialized

    play(scene)


def test_calls_are_answered(warren_broker: Broker) -> None:
    async def double(*, number: int) -> int:
        return number * 2

    async def scene() -> None:
        async with channel_of(warren_broker.url) as channel:
            rpc = await RPC.create(channel)
            await rpc.register("double", double, auto_delete=True)
            assert await rpc.proxy.double(number=21) == 42
            await rpc.close()

    play(scene)


def test_a_robust_connection_comes_back_with_its_consumers(warren_broker: Broker) -> None:
    async def scene() -> None:
        arrived: asyncio.Queue[bytes] = asyncio.Queue()

        async def take(message: AbstractIncomingMessage) -> None:
            await message.ack()
            arrived.put_nowait(message.body)

        restored = asyncio.Event()
        async with await aio_pika.connect_robust(warren_broker.url, reconnect_interval=0.05) as connection:
            connection.reconnect_callbacks.add(lambda *_: restored.set())
            channel = await connection.channel()
            queue = await channel.declare_queue("q")
            await queue.consume(take)
            warren_broker.call(close_all)
            await restored.wait()
            await channel.default_exchange.publish(aio_pika.Message(b"after"), "q")
            assert await arrived.get() == b"after"

    play(scene)


def test_tls(secured: Secured) -> None:
    async def scene() -> None:
        url = f"amqps://guest:guest@127.0.0.1:{secured.broker.tls_port}/"
        async with channel_of(url, ssl.create_default_context(cafile=secured.ca)) as channel:
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(bytes(300_000)), queue.name)
            assert (await queue.get(no_ack=True)).body == bytes(300_000)

    play(scene)
