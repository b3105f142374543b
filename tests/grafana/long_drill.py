"""A day on call in twenty-five minutes: real daemons, a real Prometheus and a real Alertmanager with our files, and each trouble in turn.

Each node is in one trouble, or in none. A trouble is told once, and its end when it has ended; a healthy node is silent.
All windows and waits of the rules and of Alertmanager are a sixth of what we ship. Nothing else about them is changed.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from grafana.drill_node import ALL, Actor
from grafana.drill_servers import HURRY, SCRAPE_SECONDS, Receiver, Spell, manager_of, prometheus_of, spells
from kits.stepped_clock import SteppedClock
from kits.waiting import until
from telemetry_daemon.config.settings import DEFAULT_PORT

# Minutes of the played day.
TROUBLE, REPAIR, END = 45.0, 95.0, 150.0
BEHIND_SECONDS = -1200.0

pytestmark = [pytest.mark.needs("prometheus", "prometheus-alertmanager", "cc"), pytest.mark.timeout(3600)]


Act = Callable[[Actor], None]


def nothing(_actor: Actor) -> None:
    pass


@dataclass(frozen=True)
class Scene:
    """A node's trouble, its repair, and the alerts that are told of it, each with the played minutes it may begin in."""

    trouble: Act
    repair: Act
    told: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # Done every second between trouble and repair.
    meanwhile: Act = nothing
    clock_seconds: float = 0.0
    # What lasts from the beginning on.
    always: tuple[str, ...] = ()


def within(minutes: float, begin: float = TROUBLE) -> tuple[float, float]:
    """Soon after the trouble's begin."""
    return begin, begin + minutes


def suffers(act: str, *positions: int) -> Act:
    return lambda actor: actor.suffers(act, *positions)


def does(*acts: str, at: tuple[int, ...] = (3,)) -> Act:
    def do(actor: Actor) -> None:
        for act in acts:
            actor.does(act, *at)

    return do


def recovers(actor: Actor) -> None:
    actor.recovers()


def killed(actor: Actor) -> None:
    actor.end(signal.SIGKILL)


def started(actor: Actor) -> None:
    actor.start()


def restarted(actor: Actor) -> None:
    actor.end()
    actor.start()


def reimaged_with(cards: str) -> Act:
    def reimage(actor: Actor) -> None:
        actor.end()
        actor.forget_all()
        actor.cards = cards
        actor.once.clear()
        actor.does("training", *range(int(cards.split("x", maxsplit=1)[0])))
        actor.start()

    return reimage


def comes_and_goes(actor: Actor) -> None:
    """Two played minutes lost, two there."""
    gone = time.monotonic() // (120 / HURRY) % 2 == 0
    if gone != bool(actor.lasting):
        actor.suffers("lost", 3) if gone else actor.recovers()


def in_maintenance(seconds: float, then: Act) -> Act:
    """Announce it, let Prometheus see it, and begin."""

    def announce(actor: Actor) -> None:
        actor.command("maintenance", "on", "--for", f"{seconds:.0f}s", "--reason", "a drill")
        time.sleep(2 * SCRAPE_SECONDS / HURRY)
        then(actor)

    return announce


def ends_maintenance(actor: Actor) -> None:
    actor.recovers()
    actor.command("maintenance", "off")


def reloaded(more: str) -> Act:
    def reload(actor: Actor) -> None:
        actor.configure(more)
        assert actor.process is not None
        actor.process.send_signal(signal.SIGHUP)

    return reload


_FATAL = {"AcceleratorEventCritical": within(15)}
_MAINTENANCE_MINUTES = 30
SCENES: Mapping[str, Scene] = {
    "a card is lost": Scene(suffers("lost", 3), recovers, {"AcceleratorLost": within(15)}),
    "a card comes and goes": Scene(nothing, recovers, {"AcceleratorFlapping": within(30)}, comes_and_goes),
    "a card is lost with the state": Scene(
        reimaged_with("7xnvidia"), reimaged_with("8xnvidia"), {"AcceleratorsFewerThanBefore": within(40)}
    ),
    "a card's firmware dies": Scene(does("xid_95"), does("reset"), _FATAL),
    "eight cards' firmware dies": Scene(does("xid_79", at=ALL), does("reset", at=ALL), _FATAL),
    "a fatal event, by a wrong clock": Scene(
        does("xid_95"),
        does("reset"),
        {**_FATAL, "TelemetryClockSkew": within(TROUBLE, 0.0)},
        clock_seconds=BEHIND_SECONDS,
    ),
    "an application's error": Scene(does("xid_31"), nothing),
    "an error in memory": Scene(does("uncorrected error"), does("reset"), {"AcceleratorUncorrectedErrors": within(15)}),
    "a link is down": Scene(suffers("link down", 3), recovers, {"AcceleratorLinkDown": within(15)}),
    # It gets hot, and later too hot.
    "a card is hot": Scene(
        suffers("hot", 3),
        recovers,
        {"AcceleratorThermalThrottling": within(15), "AcceleratorTemperatureCritical": within(25)},
    ),
    "the tool hangs": Scene(suffers("hung tool"), recovers, {"TelemetrySourceFailing": within(20)}),
    "a card hangs": Scene(suffers("hung", 3), recovers, {"AcceleratorsHung": within(45)}),
    "a job hangs": Scene(suffers("hung", *ALL), recovers, {"AcceleratorsHung": within(45)}),
    "a card is slow": Scene(suffers("slow", 3), recovers, {"AcceleratorSlowerThanPeers": within(45)}),
    "a node is slow": Scene(suffers("slow", *ALL), recovers, {"AcceleratorNodeSlow": within(45)}),
    "a node dies": Scene(killed, started, {"TelemetryDown": within(15)}),
    "a node dies in maintenance": Scene(
        in_maintenance(60 * _MAINTENANCE_MINUTES / HURRY, killed),
        started,
        {"TelemetryDown": within(15, TROUBLE + _MAINTENANCE_MINUTES)},
    ),
    "a card is changed in maintenance": Scene(in_maintenance(3600, suffers("lost", 3)), ends_maintenance),
    "a bad configuration": Scene(
        reloaded("no_such = 1\n"), reloaded(""), {"TelemetryConfigurationRejected": within(15)}
    ),
    "the daemon is started anew": Scene(restarted, restarted),
    "all is well": Scene(nothing, nothing),
    "all is well here, too": Scene(nothing, nothing),
    "the job ends": Scene(suffers("idle", *ALL), recovers),
    # The others' power is compared with that of idle cards, which somebody must have seen.
    "nobody works": Scene(nothing, nothing, always=("idle",)),
}


