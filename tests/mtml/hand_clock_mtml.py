"""The reader `mtml` with a clock read from a file, for workers of tests."""

import os
from pathlib import Path

from telemetry_daemon.readers.mtml.reader import MtmlReader

READER = MtmlReader(lambda: float(Path(os.environ["HAND_CLOCK"]).read_text()))
