"""A walk over a file's records comes to every one that is whole, and says what it passed over and why it stopped."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from warren.store.format import FILE_HEADER_SIZE, LANE_DELETED, SYNCED, file_header, write_record
from warren.store.walk import RecordWalk, Stop

SEGMENT = 7
PAYLOADS = [b"one", b"two two", b"", b"WR and a body that looks like a record", b"five"]


def written() -> tuple[bytes, list[tuple[int, int]]]:
    """A segment, and from where to where each of its records stands."""
    out = BytesWriter()
    out.write(file_header(SEGMENT, 0))
    places: list[tuple[int, int]] = []
    for payload in PAYLOADS:
        start = len(out)
        write_record(out, LANE_DELETED, payload, SEGMENT, start)
        places.append((start, len(out)))
    return out.getvalue(), places


def places_in(walk: RecordWalk) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while walk.next():
        found.append((int(walk.at), int(walk.end)))
    return found


def test_every_record_is_reached_in_order() -> None:
    data, places = written()
    walk = RecordWalk(data, FILE_HEADER_SIZE, SEGMENT)
    payloads: list[bytes] = []
    while walk.next():
        assert walk.kind() == LANE_DELETED
        payloads.append(walk.payload())
    assert payloads == PAYLOADS
    assert (walk.damage, walk.stop, walk.end) == ([], Stop.END, places[-1][1])


def test_damage_to_any_byte_costs_the_record_it_is_in() -> None:
    data, places = written()
    for at in range(FILE_HEADER_SIZE, len(data)):
        wounded = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        hit = next(place for place in places if place[0] <= at < place[1])
        walk = RecordWalk(wounded, FILE_HEADER_SIZE, SEGMENT)
        if at == hit[0] + 3:
            # The spare byte says nothing, and no checksum covers it.
            assert places_in(walk) == places
            continue
        assert places_in(walk) == [place for place in places if place != hit]
        assert walk.damage == [hit]
        assert walk.stop is (Stop.DAMAGED if hit == places[-1] else Stop.END)


def test_a_file_cut_at_any_byte_ends_with_its_last_whole_record() -> None:
    data, places = written()
    for cut in range(FILE_HEADER_SIZE, len(data)):
        walk = RecordWalk(data[:cut], FILE_HEADER_SIZE, SEGMENT)
        whole = [place for place in places if place[1] <= cut]
        end = whole[-1][1] if whole else FILE_HEADER_SIZE
        assert places_in(walk) == whole
        assert walk.damage == ([(end, cut)] if end < cut else [])
        assert walk.stop is (Stop.DAMAGED if end < cut else Stop.END)


def test_room_that_was_never_written_is_told_from_damage() -> None:
    data, places = written()
    roomy = data + bytes(100_000)
    walk = RecordWalk(roomy, FILE_HEADER_SIZE, SEGMENT)
    assert places_in(walk) == places
    assert (walk.damage, walk.stop) == ([(len(data), len(roomy))], Stop.UNWRITTEN)
    walk = RecordWalk(roomy + b"x", FILE_HEADER_SIZE, SEGMENT)
    assert places_in(walk) == places
    assert walk.stop is Stop.DAMAGED


@pytest.mark.parametrize("wound", [False, True])
def test_no_record_that_begins_behind_the_limit_is_reached(wound: bool) -> None:
    data, places = written()
    if wound:
        # The search for what follows damage may come out behind the limit: that record is not reached either.
        data = data[: places[1][0]] + b"?" + data[places[1][0] + 1 :]
    for limit in range(FILE_HEADER_SIZE, len(data) + 1):
        expected = [place for place in places if place[0] < limit and not (wound and place == places[1])]
        assert places_in(RecordWalk(data, FILE_HEADER_SIZE, SEGMENT, limit)) == expected


def test_a_record_in_another_place_or_file_is_damage() -> None:
    data, places = written()
    assert places_in(RecordWalk(data, FILE_HEADER_SIZE, SEGMENT + 1)) == []
    start, end = places[0]
    doubled = data + data[start:end]
    walk = RecordWalk(doubled, FILE_HEADER_SIZE, SEGMENT)
    assert places_in(walk) == places
    assert walk.damage == [(len(data), len(doubled))]


def test_a_survey_finds_the_furthest_mark() -> None:
    out = BytesWriter()
    for segment, offset in ((3, 500), (4, 20), (4, 10)):
        write_record(out, SYNCED, segment.to_bytes(8, "big") + offset.to_bytes(8, "big"), SEGMENT, len(out))
    walk = RecordWalk(out.getvalue(), 0, SEGMENT)
    walk.survey()
    assert (walk.mark, walk.damage, walk.stop) == ((4, 20), [], Stop.END)
