"""Changes that operators make: they take effect on those who are connected, and they are recorded."""

from __future__ import annotations

import pytest

from tests.broker.still_world import Client, KeepingRecorder, new_node
from warren.amqp.methods import BasicCancel, BasicConsume, ConnectionClose
from warren.broker.node import Node
from warren.broker.operate import administer
from warren.broker.rules.access import User, UserError
from warren.broker.rules.pattern_syntax import PatternError
from warren.broker.rules.policies import OPERATOR_POLICY, ValidationFailed


@pytest.fixture
def recorder() -> KeepingRecorder:
    return KeepingRecorder()


@pytest.fixture
def node(recorder: KeepingRecorder) -> Node:
    node = new_node(recorder)
    node.add_vhost("/")
    administer.put_user(node, User("ann", "hash", "argon2id", ["management"]))
    administer.set_permission(node, "ann", "/", ".*", ".*", ".*")
    return node


def consuming(node: Node) -> Client:
    node.vhosts["/"].add_queue("q", True, False, {})
    client = Client(node, "ann")
    client.send(BasicConsume(queue="q", consumer_tag="tag"))
    client.heard()
    assert node.vhosts["/"].queues["q"].consumers.count == 1
    return client


def test_users_and_permissions_are_recorded(node: Node, recorder: KeepingRecorder) -> None:
    administer.set_topic_permission(node, "ann", "/", "amq.topic", "^w", "^r")
    assert recorder.rows[("user", ("ann",))] == {
        "name": "ann",
        "password_hash": "hash",
        "hashing_algorithm": "argon2id",
        "tags": ["management"],
        "limits": {},
    }
    assert recorder.rows[("permission", ("ann", "/"))]["read"] == ".*"
    assert recorder.rows[("topic_permission", ("ann", "/", "amq.topic"))]["write"] == "^w"
    assert administer.clear_permission(node, "ann", "/")
    assert not administer.clear_permission(node, "ann", "/")
    administer.clear_topic_permissions(node, "ann", "/")
    assert [kind for kind, _ in recorder.rows] == ["vhost", "user"]


def test_a_refused_change_is_not_recorded(node: Node, recorder: KeepingRecorder) -> None:
    before = dict(recorder.rows)
    with pytest.raises(PatternError):
        administer.set_permission(node, "ann", "/", "(", "", "")
    with pytest.raises(administer.NoSuchVHost, match="no vhost 'nowhere'"):
        administer.set_permission(node, "ann", "nowhere", "", "", "")
    with pytest.raises(UserError, match="no user 'eve'"):
        administer.set_permission(node, "eve", "/", "", "", "")
    with pytest.raises(UserError, match="no user 'eve'"):
        administer.set_user_limits(node, "eve", {})
    with pytest.raises(ValidationFailed):
        administer.set_policy(node, "/", "p", ".*", {}, 0, "all")
    assert recorder.rows == before


def test_deleting_a_user_closes_its_connections(node: Node, recorder: KeepingRecorder) -> None:
    administer.put_user(node, User("bob"))
    administer.set_permission(node, "bob", "/", ".*", ".*", ".*")
    ann, bob = Client(node, "ann"), Client(node, "bob")
    assert administer.delete_user(node, "ann")
    (close,) = ann.heard()
    assert isinstance(close, ConnectionClose)
    assert close.reply_text == "CONNECTION_FORCED - user 'ann' is deleted"
    assert bob.heard() == []
    assert ("user", ("ann",)) not in recorder.rows
    assert ("permission", ("ann", "/")) not in recorder.rows
    assert not administer.delete_user(node, "ann")


@pytest.mark.parametrize("revoke", ["narrow", "clear"])
def test_a_consumer_does_not_outlive_the_right_to_read(node: Node, revoke: str) -> None:
    client = consuming(node)
    if revoke == "narrow":
        administer.set_permission(node, "ann", "/", ".*", ".*", "^other$")
    else:
        administer.clear_permission(node, "ann", "/")
    (cancel,) = client.heard()
    assert isinstance(cancel, BasicCancel)
    assert cancel.consumer_tag == "tag"
    assert node.vhosts["/"].queues["q"].consumers.count == 0


def test_a_consumer_that_may_still_read_is_left_alone(node: Node) -> None:
    client = consuming(node)
    administer.set_permission(node, "ann", "/", "", "", "^q$")
    assert client.heard() == []
    assert node.vhosts["/"].queues["q"].consumers.count == 1


