"""A fake MTML for tests: built from tests/mtml_fake, loaded by the vendor's binding, controlled by a file at run time.

fake = FakeMtml(tmp_path)
fake.set_answers(0, power="!5")                # the next power calls return NO_PERMISSION
daemon = Daemon(…, environment=fake.environment)
assert fake.calls("mtmlLibraryInit") == 1
"""

import os
import shutil
from functools import cache
from pathlib import Path

from kits.compiled import cc, compiled

LIBRARY = "libmtml.so.2"
SOURCE = Path(__file__).parents[1] / "mtml_fake" / "mtml.c"
MIB = 1 << 20
_FLAGS = ("-std=gnu11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{LIBRARY}")

DeviceName = int | str
S4000 = {
    "name": "MTT S4000",
    "power": 121_500,
    "utilization": 37,
    "temperature": 58,
    "clock": 1600,
    "max_clock": 1750,
    "memory_clock": 1500,
    "max_memory_clock": 1500,
    "video_clock": 1100,
    "max_video_clock": 1200,
    "total": 49_152 * MIB,
    "used": 2048 * MIB,
    "link": "4 5 8 16",
    "codecs": "5 0",
    "fans": 2,
    "fan0": 61,
    "fan1": 64,
    "ecc": "1 1",
    "corrected": 3,
    "uncorrected": 0,
    "ever_corrected": 41,
    "ever_uncorrected": 1,
    "retired": "2 0",
    "pending": 0,
    "links": 3,
    "link0": 1,
    "link1": 0,
    "link2": 2,
    "property": "0 1 0",
    "firmware": "4.4.02",
}


class FakeMtml:
    """MTML of one node in a folder: library, answers and recorded calls. Changes apply from the next call on."""

    def __init__(self, folder: Path, cards: int = 2) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "answers"
        self._answers: dict[tuple[str, str], str] = {}
        self.set_answers("node", version="2.2.0", driver="3.3.8-server", count=cards)
        for card in range(cards):
            self.set_answers(card, **S4000, **self.identity(card))
        shutil.copy(_built(), folder / LIBRARY)

    @staticmethod
    def identity(card: int) -> dict[str, str]:
        return {
            "uuid": f"6b1f0c2d-91aa-4c0e-8d17-30f2a4b5c6d{card}",
            "serial": f"MY18VG021C80077{card}",
            "address": f"00000000:{0x1A + card:02X}:00.0",
        }

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which a process finds this library, which must exist when it starts."""
        paths = [str(self.folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {"LD_LIBRARY_PATH": os.pathsep.join(paths), "MTML_FAKE": str(self._path)}

    def set_answers(self, device: DeviceName, **answers: object) -> None:
        """Set the answers of calls on a card, on `node`, or on an instance such as `0/1`. `"!5"` is error 5."""
        self._answers.update({(str(device), key): str(answer) for key, answer in answers.items()})
        self._write()

    def fail(self, card: int, code: int) -> None:
        """Let every call on a card return this error, including the call that opens it."""
        keys = {key for device, key in self._answers if device == str(card)}
        self.set_answers(card, open=f"!{code}", **dict.fromkeys(keys - {"open"}, f"!{code}"))

    def heal(self, card: int) -> None:
        del self._answers[str(card), "open"]
        self.set_answers(card, **S4000, **self.identity(card))

    def calls(self, name: str, device: DeviceName | None = None) -> int:
        """Return how often a call was made, for one device or for all."""
        notes = Path(f"{self._path}.calls")
        lines = notes.read_text().splitlines() if notes.exists() else []
        return sum(
            line.split() == [name, str(device)] if device is not None else line.split()[0] == name for line in lines
        )

    def _write(self) -> None:
        new = self._path.with_suffix(".new")
        new.write_text("".join(f"{device} {key} {answer}\n" for (device, key), answer in self._answers.items()))
        new.replace(self._path)


@cache
def _built() -> Path:
    folder = compiled("mtml", [SOURCE], _FLAGS, lambda folder: cc(*_FLAGS, "-o", folder / LIBRARY, SOURCE))
    return folder / LIBRARY
