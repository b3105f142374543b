"""All that is known of a profile at the end: what the screen and the JSON document show."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_profile.verdict.achieved import Achieved
from telemetry_profile.verdict.combine import Profile
from telemetry_profile.verdict.summary import Usual
from telemetry_profile.verdict.then import Then


@dataclass(frozen=True, slots=True)
class Answer:
    """`ranks`, `achieved` and `then` have an item for each member of the profile; `telemetry` names what was asked for `then`, "" if nothing was."""

    profile: Profile
    ranks: tuple[Usual, ...]
    achieved: tuple[Achieved | None, ...]
    then: tuple[Then | None, ...]
    telemetry: str = ""
