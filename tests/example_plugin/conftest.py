"""Put the example's package on the path of the project's tests, as its own pyproject.toml does for its tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "src"))
