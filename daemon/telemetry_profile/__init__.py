"""`telemetry profile`: explains from the files of profilers why a training step is slow. No other command imports this package.

    profile_command.py  the arguments and the output          format_contract.py   the contract of a format, which plugins import
    files/              finds, recognises and reads files     formats/             the formats of profilers
    facts/              functions of several formats          verdict/             the conclusions from all files
    profile_screen.py   the summary in 24 lines               profile_document.py  the summary as JSON

A profile may come from another user's job: everything in it is hostile text.
"""
