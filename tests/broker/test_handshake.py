"""Channel 0: who gets in, what they are told, and how a connection ends."""

from __future__ import annotations

import pytest

from tests.broker.harness import CAPABILITIES, Client, World, frame
from warren.amqp import methods
from warren.amqp.constants import PROTOCOL_HEADER
from warren.amqp.fields import Table, plain_table, table_of
from warren.amqp.tables import encode_table
from warren.broker.settings import Settings


def tuned(world: World) -> Client:
    client = world.dial()
    client.log_in("guest", "guest")
    client.expect(methods.ConnectionTune)
    client.send(methods.ConnectionTuneOk(2047, 131072, 0))
    return client


def test_the_server_introduces_itself_as_what_clients_branch_on(world: World) -> None:
    client = world.dial()
    client.feed(PROTOCOL_HEADER)
    start = client.expect(methods.ConnectionStart)
    properties = plain_table(start.server_properties)
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.mechanisms.split() == [b"PLAIN", b"AMQPLAIN"]
    assert start.locales == b"en_US"
    assert properties["product"] == "RabbitMQ"
    assert properties["capabilities"] == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }


def test_whoever_speaks_another_protocol_is_told_ours_and_left(world: World) -> None:
    client = world.dial()
    client.feed(b"GET / HT")
    assert bytes(client.wire.written) == PROTOCOL_HEADER
    assert client.wire.is_closed()


def test_the_greeting_may_come_byte_by_byte(world: World) -> None:
    client = world.dial()
    for byte in PROTOCOL_HEADER:
        client.feed(bytes([byte]))
    client.expect(methods.ConnectionStart)


def test_the_old_header_of_0_9_is_accepted(world: World) -> None:
    client = world.dial()
    client.feed(b"AMQP\x01\x01\x00\x09")
    client.expect(methods.ConnectionStart)


def test_the_server_proposes_its_limits(world: World) -> None:
    client = world.dial()
    client.log_in("guest", "guest")
    tune = client.expect(methods.ConnectionTune)
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


def test_the_states_follow_the_handshake(world: World) -> None:
    world.host.holds_passwords = True
    client = world.dial()
    states = [client.connection.state]
    client.log_in("guest", "guest")
    states.append(client.connection.state)
    world.host.answer_passwords()
    states.append(client.connection.state)
    world.flush()
    client.send(methods.ConnectionTuneOk(2047, 131072, 0))
    states.append(client.connection.state)
    client.send(methods.ConnectionOpen("/"))
    states.append(client.connection.state)
    client.send(methods.ConnectionClose(200, "bye"))
    states.append(client.connection.state)
    assert states == ["starting", "securing", "tuning", "opening", "running", "closed"]


def test_amqplain_logs_in_too(world: World) -> None:
    client = world.dial()
    client.feed(PROTOCOL_HEADER)
    client.expect(methods.ConnectionStart)
    response = encode_table(table_of({"LOGIN": "guest", "PASSWORD": "guest"}))[4:]
    client.send(methods.ConnectionStartOk({}, "AMQPLAIN", response))
    client.expect(methods.ConnectionTune)


def test_a_wrong_password_is_told_to_clients_that_ask_to_be_told(world: World) -> None:
    client = world.dial()
    client.log_in("guest", "wrong")
    assert client.expect_close() == (
        403,
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.",
    )
    assert "PLAIN login refused: user 'guest' - invalid credentials" in world.host.logged()


def test_a_wrong_password_is_met_with_silence_otherwise(world: World) -> None:
    client = world.dial()
    client.log_in("guest", "wrong", {})
    assert client.take() == []
    assert not client.wire.is_closed()
    world.advance(3_000)
    assert client.take() == []
    assert client.wire.is_closed()


def test_an_unknown_user_is_refused_like_a_wrong_password(world: World) -> None:
    client = world.dial()
    client.log_in("nobody", "")
    assert client.expect_close()[0] == 403


def test_guest_may_only_come_from_this_machine(world: World) -> None:
    client = world.dial("192.0.2.7")
    client.log_in("guest", "guest")
    assert client.expect_close()[0] == 403
    assert "user 'guest' can only connect via localhost" in world.host.logged()


def test_other_users_may_come_from_afar(world: World) -> None:
    world.add_user("alice")
    client = world.dial("192.0.2.7")
    client.log_in("alice", "alice")
    client.expect(methods.ConnectionTune)


@pytest.mark.parametrize("response", [b"guest\0guest", b"\0guest", b"x\0guest\0guest", b""])
def test_a_malformed_plain_response_is_met_with_silence(world: World, response: bytes) -> None:
    client = world.dial()
    client.feed(PROTOCOL_HEADER)
    client.expect(methods.ConnectionStart)
    client.send(methods.ConnectionStartOk({}, "PLAIN", response))
    assert client.take() == []
    world.advance(3_000)
    assert client.wire.is_closed()


