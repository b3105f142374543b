"""Reads the accelerators of a node in Python: `read`, `watch`, and a `Recorder` for named sections of a program.

>>> import device_telemetry
>>> device_telemetry.read().devices[0].value("power_watts")
112.4

All types are frozen. Unknown values are None or missing, never 0. `device_telemetry.prometheus` has a collector for programs
that expose metrics with prometheus-client.
"""

from device_telemetry.node_types import (
    Device,
    Node,
    NotReachableError,
    NotUnderstoodError,
    Source,
    TelemetryError,
    UnknownNameError,
)
from device_telemetry.reading import read, watch
from device_telemetry.recorder import Recorder
from device_telemetry.visible import visible

__all__ = [
    "Device",
    "Node",
    "NotReachableError",
    "NotUnderstoodError",
    "Recorder",
    "Source",
    "TelemetryError",
    "UnknownNameError",
    "read",
    "visible",
    "watch",
]
