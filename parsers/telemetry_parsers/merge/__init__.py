"""The reports of all sources are merged into one view of the node: each device once, with one reading per metric.

The entry point is `merged.merge`: first the devices are arranged (`arrangement`), then the values are filled in. An arrangement
is kept as long as the same steps would give the same result: while the reports have the same shape (devices, metrics, labels,
absences, the order of their times; `report_columns`) and the last merge did not change the state.

Each module is a step. Each rule has a reason in the output of real tools:

    for each report
      bounds                admission    a broken plugin lists 10,000 devices; those seen in the most polls are kept
      readings to offer     report_      a tool prints a placeholder as a number; out of range, it is `implausible`;
                            columns      memory used / total becomes a ratio
            │
    for all fresh reports together
            ▼
      devices of a source   joining      npu-smi shows a card in many polls, and after a loss in fewer: the source's newest
            │                            list decides which devices there are, the other polls add what they know
      what a number means   numbering    rocm-smi's table has only numbers, and renumbers the cards after a loss; a number means
            │                            the address in a fuller output, as long as the list has the same numbers
      devices of the node   joining      amdgpu-sysfs and rocm-smi see the same card: they are joined by address, else by
            │                            uuid, never by serial; some tools omit the PCI domain
      id and label          identity     a card is named once; its uuid may be read later, and its index may change
            │
      new devices           doubts       a garbled line is not a new card; a device at the address of a known one is accepted
            │                            when two polls or two sources report it
      up, lost or unknown   presence     a card that is missing from a complete list is lost; the output of a tool that
            │                            fails or is cut off is no evidence
      one reading a metric  precedence   library and tool both report the power; data before JSON before text, a number
            │                            before an absence; a counter keeps its source, and power its kind
            ▼
      devices               arrangement  a partition repeats its card's power, which only the card keeps; a metric that
                                         no source reported is an absence with its reason
            │
      numbers               merged       a poll with only new values costs a few steps per value

`memory.MergeState` is passed in and returned. Afterwards, `ranks` adds the rank of a job that runs on each chip.
"""
