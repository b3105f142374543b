"""`telemetry profile`: says why a training step is slow, from what profilers wrote. Only that command imports this package.

    profile_command.py  the arguments, and what is printed    format_contract.py   what a format is, and its facts; plugins import it
    files/              finds, recognises and reads files     formats/             what each profiler writes
    facts/              what formats share to find facts      verdict/             what the facts of all ranks say together
    profile_screen.py   the answer in 24 lines                profile_document.py  the answer as JSON

Formats never import each other. A profile comes from somebody else's job: everything in it is hostile text.
"""
