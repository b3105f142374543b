"""Upper limits of each kind of data that a source reports, so that a faulty source cannot exhaust the node."""

from __future__ import annotations

# Limits of one report. The largest known nodes have 64 whole devices, or 72 links on each of eight devices.
MOST_DEVICES = 256
MOST_READINGS = 32_768
MOST_WORDS = 128  # of one metric's label on one device
MOST_EVENTS = 1024
MOST_PROCESSES = 4096
MOST_CLAIMS = 4096
MOST_PROBLEMS = 64
MOST_UNKNOWN_FIELDS = 256
MOST_FACTS = 64  # of one device, and of the report itself

# Limit of one printed output: no tool lists more devices; more unknown names are left out.
MOST_LISTED = 1024

# The lengths of a label or a name, and of a problem's text, in characters.
LONGEST_NAME = 256
LONGEST_TEXT = 1024

# Remembered devices that are missing, of one vendor: lost ones, and those whose sources all fail.
MOST_LOST = 128
MOST_UNKNOWN = 256
MOST_REMEMBERED = 2048  # of all vendors, in the state file

# Limits of the other state that is kept from report to report.
MOST_EVENT_CODES = 64  # of one device
MOST_PINNED_COUNTERS = 16_384
MOST_INDEX_SPACES = 16  # of one vendor
