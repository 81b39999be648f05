"""The parts of the path one by one, without Spark: definitions, components, verdicts, consumers, memory."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.path.building import binding, definitions, exchange, queue, send
from tests.spark.path.equality import difference, live_outcome, path_outcome
from tests.spark.path.traffic import START
from warren.amqp.fields import Field
from warren.amqp.properties import Properties, encode_properties
from warren.amqp.tables import encode_table
from warren.broker.operate.definitions import DefinitionsError
from warren.errors import WarrenError
from warren.spark.path import simulation as simulation_module
from warren.spark.path.accounts import Publish
from warren.spark.path.components import Components, components_of
from warren.spark.path.consumers import read_crew
from warren.spark.path.events import ENTERED_FIELDS
from warren.spark.path.matcher import Matcher, Question, Verdict
from warren.spark.path.routing import Router
from warren.spark.path.simulation import Simulation
from warren.spark.path.spill import SpillingStore
from warren.spark.path.topology import Topology, read_topology

DLX = {"x_dead_letter_exchange": ""}


def topology_of(*items: Any) -> Topology:
    return read_topology(definitions(*items))


# -- definitions -------------------------------------------------------------------------------------------------------


def test_a_file_without_users_meets_the_defaults_of_a_first_start() -> None:
    node = read_topology({"queues": []}).sample
    assert node.vhosts["/"].description == "Default virtual host"
    assert node.access.users["guest"].tags == ["administrator"]


def test_definitions_are_a_path_a_text_or_a_dict(tmp_path: Path) -> None:
    made = definitions(queue("q"))
    file = tmp_path / "defs.json"
    file.write_text(json.dumps(made))
    for given in (made, json.dumps(made), str(file), file):
        assert read_topology(given).queues == [("/", "q")]


def test_the_export_of_one_vhost_and_a_file_without_users_will_do() -> None:
    topology = read_topology({"queues": [{"name": "q", "arguments": {}}]})
    assert topology.queues == [("/", "q")]
    assert verdict(topology, Question("/", "guest", "", "q")).queues


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"queues": [{"name": "q", "vhost": "x"}]}, r"definitions: queues\[0\].vhost: no vhost 'x'"),
        ({"bindings": 3}, "definitions: bindings: must be a list"),
        ("{", "definitions: not JSON: "),
        ([], "definitions: must be an object, a JSON text or a path, not list"),
        (
            {"vhosts": [{"name": "/"}], "queues": [{"name": "q", "vhost": "/", "arguments": {"x-max-length": -1}}]},
            r"definitions: queues\[0\].arguments: .*x-max-length.*value_negative",
        ),
    ],
)  # fmt: skip
def test_wrong_definitions_are_refused_with_their_place(given: Any, said: str) -> None:
    with pytest.raises(DefinitionsError, match=said):
        read_topology(given)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(WarrenError, match=r"cannot read nowhere\.json: No such file"):
        read_topology("nowhere.json")


def test_a_topology_travels_as_text() -> None:
    topology = topology_of(queue("q"))
    assert topology.queues
    assert len(pickle.dumps(topology)) < len(topology.text) + 200
    assert pickle.loads(pickle.dumps(topology)) == topology


# -- components --------------------------------------------------------------------------------------------------------


def parts(*items: Any, consumed: frozenset[tuple[str, str]] = frozenset()) -> tuple[Components, list[list[str]]]:
    topology = topology_of(*items)
    components = components_of(topology.sample, consumed)
    grouped: dict[int, list[str]] = {}
    for number, (_, name) in enumerate(topology.queues):
        grouped.setdefault(components.of_queue[number], []).append(name)
    return components, list(grouped.values())


def test_queues_without_dead_letters_are_on_their_own() -> None:
    components, found = parts(queue("a"), queue("b", x_max_length=1), queue("c", x_queue_type="stream"))
    assert found == [["a"], ["b"], ["c"]]
    assert components.is_plain == [True, False, True]


def test_a_fixed_dead_letter_key_connects_only_where_it_leads() -> None:
    _, found = parts(
        exchange("d", "topic"), queue("a", x_dead_letter_exchange="d", x_dead_letter_routing_key="x.y"),
        queue("b"), queue("c"), binding("d", "b", "x.*"), binding("d", "c", "z"),
    )  # fmt: skip
    assert found == [["a", "b"], ["c"]]


def test_without_a_key_all_that_is_bound_counts_and_exchanges_are_followed() -> None:
    _, found = parts(
        exchange("d", "topic"), exchange("e", "fanout"), exchange("f", "fanout", alternate_exchange="d"),
        queue("a", x_dead_letter_exchange="f"), queue("b"), queue("c"), queue("other"),
        binding("d", "b", "x"), binding("d", "e", "y", to="exchange"), binding("e", "c"),
    )  # fmt: skip
    assert found == [["a", "b", "c"], ["other"]]


def test_the_default_exchange_without_a_key_leads_everywhere() -> None:
    assert parts(queue("a", **DLX), queue("b"))[1] == [["a", "b"]]
    assert parts(queue("a", **DLX, x_dead_letter_routing_key="b"), queue("b"), queue("c"))[1] == [["a", "b"], ["c"]]


def test_what_waits_in_a_delayed_exchange_is_played_with_where_it_goes() -> None:
    delayed = ("exchanges", {"name": "later", "vhost": "/", "type": "x-delayed-message",
                             "arguments": {"x-delayed-type": "fanout"}})  # fmt: skip
    assert parts(delayed, queue("a"), queue("b"), binding("later", "a"))[1] == [["a", "later (scheduled)"], ["b"]]


def test_a_queue_that_somebody_consumes_from_is_played() -> None:
    assert parts(queue("a"), consumed=frozenset([("/", "a")]))[0].is_plain == [False]


# -- verdicts ----------------------------------------------------------------------------------------------------------


def verdict(topology: Topology, question: Question) -> Any:
    return Matcher(topology, components_of(topology.sample)).resolve(question)


def test_a_verdict_says_by_which_exchange_a_queue_was_reached() -> None:
    topology = topology_of(
        exchange("a", "direct", alternate_exchange="c"), exchange("b", "fanout"), exchange("c", "fanout"),
        queue("q"), queue("r"), queue("rest"), binding("a", "q", "k"), binding("a", "b", "k", to="exchange"),
        binding("b", "r"), binding("c", "rest"),
    )  # fmt: skip

    def ways(key: str) -> list[tuple[str, str]]:
        met = verdict(topology, Question("/", "guest", "a", key)).queues
        return [(topology.queues[number][1], topology.exchanges[via][1]) for number, via in met]

    assert ways("k") == [("q", "a"), ("r", "b")]
    assert ways("x") == [("rest", "c")]


def rows(*given: dict[str, Any]) -> pa.StructArray:
    usual = {"problem": None, "vhost": "/", "user": "guest", "exchange": "", "routing_key": "q", "mandatory": False}
    kinds = [("problem", pa.string()), ("vhost", pa.string()), ("user", pa.string()), ("exchange", pa.string()),
             ("routing_key", pa.string()), ("mandatory", pa.bool_()), ("headers_raw", pa.binary())]  # fmt: skip
    return pa.array([{**usual, "headers_raw": None, **row} for row in given], pa.struct(kinds))


def test_equal_rows_are_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Question] = []
    resolve = Matcher.resolve

    def noted(self: Matcher, question: Question) -> Verdict:
        asked.append(question)
        return resolve(self, question)

    monkeypatch.setattr(Matcher, "resolve", noted)
    router = Router(topology_of(queue("q"), queue("r")))
    batch = rows({}, {"routing_key": "r"}, {}, {"mandatory": True}, {})
    numbers = [[met["queue"] for met in row["queues"]] for row in router.route(batch).to_pylist()]
    assert numbers == [[0], [1], [0], [0], [0]]
    assert router.route(batch).to_pylist() == router.route(batch).to_pylist()
    assert len(asked) == 3


def test_many_frames_are_told_apart() -> None:
    router = Router(topology_of(queue("q")))
    batch = rows(*[{"user": f"user{number}"} for number in range(100)], {})
    codes = [row["code"] for row in router.route(batch).to_pylist()]
    assert codes == [403] * 100 + [0]


def test_headers_that_are_no_table_are_refused_as_on_the_wire() -> None:
    router = Router(topology_of(queue("q")))
    table = encode_table({"a": Field("S", "1")})
    found = router.route(rows({"headers_raw": table}, {"headers_raw": table[4:]}, {"headers_raw": b"\x01a?"}))
    assert [(row["code"], row["scope"]) for row in found.to_pylist()] == [(0, None), (0, None), (502, "connection")]


def test_strangers_do_not_lock_out_others() -> None:
    topology = topology_of(queue("q"))
    matcher = Matcher(topology, components_of(topology.sample))
    for number in range(50):
        assert matcher.resolve(Question("/", f"stranger{number}", "", "q")).code == 403
    assert matcher.resolve(Question("/", "guest", "", "q")).code == 0


def test_an_empty_batch_is_no_problem() -> None:
    assert len(Router(topology_of(queue("q"))).route(rows())) == 0


# -- consumers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "consumers: not JSON"),
        ({"consumers": 1}, "consumers: must be a list"),
        ([1], r"consumers: consumers\[0\]: must be an object"),
        ([{"queue": "q", "speed": 1}], r"consumers: consumers\[0\].speed: no such setting"),
        ([{}], r"consumers\[0\].queue: must be a string"),
        ([{"queue": "q", "rate": 0}], r"consumers\[0\].rate: must be a number above 0"),
        ([{"queue": "q", "ack": 2}], r"consumers\[0\].ack: must be a number from 0 to 1"),
        ([{"queue": "q", "prefetch": -1}], r"consumers\[0\].prefetch: must be a whole number from 0 to 65535"),
        ([{"queue": "q", "ack": 0, "requeue": True}], r"consumers\[0\].ack: must be above 0 where"),
        ("missing.json", r"cannot read missing\.json"),
    ],
)  # fmt: skip
def test_a_wrong_file_of_consumers_is_refused_with_its_place(given: Any, said: str) -> None:
    with pytest.raises(WarrenError, match=said):
        read_crew(given)


def test_a_slow_consumer_lets_messages_expire_behind_it() -> None:
    made = definitions(queue("q", x_message_ttl=25, **DLX, x_dead_letter_routing_key="late"), queue("late"))
    crew = read_crew([{"queue": "q", "rate": 100, "prefetch": 1}])
    publishes = [send(number, "", "q") for number in range(1, 7)]
    outcome = path_outcome(made, publishes, START + 1000, crew)
    # 10 ms each: the third is taken at 20 ms, at 25 ms the rest is over.
    assert outcome.dead_lettered == {("/", "q"): [f"p:{number} expired" for number in (4, 5, 6)]}
    assert difference(live_outcome(made, publishes, START + 1000, crew), outcome) == ""


def test_the_seed_decides_who_is_rejected() -> None:
    made = definitions(queue("q", **DLX, x_dead_letter_routing_key="bad"), queue("bad"))
    publishes = [send(number, "", "q") for number in range(200)]

    def rejected(seed: int) -> list[str]:
        crew = read_crew({"seed": seed, "consumers": [{"queue": "q", "ack": 0.8}]})
        return path_outcome(made, publishes, START + 10_000, crew).dead_lettered[("/", "q")]

    assert rejected(1) == rejected(1) != rejected(2)
    assert 20 <= len(rejected(1)) <= 60


def test_a_publish_to_more_queues_than_a_turn_has_room_for_is_a_publish_to_each() -> None:
    names = [f"q{number}" for number in range(1_500)]
    made = definitions(
        exchange("wide", "fanout"), queue("late"),
        *(queue(name, x_max_length=9, x_overflow="reject-publish", **DLX, x_dead_letter_routing_key="late")
          for name in names),
        *(binding("wide", name) for name in names),
    )  # fmt: skip
    topology = read_topology(made)
    simulation = Simulation(topology, components_of(topology.sample, frozenset()))
    via = dict.fromkeys(range(len(topology.queues)), topology.exchanges.index(("/", "wide")))
    # Persistent: there a queue costs most.
    properties = encode_properties(Properties(delivery_mode=2))
    simulation.publish(
        Publish(simulation.component_of(simulation.queues[0]), 0, "/", "p", 1, "guest", "wide", "k", False, properties,
                1, START, True, via)
    )  # fmt: skip
    causes = {
        (row[ENTERED_FIELDS.index("reason")], row[ENTERED_FIELDS.index("via")]) for row in simulation.events.entered
    }
    assert len(simulation.events.entered) == len(names)
    assert causes == {("published", "wide")}
    assert [event.outcome for event in simulation.events.others] == ["ack"]


# -- memory ------------------------------------------------------------------------------------------------------------


def test_long_queues_go_to_a_file_and_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    stores: list[SpillingStore] = []

    class Noted(SpillingStore):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            stores.append(self)

    monkeypatch.setattr(simulation_module, "SpillingStore", Noted)
    made = definitions(queue("q", x_max_length=300), queue("r", x_max_priority=2))
    publishes = [send(number, "", "qr"[number % 2], priority=number % 3) for number in range(1_000)]
    outcome = path_outcome(made, publishes, START, partitions=1, in_memory=40)
    assert difference(live_outcome(made, publishes, START), outcome) == ""
    (store,) = stores
    assert store.spilled > 500
