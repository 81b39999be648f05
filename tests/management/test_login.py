"""Who gets into the API, and how far."""

from __future__ import annotations

import json
import logging
import re
import socket
import ssl
import urllib.request
from pathlib import Path

import pika
import pytest
import trustme

from tests.management.asking import Asking
from warren import Broker
from warren.errors import WarrenError
from warren.management import calls, service


def refused(reason: str) -> dict[str, str]:
    return {"error": "not_authorised", "reason": reason}


def test_without_a_login_a_browser_is_asked_for_one(broker: Broker) -> None:
    answer = Asking(broker, None).get("/api/whoami")
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


@pytest.mark.parametrize("login", ["guest:wrong", "nobody:guest", "guest:", ":"])
def test_a_wrong_login_is_refused(broker: Broker, login: str) -> None:
    answer = Asking(broker, login).get("/api/whoami")
    assert (answer.status, answer.json["reason"]) == (401, "Login failed")


@pytest.mark.parametrize("header", ["Basic", "Basic !", "Basic /w==", "Bearer x", ""])
def test_a_login_that_is_none_is_refused(broker: Broker, header: str) -> None:
    assert Asking(broker, None).get("/api/whoami", Authorization=header).status == 401


def test_whoami_tells_the_name_and_the_tags(api: Asking) -> None:
    assert api.get("/api/whoami").json == {"name": "guest", "tags": ["administrator"]}


@pytest.mark.parametrize(
    ("tag", "path", "reason"),
    [
        ("", "/api/overview", "Not management user"),
        ("impersonator", "/api/overview", "Not management user"),
        ("management", "/api/users", "Not administrator user"),
        ("monitoring", "/api/users", "Not administrator user"),
        ("management", "/api/nodes", "Not monitor user"),
        ("policymaker", "/api/nodes", "Not monitor user"),
    ],
)
def test_a_tag_that_is_too_small_is_refused(broker: Broker, tag: str, path: str, reason: str) -> None:
    broker.add_user("small", "secret", [tag] if tag else [])
    answer = Asking(broker, "small:secret").get(path)
    assert (answer.status, answer.json) == (401, refused(reason))


def test_a_virtual_host_is_seen_by_those_who_may_use_it(broker: Broker) -> None:
    broker.add_vhost("closed")
    broker.add_user("guest two", "secret", ["management"])
    broker.set_permission("guest two", "/")
    asking = Asking(broker, "guest two:secret")
    assert [vhost["name"] for vhost in asking.get("/api/vhosts").json] == ["/"]
    answer = asking.get("/api/queues/closed")
    assert (answer.status, answer.json) == (401, refused("User not authorised to access virtual host"))


def test_a_monitoring_user_sees_all_virtual_hosts_and_changes_nothing(broker: Broker) -> None:
    broker.add_user("watcher", "secret", ["monitoring"])
    asking = Asking(broker, "watcher:secret")
    assert "/" in [vhost["name"] for vhost in asking.get("/api/vhosts").json]
    body = {"pattern": "", "definition": {"max-length": 1}}
    assert asking.put("/api/policies/%2F/p", body).json == refused("User not authorised to access object")
    assert asking.delete("/api/vhosts/%2F").json == refused("Not administrator user")


def test_a_new_password_counts_at_once(broker: Broker) -> None:
    broker.add_user("changing", "old", ["management"])
    assert Asking(broker, "changing:old").get("/api/whoami").status == 200
    broker.add_user("changing", "new", ["management"])
    assert Asking(broker, "changing:old").get("/api/whoami").status == 401
    assert Asking(broker, "changing:new").get("/api/whoami").status == 200


def test_every_answer_carries_the_headers_that_protect_a_browser(broker: Broker, api: Asking) -> None:
    for answer in (api.get("/"), api.get("/api/overview"), Asking(broker, None).get("/api/overview")):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


def logged_in(broker: Broker, login: str = "guest:guest") -> tuple[Asking, str, str]:
    """A client without a password, the session's cookie, and its token."""
    name, _, password = login.partition(":")
    asking = Asking(broker, None)
    answer = asking.post("/api/login", {"username": name, "password": password})
    assert answer.status == 200, answer.text
    return asking, answer.headers["set-cookie"].partition(";")[0], answer.json["csrf_token"]


def test_a_session_begins_with_a_cookie_that_scripts_and_other_sites_never_see(broker: Broker) -> None:
    answer = Asking(broker, None).post("/api/login", {"username": "guest", "password": "guest"})
    cookie = answer.headers["set-cookie"].lower()
    assert answer.json["name"] == "guest"
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie


def test_a_session_reads_without_a_password(broker: Broker) -> None:
    asking, cookie, token = logged_in(broker)
    assert asking.get("/api/whoami", Cookie=cookie).json["name"] == "guest"
    assert asking.get("/api/login", Cookie=cookie).json["csrf_token"] == token


def test_a_session_changes_nothing_without_its_token(broker: Broker) -> None:
    asking, cookie, token = logged_in(broker)
    refused = asking.ask("PUT", "/api/queues/%2F/forged", {}, Cookie=cookie)
    assert (refused.status, refused.json["error"]) == (403, "csrf")
    wrong = asking.ask("PUT", "/api/queues/%2F/forged", {}, Cookie=cookie, X_CSRF_Token="x")
    assert wrong.status == 403
    assert asking.ask("PUT", "/api/queues/%2F/wanted", {}, Cookie=cookie, X_CSRF_Token=token).status == 201
    asking.ask("DELETE", "/api/queues/%2F/wanted", None, Cookie=cookie, X_CSRF_Token=token)


