"""The reader `mtml` with a clock that a file tells: what the tests' worker loads."""

import os
from pathlib import Path

from telemetry_daemon.readers.mtml.reader import MtmlReader

READER = MtmlReader(lambda: float(Path(os.environ["HAND_CLOCK"]).read_text()))
