"""Statistics: what management shows is counted where it happens."""

from __future__ import annotations

from tests.broker.harness import World
from warren.amqp import methods


def test_a_queue_counts_what_passes_through_it(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    for _ in range(6):
        channel.publish("m", "q")
    channel.get("q")
    channel.get("q", no_ack=True)
    channel.qos(1)
    channel.consume("q", "c")
    counters = world.queue("q").counters
    assert (counters.published, counters.got, counters.got_no_ack, counters.delivered) == (6, 1, 1, 1)


def test_redeliveries_and_acks_are_counted(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("m", "q")
    channel.get("q")
    channel.nack(1)
    channel.get("q")
    channel.ack(2)
    channel.get("q")
    counters = world.queue("q").counters
    assert (counters.redelivered, counters.acked, counters.got, counters.got_empty) == (1, 1, 2, 1)
    own = channel.client.connection.channels[1].counters
    assert (own.published, own.acked, own.got) == (1, 1, 2)


def test_no_ack_deliveries_are_counted_apart(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.consume("q", no_ack=True)
    channel.publish("m", "q")
    counters = world.queue("q").counters
    assert (counters.delivered_no_ack, counters.delivered, counters.acked) == (1, 0, 0)


def test_refusals_and_dead_letters_are_counted(world: World) -> None:
    channel = world.channel()
    channel.declare("dead")
    channel.declare(
        "q",
        x_max_length=1,
        x_overflow="reject-publish-dlx",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
    )
    for _ in range(3):
        channel.publish("m", "q")
    counters = world.queue("q").counters
    assert (counters.published, counters.rejected_publishes, counters.dead_lettered) == (1, 2, 2)


def test_an_exchange_counts_what_comes_in_and_what_goes_out(world: World) -> None:
    channel = world.channel()
    for name in ("a", "b"):
        channel.declare(name)
        channel.bind(name, "amq.fanout")
    channel.publish("m", "", "amq.fanout")
    channel.publish("m", "", "amq.fanout")
    channel.publish("lost", "nowhere", "amq.direct")
    fanout, direct = world.vhost.exchanges["amq.fanout"], world.vhost.exchanges["amq.direct"]
    assert (fanout.published_in, fanout.published_out) == (2, 4)
    assert (direct.published_in, direct.published_out) == (1, 0)


def test_a_dead_letter_exchange_counts_too(world: World) -> None:
    channel = world.channel()
    channel.declare("dead")
    channel.bind("dead", "amq.fanout")
    channel.declare("q", x_dead_letter_exchange="amq.fanout")
    channel.publish("m", "q")
    channel.get("q")
    channel.reject(1)
    fanout = world.vhost.exchanges["amq.fanout"]
    assert (fanout.published_in, fanout.published_out) == (1, 1)


def test_confirms_and_returns_are_counted(world: World) -> None:
    channel = world.channel()
    channel.declare("q", durable=True)
    channel.confirm()
    channel.publish("m", "q")
    channel.persist("m", "q")
    channel.publish("m", "nowhere", mandatory=True)
    channel.publish("m", "nowhere")
    own = channel.client.connection.channels[1].counters
    assert (own.published, own.confirmed, own.returned) == (4, 4, 1)
    node = world.node.counters
    assert (node.routed, node.returned, node.dropped) == (2, 1, 1)


def test_a_nacked_message_is_not_counted_as_confirmed(world: World) -> None:
    channel = world.channel()
    channel.declare("q", durable=True)
    channel.confirm()
    world.store.holds = True
    channel.persist("m", "q")
    world.store.failing.add(("q", "publish"))
    channel.persist("m", "q")
    world.sync()
    assert channel.client.connection.channels[1].counters.confirmed == 0


def test_the_node_counts_comings_and_goings(world: World) -> None:
    client = world.connect()
    one = client.channel(1)
    client.channel(2)
    one.declare("q")
    one.declare("q")
    one.declare("mine", exclusive=True)
    one.close()
    client.send(methods.ConnectionClose(200, "bye"))
    client.lose()
    node = world.node.counters
    assert (node.connections_opened, node.connections_closed) == (1, 1)
    assert (node.channels_opened, node.channels_closed) == (2, 2)
    assert (node.queues_declared, node.queues_created, node.queues_deleted) == (3, 2, 1)


def test_a_channel_closed_by_an_error_is_counted_once(world: World) -> None:
    channel = world.channel()
    channel.refused(methods.BasicGet(queue="missing"))
    channel.send(methods.ChannelCloseOk())
    channel.client.lose()
    assert world.node.counters.channels_closed == 1


def test_a_connection_counts_its_bytes(world: World) -> None:
    client = world.connect()
    connection = client.connection
    assert connection.sent_bytes == len(client.wire.written)
    before = connection.received_bytes
    client.feed(b"\x08\x00\x00\x00\x00\x00\x00\xce")
    assert connection.received_bytes == before + 8


def test_unacked_messages_and_bytes_are_counted(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("12345", "q")
    channel.publish("123", "q")
    queue = world.queue("q")
    assert (queue.backing.length, queue.backing.body_bytes) == (2, 8)
    channel.get("q")
    assert (queue.unacked, queue.unacked_bytes, queue.backing.body_bytes) == (1, 5, 3)
    channel.nack(1)
    assert (queue.unacked, queue.unacked_bytes, queue.backing.body_bytes) == (0, 0, 8)


def test_what_a_deleted_queue_counted_stays_in_the_sums(world: World) -> None:
    channel = world.channel()
    for name in ("a", "b"):
        channel.declare(name)
        channel.publish("m", name)
        channel.publish("n", name)
        assert channel.get(name, no_ack=True) is not None
        channel.call(methods.QueueDelete(queue=name), methods.QueueDeleteOk)
    past = world.node.past_queues["classic"]
    assert (past.published, past.got_no_ack) == (4, 2)
