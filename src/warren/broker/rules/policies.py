"""Policies: settings that operators lay over queues and exchanges by name, after those were declared.

One policy and one operator policy apply to an object at a time. What their settings do is known to the queue and the
exchange; here is which apply, whether they are valid, and how the two are merged.
"""

from __future__ import annotations

from typing import Final

from warren.broker.rules.pattern import PATTERN_BYTES_MAX, Pattern
from warren.broker.rules.pattern_syntax import PatternError
from warren.broker.rules.queue_settings import SETTINGS, UNSUPPORTED, Setting, refusal_of
from warren.broker.terms import erlang_pairs, erlang_term
from warren.errors import WarrenError

# The two kinds. An operator's caps what the other says.
POLICY: Final = "policy"
OPERATOR_POLICY: Final = "operator_policy"

APPLY_TO: Final = frozenset(["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"])
_NO_KEYS: Final[dict[str, Setting]] = {}
_NOTHING: Final[frozenset[str]] = frozenset()
_QUEUE_KINDS: Final = {"classic": "classic_queues", "quorum": "quorum_queues", "stream": "streams"}


class ValidationFailed(WarrenError):
    """Worded as RabbitMQ's management answers it: all that is wrong, one line each."""

    def __init__(self, refusals: list[str]) -> None:
        super().__init__("Validation failed\n\n" + "".join([refusal + "\n" for refusal in refusals]))
        self.refusals = refusals


class Policy:
    def __init__(
        self,
        kind: str,
        vhost: str,
        name: str,
        pattern: str,
        apply_to: str,
        priority: int | float,
        definition: dict[str, object],
    ) -> None:
        self.kind = kind
        self.vhost = vhost
        self.name = name
        self.pattern = pattern
        self.apply_to = apply_to
        self.priority = priority
        self.definition = definition
        self._pattern = Pattern(pattern)

    def rule(self) -> dict[str, object]:
        return {
            "pattern": self.pattern,
            "apply-to": self.apply_to,
            "definition": dict(self.definition),
            "priority": self.priority,
        }

    def item(self) -> dict[str, object]:
        return {"vhost": self.vhost, "name": self.name, **self.rule()}

    def fits(self, kind: str, name: str, queue_type: str) -> bool:
        """kind: queue or exchange."""
        if not _applies_to(self.apply_to, kind, queue_type):
            return False
        if kind == "queue" and not UNSUPPORTED.get(queue_type, _NOTHING).isdisjoint(self.definition):
            return False
        return self._pattern.matches(name)


class PolicySet:
    """The policies of one vhost, those of users and those of operators. Who changes them lets the vhost apply them."""

    def __init__(self) -> None:
        self.policies: dict[str, Policy] = {}
        self.operator_policies: dict[str, Policy] = {}
        self._ranked: dict[str, list[Policy]] = {POLICY: [], OPERATOR_POLICY: []}

    def named(self, kind: str) -> dict[str, Policy]:
        return self.operator_policies if kind == OPERATOR_POLICY else self.policies

    def count(self) -> int:
        return len(self.policies) + len(self.operator_policies)

    def put(self, policy: Policy) -> None:
        self.named(policy.kind)[policy.name] = policy
        self._rank(policy.kind)

    def delete(self, name: str, kind: str = POLICY) -> bool:
        found = self.named(kind).pop(name, None) is not None
        self._rank(kind)
        return found

    def _rank(self, kind: str) -> None:
        # RabbitMQ leaves the order of equal priorities open; by name, the same file gives the same broker.
        by_name = sorted(self.named(kind).values(), key=_name_of)
        self._ranked[kind] = sorted(by_name, key=_priority_of, reverse=True)

    def match(self, kind: str, name: str, queue_type: str = "classic") -> tuple[Policy | None, Policy | None]:
        """The policy and the operator policy that apply."""
        return (
            _first(self._ranked[POLICY], kind, name, queue_type),
            _first(self._ranked[OPERATOR_POLICY], kind, name, queue_type),
        )


def effective(policy: Policy | None, operator_policy: Policy | None) -> dict[str, object]:
    """What holds: the operator's limits cap those of the policy."""
    merged: dict[str, object] = {} if policy is None else dict(policy.definition)
    if operator_policy is None:
        return merged
    for key, value in operator_policy.definition.items():
        merged[key] = SETTINGS[key].merge(merged[key], value) if key in merged else value
    return merged