def test_an_unknown_mechanism_is_met_with_silence(world: World) -> None:
    client = world.dial()
    client.feed(PROTOCOL_HEADER)
    client.expect(methods.ConnectionStart)
    client.send(methods.ConnectionStartOk({}, "MAGIC", b""))
    assert client.take() == []
    assert "unknown authentication mechanism 'MAGIC'" in world.host.logged()
    world.advance(3_000)
    assert client.wire.is_closed()


def test_nothing_is_handled_while_the_password_is_being_checked(world: World) -> None:
    world.host.holds_passwords = True
    client = world.dial()
    client.log_in("guest", "guest")
    client.feed(frame(methods.ConnectionTuneOk(2047, 131072, 0)) + frame(methods.ConnectionOpen("/")))
    assert client.take() == []
    world.host.answer_passwords()
    world.flush()
    assert [received.method.name for received in client.take()] == ["connection.tune", "connection.open-ok"]


def test_the_handshake_has_ten_seconds(world: World) -> None:
    client = world.dial()
    client.feed(PROTOCOL_HEADER)
    world.advance(9_999)
    assert not client.wire.is_closed()
    world.advance(1)
    assert client.wire.is_closed()
    assert "handshake timeout" in world.host.logged()


def test_an_open_connection_has_no_such_deadline(world: World) -> None:
    client = world.connect()
    world.advance(60_000)
    assert not client.wire.is_closed()


def test_the_handshake_has_a_bounded_number_of_bytes() -> None:
    world = World(Settings(handshake_bytes_max=1000))
    world.host.holds_passwords = True
    client = world.dial()
    client.log_in("guest", "guest")
    client.feed(b"\x08" * 2000)
    assert client.connection.state == "closing"
    world.advance(3_000)
    assert client.wire.is_closed()


def test_a_frame_before_login_is_at_most_8192_bytes(world: World) -> None:
    client = world.dial()
    client.feed(PROTOCOL_HEADER)
    client.expect(methods.ConnectionStart)
    client.feed(frame(methods.ConnectionStartOk(table_of({"x": "y" * 9000}), "PLAIN", b"\0guest\0guest")))
    assert client.take() == []
    assert client.connection.state == "closing"


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "text"),
    [
        (2047, 1000, "negotiated frame_max = 1000 is lower than the minimum allowed value (4096)"),
        (2047, 0, "negotiated frame_max = 0 (no limit) is higher than the maximum allowed value (131072)"),
        (2047, 131073, "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"),
        (0, 131072, "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
        (4000, 131072, "negotiated channel_max = 4000 is higher than the maximum allowed value (2047)"),
    ],
)
def test_limits_beyond_the_servers_are_refused(world: World, channel_max: int, frame_max: int, text: str) -> None:
    client = world.dial()
    client.log_in("guest", "guest")
    client.expect(methods.ConnectionTune)
    client.send(methods.ConnectionTuneOk(channel_max, frame_max, 60))
    assert client.expect_close() == (530, f"NOT_ALLOWED - {text}")


@pytest.mark.parametrize("heartbeat", [0, 1, 600])
def test_the_heartbeat_is_as_the_client_wants_it(world: World, heartbeat: int) -> None:
    client = world.connect(heartbeat=heartbeat)
    assert client.connection.heartbeat == heartbeat


def test_a_vhost_must_exist(world: World) -> None:
    client = tuned(world)
    client.send(methods.ConnectionOpen("nowhere"))
    assert client.expect_close() == (530, "NOT_ALLOWED - vhost nowhere not found")


def test_a_vhost_needs_permission(world: World) -> None:
    world.node.add_vhost("other")
    client = tuned(world)
    client.send(methods.ConnectionOpen("other"))
    assert client.expect_close() == (530, "NOT_ALLOWED - access to vhost 'other' refused for user 'guest'")


def test_a_method_out_of_turn_closes_in_silence_before_the_open(world: World) -> None:
    client = world.dial()
    client.log_in("guest", "guest")
    client.expect(methods.ConnectionTune)
    client.send(methods.ConnectionOpen("/"))
    assert client.take() == []
    world.advance(3_000)
    assert client.wire.is_closed()


def test_a_method_out_of_turn_on_an_open_connection_is_504(world: World) -> None:
    client = world.connect()
    client.send(methods.ConnectionTuneOk(2047, 131072, 0))
    code, text = client.expect_close()
    assert code == 504
    assert text.startswith("CHANNEL_ERROR - unexpected method in connection state running")


