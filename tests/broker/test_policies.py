"""Which policy applies, what it may say, and how an operator's is merged with it."""

from __future__ import annotations

import pytest

from tests.broker.harness import put_policy
from warren.broker.rules.policies import OPERATOR_POLICY, PolicySet, ValidationFailed, effective
from warren.broker.rules.setting_kinds import NUMBER_MAX, age_in_ms


@pytest.fixture
def policies() -> PolicySet:
    return PolicySet()


def name_of(policies: PolicySet, kind: str, name: str, queue_type: str = "classic") -> str | None:
    policy, _ = policies.match(kind, name, queue_type)
    return None if policy is None else policy.name


def refusal(policies: PolicySet, definition: object, **rest: object) -> str:
    with pytest.raises(ValidationFailed) as caught:
        put_policy(
            policies, "p", rest.get("pattern", ".*"), definition, rest.get("priority", 0), rest.get("apply_to", "all")
        )
    assert policies.policies == {}
    return str(caught.value)


# -- which applies -----------------------------------------------------------------------------------------------------


def test_the_pattern_matches_anywhere_in_the_name(policies: PolicySet) -> None:
    put_policy(policies, "p", "mid", {"max-length": 1})
    assert name_of(policies, "queue", "a mid b") == "p"
    assert name_of(policies, "queue", "other") is None


def test_the_highest_priority_wins(policies: PolicySet) -> None:
    put_policy(policies, "low", ".*", {"max-length": 1}, priority=1)
    put_policy(policies, "high", ".*", {"max-length": 2}, priority=10)
    put_policy(policies, "default", ".*", {"max-length": 3})
    put_policy(policies, "between", ".*", {"max-length": 3}, priority=9.5)
    assert name_of(policies, "queue", "q") == "high"
    assert policies.delete("high")
    assert name_of(policies, "queue", "q") == "between"


def test_equal_priorities_are_decided_by_name_however_they_came(policies: PolicySet) -> None:
    for name in ("b", "c", "a"):
        put_policy(policies, name, ".*", {"max-length": 1}, priority=5)
    assert name_of(policies, "queue", "q") == "a"


@pytest.mark.parametrize(
    ("apply_to", "matched"),
    [
        ("all", {"exchange", "classic", "quorum", "stream"}),
        ("queues", {"classic", "quorum", "stream"}),
        ("classic_queues", {"classic"}),
        ("quorum_queues", {"quorum"}),
        ("streams", {"stream"}),
        ("exchanges", {"exchange"}),
    ],
)
def test_apply_to_chooses_the_kind(policies: PolicySet, apply_to: str, matched: set[str]) -> None:
    put_policy(policies, "p", ".*", {"max-length-bytes": 1}, apply_to=apply_to)
    found = {type_ for type_ in ("classic", "quorum", "stream") if name_of(policies, "queue", "q", type_)}
    if name_of(policies, "exchange", "x"):
        found.add("exchange")
    assert found == matched


@pytest.mark.parametrize(
    ("key", "value", "types"),
    [
        ("max-length", 1, {"classic", "quorum"}),
        ("max-length-bytes", 1, {"classic", "quorum", "stream"}),
        ("message-ttl", 1, {"classic", "quorum"}),
        ("expires", 1, {"classic", "quorum"}),
        ("dead-letter-exchange", "x", {"classic", "quorum"}),
        ("dead-letter-strategy", "at-least-once", {"quorum"}),
        ("delivery-limit", 3, {"quorum"}),
        ("max-age", "7D", {"stream"}),
        ("stream-max-segment-size-bytes", 1, {"stream"}),
        ("queue-mode", "lazy", {"classic"}),
        ("ha-mode", "all", {"classic"}),
        ("overflow", "drop-head", {"classic", "quorum"}),
        ("alternate-exchange", "x", {"classic", "quorum", "stream"}),
    ],
)
def test_a_policy_passes_over_queues_that_do_not_know_its_settings(
    policies: PolicySet, key: str, value: object, types: set[str]
) -> None:
    put_policy(policies, "general", ".*", {"max-length-bytes": 5})
    put_policy(policies, "special", ".*", {"max-length-bytes": 9, key: value}, priority=1)
    found = {type_ for type_ in ("classic", "quorum", "stream") if name_of(policies, "queue", "q", type_) == "special"}
    assert found == types
    # The next one in line applies instead.
    for type_ in {"classic", "quorum", "stream"} - types:
        assert name_of(policies, "queue", "q", type_) == "general"
    assert name_of(policies, "exchange", "x") == "special"


def test_a_policy_set_again_replaces_the_first(policies: PolicySet) -> None:
    put_policy(policies, "p", "^a", {"max-length": 1})
    put_policy(policies, "p", "^b", {"max-length": 1})
    assert name_of(policies, "queue", "a") is None
    assert name_of(policies, "queue", "b") == "p"


