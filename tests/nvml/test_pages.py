"""The page of the whole daemon for each node that the fake can be, line by line: `--update-golden` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kits.daemon import Daemon
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile, profile_names

pytestmark = pytest.mark.needs("cc")
PAGES = Path(__file__).parent / "pages"
POLLS = ("fast", "slow", "links", "processes", "inventory")
# What the daemon counts since it started.
OURS = ("accelerator_busy_seconds_total", "accelerator_energy_estimated_joules_total")


# One of those that tell most, one in parts, a board of a module, and one of few words.
QUICK = {"h100", "a100-mig", "jetson", "wsl"}


@pytest.mark.parametrize(
    "profile", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in profile_names()]
)
def test_the_page_of_a_node(profile: str, tmp_path: Path, assert_golden: Callable[[Path, str], None]) -> None:
    fake = FakeNvml(tmp_path / "nvml", profile)
    for gpu in range(1, load_profile(profile).gpus):
        fake.unplug(gpu)  # one GPU says it all
    with Daemon(tmp_path, "[sources.nvml]\ninterval = 0.3\n", environment=fake.environment) as running:
        running.until(lambda: all(is_up(running, poll) for poll in POLLS))
        before = fake.calls("nvmlDeviceGetPerformanceState")
        running.until(lambda: fake.calls("nvmlDeviceGetPerformanceState") >= before + 2 or profile == "jetson")
        running.until(lambda: "nvmlGpmMetricsGet" not in fake.counts() or "accelerator_sm_active" in running.page())
        page = "".join(f"{line}\n" for line in running.page().splitlines() if is_the_cards(line))
    assert_golden(PAGES / f"{profile}.txt", page)


def is_up(running: Daemon, poll: str) -> bool:
    return f'telemetry_source_poll_up{{poll="{poll}",source="nvml"}} 1.0' in running.page()


def is_the_cards(line: str) -> bool:
    return 'vendor="nvidia"' in line and not line.startswith(OURS)


def test_no_page_is_left_of_a_profile_that_is_gone() -> None:
    assert {path.stem for path in PAGES.iterdir()} == set(profile_names())