@pytest.fixture
def cast(tmp_path: Path) -> Iterator[Mapping[str, Actor]]:
    """All nodes, begun."""
    with ExitStack() as stack:
        actors = {}
        for number, (name, scene) in enumerate(SCENES.items(), 1):
            folder = tmp_path / f"clock{number}"
            folder.mkdir()
            clock = SteppedClock(folder)
            stack.callback(clock.close)
            clock.step(scene.clock_seconds)
            environment = clock.environment() if scene.clock_seconds else {}
            actors[name] = Actor(tmp_path / f"node{number}", f"127.78.0.{number}:{DEFAULT_PORT}", environment)
            actors[name].lasting += [[act, ALL] for act in scene.always]
            actors[name].begin()
            stack.callback(_end, actors[name])
        yield actors


def _end(actor: Actor) -> None:
    if actor.process is not None and actor.process.poll() is None:
        actor.end(signal.SIGKILL)


def play(actors: Mapping[str, Actor], begun: float) -> None:
    """All troubles at once, all repairs at once, and what is done meanwhile."""
    scenes = [(scene, actors[name]) for name, scene in SCENES.items()]
    wait_for(TROUBLE, begun)
    for scene, actor in scenes:
        scene.trouble(actor)
    wait_for(REPAIR, begun, lambda: [scene.meanwhile(actor) for scene, actor in scenes])
    for scene, actor in scenes:
        scene.repair(actor)
    wait_for(END, begun)


def wait_for(minute: float, begun: float, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Wait for that minute of the played day, and do this all the while."""
    while (time.time() - begun) / 60 * HURRY < minute:
        meanwhile()
        time.sleep(1)


def test_each_trouble_is_told_once_and_until_it_ends(tmp_path: Path, cast: Mapping[str, Actor]) -> None:
    with (
        Receiver() as receiver,
        manager_of(tmp_path, receiver) as manager,
        prometheus_of(tmp_path, cast, manager.address) as prometheus,
    ):
        until(lambda: len(prometheus.query("accelerator:temperature_celsius")[1]) == 8 * len(cast), "all cards")
        begun = time.time()
        play(cast, begun)
    (tmp_path / "told.json").write_text(json.dumps({"begun": begun, "notifications": receiver.notifications}))
    told = spells(receiver.notifications, begun)
    for node, alerts in told.items():
        for alert, ones in alerts.items():
            print(f"{node:32} {alert:32} " + ", ".join(f"{one.begins:.0f}–{one.ends or END:.0f}" for one in ones))
    assert not wrong(told), "\n".join(wrong(told))


def wrong(told: Mapping[str, Mapping[str, list[Spell]]]) -> list[str]:
    """What was told and should not be, or not so, and what was not told."""
    lines = [f"of the fleet: {', '.join(told['the fleet'])}"] if told.get("the fleet") else []
    for node, scene in SCENES.items():
        alerts = told.get(node, {})
        lines += [f"{node}: {alert} should not be told" for alert in alerts.keys() - scene.told.keys()]
        for alert, (first, last) in scene.told.items():
            ones = alerts.get(alert, [])
            if len(ones) != 1:
                lines.append(f"{node}: {alert} is told {len(ones)} times")
            elif not first <= ones[0].begins <= last:
                lines.append(f"{node}: {alert} begins at {ones[0].begins:.0f}, not within {first:.0f} to {last:.0f}")
            elif alert != "TelemetryClockSkew" and not REPAIR <= (ones[0].ends or 2 * END) <= END:
                lines.append(f"{node}: {alert} ends at {ones[0].ends}, not soon after the repair")
    return lines
