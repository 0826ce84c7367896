"""What is measured with one request at a time. Each scenario's docstring is its line in `--help`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from .arena import Arena, Figure, Step, percentile
from .server import BusyProcesses, Server

MIB = 1 << 20
GROWTH = 10  # a grown state has a tenth more tokens


def cold(arena: Arena) -> list[Figure]:
    """a short request (--cold-tokens) whose state and questions are new"""
    return [arena.compare("cold", cold_steps(arena), 20)]


def contention(arena: Arena) -> list[Figure]:
    """`cold` while one busy process per core runs beside the servers"""
    with BusyProcesses():
        return [arena.compare("contention", cold_steps(arena), 10)]


def cold_steps(arena: Arena) -> Iterator[Step]:
    while True:
        yield Step(arena.prompts.cold(arena.options.cold_tokens, arena.options.question_tokens))


def same_state(arena: Arena) -> list[Figure]:
    """new questions about a state (--state-tokens) that was asked about before"""

    def steps() -> Iterator[Step]:
        prompts, options = arena.prompts, arena.options
        state = prompts.text(options.state_tokens)
        yield Step(prompts.request(state, options.question_tokens), (prompts.request(state, options.question_tokens),))
        while True:
            yield Step(prompts.request(state, options.question_tokens))

    return [arena.compare("same-state", steps(), 20, check_cold=True)]


def grown_text(arena: Arena) -> list[Figure]:
    """new questions about a text with a tenth appended to what was asked about before; each time another text"""

    def steps() -> Iterator[Step]:
        prompts, options = arena.prompts, arena.options
        while True:
            state = prompts.text(options.state_tokens)
            grown = state + prompts.more(options.state_tokens // GROWTH)
            yield Step(
                prompts.request(grown, options.question_tokens), (prompts.request(state, options.question_tokens),)
            )

    return [arena.compare("grown-text", steps(), 10, check_cold=True)]


def grown_messages(arena: Arena) -> list[Figure]:
    """the same with an array of messages of about a hundred tokens, to which one or two are appended"""

    def steps() -> Iterator[Step]:
        prompts, options = arena.prompts, arena.options
        count = 1
        while True:
            state = prompts.messages(max(2, options.state_tokens // 100), options.state_tokens)
            grown = state + prompts.messages(count, options.state_tokens // GROWTH, after=state)
            yield Step(
                prompts.request(grown, options.question_tokens), (prompts.request(state, options.question_tokens),)
            )
            count = 3 - count

    return [arena.compare("grown-messages", steps(), 10, check_cold=True)]


def long(arena: Arena) -> list[Figure]:
    """a long request (--long-tokens) with a new state: time, and peak memory above idle of freshly started servers"""
    if all(server.is_command for server in arena.servers):
        arena.restart()
    time.sleep(1)
    is_observed = all(server.can_be_observed for server in arena.servers)
    idle = {server.name: server.resident_bytes() / MIB for server in arena.servers}
    seconds, tokens = Figure("long", "time", "s", [], []), set()
    memory = Figure("long", "peak memory above idle", "MiB", [], [])
    for order in arena.pairs(3, quick=1):
        request = arena.prompts.cold(arena.options.long_tokens, arena.options.question_tokens)
        for server in order:
            server.clear_peak()
            reply = arena.timed(server, request)
            tokens.add(reply.input_tokens)
            mine(arena, server, seconds).append(reply.seconds)
            mine(arena, server, memory).append(server.peak_bytes() / MIB - idle[server.name])
    seconds.tokens = memory.tokens = " to ".join(f"{count:,}" for count in sorted(tokens))
    if not is_observed:
        seconds.remarks.append("memory is known only of servers given by command, on Linux")
        return [seconds]
    memory.raw["idle_mib"] = idle
    peaks = {server.name: idle[server.name] + max(mine(arena, server, memory)) for server in arena.servers}
    memory.remarks.append(
        "resident: "
        + ", ".join(f"{name} {idle[name]:,.0f} MiB idle, {peak:,.0f} MiB at the peak" for name, peak in peaks.items())
    )
    return [seconds, memory]


def mine(arena: Arena, server: Server, figure: Figure) -> list[float]:
    """The side of a figure that belongs to a server."""
    return figure.ours if server is arena.ours else figure.theirs


def overhead(arena: Arena) -> list[Figure]:
    """`cold`: the client's whole time less backbone and head, where a server tells them (`Server-Timing`)"""
    figure = Figure("overhead", "all but backbone and head, p50", "ms", [], [])
    for server in arena.servers:
        stages: dict[str, list[float]] = {}
        trips: list[float] = []
        for _ in arena.pairs(50, quick=5):
            request = arena.prompts.cold(arena.options.cold_tokens, arena.options.question_tokens)
            reply = arena.timed(server, request)
            if not {"backbone", "head"} <= reply.stages.keys():
                break
            rest = 1e3 * reply.seconds - reply.stages["backbone"] - reply.stages["head"]
            mine(arena, server, figure).append(rest)
            figure.tokens = f"{reply.input_tokens:,}"
            for name, milliseconds in reply.stages.items():
                stages.setdefault(name, []).append(milliseconds)
            trips.append(1e3 * server.client.send("GET", "/health").seconds)
        if not stages:
            figure.remarks.append(f"{server.name} sends no Server-Timing")
            continue
        figure.raw[server.name] = {"stages_ms": stages, "health_ms": trips}
        values = mine(arena, server, figure)
        medians = ", ".join(f"{name} {statistics.median(times):.2f}" for name, times in stages.items())
        figure.remarks.append(
            f"{server.name}: p95 {percentile(values, 95):.2f} ms; medians by its own clock, ms: {medians}; "
            f"GET /health takes this client {statistics.median(trips):.2f} ms"
        )
    return [figure]
