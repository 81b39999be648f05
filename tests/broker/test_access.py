"""Who may do what, in the words of RabbitMQ 4.3."""

from __future__ import annotations

import pytest

from warren.broker.rules.access import TAGS_MAX, Access, User, UserError, escape, is_loopback
from warren.broker.rules.pattern_syntax import PatternError
from warren.errors import AccessRefused

ACTIONS = ("configure", "write", "read")


@pytest.fixture
def access() -> Access:
    access = Access()
    access.put_user(User("ann"))
    access.set_permission("ann", "/", "^conf", "^write", "^read")
    return access


@pytest.mark.parametrize("kind", ["queue", "exchange"])
@pytest.mark.parametrize("name", ["conf", "write", "read", "other", "amq.topic", "xconf", ""])
@pytest.mark.parametrize("action", ACTIONS)
def test_each_action_has_its_own_pattern(access: Access, kind: str, name: str, action: str) -> None:
    beginning = {"configure": "conf", "write": "write", "read": "read"}[action]
    if name.startswith(beginning):
        access.check("ann", "/", kind, name, action)
        return
    with pytest.raises(AccessRefused):
        access.check("ann", "/", kind, name, action)


def test_a_refusal_says_what_to_whom() -> None:
    with pytest.raises(AccessRefused) as caught:
        Access().check("eve", "/", "queue", "q", "configure")
    assert (
        caught.value.reply_text == "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'eve'"
    )


def test_the_default_exchange_is_checked_and_shown_as_amq_default(access: Access) -> None:
    with pytest.raises(AccessRefused) as caught:
        access.check("ann", "/", "exchange", "", "write")
    assert caught.value.explanation == "write access to exchange 'amq.default' in vhost '/' refused for user 'ann'"
    access.set_permission("ann", "/", "", "^amq\\.default$", "")
    access.check("ann", "/", "exchange", "", "write")


def test_a_queue_without_a_name_is_not_the_default_exchange(access: Access) -> None:
    access.set_permission("ann", "/", "^amq\\.default$", "", "")
    with pytest.raises(AccessRefused, match="queue ''"):
        access.check("ann", "/", "queue", "", "configure")


def test_patterns_match_anywhere_unless_anchored(access: Access) -> None:
    access.set_permission("ann", "/", "mid", "", "")
    access.check("ann", "/", "queue", "a mid b", "configure")


def test_an_empty_pattern_allows_nothing_that_has_a_name(access: Access) -> None:
    access.set_permission("ann", "/", "", "", "")
    for action in ACTIONS:
        with pytest.raises(AccessRefused):
            access.check("ann", "/", "queue", "q", action)
    assert access.permissions[("ann", "/")].configure == ""


def test_permissions_hold_in_one_vhost_for_one_user(access: Access) -> None:
    access.put_user(User("bob"))
    assert access.may_access_vhost("ann", "/")
    assert not access.may_access_vhost("ann", "other")
    assert not access.may_access_vhost("bob", "/")
    assert not access.may_access_vhost("nobody", "/")
    with pytest.raises(AccessRefused, match="in vhost 'other' refused for user 'ann'"):
        access.check("ann", "other", "queue", "conf", "configure")


@pytest.mark.parametrize("right", ACTIONS)
def test_any_right_lets_one_know_that_something_exists(right: str) -> None:
    access = Access()
    access.put_user(User("ann"))
    patterns = ["^q$" if action == right else "" for action in ACTIONS]
    access.set_permission("ann", "/", patterns[0], patterns[1], patterns[2])
    access.check_any("ann", "/", "queue", "q")
    with pytest.raises(AccessRefused) as caught:
        access.check_any("ann", "/", "queue", "other")
    assert caught.value.explanation == "configure access to queue 'other' in vhost '/' refused for user 'ann'"


def test_an_unknown_action_is_refused(access: Access) -> None:
    with pytest.raises(AccessRefused):
        access.check("ann", "/", "queue", "conf", "destroy")


@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_invalid_pattern_is_refused_when_it_is_set(access: Access, position: int) -> None:
    patterns = [".*", ".*", ".*"]
    patterns[position] = "("
    with pytest.raises(PatternError, match=r"invalid regular expression '\(': missing \) at position 1"):
        access.set_permission("ann", "/", patterns[0], patterns[1], patterns[2])
    access.check("ann", "/", "queue", "conf", "configure")


