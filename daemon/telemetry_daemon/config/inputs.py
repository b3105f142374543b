"""What a configuration is made from, and the error that says what is wrong with it. The daemon imports this: no pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from telemetry_daemon.config.glance import DEFAULT_FILE, VARIABLE_PREFIX
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.vendors import VENDOR_WORDS


class ConfigError(CommandError):
    """The configuration cannot be used; `lines` say where, what and what to do, one line for each error."""

    def __init__(self, *lines: str, status: int = exits.CONFIGURATION) -> None:
        super().__init__(*lines, status=status)


@dataclass(frozen=True, slots=True)
class ConfigInputs:
    """All that settings come from. Flags beat the environment, and the environment beats the file.

    `path` is what `--config` named. `overrides` maps dotted paths such as `log.level` to what their flags said.
    `known_sources` None means that any well-formed name may be a source, as long as the parsers are not loaded yet.
    `known_polls` are the polls of those whose parser is.
    """

    path: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, object] = field(default_factory=dict)
    known_sources: tuple[str, ...] | None = None
    known_polls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    known_vendors: tuple[str, ...] = VENDOR_WORDS
    default_path: str = DEFAULT_FILE

    def variables(self) -> dict[str, str]:
        """The environment's variables that may be ours; one that is empty counts as not set."""
        return {name: text for name, text in self.environment.items() if name.startswith(VARIABLE_PREFIX) and text}
