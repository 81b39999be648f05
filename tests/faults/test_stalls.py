"""The stall hunter on little: nothing is left out of it, and what it does works. Its figures need its own sizes."""

from __future__ import annotations

from tests.faults.stalls import CONSTANT, PROBES, hunt
from warren.amqp import methods
from warren.broker.queue.errands import UNITS, Budget, Errand
from warren.management.app import RESOURCES

# What brokers send, and clients only if they are none.
_OF_THE_BROKER = (
    "-ok", "basic.deliver", "basic.return", "basic.get-empty", "connection.blocked", "connection.unblocked",
    "connection.secure", "connection.start", "connection.tune",
)  # fmt: skip


def served() -> set[str]:
    return {
        f"{method}:{route.path}"
        for resource in RESOURCES
        for route in resource.ROUTES
        for method in route.methods or ()
        if method != "HEAD"
    }


def understood() -> set[str]:
    classes = [each for each in vars(methods).values() if isinstance(each, type) and issubclass(each, methods.Method)]
    names = {each.name for each in classes if each is not methods.Method}
    answers = {"connection.start-ok", "connection.tune-ok", "connection.secure-ok"}
    return {name for name in names if name in answers or not name.endswith(_OF_THE_BROKER)}


def test_every_method_and_every_route_is_hunted_or_said_to_be_constant() -> None:
    hunted = {name.split("?")[0].split(": ")[0].replace(" /", ":/") for name in PROBES} - {"time"}
    constant = [name for names in CONSTANT.values() for name in names.split()]
    assert len(constant) == len(set(constant))
    assert hunted & set(constant) == set()
    known = hunted | set(constant)
    assert known - served() - understood() == set()
    assert (served() | understood()) - known == set()


def test_everything_that_is_hunted_answers_and_counts_what_it_costs() -> None:
    """In units, which are the same on every machine."""
    report = hunt(200, 400, 3000, 100)
    assert set(report.turns) == set(PROBES)
    # A turn takes its units and what the last piece was more than was left; a piece is far less than a turn.
    assert {name: units for name, units in report.units.items() if units > UNITS * 3 // 2} == {}


class Hog(Errand):
    """An errand that knows no budget."""

    def step(self, budget: Budget) -> bool:
        budget.spend(UNITS * 50)
        sum(range(5_000_000))
        return True


def test_a_turn_that_takes_long_is_found() -> None:
    """The negative control: who holds the loop is told by name."""
    PROBES["hog"] = lambda hunter: hunter.broker.call(lambda node: node.errands.add(Hog()))
    try:
        report = hunt(10, 10, 100, 0, "hog")
    finally:
        del PROBES["hog"]
    assert report.worst == "hog"
    assert report.worst_ms > 20
