"""How `scripts/bench` compares two servers that answer `POST /v1/systemone`.

A time taken on another day, or on another machine, says little about a ratio: so both servers are alive in the same run
and take turns, one computing at a time, and what is reported is the median of the ratios of neighbouring measurements
together with their spread.

    client        one HTTP request, timed
    server        a server by URL or command: starting, readiness, memory, processor time, stopping
    prompts       requests of a wanted number of tokens, never the same twice
    pictures      pictures, new ones and renewed ones
    arena         the two servers and the taking of turns
    scenarios     what is measured, one request at a time
    load          what is measured with several requests at once
    images        what is measured with pictures
    machine       what a figure depends on: processor, commit, commands, models
    report        table, JSON
    chart         the ratios as SVG
    command_line  flags, set-up, clean-up

Only Python's standard library is used. Memory and processor time need Linux's /proc.
"""
