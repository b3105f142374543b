"""Starts a serving daemon from a checked configuration."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.config.child import Check, load_in_child
from telemetry_daemon.config.inputs import ConfigInputs, inputs_hash
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.loading import Loaded, load
from telemetry_daemon.polling.node_sources import Node, RealNode
from telemetry_daemon.recordings.last_minutes import CaptureFeed
from telemetry_daemon.service.daemon import Service, Start
from telemetry_daemon.service.memory import give_large_blocks_back, look_for_garbage_seldom, share_one_heap
from telemetry_daemon.terminal import exits, log
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import Clock
from telemetry_daemon.web.addresses import ListenError, WebError
from telemetry_parsers.dataclass import dataclass, replace

if TYPE_CHECKING:  # most daemons play nothing
    from telemetry_daemon.recordings.playback import PlaybackOptions
    from telemetry_daemon.recordings.survey import RecordingTime

logger = logging.getLogger(__name__)

# How long a request waits, at each of its system calls, for a thread that stores a poll; Python's default is 5 ms. With
# 128 cards polled and scraped each second, p99 of the scrapes was 15 ms with this value, and 33 ms without.
_SWITCH_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording, how it is played, and its start time."""

    path: Path
    playing: PlaybackOptions
    at: RecordingTime | None = None


@dataclass(frozen=True, slots=True)
class Instead:
    """The replacement for this machine: simulated cards, or a recording."""

    demo: str | None = None
    faults: str | None = None
    recording: Recording | None = None


def serve(inputs: ConfigInputs, check: Check, instead: Instead) -> int:
    """Serve until stopped; does not return after serving."""
    give_large_blocks_back()
    share_one_heap()
    look_for_garbage_seldom()
    sys.setswitchinterval(_SWITCH_SECONDS)
    checked = check.result()
    settings = checked.settings
    log.setup(settings.log.level, settings.log.format)
    loaded = load(checked.candidates)
    for failure in loaded.failures:
        facts = {"plugin": failure.plugin, "origin": failure.origin, "detail": failure.text}
        logger.warning("a plugin was not loaded", extra=facts)
    clock = Clock()
    tap = CaptureFeed()
    node = _node(instead, loaded, clock, tap)
    source_names = {*node.names(), *(item.parser.name for item in loaded.parsers)}
    inputs = replace(inputs, known_sources=tuple(sorted(source_names)), known_polls=loaded.polls)
    if not settings.all_known(source_names, loaded.polls):
        settings = load_in_child(inputs)

    def reload_settings() -> Settings:
        return load_in_child(inputs)

    def given() -> str:
        return inputs_hash(inputs.path, inputs.environment)

    start = Start(settings, reload_settings, isinstance(node, RealNode), given, tap)
    try:
        return asyncio.run(_serve(Service(start, node, clock)))
    except ListenError as error:
        # At boot the node may not have its address yet, and the last daemon may still have the port: try again.
        raise CommandError(str(error), status=exits.UNAVAILABLE) from None
    except WebError as error:
        raise CommandError(str(error), status=exits.CONFIGURATION) from None


async def _serve(service: Service) -> int:
    """Serve, and end the process from within the loop: closing the loop would wait for every thread that it started."""
    status = await service.run()
    log.leave(status)
    return status


def _node(instead: Instead, loaded: Loaded, clock: Clock, tap: CaptureFeed) -> Node:
    if instead.demo is not None:
        from telemetry_daemon.simulate.node import PAST_SECONDS, DemoNode

        return DemoNode(instead.demo, clock, tap, instead.faults, PAST_SECONDS)
    if instead.recording is not None:
        from telemetry_daemon.recordings.replay_node import ReplayNode

        recording = instead.recording
        return ReplayNode(recording.path, loaded, clock, recording.playing, recording.at)
    return RealNode(loaded, clock, tap)
