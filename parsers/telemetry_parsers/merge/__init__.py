"""Merges the reports of all sources into one view of the node: each device once, with one reading per metric.

The entry point is `merged.merge`. It first arranges the devices (`arrangement`), and then fills in the values. An
arrangement is reused while the state does not change and new reports have the same shape (`report_columns`): equal
devices, metrics, labels and `Absent` values, and the same order of their times.

Each module is a step. Each rule follows from the output of real tools:

    for each report
      limits                admission    a broken plugin lists 10,000 devices; the ones seen in most polls are kept
      checked readings      report_      a tool prints a placeholder as a number, which is `implausible` if out of range;
                            columns      a memory ratio is derived from used and total memory
            │
    for all fresh reports together
            ▼
      devices of a source   joining      npu-smi prints a card in many polls, and omits a lost card only in some: its newest
            │                            list determines its devices, and the other polls add fields
      addresses of indices  numbering    rocm-smi's table has only indices, which change after a loss; their addresses are learnt
            │                            from another output, and are valid while the list has the same indices
      devices of the node   joining      amdgpu-sysfs and rocm-smi report the same card: they are joined by address, else by
            │                            UUID, never by serial; some tools omit the PCI domain
      id and label          identity     a card is named once; its UUID may be read later, and its index may change
            │
      new devices           new_devices  a garbled line is not a new card; a new device at the address of a known device is
            │                            accepted when two polls or two sources report it
      up, lost or unknown   presence     a card that is missing from a complete list is lost; the output of a tool that fails or
            │                            is truncated proves nothing
      choice of readings    precedence   a library and a tool report the power: data wins over JSON, JSON over text, a number over
            │                            an `Absent` value; a counter keeps its source, and power its kind
            ▼
      devices               arrangement  a partition repeats its card's power, which only the card keeps; a metric that
                                         no source reported is an `Absent` value with its reason
            │
      numbers               merged       a poll with only new values costs a few steps per value

`merge_state.MergeState` is passed in and returned. After the merge, `ranks` adds the ranks of a job.
"""
