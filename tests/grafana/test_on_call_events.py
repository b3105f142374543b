"""What the person on call gets of events: until the repair, whatever happens to the daemon and the clock meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from grafana.alert_nodes import END, TURN, Node
from grafana.scenes import ALWAYS, AROUND_A_RESTART, QUIET, Scene, assert_fires, one_in_three


def event(code: str, cards: Iterable[int] = (3,), node: Node | None = None, until: str = f"1x{END}") -> Node:
    """An event of these cards at the turn, open until then."""
    node = node or Node()
    for card in cards:
        (up,) = node.found("accelerator_up", f'id="id{card}"')
        for metric in ("accelerator_event_open", "accelerator_events_total"):
            node.series[up.replace("accelerator_up{", f'{metric}{{code="{code}",')] = f"_x{TURN} {until}"
    return node


def off_the_bus(*cards: int) -> Node:
    node = Node()
    for card in cards:
        node.lost(card)
    return event("xid_79", cards, node)


def event_before_a_restart(code: str) -> Node:
    """The event comes 20 minutes before the restart of the daemon, which remembers it."""
    node = Node().restarted()
    event(code, node=node)
    for name in node.found(f'code="{code}"'):
        again = 1 if "event_open" in name else 0
        node.series[name] = f"_x10 1x{TURN - 12} stale _ {again}x{END}"
    return node


def with_a_clock(seconds: int, node: Node) -> Node:
    return node.tells(f"{seconds}+60x{END}", "telemetry_time_seconds")


SCENES: Mapping[str, Scene] = {
    "an application ends with an error": Scene((event("xid_31"),), QUIET, ALWAYS),
    "an application is ended": Scene((event("xid_43"),), QUIET, ALWAYS),
    "an event that asks for a repair": Scene((event("xid_48"),), {"AcceleratorEventCritical": 1}, (31, 40, 62)),
    "an event that was repaired after ten minutes": Scene((event("xid_48", until="1x9 stale"),), QUIET),
    "an event before a restart of the daemon": Scene(
        (event_before_a_restart("xid_48"),), {"AcceleratorEventCritical": 1}, (12, *AROUND_A_RESTART)
    ),
    "an event that asks for no repair": Scene((event("xid_94"),), {"AcceleratorEvent": 1}, (31, 40, 62)),
    "an event that asks for no repair, before a restart of the daemon": Scene(
        (event_before_a_restart("xid_94"),), {"AcceleratorEvent": 1}, (12, *AROUND_A_RESTART)
    ),
    "an event on a node with a clock that is behind": Scene(
        (with_a_clock(-900, event("xid_48")),), {"AcceleratorEventCritical": 1, "TelemetryClockSkew": 1}
    ),
    "an event on a node with a clock that is ahead": Scene(
        (with_a_clock(900, event("xid_48")),), {"AcceleratorEventCritical": 1, "TelemetryClockSkew": 1}
    ),
    "all cards fall off the bus": Scene(
        (off_the_bus(0, 1, 2, 3),), {"AcceleratorEventCritical": 4, "AcceleratorLost": 4}
    ),
    "an error code that the vendor's tool goes on telling": Scene(
        (event("error_80e01801"),), {"AcceleratorEvent": 1}, (31, 40, 62)
    ),
}


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("name", one_in_three(SCENES))
def test_what_fires_and_nothing_else(tmp_path: Path, name: str) -> None:
    assert_fires(tmp_path, SCENES[name])
