"""Parses printed texts into reports. Every parser of texts works this way:

1. A `Tool` (tool.py) declares a vendor's tool as data: its name, the shapes of its output, and the meaning of its errors
   and of no output. `parse(capture, tool)` (frame.py) does the rest: it finds the shape of each output, lets the shape
   read the text, and reports errors, output of another tool and unknown text. Deviations of a tool are named fields.
2. A `Shape` reads a `Text` into a `Draft` (draft.py): the devices by their keys, the first number of each reading,
   identities, facts, processes, events, problems and unknown names. The frame makes the draft and, from it, the report.
3. A `Target` (targets.py) is the destination of a printed text: `metric("power_cap_watts", unit="W")`, `identity("uuid")`,
   `fact("firmware")`, `health({...})`. The catalogue determines how the number is read; `unit` is the unit of a bare number.

A vendor's tables map its keys or headings to targets, and its shapes call `draft.take(device, targets, text, where)`:

    KEYS = {"power cap": (metric("power_cap_watts", unit="W"),), "serial": (identity("serial"),)}

    def read_keys(lines, draft):
        for line in lines:
            name, _, text = line.text.partition(":")
            draft.take(draft.device(0), KEYS.get(name.lower(), ()), text, line.where)

    _TOOL = Tool("my-smi", "vendor", (of_lines(is_key, read_keys, tables=(KEYS,)),), silent="no output: load the driver")
    PARSER = parser_of(_TOOL, Poll("readings", Command((("my-smi",),))))

Exceptions are handled before the draft, or with its other methods:

- A number that must be chosen or computed (the highest of many, the busier of two): choose among the values that
  `draft.value_in(target, text, unit)` returns, then `draft.give(device, target, value, text, where)`.
- A reading made elsewhere: `draft.complain_of(item, text, where)` reports a bad reading, `draft.keep(item)` keeps it.
  For files and library answers without a text, call `give` without `where`: no problems are reported.
- A conclusion from all readings of a device (no answer, zeros that mean absent): `draft.readings_of(device)`, then
  `draft.overrule(item)` or `draft.rewrite(device, ...)`.
- A `Device` made by another function: `draft.device(key, template)` for a new device, `draft.add(device)` if each is listed
  once, `draft.describe(position, device, facts)` for more fields of a device.
- A truncated list: `draft.is_cut`. A list without an end mark: `draft.is_open`; it counts unless the tool failed.
  A complete list with a device that is not understood: `draft.has_gaps`; no device missing from it is lost.

The limits on devices and unknown names are in bounds.py; only the draft checks them.
"""
