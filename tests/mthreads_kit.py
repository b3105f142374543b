"""What mthreads-gmi prints on a node with one card, for tests of everything behind the parser."""

from __future__ import annotations

TABLE = """\
Fri May  2 10:11:12 2025
---------------------------------------------------------------
    mthreads-gmi:1.14.0          Driver Version:2.7.0
---------------------------------------------------------------
ID   Name           |PCIe                |%GPU  Mem
     Device Type    |Pcie Lane Width     |Temp  MPC Capable
                                         |      ECC Mode
+-------------------------------------------------------------+
0    MTT S80        |00000000:1a:00.0    |37%   2048MiB(16384MiB)
     Physical       |8x(16x)             |58C   YES
                                         |      N/A
---------------------------------------------------------------

---------------------------------------------------------------
Processes:
ID   PID       Process name                         GPU Memory
                                                         Usage
+-------------------------------------------------------------+
   No running processes found
---------------------------------------------------------------
"""