def test_permissions_need_a_user(access: Access) -> None:
    with pytest.raises(UserError, match="no user 'eve'"):
        access.set_permission("eve", "/", "", "", "")
    with pytest.raises(UserError, match="no user 'eve'"):
        access.set_topic_permission("eve", "/", "amq.topic", "", "")


# -- topics ------------------------------------------------------------------------------------------------------------


def test_without_a_topic_permission_every_key_is_allowed(access: Access) -> None:
    access.check_topic("ann", "/", "amq.topic", "any.key", "write")
    access.set_topic_permission("ann", "/", "other", "", "")
    access.check_topic("ann", "/", "amq.topic", "any.key", "write")
    access.check_topic("ann", "elsewhere", "other", "any.key", "write")


def test_a_topic_permission_restricts_keys_by_action(access: Access) -> None:
    access.set_topic_permission("ann", "/", "amq.topic", "^w", "^r")
    access.check_topic("ann", "/", "amq.topic", "w.1", "write")
    access.check_topic("ann", "/", "amq.topic", "r.1", "read")
    with pytest.raises(AccessRefused) as caught:
        access.check_topic("ann", "/", "amq.topic", "r.1", "write")
    assert caught.value.explanation == (
        "write access to topic 'r.1' in exchange 'amq.topic' in vhost '/' refused for user 'ann'"
    )
    with pytest.raises(AccessRefused, match=r"read access to topic 'w\.1'"):
        access.check_topic("ann", "/", "amq.topic", "w.1", "read")


def test_topic_patterns_know_the_user_and_the_vhost(access: Access) -> None:
    access.set_topic_permission("ann", "/", "amq.topic", "^{vhost}\\.{username}\\.", "^{client_id}$")
    access.check_topic("ann", "/", "amq.topic", "/.ann.1", "write")
    access.check_topic("ann", "/", "amq.topic", "{client_id}", "read")
    with pytest.raises(AccessRefused):
        access.check_topic("ann", "/", "amq.topic", "/.bob.1", "write")


@pytest.mark.parametrize("name", [".*", "a|b", "x.y", "(", "[", "\\", "{vhost}", "a-z", "^$"])
def test_a_users_name_is_taken_literally(name: str) -> None:
    access = Access()
    access.put_user(User(name))
    access.set_topic_permission(name, "/", "amq.topic", "^{username}$", "^[{username}]+$")
    access.check_topic(name, "/", "amq.topic", name, "write")
    access.check_topic(name, "/", "amq.topic", name, "read")
    with pytest.raises(AccessRefused):
        access.check_topic(name, "/", "amq.topic", "victim", "write")
    with pytest.raises(AccessRefused):
        access.check_topic(name, "/", "amq.topic", "k", "read")


def test_a_long_name_may_be_put_in_more_than_once() -> None:
    access = Access()
    access.put_user(User("u" * 255))
    access.set_topic_permission("u" * 255, "/", "x", "^({username}|{username}\\.{username})$", "")
    access.check_topic("u" * 255, "/", "x", "u" * 255, "write")


def test_an_empty_topic_pattern_allows_only_the_empty_key(access: Access) -> None:
    access.set_topic_permission("ann", "/", "amq.topic", "", "")
    access.check_topic("ann", "/", "amq.topic", "", "write")
    with pytest.raises(AccessRefused):
        access.check_topic("ann", "/", "amq.topic", "k", "write")


def test_escape_leaves_nothing_special() -> None:
    assert escape("a.b*{c}-d") == "a\\.b\\*\\{c\\}\\-d"


# -- changes -----------------------------------------------------------------------------------------------------------


