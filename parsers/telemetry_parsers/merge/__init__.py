"""The reports of all sources become one picture of the node: each device once, with one reading of each metric.

There is one way through, `merged.merge`: first the devices are arranged (`arrangement`), then the numbers are put in. An arrangement
is kept for as long as the same steps would give the same: while the reports have the same shape (devices, metrics, labels,
absences, the order of their times; `report_columns`) and the last time has changed nothing that is remembered.

Each module is a step, and each step has a rule because some tool really does this:

    for each report
      bounds                admission    a broken plugin lists 10,000 devices: those seen in the most polls are kept
      readings to offer     report_      a tool prints a placeholder as a number: out of its range, it is `implausible`;
                            columns      memory used / total becomes a ratio
            │
    for all fresh reports together
            ▼
      devices of a source   joining      npu-smi shows a card in many polls, and after a loss in fewer: the source's newest
            │                            list decides which devices there are, the other polls add what they know
      what a number means   numbering    rocm-smi's table has numbers only, and counts anew after a loss: a number stands
            │                            for the address that a fuller output gave, as long as the numbers are the same
      devices of the node   joining      amdgpu-sysfs and rocm-smi see the same card: the address joins them, else the
            │                            uuid, never the serial; some tools leave out the PCI domain
      id and label          identity     a card is named once: its uuid may come later, and its number may change
            │
      newcomers             doubts       one garbled line is no new card: a device in the place of a known one is believed
            │                            when two polls or two sources report it
      up, lost or unknown   presence     a card that is off the bus is missing from a whole list, so it is lost; a tool
            │                            that fails or is cut says nothing about it
      one reading a metric  precedence   library and tool both give the power: data before JSON before text, a number
            │                            before an absence; a counter stays with its source, and power with its kind
            ▼
      devices               arrangement  a partition repeats its card's power: the card has it once; a metric that nobody gave
                                         is an absence with its reason
            │
      numbers               merged       a poll that brings new numbers only costs a few steps for each of them

`memory.MergeState` goes in and comes out. `ranks` adds afterwards which rank of a job runs on which chip.
"""
