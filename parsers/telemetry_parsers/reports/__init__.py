"""Parses printed texts into reports. Every parser of texts works this way:

1. A `Tool` (tool.py) declares a vendor's tool as data: its name, the shapes of its output, and the meaning of its errors
   and of no output. `parse(capture, tool)` (frame.py) finds the shape of each output, lets the shape read the text, and
   reports errors, output of another tool and unknown text.
2. A `Shape` reads a `Text` into a `Draft` (draft.py): the devices by their keys, the first number of each reading,
   identities, facts, processes, events, problems and unknown names. The frame makes the draft and, from it, the report.
3. A `Target` (targets.py) is the destination of a printed text. The catalogue determines how a number is read.

A vendor's tables map its keys or headings to targets, and its shapes call `draft.take(device, targets, text, where)`:

    KEYS = {"power cap": (metric("power_cap_watts", unit="W"),), "serial": (identity("serial"),)}

    def read_keys(lines, draft):
        for line in lines:
            name, _, text = line.text.partition(":")
            draft.take(draft.device(0), KEYS.get(name.lower(), ()), text, line.where)

    _TOOL = Tool("my-smi", "vendor", (of_lines(is_key, read_keys, tables=(KEYS,)),), silent="no output: load the driver")
    PARSER = parser_of(_TOOL, Poll("readings", Command((("my-smi",),))))

A number that must be chosen or computed (the highest of many, the busier of two) is chosen among the values that
`draft.value_in(target, text, unit)` returns, and passed to `draft.give`. Files and library answers without a text call `give`
without `where`: no problems are reported. A conclusion from all readings of a device (no answer, zeros that mean absent) uses
`draft.readings_of`, then `draft.overrule` or `draft.rewrite`.
"""
