"""Frames: contents cut, joined, sent on under another channel number, and cut anew for a smaller frame_max."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amqp import wire
from warren.amqp.frames import (
    body_of,
    content_frames,
    needs_reframing,
    properties_span,
    rechannel,
    reframe,
)
from warren.errors import FrameError

channels = st.integers(0, 65535)
frame_maxes = st.one_of(st.just(0), st.integers(9, 200))
bodies = st.binary(max_size=400)


def frames_in(data: bytes) -> list[tuple[int, int, bytes]]:
    """Type, channel and payload of each frame: read with struct, not with what is tested."""
    frames = []
    while data:
        kind, channel, size = struct.unpack(">BHI", data[:7])
        assert data[7 + size] == 0xCE
        frames.append((kind, channel, data[7 : 7 + size]))
        data = data[8 + size :]
    return frames


@given(channels, bodies, frame_maxes)
def test_content_is_one_header_frame_and_a_body_that_fits(channel: int, body: bytes, frame_max: int) -> None:
    flags = b"\x10\x00\x02"
    header, *parts = frames_in(content_frames(channel, flags, body, frame_max))
    assert header == (2, channel, struct.pack(">HHQ", 60, 0, len(body)) + flags)
    assert b"".join(payload for _, _, payload in parts) == body
    for kind, number, payload in parts:
        assert (kind, number) == (3, channel)
        assert payload
        assert frame_max == 0 or len(payload) <= frame_max - 8


def test_an_empty_body_has_no_body_frame() -> None:
    assert len(frames_in(content_frames(1, b"\x00\x00", b"", 4096))) == 1


@pytest.mark.parametrize(("size", "count"), [(4088, 1), (4089, 2), (8176, 2), (8177, 3)])
def test_a_body_frame_is_filled_to_frame_max_with_its_overhead(size: int, count: int) -> None:
    parts = frames_in(content_frames(1, b"\x00\x00", bytes(size), 4096))[1:]
    assert len(parts) == count
    assert len(parts[0][2]) == min(size, 4088)


@given(channels, channels, bodies, frame_maxes)
def test_rechannel_changes_the_number_in_every_frame_and_nothing_else(
    before: int, after: int, body: bytes, frame_max: int
) -> None:
    content = content_frames(before, b"\x10\x00\x02", body, frame_max)
    assert rechannel(content, after) == content_frames(after, b"\x10\x00\x02", body, frame_max)


def test_rechannel_to_the_same_channel_copies_nothing() -> None:
    content = content_frames(7, b"\x00\x00", b"body", 4096)
    assert rechannel(content, 7) is content


@given(channels, channels, bodies, frame_maxes, frame_maxes)
def test_reframe_gives_what_would_have_been_cut_in_the_first_place(
    before: int, after: int, body: bytes, old_max: int, new_max: int
) -> None:
    content = content_frames(before, b"\x10\x00\x02", body, old_max)
    assert reframe(content, after, new_max) == content_frames(after, b"\x10\x00\x02", body, new_max)


@given(bodies, frame_maxes, frame_maxes)
def test_reframing_is_needed_exactly_when_a_body_frame_is_too_large(body: bytes, old_max: int, new_max: int) -> None:
    content = content_frames(1, b"\x00\x00", body, old_max)
    too_large = any(new_max and len(payload) > new_max - 8 for _, _, payload in frames_in(content)[1:])
    assert needs_reframing(content, new_max) == too_large
    assert not needs_reframing(reframe(content, 1, new_max), new_max)


def test_a_large_header_alone_asks_for_no_reframing() -> None:
    assert not needs_reframing(content_frames(1, bytes(5000), b"small", 0), 4096)


@given(st.binary(min_size=2, max_size=50), bodies, frame_maxes)
def test_body_and_properties_are_found_again(properties: bytes, body: bytes, frame_max: int) -> None:
    content = content_frames(1, properties, body, frame_max)
    start, end = properties_span(content)
    assert content[start:end] == properties
    assert body_of(content) == body


def under_channel_two(content: bytes) -> bytes:
    return rechannel(content, 2)


def cut_anew(content: bytes) -> bytes:
    return reframe(content, 2, 4096)


@pytest.mark.parametrize("read", [body_of, under_channel_two, cut_anew])
def test_a_content_cut_within_a_frame_is_a_frame_error(read: Callable[[bytes], bytes]) -> None:
    content = content_frames(1, b"\x10\x00\x02", b"0123456789", 12)
    boundaries = (0, 23, 35, 47)
    for cut in wire.truncations(content):
        if len(cut) not in boundaries:
            with pytest.raises(FrameError):
                read(cut)


@pytest.mark.parametrize("size", [b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x10"])
def test_a_frame_size_that_lies_is_a_frame_error(size: bytes) -> None:
    content = content_frames(1, b"\x00\x00", b"", 4096)
    lie = content[:3] + size + content[7:]
    for read in (body_of, under_channel_two, cut_anew, properties_span):
        with pytest.raises(FrameError):
            read(lie)
    with pytest.raises(FrameError):
        needs_reframing(lie, 10)


def test_content_that_begins_with_another_frame_has_no_properties() -> None:
    with pytest.raises(FrameError):
        properties_span(b"\x03" + content_frames(1, b"\x00\x00", b"", 4096)[1:])
    with pytest.raises(FrameError):
        properties_span(b"\x02\x00\x01\x00\x00\x00\x00\xce")
