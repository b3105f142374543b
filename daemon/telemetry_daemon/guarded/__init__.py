"""Files and sockets, written and read where others may have been before us: nothing is opened for writing elsewhere."""