def test_closing_is_answered_and_the_socket_closed(world: World) -> None:
    client = world.connect()
    client.send(methods.ConnectionClose(200, "bye"))
    client.expect(methods.ConnectionCloseOk)
    assert client.wire.is_closed()


def test_exclusive_queues_are_gone_when_close_is_answered(world: World) -> None:
    client = world.connect()
    client.channel().declare("mine", exclusive=True)
    client.connection.feed(frame(methods.ConnectionClose(200, "bye")))
    assert "mine" not in world.vhost.queues


def test_unacked_messages_are_back_when_close_is_answered(world: World) -> None:
    client = world.connect()
    channel = client.channel()
    channel.declare("q")
    channel.publish("m", "q")
    assert channel.get("q") is not None
    client.send(methods.ConnectionClose(200, "bye"))
    assert world.queue("q").backing.length == 1


def test_a_lost_socket_gives_everything_back(world: World) -> None:
    client = world.connect()
    channel = client.channel()
    channel.declare("q")
    channel.declare("mine", exclusive=True)
    channel.publish("m", "q")
    channel.consume("q")
    assert channel.delivered() == [b"m"]
    client.lose()
    assert world.queue("q").backing.length == 1
    assert world.queue("q").unacked == 0
    assert "mine" not in world.vhost.queues
    assert world.node.connections == {}
    assert world.vhost.connections == 0


def test_the_server_waits_for_close_ok_and_then_goes(world: World) -> None:
    client = world.connect()
    client.connection.close_by_admin("bye")
    world.flush()
    assert client.expect_close() == (320, "CONNECTION_FORCED - bye")
    assert not client.wire.is_closed()
    client.send(methods.ConnectionCloseOk())
    assert client.wire.is_closed()


def test_the_server_does_not_wait_for_ever_for_close_ok(world: World) -> None:
    client = world.connect()
    client.connection.close_by_admin("bye")
    world.flush()
    world.advance(30_000)
    assert client.wire.is_closed()


def test_while_closing_only_close_is_answered(world: World) -> None:
    client = world.connect()
    client.connection.close_by_admin("bye")
    world.flush()
    client.expect_close()
    client.send(methods.ChannelOpen(), 1)
    assert client.take(1) == []
    client.send(methods.ConnectionClose(200, "bye"))
    client.expect(methods.ConnectionCloseOk)


def test_a_shutdown_is_told_to_everybody(world: World) -> None:
    client, other = world.connect(), world.dial()
    world.node.begin_shutdown("shutdown")
    world.flush()
    assert client.expect_close() == (
        320,
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
    )
    assert other.wire.is_closed()


def test_deleting_a_vhost_closes_its_connections(world: World) -> None:
    client = world.connect()
    world.node.delete_vhost("/")
    world.flush()
    assert client.expect_close()[0] == 320
    assert "/" not in world.node.vhosts


def test_a_new_secret_is_answered(world: World) -> None:
    client = world.connect()
    client.send(methods.ConnectionUpdateSecret(b"guest", "renewal"))
    client.expect(methods.ConnectionUpdateSecretOk)


def test_a_new_secret_does_not_save_whoever_lost_the_vhost(world: World) -> None:
    client = world.connect()
    world.node.access.clear_permission("guest", "/")
    client.send(methods.ConnectionUpdateSecret(b"guest", "renewal"))
    assert client.expect_close() == (530, "NOT_ALLOWED - New secret was refused by one of the backends")


def test_a_new_secret_cancels_consumers_that_may_no_longer_read(world: World) -> None:
    world.add_user("alice")
    client = world.connect("alice")
    channel = client.channel()
    channel.declare("a", x_single_active_consumer=True)
    tag = channel.consume("a")
    other = world.channel()
    other.consume("a", "next")
    world.node.access.set_permission("alice", "/", ".*", ".*", "^b$")
    client.send(methods.ConnectionUpdateSecret(b"alice", "renewal"))
    assert channel.expect(methods.BasicCancel).consumer_tag == tag
    channel.publish("m", "a")
    assert [seen.consumer for seen in other.deliveries()] == ["next"]


def test_the_name_says_who_is_connected_to_what(world: World) -> None:
    assert world.connect().connection.name == "127.0.0.1:40000 -> 127.0.0.1:5672"


def test_capabilities_of_the_wrong_shape_count_as_none(world: World) -> None:
    client = world.dial()
    client.feed(PROTOCOL_HEADER)
    client.expect(methods.ConnectionStart)
    odd: Table = table_of({"capabilities": "all of them"})
    client.send(methods.ConnectionStartOk(odd, "PLAIN", b"\0guest\0guest"))
    client.expect(methods.ConnectionTune)
    assert not client.connection.can("basic.nack")
    assert CAPABILITIES["basic.nack"]
