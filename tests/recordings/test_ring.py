"""The ring keeps three minutes and the newest older capture of each poll, in bounded memory, as gzip."""

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_daemon.recordings.last_minutes import MAX_CAPTURE_BYTES, MAX_RAW_BYTES, CaptureLine, RecentCaptures


def line(at: float, poll: str = "fast", text: str = "") -> CaptureLine:
    return CaptureLine("smi", poll, at, f"{poll} {at:g} {text}\n".encode())


def polls_in(packed: Iterable[bytes]) -> list[str]:
    return [" ".join(text.split()[:2]) for text in gzip.decompress(b"".join(packed)).decode().splitlines()]


def test_captures_older_than_three_minutes_are_dropped() -> None:
    ring = RecentCaptures()
    for at in range(0, 301, 10):
        ring.add(line(at))
    assert polls_in(ring.packed()) == ["fast 110"] + [f"fast {at}" for at in range(120, 301, 10)]


def test_newest_capture_of_a_rare_poll_is_kept() -> None:
    ring = RecentCaptures()
    assert list(ring.packed()) == list(ring.newest()) == []
    ring.add(line(0, "inventory"))
    ring.add(line(5, "slow"))
    ring.add(line(60, "slow"))
    for at in range(100, 601, 100):
        ring.add(line(at))
    assert polls_in(ring.packed()) == ["inventory 0", "slow 60", "fast 400", "fast 500", "fast 600"]
    assert polls_in(ring.newest()) == ["inventory 0", "slow 60", "fast 600"]


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size).hex().encode() + b"\n"


def test_largest_source_loses_its_oldest_captures() -> None:
    ring = RecentCaptures(max_bytes=1 << 20)
    for number in range(100):
        ring.add(CaptureLine("quiet", "fast", number, f"fast {number}\n".encode()))
        ring.add(CaptureLine("loud", "fast", number, noise(30_000)))
        assert ring.size_bytes <= 1 << 20
    lines = gzip.decompress(b"".join(ring.packed())).splitlines()
    assert sum(line.startswith(b"fast") for line in lines) == 100
    assert len(gzip.decompress(b"".join(ring.newest())).splitlines()) == 2
    assert 10 < sum(not line.startswith(b"fast") for line in lines) < 40


def test_well_compressed_captures_are_limited_by_the_cost_of_masking() -> None:
    """Sixteen MiB of zeros are packed to 16 KiB."""
    ring = RecentCaptures(seconds=1e9)
    for number in range(100):
        ring.add(CaptureLine("quiet", "fast", number, b"fast\n"))
        ring.add(CaptureLine("loud", "fast", number, bytes(MAX_CAPTURE_BYTES - 1) + b"\n"))
        ring.add(CaptureLine("too loud", "fast", number, bytes(MAX_CAPTURE_BYTES) + b"\n"))
    unpacked = [zlib.decompress(member, 31) for member in ring.packed()]
    assert unpacked.count(b"fast\n") == 100
    assert sum(map(len, unpacked)) <= MAX_RAW_BYTES
    assert len(unpacked) == 100 + 15


def test_a_capture_that_would_drive_out_all_others_is_left_out() -> None:
    ring = RecentCaptures(max_bytes=1 << 20)
    ring.add(line(1))
    ring.add(CaptureLine("smi", "huge", 2.0, noise(1 << 20)))
    assert polls_in(ring.packed()) == ["fast 1"]


@given(st.lists(st.tuples(st.floats(0, 400), st.sampled_from("abcd"), st.integers(0, 4000)), max_size=80))
def test_size_is_that_of_the_kept_captures(given: list[tuple[float, str, int]]) -> None:
    ring = RecentCaptures(seconds=50.0, max_bytes=20_000)
    for at, poll, size in given:
        ring.add(CaptureLine("smi", poll, at, noise(size)))
        packed = list(ring.packed())
        assert sum(map(len, packed)) <= ring.size_bytes <= 20_000
        newest = [zlib.decompress(member, 31) for member in ring.newest()]
        assert set(newest) <= {zlib.decompress(member, 31) for member in packed}


def test_many_threads_may_add() -> None:
    ring = RecentCaptures()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: [ring.add(line(at, name)) for at in range(100)], "abcd"))
    assert sorted(polls_in(ring.newest())) == [f"{name} 99" for name in "abcd"]
    assert len(polls_in(ring.packed())) == 400


@pytest.mark.parametrize("size", [1, 500])
def test_size_includes_the_overhead_of_small_captures(size: int) -> None:
    tracemalloc.start()
    try:
        ring = RecentCaptures(max_bytes=1 << 18)
        before = tracemalloc.get_traced_memory()[0]
        for number in range(3_000):
            ring.add(CaptureLine("smi", f"poll {number % 3}", number / 125, f"{number}\n".encode() * size))
        allocated = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 1 << 17 < allocated <= 1 << 18
