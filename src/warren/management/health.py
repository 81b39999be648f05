"""/api/health/checks, /api/aliveness-test: 200 with status ok, or 503 with status failed and the reason."""

from __future__ import annotations

from typing import Final

from starlette.responses import JSONResponse, Response

from warren.management.calls import Call, route
from warren.management.overview import check_own_name
from warren.management.refusals import bad_request
from warren.management.spec import TEXT, gives, whole

_CHECK: Final = gives({200: whole(status=TEXT), 503: whole(status=TEXT, reason=TEXT)})
_UNITS: Final = {"days": 1, "weeks": 7, "months": 30, "years": 365}


def passed() -> Response:
    return JSONResponse({"status": "ok"})


def failed(reason: str, **more: object) -> Response:
    return JSONResponse({"status": "failed", "reason": reason, **more}, 503)


@_CHECK
async def check_alarms(call: Call) -> Response:
    alarms = sorted(call.node.alarms)
    if not alarms:
        return passed()
    node = call.node.settings.node_name
    shown = [{"node": node, "resource": name} for name in alarms]
    return failed("There are alarms in effect in the cluster", alarms=shown)


@_CHECK
async def check_port(call: Call) -> Response:
    text = call.path("port")
    if not text.isdecimal():
        raise bad_request(f"{text} is not a port")
    ports = [each.port for each in call.context.ports]
    if int(text) in ports:
        return JSONResponse({"status": "ok", "port": int(text)})
    return failed("No active listener", missing=int(text), ports=ports)


@_CHECK
async def check_protocol(call: Call) -> Response:
    wanted = call.path("protocol")
    protocols = [each.protocol for each in call.context.ports]
    if wanted in protocols or {"amqp091": "amqp", "amqps": "amqp/ssl"}.get(wanted) in protocols:
        return JSONResponse({"status": "ok", "protocol": wanted})
    return failed("No active listener", missing=wanted, protocols=protocols)


@_CHECK
async def check_vhosts(_: Call) -> Response:
    return passed()


@_CHECK
async def check_replicas(call: Call) -> Response:
    """Whether others have all that was ever answered, and could go on without this node."""
    nodes = call.context.cluster()
    if len(nodes) < 2:
        return JSONResponse({"status": "ok", "reason": "single node cluster"})
    if sum(bool(node["in_sync"]) for node in nodes) > 1:
        return passed()
    return failed("No other node is in sync with this one", nodes=[node["name"] for node in nodes])


@_CHECK
async def check_node(call: Call) -> Response:
    check_own_name(call)
    return passed()


@_CHECK
async def check_certificates(call: Call) -> Response:
    """Whether the server's certificate is good for that much longer."""
    number, unit = call.path("within"), call.path("unit").rstrip("s") + "s"
    if not number.isdecimal() or len(number) > 6 or unit not in _UNITS:
        raise bad_request("give a number and days, weeks, months or years")
    until = call.context.certificate_ends()
    if until is None or until > call.now // 1000 + int(number) * _UNITS[unit] * 86_400:
        return passed()
    return failed("Certificates expiring", expired=[{"node": call.node.settings.node_name, "expires_on": until}])


@_CHECK
async def test_aliveness(call: Call) -> Response:
    call.vhost()
    return passed()


ROUTES: Final = [
    route("/api/health/checks/alarms", GET=check_alarms),
    route("/api/health/checks/local-alarms", GET=check_alarms),
    route("/api/health/checks/port-listener/{port}", GET=check_port),
    route("/api/health/checks/protocol-listener/{protocol}", GET=check_protocol),
    route("/api/health/checks/virtual-hosts", GET=check_vhosts),
    route("/api/health/checks/certificate-expiration/{within}/{unit}", GET=check_certificates),
    route("/api/health/checks/node-is-mirror-sync-critical", GET=check_replicas),
    route("/api/health/checks/node-is-quorum-critical", GET=check_replicas),
    # Gone from RabbitMQ 4, but older tools ask.
    route("/api/healthchecks/node", GET=check_vhosts),
    route("/api/healthchecks/node/{name}", GET=check_node),
    route("/api/aliveness-test/{vhost}", GET=test_aliveness),
]
