"""Lets the project's own test run find the example's package, as its pyproject.toml does when it stands alone."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "src"))
