"""What profilers wrote: a module for each format, and what their facts say together.

    facts.py     the types that every format gives        contract.py   what a format is
    timeline.py  intervals become splits and kernels      times.py      printed times become nanoseconds
    words.py     what a kernel does, by its name             formats/      a module for each format

Formats never import each other. A profile comes from somebody else's job: everything in it is hostile text.
"""
