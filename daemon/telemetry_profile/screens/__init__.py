"""How the answer is shown: a screen of 24 lines, and the document `telemetry.profile/1`."""
