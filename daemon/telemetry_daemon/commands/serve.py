"""`telemetry serve`: runs the daemon."""

from __future__ import annotations

import argparse
from dataclasses import replace

from telemetry_daemon.commands import options
from telemetry_daemon.config.child import ConfigCheck
from telemetry_daemon.service.unused_imports import replace_unused_imports

EXAMPLES = {
    "telemetry serve": "Serve the metrics of this node.",
    "telemetry serve --demo 8xnvidia,4xhygon": "Serve a simulated node.",
    "telemetry serve --demo 8xnvidia --fault lost,hot": "Serve a simulated node with faults, to test alerts.",
    "telemetry serve --replay node.jsonl.gz --speed 10": "Serve a recording of another node at ten times the speed.",
}
# The demo enables owners and steps, unless the environment disables them.
_DEMO_ENVIRONMENT = {"TELEMETRY_ATTRIBUTION_ENABLED": "true", "TELEMETRY_STEPS_ENABLED": "true"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    options.add_config(parser)
    options.add_setting_flags(parser)
    options.add_origins(parser, "serve", f"{options.LIVE_DEMO_HELP}; jobs report steps", "--demo", "--replay")
    options.add_faults(parser)
    options.add_at(parser)
    options.add_playback(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal ends the process. Return a status only if the daemon cannot start."""
    options.check_origin_flags(arguments)
    inputs = options.settings_inputs(arguments)
    if arguments.demo is not None:
        inputs = replace(inputs, environment={**_DEMO_ENVIRONMENT, **inputs.environment})
    check = ConfigCheck(inputs)
    # Import the daemon's modules while another process checks the configuration.
    with replace_unused_imports():
        from telemetry_daemon.service.serving import Replacement, ReplayArguments, serve
    replacement = Replacement(arguments.demo, arguments.fault)
    if arguments.replay is not None:
        playback = options.playback_options(arguments, keeps_times=False)
        replacement = Replacement(recording=ReplayArguments(arguments.replay, playback, arguments.at))
    return serve(inputs, check, replacement)
