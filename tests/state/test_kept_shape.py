"""While only numbers change, merge, statuses and page keep what they found before: what comes out is as if they had kept nothing."""

from __future__ import annotations

import pytest

from state.lives import compare

STEPS = 40


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 80))])
def test_what_is_kept_cannot_be_told_from_what_is_made_anew(seed: int) -> None:
    compare(seed, STEPS)