def test_a_session_ends_with_a_logout(broker: Broker) -> None:
    asking, cookie, _ = logged_in(broker)
    assert asking.ask("POST", "/api/logout", None, Cookie=cookie).status == 204
    assert asking.get("/api/whoami", Cookie=cookie).status == 401


def test_a_session_ends_when_it_is_not_used(broker: Broker) -> None:
    asking, cookie, _ = logged_in(broker)
    broker.advance(3_599)
    assert asking.get("/api/whoami", Cookie=cookie).status == 200
    broker.advance(3_601)
    assert asking.get("/api/whoami", Cookie=cookie).status == 401


def test_a_session_ends_with_the_password_it_began_with(broker: Broker) -> None:
    broker.add_user("changing", "first", ["management"])
    asking, cookie, _ = logged_in(broker, "changing:first")
    assert asking.get("/api/whoami", Cookie=cookie).status == 200
    broker.add_user("changing", "second", ["management"])
    assert asking.get("/api/whoami", Cookie=cookie).status == 401


@pytest.mark.parametrize("body", [{}, {"username": "guest"}, [], {"username": 1, "password": 2}, b"x", b"\xff"])
def test_a_login_without_name_and_password_is_refused(broker: Broker, body: object) -> None:
    assert Asking(broker, None).post("/api/login", body).status == 400


def test_a_form_logs_in_too(broker: Broker) -> None:
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert Asking(broker, None).ask("POST", "/api/login", b"username=guest&password=guest", **form).status == 200


def test_another_sites_page_cannot_log_its_visitors_in(broker: Broker) -> None:
    form = {"Content_Type": "application/x-www-form-urlencoded", "Sec_Fetch_Site": "cross-site"}
    answer = Asking(broker, None).ask("POST", "/api/login", b"username=guest&password=guest", **form)
    assert (answer.status, answer.json["error"]) == (403, "csrf")


def test_a_user_without_a_tag_gets_no_session(broker: Broker) -> None:
    broker.add_user("plain", "secret")
    answer = Asking(broker, None).post("/api/login", {"username": "plain", "password": "secret"})
    assert (answer.status, answer.json["reason"]) == (401, "Not management user")


def test_too_many_wrong_passwords_have_to_wait_whatever_the_protocol() -> None:
    with Broker(http=True, login_failures_max=3) as broker:
        for _ in range(2):
            assert Asking(broker, "guest:wrong").get("/api/whoami").status == 401
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            pika.BlockingConnection(pika.URLParameters(broker.url_of("guest", "wrong")))
        answer = Asking(broker).get("/api/whoami")
        assert answer.status == 429
        assert re.fullmatch(r"too many failed logins from 127\.0\.0\.1: wait \d\d s", answer.json["reason"])
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            pika.BlockingConnection(pika.URLParameters(broker.url))
        broker.advance(60)
        assert Asking(broker).get("/api/whoami").status == 200
        pika.BlockingConnection(pika.URLParameters(broker.url)).close()


def test_logins_are_counted_by_protocol(broker: Broker, api: Asking) -> None:
    api.delete("/api/auth/attempts/warren%40localhost")
    pika.BlockingConnection(pika.URLParameters(broker.url)).close()
    rows = {row["protocol"]: row for row in api.get("/api/auth/attempts/warren%40localhost").json}
    assert rows["amqp091"]["auth_attempts_succeeded"] == 1
    assert rows["http"]["auth_attempts_failed"] == 0


def test_the_management_port_speaks_https_when_asked(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    with Broker(http=True, tls_cert=str(tmp_path / "server.pem"), tls_port=0, http_tls=True) as broker:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        request = urllib.request.Request(
            f"{broker.http_url}/api/login",
            json.dumps({"username": "guest", "password": "guest"}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, context=context) as answer:
            assert "secure" in answer.headers["set-cookie"].lower()


def test_https_needs_a_certificate() -> None:
    with pytest.raises(WarrenError, match="http_tls needs tls_cert"):
        Broker(http=True, http_tls=True)


def test_a_body_that_trickles_in_is_cut_off(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BODY_SECONDS", 0.1)
    host, port = broker.http_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        head = "PUT /api/queues/%2F/slow HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
        client.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert b"408" in client.recv(1000).split(b"\r\n")[0]


def test_a_head_that_trickles_in_is_cut_off(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HEAD_SECONDS", 0.2)
    host, port = broker.http_url.removeprefix("http://").split(":")
    whole = b"GET /api/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
    for begun in (b"", b"GET /api/overview HTTP/1.1\r\nHost: x\r\nX-Slow: "):
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(begun)
            assert client.recv(1000) == b""
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(whole)
        assert b"200" in client.recv(1000)
        client.sendall(b"GET /api")
        assert client.recv(1000) == b""


def test_no_password_is_logged_or_told(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    secret = "s3cr3t-w0rd"
    caplog.set_level(logging.DEBUG)
    api = Asking(broker)
    said = [api.put("/api/users/quiet", {"password": secret, "tags": "management"})]
    said.append(Asking(broker, f"quiet:{secret}").get("/api/whoami"))
    said.append(Asking(broker, f"quiet:{secret}x").get("/api/whoami"))
    said.append(Asking(broker, None).post("/api/login", {"username": "quiet", "password": secret}))
    said.append(Asking(broker, None).post("/api/login", {"username": "quiet", "password": [secret]}))
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.URLParameters(broker.url_of("quiet", f"{secret}y")))
    said += [api.get("/api/users"), api.get("/api/definitions"), api.get("/api/connections")]
    assert secret not in "".join(answer.text for answer in said)
    # The client of this test has a log of its own.
    assert secret not in "".join(record.getMessage() for record in caplog.records if record.name.startswith("warren"))
