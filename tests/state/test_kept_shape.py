"""While only numbers change, results kept from earlier polls make no difference to any output."""

import pytest

from state.lives import compare

STEPS = 40
# Lives with more changes than others.
QUICK = (0, 2, 10, 13, 17)


@pytest.mark.parametrize(
    "seed", [*QUICK, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(80) if seed not in QUICK)]
)
def test_kept_results_change_no_output(seed: int) -> None:
    compare(seed, STEPS)
