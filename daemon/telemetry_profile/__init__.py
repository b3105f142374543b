"""`telemetry profile`: says why a training step is slow, from what profilers wrote. Only that command imports this package.

    command.py   the arguments, and what is printed       contract.py  what a format is; plugins import it
    files/       finds, unpacks and recognises files      formats/     a module for each format that a profiler writes
    facts/       the types that every format gives        verdict/     what the facts of all ranks say together
    screens/     the answer as a screen or as JSON

Formats never import each other. A profile comes from somebody else's job: everything in it is hostile text.
"""
