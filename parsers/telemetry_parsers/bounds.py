"""The most that is taken from a source of each kind of data: these numbers bound what a bad source can cost the node."""

from __future__ import annotations

# Of one report. The largest nodes known have 64 whole devices, or 72 links on each of eight.
MOST_DEVICES = 256
MOST_READINGS = 32_768
MOST_WORDS = 128  # of one metric's label on one device
MOST_EVENTS = 1024
MOST_PROCESSES = 4096
MOST_CLAIMS = 4096
MOST_PROBLEMS = 64
MOST_UNKNOWN_FIELDS = 256
MOST_FACTS = 64  # of one device, and of the report itself

# Of one printed output: a text that lists more devices is no tool's, and of more unknown names the rest is left out.
MOST_LISTED = 1024

# In characters: of a label or a name, and of a problem's text.
LONGEST_NAME = 256
LONGEST_TEXT = 1024

# Remembered devices that are missing, of one vendor: lost ones, and those whose sources all fail.
MOST_LOST = 128
MOST_UNKNOWN = 256
MOST_REMEMBERED = 2048  # of all vendors, in the state file

# What is remembered from report to report beside the devices.
MOST_EVENT_CODES = 64  # of one device
MOST_PINNED_COUNTERS = 16_384
MOST_INDEX_SPACES = 16  # of one vendor
