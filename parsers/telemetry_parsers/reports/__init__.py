"""From printed texts to a report: the one way that every parser of texts goes.

1. A `Tool` (tool.py) says in data what a vendor's tool is called, which shapes its output has, and what its errors and
   its silence mean. `parse(capture, tool)` does the rest: it finds the shape of each output, lets that shape read, and
   reports an error, another tool's output or an unknown text. What a tool does in its own way is a named field.
2. A `Shape` reads a `Text` into a `Draft` (draft.py): the devices by their places, the first number of each reading,
   identities, facts, processes, events, problems and unknown names. The frame makes the draft and makes the report of it.
3. A `Target` (targets.py) says where a printed text goes: `metric("power_cap_watts", unit="W")`, `identity("uuid")`,
   `fact("firmware")`, `health({...})`. The catalogue chooses how the number is read; `unit` is what a bare number is in.

A vendor's tables map its keys or headings to targets, and its shapes call `draft.take(device, targets, text, where)`.
"""
