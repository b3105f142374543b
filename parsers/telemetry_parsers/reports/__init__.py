"""Parses printed texts into reports. Every parser of texts has these parts:

1. A `Tool` (tool.py) declares a vendor's tool as data: its name, the shapes of its output, and its errors.
   `parse(capture, tool)` (tool_parser.py) finds the shape of each output, parses the text with this shape, and reports
   errors, output of other tools and unknown text.
2. A `Shape` reads a `ToolText` into a `Draft` (draft.py): devices by their keys, the first number of each reading,
   identities, facts, processes, events, problems and unknown names. The draft then returns the report.
3. A `Target` (targets.py) is the destination of a printed text. The catalogue determines how a number is parsed.

A vendor's tables map its keys or headings to targets, and its shapes call `draft.store(device, targets, text, where)`:

    KEYS = {"power cap": (metric("power_cap_watts", unit="W"),), "serial": (identity("serial"),)}

    def read_keys(lines, draft):
        for line in lines:
            name, _, text = line.text.partition(":")
            draft.store(draft.device(0), KEYS.get(name.lower(), ()), text, line.where)

    _TOOL = Tool("my-smi", "vendor", (of_lines(is_key, read_keys, tables=(KEYS,)),), no_output="no output: load the driver")
    PARSER = parser_of(_TOOL, Poll("readings", Command((("my-smi",),))))

`draft.value_in(target, text, unit)` returns a value for parsers that choose or compute a number, such as a maximum. They
pass the number to `draft.set_value`. Without `where`, a bad value is not reported as a problem. After all readings of a
device are known, a parser can correct readings (`draft.replace_reading`) and the device (`draft.replace_device`).
"""
