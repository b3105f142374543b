"""The reader `nvml` with a clock of the test: the seconds in the file named by HAND_CLOCK."""

import os
from pathlib import Path

from telemetry_daemon.readers.nvml.reader import NvmlReader

READER = NvmlReader(clock=lambda: float(Path(os.environ["HAND_CLOCK"]).read_text()))
