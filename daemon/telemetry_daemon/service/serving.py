"""Starts a daemon from a loaded configuration."""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.config.child import ConfigCheck, load_in_child
from telemetry_daemon.config.inputs import ConfigInputs, inputs_hash
from telemetry_daemon.plugins.loading import ParserSet, load_parsers
from telemetry_daemon.polling.node_sources import Node, RealNode
from telemetry_daemon.recordings.last_minutes import CaptureFeed
from telemetry_daemon.service.daemon import Service, ServiceArguments
from telemetry_daemon.service.memory import collect_garbage_less_often, return_large_blocks_to_system, use_one_heap
from telemetry_daemon.terminal import exits, log
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import Clock
from telemetry_daemon.web.addresses import ListenError, WebError
from telemetry_parsers.dataclass import dataclass, replace

if TYPE_CHECKING:  # imported only for replays
    from telemetry_daemon.recordings.playback import PlaybackOptions
    from telemetry_daemon.recordings.survey import RecordingTime

logger = logging.getLogger(__name__)

# This value halved the 99th percentile of the scrape duration for 128 cards, from 33 ms to 15 ms.
_SWITCH_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class ReplayArguments:
    """The recording to replay, the options, and the position at which the replay starts."""

    path: Path
    options: PlaybackOptions
    start: RecordingTime | None = None


@dataclass(frozen=True, slots=True)
class Replacement:
    """Simulated cards or a recording, used instead of this machine's devices."""

    demo: str | None = None
    faults: str | None = None
    recording: ReplayArguments | None = None


def serve(inputs: ConfigInputs, check: ConfigCheck, replacement: Replacement) -> int:
    """Serve this machine's devices, or their `replacement`, until stopped. Then exit the process."""
    return_large_blocks_to_system()
    use_one_heap()
    collect_garbage_less_often()
    sys.setswitchinterval(_SWITCH_SECONDS)
    checked_config = check.result()
    settings = checked_config.settings
    log.setup(settings.log.level, settings.log.format)
    parser_set = load_parsers(checked_config.candidates)
    for failure in parser_set.failures:
        extra = {"plugin": failure.plugin, "origin": failure.origin, "detail": failure.text}
        logger.warning("a plugin was not loaded", extra=extra)
    clock = Clock()
    capture_feed = CaptureFeed()
    node = _create_node(replacement, parser_set, clock, capture_feed)
    source_names = {*node.names(), *(loaded.parser.name for loaded in parser_set.parsers)}
    inputs = replace(inputs, known_sources=tuple(sorted(source_names)), known_polls=parser_set.polls)
    if not settings.has_only_known_names(source_names, parser_set.polls):
        settings = load_in_child(inputs)

    reload_settings, input_hash = partial(load_in_child, inputs), partial(inputs_hash, inputs.path, inputs.environment)
    arguments = ServiceArguments(settings, reload_settings, isinstance(node, RealNode), input_hash, capture_feed)
    try:
        return asyncio.run(_serve_and_exit(Service(arguments, node, clock)))
    except ListenError as error:
        # At boot, the listen address may not exist yet. Systemd tries again.
        raise CommandError(str(error), status=exits.UNAVAILABLE) from None
    except WebError as error:
        raise CommandError(str(error), status=exits.CONFIGURATION) from None


async def _serve_and_exit(service: Service) -> int:
    """Serve, and exit the process without waiting for hung threads."""
    status = await service.run()
    log.exit_at_once(status)
    return status


def _create_node(replacement: Replacement, parser_set: ParserSet, clock: Clock, capture_feed: CaptureFeed) -> Node:
    if replacement.demo is not None:
        from telemetry_daemon.simulate.node import PAST_SECONDS, DemoNode

        return DemoNode(replacement.demo, clock, capture_feed, replacement.faults, PAST_SECONDS)
    if replacement.recording is not None:
        from telemetry_daemon.recordings.replay_node import ReplayNode

        recording = replacement.recording
        return ReplayNode(recording.path, parser_set, clock, recording.options, recording.start)
    return RealNode(parser_set, clock, capture_feed)