def parse(kind: str, vhost: str, name: str, rule: dict[str, object], own: dict[str, Setting] | None) -> Policy:
    """From what `Policy.rule` writes: a Policy, or a ValidationFailed that says all that is wrong with it.

    `own` are the keys of extensions; without them every key that is unknown might be one (of a policy that was kept).
    """
    settings, refusals = _settings(rule.get("definition"), kind == OPERATOR_POLICY, own)
    apply_to, pattern, priority = rule.get("apply-to", "all"), rule.get("pattern"), rule.get("priority", 0)
    # In RabbitMQ's order: definition, apply-to, pattern, priority.
    target = apply_to if isinstance(apply_to, str) else ""
    if target not in APPLY_TO:
        shown = target if isinstance(apply_to, str) else erlang_term(apply_to)
        refusals.append(
            f"apply-to '{shown}' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', "
            "'streams', 'exchanges', or 'all'"
        )
    regex = pattern if isinstance(pattern, str) else ""
    refusals += _pattern_refusals(pattern)
    rank: int | float = 0
    if isinstance(priority, (int, float)) and not isinstance(priority, bool):
        rank = priority
    else:
        refusals.append(f"priority should be a number, actually was {erlang_term(priority)}")
    if refusals:
        raise ValidationFailed(refusals)
    return Policy(kind, vhost, name, regex, target, rank, settings)


def _settings(
    definition: object, is_operator: bool, own: dict[str, Setting] | None
) -> tuple[dict[str, object], list[str]]:
    if not isinstance(definition, dict):
        return {}, [f"definition must be a dictionary: {erlang_term(definition)}"]
    settings: dict[str, object] = {str(key): value for key, value in definition.items()}
    if not settings:
        return {}, ["no policy provided"]
    unknown: dict[str, object] = {}
    for key, value in settings.items():
        refusal = refusal_of(key, value, is_operator, own or _NO_KEYS)
        if refusal is None and own is None and not is_operator:
            continue
        if refusal is None:
            unknown[key] = value
        elif refusal:
            return settings, [refusal]
    if unknown:
        return settings, [f"{erlang_pairs(unknown)} are not recognised policy settings"]
    refusal = refusal_together(settings)
    return settings, [refusal] if refusal else []


def refusal_together(settings: dict[str, object]) -> str:
    """What is wrong with settings that are valid one by one; empty when nothing is."""
    federation = [key for key in settings if key.startswith("federation-upstream")]
    if len(federation) > 1:
        return "cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together"
    retry = settings.get("delayed-retry-type", "disabled")
    low = settings.get("delayed-retry-min")
    high = settings.get("delayed-retry-max")
    if retry != "disabled" and low is None:
        return f"delayed-retry-min is required when delayed-retry-type is {retry}"
    if isinstance(low, int) and isinstance(high, int) and high < low:
        return f"delayed-retry-max ({high}) must not be smaller than delayed-retry-min ({low})"
    return ""


def _pattern_refusals(pattern: object) -> list[str]:
    if not isinstance(pattern, str):
        return [f"pattern should be a binary but was {erlang_term(pattern)}"]
    if len(pattern.encode(errors="surrogateescape")) > PATTERN_BYTES_MAX:
        return [f"pattern must not exceed {PATTERN_BYTES_MAX} bytes"]
    try:
        Pattern(pattern)
    except PatternError as error:
        reason = f'{{"{error.reason}",{error.position}}}'
        return [f"pattern should be regular expression but is invalid: {reason}"]
    return []


def _applies_to(apply_to: str, kind: str, queue_type: str) -> bool:
    if apply_to == "all":
        return True
    if kind == "exchange":
        return apply_to == "exchanges"
    return apply_to == "queues" or apply_to == _QUEUE_KINDS.get(queue_type)


def _name_of(policy: Policy) -> str:
    return policy.name


def _priority_of(policy: Policy) -> float:
    return float(policy.priority)


def _first(ranked: list[Policy], kind: str, name: str, queue_type: str) -> Policy | None:
    for policy in ranked:
        if policy.fits(kind, name, queue_type):
            return policy
    return None
