"""Limits on the data of one source, which protect the node's memory from a faulty source."""

from __future__ import annotations

# Limits on one report. The largest known nodes have 64 devices, or eight devices with 72 links each.
MAX_DEVICES = 256
MAX_READINGS = 32_768
MAX_LABEL_VALUES = 128  # per metric of one device
MAX_EVENTS = 1024
MAX_PROCESSES = 4096
MAX_CLAIMS = 4096
MAX_PROBLEMS = 64
MAX_UNKNOWN_FIELDS = 256
MAX_FACTS = 64  # the maximum number of facts about one device, and about the report itself

# The maximum numbers of devices and of unknown names in one printed output.
MAX_LISTED = 1024

# The maximum numbers of characters of a label or name, and of a problem's text.
MAX_NAME_LENGTH = 256
MAX_TEXT_LENGTH = 1024

# The maximum numbers of remembered devices per vendor: lost devices, and devices whose sources all fail.
MAX_LOST = 128
MAX_UNKNOWN = 256
MAX_REMEMBERED = 2048  # the maximum number of missing devices of all vendors in the state file

# Limits on other state that the merge keeps.
MAX_EVENT_CODES = 64  # per device
MAX_PINNED_COUNTERS = 16_384
MAX_INDEX_SPACES = 16  # per vendor
