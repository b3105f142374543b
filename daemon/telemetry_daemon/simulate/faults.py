"""How often things go wrong on a simulated node, and how often one job takes all of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates per hour: of a card, except `failed_polls`, `slow_nodes` and `big_jobs`, which are of a source.

    A slow card or node is slow in a big job: a training over all cards of the source.
    """

    events: float = 0.0
    fatal_events: float = 0.0
    hot_spells: float = 0.0
    lost_cards: float = 0.0
    links_down: float = 0.0
    corrected_errors: float = 0.0
    uncorrected_errors: float = 0.0
    failed_polls: float = 0.0
    hung_cards: float = 0.0
    hung_jobs: float = 0.0
    slow_cards: float = 0.0
    slow_nodes: float = 0.0
    big_jobs: float = 0.0


NO_FAULTS = Faults()
# On a node of eight cards something shows every few minutes, and mostly all is well.
SOME_FAULTS = Faults(
    events=0.2,
    fatal_events=0.02,
    hot_spells=0.5,
    lost_cards=0.08,
    links_down=0.1,
    corrected_errors=0.5,
    uncorrected_errors=0.02,
    failed_polls=2.0,
    hung_cards=0.01,
    hung_jobs=0.02,
    slow_cards=0.02,
    slow_nodes=0.01,
)
