"""A process that polls as the daemon does and writes what ran, as lines of JSON; ends with its standard input.

{"job", "beat"} for each run, {"second"} for each second of the monotonic clock, and at the end
{"runs", "trigger_calls", "guard_ticks", "steps"}.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from datetime import datetime, timezone

from apscheduler.schedulers.background import BackgroundScheduler

from telemetry_daemon.polling.clock import ClockGuard
from telemetry_daemon.polling.trigger import SteadyTrigger, respread, spread

INTERVAL_SECONDS = 2.0
JOBS = ("one", "two", "three")


class CountedTrigger(SteadyTrigger):
    calls = 0

    def get_next_fire_time(self, previous_fire_time, now):
        CountedTrigger.calls += 1
        return super().get_next_fire_time(previous_fire_time, now)


def write(**what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main():
    runs, steps = [], []
    phases = {job: spread("source", job, INTERVAL_SECONDS) for job in JOBS}

    def run(job):
        runs.append(job)
        write(job=job, beat=round((time.monotonic() - phases[job]) / INTERVAL_SECONDS))

    scheduler = BackgroundScheduler(
        timezone=timezone.utc, job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1}
    )
    for job in JOBS:
        scheduler.add_job(run, CountedTrigger(INTERVAL_SECONDS, phases[job]), args=[job], id=job)

    def on_step(seconds):
        steps.append(round(seconds))
        respread(scheduler)

    guard = ClockGuard(on_step)
    scheduler.start()
    guard.start()
    ended = threading.Thread(target=sys.stdin.read, daemon=True)
    ended.start()
    while ended.is_alive():
        write(second=math.floor(time.monotonic()), wall=datetime.now(timezone.utc).timestamp())
        time.sleep(1.0)
    scheduler.shutdown(wait=True)
    write(runs=len(runs), trigger_calls=CountedTrigger.calls, guard_ticks=guard.ticks, steps=steps)


if __name__ == "__main__":
    main()
