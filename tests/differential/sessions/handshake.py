"""From the first byte to connection.open-ok: versions, mechanisms, credentials, tuning, vhosts, order."""

from __future__ import annotations

from functools import partial

from tests.differential import wire
from tests.differential.client import Connection
from tests.differential.session import Fields, Session, add, session


@session
def all_goes_well_with_plain(s: Session) -> None:
    c = s.socket()
    c.send(wire.PROTOCOL_HEADER)
    c.reply(0, "connection.start")
    c.start_ok()
    c.reply(0, "connection.tune")
    c.tune_ok()
    c.call(0, "connection.open", virtual_host="/")
    c.call(1, "channel.open")
    c.call(1, "channel.close", reply_code=200, reply_text="bye")
    c.call(0, "connection.close", reply_code=200, reply_text="bye")


@session
def all_goes_well_with_amqplain(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(mechanism="AMQPLAIN", response=_amqplain("guest", "guest"))
    c.reply(0, "connection.tune")


@session
def amqplain_with_a_wrong_password(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(mechanism="AMQPLAIN", response=_amqplain("guest", "wrong"))
    c.wait_closed()


@session
def amqplain_without_a_password(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(mechanism="AMQPLAIN", response=wire.encode_table({"LOGIN": "guest"})[4:])
    c.wait_closed()


def _amqplain(user: str, password: str) -> bytes:
    return wire.encode_table({"LOGIN": user, "PASSWORD": password})[4:]


# ---- protocol headers ----


def _header(data: bytes, s: Session) -> None:
    c = s.socket()
    c.send(data)
    c.wait_closed()


for _title, _data in {
    "of AMQP 0-8": b"AMQP\x01\x01\x08\x00",
    "of AMQP 0-10": b"AMQP\x01\x01\x00\x0a",
    "of AMQP 1.0": b"AMQP\x00\x01\x00\x00",
    "of AMQP 1.0 SASL": b"AMQP\x03\x01\x00\x00",
    "of 0 0 8 0": b"AMQP\x00\x00\x08\x00",
    "of 0 0 9 0": b"AMQP\x00\x00\x09\x00",
    "of 0 0 9 2": b"AMQP\x00\x00\x09\x02",
    "of 0 0 10 0": b"AMQP\x00\x00\x0a\x00",
    "of a web browser": b"GET / HTTP/1.1\r\n\r\n",
    "of garbage": b"garbage!",
    "of eight zeroes": bytes(8),
    "in lower case": b"amqp\x00\x00\x09\x01",
}.items():
    add(f"handshake: protocol header {_title}", partial(_header, _data))


@session
def protocol_header_of_amqp_0_9(s: Session) -> None:
    c = s.socket()
    c.send(b"AMQP\x01\x01\x00\x09")
    c.reply(0, "connection.start")
    c.start_ok()
    c.reply(0, "connection.tune")


@session
def protocol_header_in_two_pieces(s: Session) -> None:
    c = s.socket()
    c.send(wire.PROTOCOL_HEADER[:5])
    c.send(wire.PROTOCOL_HEADER[5:])
    c.reply(0, "connection.start")


@session
def a_client_that_says_nothing_is_dropped(s: Session) -> None:
    s.socket().wait_closed(30)


# ---- credentials ----

NO_CAPABILITIES: Fields = {"product": "differential"}


@session
def wrong_password_is_told_to_who_can_take_it(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(password="wrong")
    c.wait_closed()


@session
def wrong_password_is_answered_with_silence_otherwise(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(password="wrong", client_properties=NO_CAPABILITIES)
    c.wait_closed()


@session
def unknown_user(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(user=s.name("nobody"))
    c.wait_closed()


@session
def empty_password(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(password="")
    c.wait_closed()


def _plain_response(response: bytes, s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(response=response)
    c.wait_closed()


for _title, _data in {
    "that is empty": b"",
    "without a separator": b"guest",
    "with one separator": b"\0guest",
    "with an authorisation identity": b"guest\0guest\0guest",
    "with a third part": b"\0guest\0guest\0more",
}.items():
    add(f"handshake: plain response {_title}", partial(_plain_response, _data))


def _mechanism(mechanism: str, s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(mechanism=mechanism)
    c.wait_closed()


for _name in ("", "plain", "EXTERNAL", "CRAM-MD5", "ANONYMOUS", "GSSAPI"):
    add(f"handshake: mechanism {_name!r}", partial(_mechanism, _name))


@session
def locale_does_not_matter(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(locale="xx_YY")
    c.reply(0, "connection.tune")


# ---- tuning ----


def _tune(tune: dict[str, int], s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok()
    c.reply(0, "connection.tune")
    c.tune_ok(**tune)
    c.call(0, "connection.open", virtual_host="/")


for _tuning in (
    {"frame_max": 0},
    {"frame_max": 1},
    {"frame_max": 4095},
    {"frame_max": 4096},
    {"frame_max": 8191},
    {"frame_max": 8192},
    {"frame_max": 131073},
    {"channel_max": 0},
    {"channel_max": 1},
    {"channel_max": 2048},
    {"channel_max": 65535},
    {"heartbeat": 600},
    {"heartbeat": 65535},
):
    _name, _value = next(iter(_tuning.items()))
    add(f"handshake: tune-ok with {_name} {_value}", partial(_tune, _tuning))


# ---- vhosts ----


def _ready_to_open(s: Session, user: str = "") -> Connection:
    c = s.socket()
    c.start()
    c.start_ok(user or "guest", "secret" if user else "guest")
    c.reply(0, "connection.tune")
    c.tune_ok()
    return c


@session
def vhost_that_does_not_exist(s: Session) -> None:
    _ready_to_open(s).call(0, "connection.open", virtual_host=s.name("nowhere"))


@session
def vhost_without_a_name(s: Session) -> None:
    _ready_to_open(s).call(0, "connection.open", virtual_host="")


@session
def vhost_that_the_user_may_not_enter(s: Session) -> None:
    user = s.user(vhost="")
    _ready_to_open(s, user).call(0, "connection.open", virtual_host="/")


@session
def vhost_of_its_own(s: Session) -> None:
    vhost = s.vhost()
    user = s.user(vhost=vhost)
    ch = s.channel(user, vhost)
    ch.declare(s.name("q"))
    ch.declare(s.name("absent"), passive=True)


@session
def vhost_at_its_connection_limit(s: Session) -> None:
    vhost = s.vhost()
    s.admin.set_vhost_limit(vhost, "max-connections", 0)
    _ready_to_open(s).call(0, "connection.open", virtual_host=vhost)


@session
def user_at_the_connection_limit(s: Session) -> None:
    user = s.user()
    s.admin.set_user_limit(user, "max-connections", 0)
    _ready_to_open(s, user).call(0, "connection.open", virtual_host="/")


# ---- order ----


@session
def start_ok_twice(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok()
    c.reply(0, "connection.tune")
    c.start_ok()
    c.wait_closed()


@session
def tune_ok_before_start_ok(s: Session) -> None:
    c = s.socket()
    c.start()
    c.tune_ok()
    c.wait_closed()


@session
def open_before_tune_ok(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok()
    c.reply(0, "connection.tune")
    c.call(0, "connection.open", virtual_host="/")
    c.wait_closed()


@session
def tune_ok_twice(s: Session) -> None:
    c = _ready_to_open(s)
    c.tune_ok()
    c.wait_closed()


@session
def channel_open_before_open(s: Session) -> None:
    c = _ready_to_open(s)
    c.call(1, "channel.open")
    c.wait_closed()


@session
def open_twice(s: Session) -> None:
    s.connect().call(0, "connection.open", virtual_host="/")


@session
def start_ok_when_open(s: Session) -> None:
    c = s.connect()
    c.start_ok()
    c.wait_closed()


@session
def secure_ok_unasked(s: Session) -> None:
    c = s.socket()
    c.start()
    c.method(0, "connection.secure-ok", response="guest")
    c.wait_closed()


@session
def close_before_start_ok(s: Session) -> None:
    c = s.socket()
    c.start()
    c.call(0, "connection.close", reply_code=200, reply_text="changed my mind")
    c.wait_closed()


@session
def close_before_open(s: Session) -> None:
    c = _ready_to_open(s)
    c.call(0, "connection.close", reply_code=200, reply_text="changed my mind")
    c.wait_closed()


@session
def content_header_during_the_handshake(s: Session) -> None:
    c = s.socket()
    c.start()
    c.frame(wire.HEADER, 0, wire.header(0))
    c.wait_closed()


@session
def heartbeat_during_the_handshake(s: Session) -> None:
    c = s.socket()
    c.start()
    c.frame(wire.HEARTBEAT, 0, b"")
    c.start_ok()
    c.reply(0, "connection.tune")


@session
def frame_too_large_for_the_handshake(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(client_properties={"product": "x" * 20000})
    c.wait_closed()


@session
def start_ok_of_six_thousand_bytes(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(client_properties={"product": "x" * 6000})
    c.reply(0, "connection.tune")


@session
def client_properties_that_are_no_table(s: Session) -> None:
    c = s.socket()
    c.start()
    c.start_ok(client_properties=wire.Raw(b"\x00\x00\x00\x09garbage!!"))
    c.wait_closed()


def _from_client(name: str, s: Session) -> None:
    c = s.connect()
    c.method(0, name)
    c.wait_closed()


for _name in (
    "connection.start",
    "connection.secure",
    "connection.tune",
    "connection.open-ok",
    "connection.blocked",
    "connection.unblocked",
    "connection.update-secret-ok",
):
    add(f"handshake: client sends {_name}", partial(_from_client, _name))


@session
def client_sends_close_ok_unasked(s: Session) -> None:
    c = s.connect()
    c.method(0, "connection.close-ok")
    c.wait_closed()