def test_deleting_says_whether_there_was_one(policies: PolicySet) -> None:
    put_policy(policies, "p", ".*", {"max-length": 1})
    put_policy(policies, "o", ".*", {"max-length": 1}, kind=OPERATOR_POLICY)
    assert not policies.delete("o")
    assert policies.delete("p")
    assert not policies.delete("p")
    assert policies.delete("o", OPERATOR_POLICY)
    assert policies.match("queue", "q") == (None, None)


# -- merging -----------------------------------------------------------------------------------------------------------


def merged(policies: PolicySet, definition: dict[str, object], operators: dict[str, object]) -> dict[str, object]:
    put_policy(policies, "p", ".*", definition)
    put_policy(policies, "o", ".*", operators, kind=OPERATOR_POLICY)
    return effective(*policies.match("queue", "q", "quorum"))


@pytest.mark.parametrize(
    "key", ["message-ttl", "expires", "max-length", "max-length-bytes", "max-in-memory-length", "max-in-memory-bytes"]
)
def test_the_stricter_limit_holds(policies: PolicySet, key: str) -> None:
    assert merged(policies, {key: 10}, {key: 5}) == {key: 5}
    assert merged(policies, {key: 3}, {key: 5}) == {key: 3}


def test_what_only_one_says_holds(policies: PolicySet) -> None:
    assert merged(policies, {"max-length": 1}, {"message-ttl": 2}) == {"max-length": 1, "message-ttl": 2}


@pytest.mark.parametrize(("own", "operators", "holds"), [(5, 3, 3), (3, 5, 3), (-1, 5, 5), (5, -1, 5), (-1, -2, -1)])
def test_a_negative_delivery_limit_is_none(policies: PolicySet, own: int, operators: int, holds: int) -> None:
    assert merged(policies, {"delivery-limit": own}, {"delivery-limit": operators}) == {"delivery-limit": holds}


@pytest.mark.parametrize(
    ("key", "own", "operators", "holds"),
    [
        ("overflow", "drop-head", "reject-publish", "reject-publish"),
        ("delayed-retry-min", 10, 20, 20),
        ("target-group-size", 3, 5, 5),
        ("queue-version", 1, 2, 2),
    ],
)
def test_other_settings_have_their_own_rule(
    policies: PolicySet, key: str, own: object, operators: object, holds: object
) -> None:
    assert merged(policies, {key: own}, {key: operators}) == {key: holds}


def test_merging_leaves_the_policies_as_they_are(policies: PolicySet) -> None:
    merged(policies, {"max-length": 10}, {"max-length": 5})
    assert policies.policies["p"].definition == {"max-length": 10}
    assert effective(None, None) == {}
    assert effective(policies.policies["p"], None) == {"max-length": 10}
    assert effective(None, policies.operator_policies["o"]) == {"max-length": 5}


# -- what may be said: texts read off RabbitMQ 3.10.8 and its later source ---------------------------------------------


