"""/api/cluster-name, /api/feature-flags and what else tools ask of a node in a cluster: here there is one."""

from __future__ import annotations

import resource
from typing import Final

from starlette.responses import JSONResponse, Response

from warren.broker.operate import administer
from warren.broker.operate.definitions import RABBITMQ_VERSION
from warren.management.calls import Call, Needs, done, route
from warren.management.overview import check_own_name
from warren.management.refusals import bad_request, not_found
from warren.management.spec import TEXT, gives, list_of, shape, takes, whole

# What later releases of RabbitMQ turned on one by one was never off here.
_FEATURES: Final = {
    "classic_mirrored_queue_version": "Mirroring of classic queues; means nothing on one node",
    "drop_unroutable_metric": "Count unroutable messages that are dropped",
    "empty_basic_get_metric": "Count basic.get on empty queues",
    "implicit_default_bindings": "Default bindings are implicit, instead of stored",
    "maintenance_mode_status": "Maintenance mode status",
    "quorum_queue": "Queues of type quorum",
    "stream_queue": "Queues of type stream",
    "user_limits": "Limits on connections and channels of a user",
    "virtual_host_metadata": "Description and tags of virtual hosts",
}


@gives({200: whole(name=TEXT)})
async def show_cluster_name(call: Call) -> Response:
    return JSONResponse({"name": call.node.settings.cluster_name})


@takes("name", name=TEXT)
@gives({204: None})
async def put_cluster_name(call: Call) -> Response:
    name = call.required(await call.body(), "name")["name"]
    if not isinstance(name, str) or not name:
        raise bad_request("name must be a text that is not empty")
    administer.set_global_parameter(call.node, "cluster_name", name)
    return done()


async def show_memory(call: Call) -> Response:
    """What the process uses. Python does not say for what, so all of it is `other_system`."""
    check_own_name(call)
    used = call.context.memory_used()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return JSONResponse(
        {"memory": {"strategy": "rss", "other_system": used, "total": {"rss": used, "allocated": peak, "erlang": 0}}}
    )


@gives({200: list_of(whole(name=TEXT, state=TEXT))})
async def list_features(call: Call) -> Response:
    """All that there is is enabled."""
    return JSONResponse(
        [
            {
                "name": name,
                "desc": text,
                "doc_url": "",
                "state": "enabled",
                "stability": "stable",
                "provided_by": "warren",
            }
            for name, text in _FEATURES.items()
        ]
    )


@gives({204: None})
async def enable_feature(call: Call) -> Response:
    """Nothing to do: every flag is on."""
    if call.path("name") not in _FEATURES:
        raise not_found()
    return done()


@gives({200: list_of(shape())})
async def list_nothing(call: Call) -> Response:
    """Extensions of the page and features on their way out: there are none."""
    return JSONResponse([])


@gives({204: None})
async def rebalance(call: Call) -> Response:
    """All queues are where they can be."""
    return done()


@gives({204: None})
async def reset_rates(call: Call) -> Response:
    """Forget what rates are measured against. Counters are never set back."""
    call.context.rates.forget()
    return done()


@gives({204: None})
async def start_vhost(call: Call) -> Response:
    """Virtual hosts do not fail one by one: one that is there runs."""
    call.vhost()
    check_own_name(call)
    return done()


@gives({200: whole(version=TEXT)})
async def show_version(call: Call) -> Response:
    return JSONResponse({"version": RABBITMQ_VERSION, "warren_version": call.node.version})


ROUTES: Final = [
    route("/api/cluster-name", GET=show_cluster_name),
    route("/api/cluster-name", Needs.ADMINISTRATOR, PUT=put_cluster_name),
    route("/api/nodes/{name}/memory", Needs.MONITORING, GET=show_memory),
    route("/api/extensions", GET=list_nothing),
    route("/api/feature-flags", Needs.ADMINISTRATOR, GET=list_features),
    route("/api/feature-flags/{name}/enable", Needs.ADMINISTRATOR, PUT=enable_feature),
    route("/api/deprecated-features", GET=list_nothing),
    route("/api/deprecated-features/used", GET=list_nothing),
    route("/api/rebalance/queues", Needs.ADMINISTRATOR, POST=rebalance),
    route("/api/reset", Needs.ADMINISTRATOR, DELETE=reset_rates),
    route("/api/vhosts/{vhost}/start/{name}", Needs.ADMINISTRATOR, POST=start_vhost),
    route("/api/version", GET=show_version),
]
