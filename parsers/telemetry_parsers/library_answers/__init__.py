"""What the parsers of vendors' libraries share: from what a library answered to devices and readings."""
