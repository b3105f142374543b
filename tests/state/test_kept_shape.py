"""While only numbers change, merge, statuses and page keep what they found before: what comes out is as if they had kept nothing."""

import pytest

from state.lives import compare

STEPS = 40
# Lives in which more changes than in others.
QUICK = (0, 2, 10, 13, 17)


@pytest.mark.parametrize(
    "seed", [*QUICK, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(80) if seed not in QUICK)]
)
def test_what_is_kept_cannot_be_told_from_what_is_made_anew(seed: int) -> None:
    compare(seed, STEPS)
