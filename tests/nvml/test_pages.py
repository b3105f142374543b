"""The page of each node of the fake, line by line: `--update-golden` writes them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile, profile_names

PAGES = Path(__file__).parent / "pages"


@pytest.mark.needs("cc")
@pytest.mark.parametrize("profile", profile_names())
def test_the_page_of_a_node(profile: str, tmp_path: Path, assert_golden: Callable[[Path, str], None]) -> None:
    fake = FakeNvml(tmp_path, profile)
    for gpu in range(1, load_profile(profile).gpus):
        fake.unplug(gpu)  # one GPU is enough
    command = ("snapshot", "--all", "--format", "prometheus", "--source", "nvml", "--timeout", "2m")
    done = run_main(*command, environment=fake.environment)
    assert (done.status, done.stderr) == (0, "")
    cards = [line for line in done.stdout.splitlines(keepends=True) if 'vendor="nvidia"' in line]
    assert_golden(PAGES / f"{profile}.txt", "".join(cards))


def test_every_page_has_a_profile() -> None:
    assert {path.stem for path in PAGES.iterdir()} == set(profile_names())
