"""/api/health/checks, /api/aliveness-test: 200 with status ok, or 503 with status failed and the reason."""

from __future__ import annotations

from typing import Final

from starlette.responses import JSONResponse, Response

from warren.management.calls import Call, route
from warren.management.refusals import bad_request, not_found


def passed() -> Response:
    return JSONResponse({"status": "ok"})


def failed(reason: str, **more: object) -> Response:
    return JSONResponse({"status": "failed", "reason": reason, **more}, 503)


async def check_alarms(call: Call) -> Response:
    alarms = sorted(call.node.alarms)
    if not alarms:
        return passed()
    node = call.node.settings.node_name
    shown = [{"node": node, "resource": name} for name in alarms]
    return failed("There are alarms in effect in the cluster", alarms=shown)


async def check_port(call: Call) -> Response:
    text = call.path("port")
    if not text.isdecimal():
        raise bad_request(f"{text} is not a port")
    ports = [each.port for each in call.context.ports]
    if int(text) in ports:
        return JSONResponse({"status": "ok", "port": int(text)})
    return failed("No active listener", missing=int(text), ports=ports)


async def check_protocol(call: Call) -> Response:
    wanted = call.path("protocol")
    protocols = [each.protocol for each in call.context.ports]
    if wanted in protocols or {"amqp091": "amqp", "amqps": "amqp/ssl"}.get(wanted) in protocols:
        return JSONResponse({"status": "ok", "protocol": wanted})
    return failed("No active listener", missing=wanted, protocols=protocols)


async def check_vhosts(_: Call) -> Response:
    return passed()


async def check_node(call: Call) -> Response:
    if call.path("name") != call.node.settings.node_name:
        raise not_found()
    return passed()


async def test_aliveness(call: Call) -> Response:
    call.vhost()
    return passed()


ROUTES: Final = [
    route("/api/health/checks/alarms", GET=check_alarms),
    route("/api/health/checks/local-alarms", GET=check_alarms),
    route("/api/health/checks/port-listener/{port}", GET=check_port),
    route("/api/health/checks/protocol-listener/{protocol}", GET=check_protocol),
    route("/api/health/checks/virtual-hosts", GET=check_vhosts),
    route("/api/health/checks/node-is-quorum-critical", GET=check_vhosts),
    # Gone from RabbitMQ 4, but older tools ask.
    route("/api/healthchecks/node", GET=check_vhosts),
    route("/api/healthchecks/node/{name}", GET=check_node),
    route("/api/aliveness-test/{vhost}", GET=test_aliveness),
]
