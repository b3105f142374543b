"""What a process holds of cards, from the texts of its open files: each driver's words, and any text at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_parsers.owners.proc import Client, clients, holds

BEGIN = "pos:\t0\nflags:\t02100002\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\n"


def test_memory_on_the_card_is_what_is_resident() -> None:
    for rest, expected in [
        ("drm-memory-vram:\t4 KiB\ndrm-memory-gtt:\t9 KiB\n", 4096),
        ("drm-memory-vram:\t9 KiB\ndrm-resident-vram:\t4 KiB\ndrm-total-vram:\t99 KiB\n", 4096),
        ("drm-resident-local0:\t1 MiB\ndrm-resident-local1:\t1 MiB\ndrm-resident-system0:\t5 MiB\n", 2 << 20),
        ("drm-resident-vram0:\t12\n", 12),
        ("drm-resident-vram0:\t0\n", 0),
        ("drm-resident-gtt:\t12 KiB\n", None),
        ("drm-resident-vram:\t-1 KiB\n", None),
        ("drm-resident-vram:\t1 parsec\n", None),
        ("drm-resident-vram:\t99999999999999999999 GiB\n", None),
    ]:
        assert list(clients([BEGIN + rest])) == [Client("0000:03:00.0", "7", expected)]


@pytest.mark.parametrize("text", ["", "pos: 0\n", "drm-pdev: x\ndrm-client-id: 7\n", "drm-pdev: 0000:03:00.0\n"])
def test_other_files_are_no_clients(text):
    assert list(clients([text])) == []


def test_the_clients_of_a_card_add_up():
    found = [Client("0000:03:00.0", "1", 5), Client("0000:03:00.0", "2", 6), Client("0000:04:00.0", "1", None)]
    assert holds(found) == [{"bus_id": "0000:03:00.0", "memory_bytes": 11}]


KEYS = st.sampled_from(
    ("drm-resident-vram", "drm-memory-vram", "drm-resident-local0", "drm-pdev", "drm-engine-gfx", "flags")
)
LINES = st.builds(
    "{}:\t{} {}\n".format, KEYS, st.integers(-1, 10**30), st.sampled_from(("", "KiB", "MiB", "GiB", "ns"))
)


@given(st.lists(st.text() | st.lists(LINES, max_size=5).map("".join), max_size=5))
def test_any_texts_give_clients_of_cards_only(texts):
    for client in clients(BEGIN + text for text in texts):
        assert client.memory_bytes is None or 0 <= client.memory_bytes < 3 << 60