@pytest.mark.parametrize(
    ("definition", "line"),
    [
        ({}, "no policy provided"),
        ([], "definition must be a dictionary: []"),
        ("x", 'definition must be a dictionary: <<"x">>'),
        (None, "definition must be a dictionary: null"),
        ({"nonsense": 1}, '[{<<"nonsense">>,1}] are not recognised policy settings'),
        (
            {"nonsense": "x", "other": [1, {"a": 2}]},
            '[{<<"nonsense">>,<<"x">>},{<<"other">>,[1,#{<<"a">> => 2}]}] are not recognised policy settings',
        ),
        ({"max-length": 1, "nonsense": 1}, '[{<<"nonsense">>,1}] are not recognised policy settings'),
        ({"nonsense": 1, "message-ttl": -5}, "-5 is not a valid message TTL"),
        ({"max-length": -1}, "-1 is not a valid maximum length"),
        ({"max-length": "x"}, '<<"x">> is not a valid maximum length'),
        ({"max-length": 1.5}, "1.5 is not a valid maximum length"),
        ({"max-length": True}, "true is not a valid maximum length"),
        ({"max-length": None}, "null is not a valid maximum length"),
        ({"max-length": "\x07"}, "<<7>> is not a valid maximum length"),
        ({"max-length": 'a "b" \\ \n'}, '<<"a \\"b\\" \\\\ \\n">> is not a valid maximum length'),
        ({"max-length": NUMBER_MAX + 1}, f"{NUMBER_MAX + 1} is not a valid maximum length"),
        ({"max-length-bytes": -1}, "-1 is not a valid maximum length in bytes"),
        ({"max-in-memory-length": -1}, "-1 is not a valid maximum memory in bytes"),
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"overflow": "bad"}, '<<"bad">> is not a valid overflow value'),
        ({"overflow": 3}, "3 is not a valid overflow value"),
        ({"max-age": "7X"}, '<<"7X">> is not a valid max age'),
        ({"max-age": 7}, "7 is not a valid max age"),
        ({"alternate-exchange": 5}, "5 is not a valid alternate exchange name"),
        ({"dead-letter-exchange": 5}, "5 is not a valid dead letter exchange name"),
        ({"dead-letter-routing-key": ["a"]}, '[<<"a">>] is not a valid dead letter routing key'),
        ({"dead-letter-strategy": "x"}, '<<"x">> is not a valid dead letter strategy'),
        ({"queue-mode": "x"}, '<<"x">> is not a valid queue-mode value'),
        ({"queue-version": 3}, "3 is not a valid queue-version value"),
        ({"delivery-limit": "x"}, '<<"x">> is not a valid delivery limit'),
        ({"queue-leader-locator": "x"}, '<<"x">> is not a valid queue leader locator value'),
        ({"initial-cluster-size": -1}, "-1 is not a valid cluster size"),
        ({"stream-max-segment-size-bytes": -1}, "-1 is not a valid segment size"),
        ({"stream-filter-size-bytes": 8}, "8 is not a valid filter size. Valid range is 16-255"),
        ({"ha-mode": "bad"}, '<<"bad">> is not a valid ha-mode value'),
        ({"federation-upstream-set": 5}, "5 is not a valid federation upstream set name"),
        ({"delayed-retry-type": "all"}, "delayed-retry-min is required when delayed-retry-type is all"),
        (
            {"delayed-retry-min": 5, "delayed-retry-max": 4},
            "delayed-retry-max (4) must not be smaller than delayed-retry-min (5)",
        ),
        (
            {"federation-upstream": "a", "federation-upstream-set": "b"},
            "cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together",
        ),
    ],
)
def test_a_definition_is_refused_in_rabbitmqs_words(policies: PolicySet, definition: object, line: str) -> None:
    assert refusal(policies, definition) == f"Validation failed\n\n{line}\n"


def test_all_that_is_wrong_is_said_at_once(policies: PolicySet) -> None:
    text = refusal(policies, {"max-length": -1}, pattern="(", priority="x", apply_to="nothing")
    assert text == (
        "Validation failed\n\n"
        "-1 is not a valid maximum length\n"
        "apply-to 'nothing' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', "
        "'exchanges', or 'all'\n"
        'pattern should be regular expression but is invalid: {"missing )",1}\n'
        'priority should be a number, actually was <<"x">>\n'
    )


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (5, "pattern should be a binary but was 5"),
        (None, "pattern should be a binary but was null"),
        ("a" * 1025, "pattern must not exceed 1024 bytes"),
        ("[", 'pattern should be regular expression but is invalid: {"missing terminating ] for character class",1}'),
    ],
)
def test_a_pattern_is_refused_in_rabbitmqs_words(policies: PolicySet, pattern: object, line: str) -> None:
    assert refusal(policies, {"max-length": 1}, pattern=pattern) == f"Validation failed\n\n{line}\n"


@pytest.mark.parametrize("apply_to", [7, "nothing", ""])
def test_an_unknown_apply_to_is_refused(policies: PolicySet, apply_to: object) -> None:
    assert f"apply-to '{apply_to}' unrecognised" in refusal(policies, {"max-length": 1}, apply_to=apply_to)


@pytest.mark.parametrize("priority", [True, None, "1"])
def test_a_priority_is_a_number(policies: PolicySet, priority: object) -> None:
    assert "priority should be a number" in refusal(policies, {"max-length": 1}, priority=priority)


@pytest.mark.parametrize("key", ["alternate-exchange", "dead-letter-exchange", "max-age", "queue-mode", "ha-mode"])
def test_operators_may_set_limits_only(policies: PolicySet, key: str) -> None:
    with pytest.raises(ValidationFailed, match="are not recognised policy settings"):
        put_policy(policies, "o", ".*", {key: "all"}, kind=OPERATOR_POLICY)
    put_policy(
        policies, "o", ".*", {"max-length": 5, "overflow": "reject-publish", "delivery-limit": -1}, kind=OPERATOR_POLICY
    )


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("1Y", 31_536_000_000), ("2M", 5_184_000_000), ("7D", 604_800_000), ("12h", 43_200_000), ("3m", 180_000)],
)
def test_ages_are_read_with_their_unit(text: str, milliseconds: int) -> None:
    assert age_in_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "s", "0s", "-1s", "1", "1.5h", "1 s", "9" * 40 + "s", "\u0661s"])
def test_what_is_no_age_is_zero(text: str) -> None:
    assert age_in_ms(text) == 0