def test_every_change_moves_the_generation_and_forgets_answers(access: Access) -> None:
    seen = [int(access.generation)]

    def changed() -> bool:
        seen.append(int(access.generation))
        return seen[-1] > seen[-2]

    access.put_user(User("bob"))
    assert changed()
    access.set_permission("bob", "/", ".*", ".*", ".*")
    assert changed()
    access.check("bob", "/", "queue", "q", "read")
    assert not changed()
    access.set_permission("bob", "/", ".*", ".*", "^other$")
    assert changed()
    with pytest.raises(AccessRefused):
        access.check("bob", "/", "queue", "q", "read")
    access.set_topic_permission("bob", "/", "amq.topic", "^a", "")
    assert changed()
    with pytest.raises(AccessRefused):
        access.check_topic("bob", "/", "amq.topic", "b", "write")
    assert access.clear_topic_permission("bob", "/", "amq.topic")
    assert changed()
    access.check_topic("bob", "/", "amq.topic", "b", "write")
    assert access.clear_permission("bob", "/")
    assert changed()
    assert not access.may_access_vhost("bob", "/")
    assert access.delete_user("bob")
    assert changed()


def test_clearing_what_is_not_there_says_so(access: Access) -> None:
    assert not access.clear_permission("ann", "nowhere")
    assert not access.clear_topic_permission("ann", "/", "x")
    assert not access.delete_user("eve")


def test_a_deleted_user_leaves_no_rights_behind(access: Access) -> None:
    access.set_topic_permission("ann", "/", "amq.topic", "", "")
    assert access.delete_user("ann")
    assert access.users.get("ann") is None
    access.put_user(User("ann"))
    assert not access.may_access_vhost("ann", "/")
    assert access.topic_permissions == {}


def test_a_deleted_vhost_leaves_no_rights_behind(access: Access) -> None:
    access.set_permission("ann", "gone", ".*", ".*", ".*")
    access.set_topic_permission("ann", "gone", "amq.topic", "", "")
    access.forget_vhost("gone")
    assert not access.may_access_vhost("ann", "gone")
    assert access.may_access_vhost("ann", "/")
    assert access.topic_permissions == {}


def test_what_is_remembered_is_bounded(access: Access) -> None:
    access.set_topic_permission("ann", "/", "amq.topic", "^k", "")
    for number in range(20_000):
        access.check("ann", "/", "queue", f"conf{number}", "configure")
        access.check_topic("ann", "/", "amq.topic", f"k{number}", "write")
    with pytest.raises(AccessRefused):
        access.check("ann", "/", "queue", "x", "configure")


def test_users_are_checked_when_they_are_put(access: Access) -> None:
    with pytest.raises(UserError, match="user name is empty"):
        access.put_user(User(""))
    with pytest.raises(UserError, match="user name is longer than 255 bytes"):
        access.put_user(User("u" * 256))
    with pytest.raises(UserError, match="more than 32 tags"):
        access.put_user(User("tagged", tags=[f"t{number}" for number in range(TAGS_MAX + 1)]))


# -- tags, limits, peers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "administers", "monitors", "makes_policies", "manages"),
    [
        ("administrator", True, True, True, True),
        ("monitoring", False, True, False, True),
        ("policymaker", False, False, True, True),
        ("management", False, False, False, True),
        ("impersonator", False, False, False, False),
        ("other", False, False, False, False),
    ],
)
def test_a_tag_includes_lesser_ones(
    tag: str, administers: bool, monitors: bool, makes_policies: bool, manages: bool
) -> None:
    user = User("ann", tags=[tag])
    assert user.is_administrator() is administers
    assert user.is_monitoring() is monitors
    assert user.is_policymaker() is makes_policies
    assert user.is_management() is manages
    assert user.may_impersonate() is (tag == "impersonator")


@pytest.mark.parametrize(
    ("peer", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0:0:0:0:0:0:0:1", True),
        ("::1%lo", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:7f00:1", True),
        ("::ffff:10.0.0.1", False),
        ("::127.0.0.1", False),
        ("128.0.0.1", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
        ("127.0.0.1.example.org", False),
        ("", False),
    ],
)
def test_loopback_is_decided_by_the_address(peer: str, is_local: bool) -> None:
    assert is_loopback(peer) is is_local


def test_no_more_answers_are_remembered_than_there_is_room_for(access: Access) -> None:
    access.set_topic_permission("ann", "/", "amq.topic", "^k", "")
    most = 0
    for number in range(20_000):
        access.check_topic("ann", "/", "amq.topic", f"k{number}", "write")
        most = max(most, len(access._topics))
    assert most == 8192
