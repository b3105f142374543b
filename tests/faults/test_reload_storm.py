"""However fast the signals come, reloads are cheap and end soon, and the last good configuration applies."""

import itertools
import signal
import time
from pathlib import Path

from kits.daemon import reload_held_up
from kits.processes import holdings
from kits.tool_node import TOOL, series, tool_node

SIGNALS = 20
# Slow enough that each signal arrives separately; the blocked check has 30 seconds.
PAUSE_SECONDS = 0.01
# asyncio's thread pool grows to its size and keeps its threads.
POOL_THREADS = 8


def expecting(count: int) -> str:
    return f"[expect.devices]\nnvidia = {count}\n"


def test_a_burst_of_signals_is_a_few_reloads(tmp_path: Path) -> None:
    daemon, tools = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        before, polls = holdings(daemon.pid), len(tools.calls(TOOL))
        texts = itertools.cycle((expecting(7), "[nonsense", expecting(8)))
        with reload_held_up(daemon):
            for text in itertools.islice(texts, SIGNALS):
                daemon.write_config(daemon.config + text)
                daemon.signal(signal.SIGHUP)
                time.sleep(PAUSE_SECONDS)
        daemon.write_config(daemon.config + expecting(9))
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: 'telemetry_devices_expected{vendor="nvidia"} 9.0' in daemon.page())
        daemon.until(lambda: len(tools.calls(TOOL)) >= polls + 6)
        reloads = daemon.logged("configuration reloaded") + daemon.logged("was not reloaded")
        assert 1 <= reloads <= 3, "the one held up, one for all signals meanwhile, and one for the last"
        assert series(daemon, "telemetry_config_last_reload_successful ")[0].endswith(" 1.0")
        daemon.until(lambda: holdings(daemon.pid).at_most(before, more=POOL_THREADS))
        assert daemon.stop()[0] == 0
