"""Writes configuration files and reads them back through the public functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from telemetry_daemon.config.file import Loaded, load_with_origins
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.config.settings import Settings

SOURCES = ("host", "hy-smi", "mthreads-gmi", "nvml")


@dataclass(frozen=True)
class Workbench:
    """A folder with one configuration file."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "telemetry.toml"

    def inputs(
        self,
        text: str | bytes | None = None,
        environment: Mapping[str, str] | None = None,
        overrides: Mapping[str, object] | None = None,
        known_sources: tuple[str, ...] | None = SOURCES,
        known_polls: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> ConfigInputs:
        """What a run with this file, these variables and flags starts from; without text there is no file."""
        if text is not None:
            self.file.write_bytes(text.encode() if isinstance(text, str) else text)
        return ConfigInputs(
            environment=environment or {},
            overrides=overrides or {},
            known_sources=known_sources,
            known_polls=known_polls,
            default_path=str(self.file),
        )

    def loaded(self, *arguments: object, **more: object) -> Loaded:
        return load_with_origins(self.inputs(*arguments, **more))  # type: ignore[arg-type]  # passed through

    def settings(self, *arguments: object, **more: object) -> Settings:
        return self.loaded(*arguments, **more).settings

    def complaints(self, *arguments: object, **more: object) -> list[str]:
        """The lines of the error, with the file's path cut to its name."""
        with pytest.raises(ConfigError) as caught:
            self.loaded(*arguments, **more)
        lines = str(caught.value).split("\n")
        assert lines == list(caught.value.lines)
        return [line.replace(f"{self.folder}/", "") for line in lines]