def test_policies_apply_to_what_is_there_and_are_recorded(node: Node, recorder: KeepingRecorder) -> None:
    queue = node.vhosts["/"].add_queue("q", True, False, {})
    administer.set_policy(node, "/", "p", "^q", {"max-length": 10}, 1, "queues")
    administer.set_policy(node, "/", "o", "^q", {"max-length": 5}, 0, "all", OPERATOR_POLICY)
    assert (queue.policy, queue.operator_policy, queue.options.max_length) == ("p", "o", 5)
    assert recorder.rows[("policy", ("/", "p"))] == {
        "vhost": "/",
        "name": "p",
        "pattern": "^q",
        "apply-to": "queues",
        "definition": {"max-length": 10},
        "priority": 1,
    }
    assert administer.delete_policy(node, "/", "o", OPERATOR_POLICY)
    assert queue.options.max_length == 10
    assert administer.delete_policy(node, "/", "p")
    assert not administer.delete_policy(node, "/", "p")
    assert (queue.policy, queue.options.max_length) == (None, -1)
    assert [kind for kind, _ in recorder.rows if "policy" in kind] == []


def test_limits_are_parameters_as_in_rabbitmq(node: Node, recorder: KeepingRecorder) -> None:
    administer.set_parameter(node, "/", "vhost-limits", "limits", {"max-queues": 1})
    assert node.vhosts["/"].limits == {"max-queues": 1}
    assert recorder.rows[("vhost_limit", ("/",))] == {"vhost": "/", "value": {"max-queues": 1}}
    assert administer.clear_parameter(node, "/", "vhost-limits", "limits")
    assert node.vhosts["/"].limits == {}
    assert ("vhost_limit", ("/",)) not in recorder.rows
    administer.set_user_limits(node, "ann", {"max-channels": 3})
    assert recorder.rows[("user", ("ann",))]["limits"] == {"max-channels": 3}


@pytest.mark.parametrize(
    ("limits", "lines"),
    [
        ({"nonsense": 5}, ['Unrecognised terms [{<<"nonsense">>,5}] in limits']),
        ({"max-queues": "x"}, ['max-queues should be a number, actually was <<"x">>']),
        ({"max-queues": True}, ["max-queues should be a number, actually was true"]),
        ([1], ["not a dictionary: [1]"]),
    ],
)
def test_limits_are_refused_in_rabbitmqs_words(node: Node, limits: object, lines: list[str]) -> None:
    with pytest.raises(ValidationFailed) as caught:
        administer.set_vhost_limits(node, "/", limits)
    assert caught.value.refusals == lines


def test_operator_policies_may_come_as_parameters_and_policies_may_not(node: Node) -> None:
    value = {"pattern": ".*", "definition": {"max-length": 1}}
    administer.set_parameter(node, "/", "operator_policy", "o", value)
    assert node.vhosts["/"].policies.operator_policies["o"].apply_to == "all"
    assert administer.clear_parameter(node, "/", "operator_policy", "o")
    with pytest.raises(ValidationFailed, match="policies may not be set using this method"):
        administer.set_parameter(node, "/", "policy", "p", value)


def test_other_parameters_are_kept(node: Node, recorder: KeepingRecorder) -> None:
    administer.set_parameter(node, "/", "shovel", "s", {"src-uri": "amqp://"})
    administer.set_global_parameter(node, "cluster_tags", {"region": "north"})
    assert node.vhosts["/"].parameters[("shovel", "s")] == {"src-uri": "amqp://"}
    assert recorder.rows[("parameter", ("/", "shovel", "s"))]["value"] == {"src-uri": "amqp://"}
    assert recorder.rows[("global_parameter", ("cluster_tags",))]["value"] == {"region": "north"}
    assert administer.clear_parameter(node, "/", "shovel", "s")
    assert not administer.clear_parameter(node, "/", "shovel", "s")
    assert administer.clear_global_parameter(node, "cluster_tags")
    assert not administer.clear_global_parameter(node, "cluster_tags")
    assert [kind for kind, _ in recorder.rows if "parameter" in kind] == []


def test_a_vhost_takes_everything_along(node: Node, recorder: KeepingRecorder) -> None:
    administer.update_vhost(node, "v", "of no use", ["t"], "quorum")
    assert recorder.rows[("vhost", ("v",))]["default_queue_type"] == "quorum"
    before = dict(recorder.rows)
    administer.set_permission(node, "ann", "v", ".*", ".*", ".*")
    administer.set_topic_permission(node, "ann", "v", "amq.topic", "", "")
    administer.set_policy(node, "v", "p", ".*", {"max-length": 1}, 0, "all")
    administer.set_policy(node, "v", "o", ".*", {"max-length": 1}, 0, "all", OPERATOR_POLICY)
    administer.set_parameter(node, "v", "shovel", "s", 1)
    administer.set_vhost_limits(node, "v", {"max-queues": 5})
    vhost = node.vhosts["v"]
    vhost.add_queue("q", True, False, {})
    vhost.add_exchange("e", "direct", True, False, False, {})
    vhost.add_binding("e", "queue", "q", "k", {})
    assert administer.delete_vhost(node, "v")
    assert not administer.delete_vhost(node, "v")
    del before[("vhost", ("v",))]
    assert recorder.rows == before
