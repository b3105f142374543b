"""The cases of the alerts on events, for test_alerts.py."""

from __future__ import annotations

from grafana.alert_cases import ALWAYS, Case

OPEN = 'accelerator_event_open{{D},code="%s"}'
COUNTED = 'accelerator_events_total{{D},code="%s"}'
EVENTS = (
    Case(
        "AcceleratorEventCritical",
        {OPEN % "xid_79": ALWAYS},
        {
            "repaired": {OPEN % "xid_79": "1x54 stale"},
            "another code": {OPEN % "xid_94": ALWAYS},
            "an application's": {OPEN % "xid_43": ALWAYS},
        },
    ),
    # Just seen for the first time; over a restart of the daemon; after a day; at a clock that is wrong, which nothing looks at.
    Case("AcceleratorEventCritical", {OPEN % "xid_48": "_x60 1x60"}),
    Case("AcceleratorEventCritical", {OPEN % "xid_48": "1x57 stale _x2 1x60"}),
    Case(
        "AcceleratorEventCritical",
        {OPEN % "xid_48": ALWAYS, 'accelerator_event_last_timestamp_seconds{{D},code="xid_48"}': "-900x120"},
    ),
    Case(
        "AcceleratorEvent",
        {OPEN % "xid_94": "_x5 1x115", COUNTED % "xid_94": "_x5 1x115"},
        {
            "long ago": {OPEN % "xid_94": "1x120", COUNTED % "xid_94": "1x120"},
            "long ago, and the daemon started anew": {
                OPEN % "xid_94": "1x50 stale _ 1x70",
                COUNTED % "xid_94": "3x50 stale _ 0x70",
            },
            "repaired": {OPEN % "xid_94": "_x5 1x48 stale", COUNTED % "xid_94": "_x5 1x115"},
            "critical": {OPEN % "xid_79": "_x5 1x115", COUNTED % "xid_79": "_x5 1x115"},
            "an application's": {OPEN % "xid_13": "_x5 1x115", COUNTED % "xid_13": "1+1x120"},
            "a loss, which has an alert of its own": {OPEN % "gpu_lost": ALWAYS, COUNTED % "gpu_lost": "1+1x120"},
            "links down, which have one, too": {OPEN % "link_down": "_x30 1x90", COUNTED % "link_down": "_x30 1+1x90"},
        },
    ),
    # It comes again; also after a restart, which counts from 0.
    Case("AcceleratorEvent", {OPEN % "xid_94": ALWAYS, COUNTED % "xid_94": "1x30 2x90"}),
    Case("AcceleratorEvent", {OPEN % "xid_94": ALWAYS, COUNTED % "xid_94": "1x20 stale _ 0x10 1x90"}),
    # What a vendor's tool goes on telling.
    Case(
        "AcceleratorEvent",
        {OPEN % "error_80e01801": ALWAYS, COUNTED % "error_80e01801": ALWAYS},
        {"ended": {OPEN % "error_80e01801": "1x54 stale", COUNTED % "error_80e01801": "1x30 2x90"}},
    ),
)
