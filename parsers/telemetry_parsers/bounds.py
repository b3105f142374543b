"""Limits of the data that a source can report, so that a faulty source cannot exhaust the node's memory."""

from __future__ import annotations

# Limits of one report. The largest known nodes have 64 whole devices, or eight devices with 72 links each.
MOST_DEVICES = 256
MOST_READINGS = 32_768
MOST_WORDS = 128  # label values of one metric on one device
MOST_EVENTS = 1024
MOST_PROCESSES = 4096
MOST_CLAIMS = 4096
MOST_PROBLEMS = 64
MOST_UNKNOWN_FIELDS = 256
MOST_FACTS = 64  # of one device, or of the report itself

# The most devices and the most unknown names in one printed output.
MOST_LISTED = 1024

# The most characters of a label or a name, and of a problem's text.
LONGEST_NAME = 256
LONGEST_TEXT = 1024

# The most missing devices of one vendor that are remembered: lost devices, and devices whose sources all fail.
MOST_LOST = 128
MOST_UNKNOWN = 256
MOST_REMEMBERED = 2048  # missing devices of all vendors, in the state file

# Limits of other state that merge keeps.
MOST_EVENT_CODES = 64  # of one device
MOST_PINNED_COUNTERS = 16_384
MOST_INDEX_SPACES = 16  # of one vendor
