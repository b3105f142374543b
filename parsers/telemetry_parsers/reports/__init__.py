"""From printed texts to a report: the one way that every parser of texts goes.

1. A `Tool` (tool.py) says in data what a vendor's tool is called, which shapes its output has, and what its errors and
   its silence mean. `parse(capture, tool)` (frame.py) does the rest: it finds the shape of each output, lets that shape
   read, and reports an error, another tool's output or an unknown text. What a tool does in its own way is a named field.
2. A `Shape` reads a `Text` into a `Draft` (draft.py): the devices by their places, the first number of each reading,
   identities, facts, processes, events, problems and unknown names. The frame makes the draft, and the report of it.
3. A `Target` (targets.py) says where a printed text goes: `metric("power_cap_watts", unit="W")`, `identity("uuid")`,
   `fact("firmware")`, `health({...})`. The catalogue chooses how the number is read; `unit` is what a bare number is in.

A vendor's tables map its keys or headings to targets, and its shapes call `draft.take(device, targets, text, where)`:

    KEYS = {"power cap": (metric("power_cap_watts", unit="W"),), "serial": (identity("serial"),)}

    def read_keys(lines, draft):
        for line in lines:
            name, _, text = line.text.partition(":")
            draft.take(draft.device(0), KEYS.get(name.lower(), ()), text, line.where)

    _TOOL = Tool("my-smi", "vendor", (of_lines(is_keys, read_keys, tables=(KEYS,)),), silent="no output: load the driver")
    PARSER = parser_of(_TOOL, Poll("readings", Command((("my-smi",),))))

What does not fit a row is a step before the draft, or a call of one of its other methods:

- A number that must be chosen or computed (the highest of many, the busier of two): choose among the values that
  `draft.value_in(target, text, unit)` gives, then `draft.give(device, target, value, text, where)`.
- A reading that is made elsewhere: `draft.complain_of(item, text, where)` reports it if it is bad, `draft.keep(item)`
  keeps it. A file or a library's answer without a text: `give` without `where` complains of nothing.
- What all readings of a device show together (it does not answer, its zeros are none): `draft.readings_of(device)`, then
  `draft.overrule(item)` or `draft.rewrite(device, ...)`.
- A `Device` that another function makes: `draft.device(place, known)` for a new one, `draft.add(known)` where each is listed
  once, `draft.describe(device, known, facts)` for more of the same.
- A list that ends too early: `draft.is_cut`. One that nothing closes: `draft.is_open`; it counts unless the tool failed.
  One that ended, with a device that is not understood: `draft.has_gaps`; none that it lacks is lost.

The limits on devices and unknown names are in bounds.py; nothing but the draft asks for them.
"""
