"""The reader `nvml` with a test's clock: the seconds in the file that HAND_CLOCK names."""

import os
from pathlib import Path

from telemetry_daemon.readers.nvml.reader import NvmlReader

READER = NvmlReader(clock=lambda: float(Path(os.environ["HAND_CLOCK"]).read_text()))
