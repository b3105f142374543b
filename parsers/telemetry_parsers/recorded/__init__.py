"""What readers of vendors' libraries recorded, on its way to devices and readings."""
