"""What is measured with several requests at once."""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .arena import Arena, Figure, Options, percentile, spread, tell
from .client import BenchError, Reply, encode
from .prompts import Request
from .scenarios import mine
from .server import Server

IDENTICAL = 8


@dataclass
class Load:
    """What came of a list of requests; `seconds` are of the whole list, `latencies` of each that was answered."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    tokens: int = 0
    failures: Counter[str] = field(default_factory=Counter)


def identical(arena: Arena) -> list[Figure]:
    """eight equal requests at once, as `cold`, against one"""
    figure = Figure("identical", f"time of {IDENTICAL} at once", "s", [], [])
    alone: dict[str, list[float]] = {server.name: [] for server in arena.servers}
    for order in arena.pairs(5):
        one, many = (arena.prompts.cold(arena.options.cold_tokens, arena.options.question_tokens) for _ in range(2))
        for server in order:
            reply = arena.timed(server, one)
            alone[server.name].append(reply.seconds)
            figure.tokens = f"{IDENTICAL} x {reply.input_tokens:,}"
            time.sleep(arena.options.pause)
            load = run_clients(server, [encode(many)] * IDENTICAL, IDENTICAL)
            if load.failures:
                raise BenchError(f"{server.name}: of {IDENTICAL} requests at once {describe(load.failures)}")
            mine(arena, server, figure).append(load.seconds)
    for server in arena.servers:
        times = [many / one for many, one in zip(mine(arena, server, figure), alone[server.name])]
        figure.remarks.append(f"{server.name}: {IDENTICAL} take {spread(times)} times as long as one")
    figure.raw["alone_s"] = alone
    return [figure]


def concurrent(arena: Arena) -> list[Figure]:
    """the text records of --requests by --clients at once, and by one; servers take turns, list by list"""
    records = text_records(arena)
    if arena.options.quick:
        records = [record for record in records if len(encode(record)) < 3000]
    counts = sorted({1, *arena.options.clients})
    loads: dict[tuple[str, int], list[Load]] = {(server.name, n): [] for server in arena.servers for n in counts}
    for order in arena.pairs(2, quick=1):
        # Each repetition of the list has another order, the same for both servers and all numbers of clients.
        listed = [record for _ in range(arena.options.rounds) for record in arena.prompts.shuffled(records)]
        for clients in counts:
            bodies = [encode(arena.prompts.renewed(record)) for record in listed]
            if arena.options.repeat_states:
                bodies = [encode(record) for record in listed]
            for server in order:
                tell(f"  {server.name}: {len(bodies)} requests by {clients} at once")
                time.sleep(arena.options.pause)
                loads[server.name, clients].append(run_clients(server, bodies, clients))
    return [concurrent_figure(arena, clients, loads) for clients in counts]


def concurrent_figure(arena: Arena, clients: int, loads: dict[tuple[str, int], list[Load]]) -> Figure:
    figure = Figure("concurrent", f"time of the list, {clients} at once", "s", [], [])
    for server in arena.servers:
        runs, serial = loads[server.name, clients], loads[server.name, 1]
        mine(arena, server, figure).extend(run.seconds for run in runs)
        figure.raw[server.name] = [vars(run) for run in runs]
        seconds, latencies = sum(run.seconds for run in runs), [one for run in runs for one in run.latencies]
        failures = sum((run.failures for run in runs), Counter())
        if not latencies:
            figure.remarks.append(f"{server.name}: {describe(failures)}")
            continue
        figure.tokens = f"{runs[0].tokens:,}"
        against = [alone.seconds / run.seconds for alone, run in zip(serial, runs)]
        figure.remarks.append(
            f"{server.name}: {len(latencies) / seconds:.2f} requests/s, "
            f"{sum(run.tokens for run in runs) / seconds:,.0f} tokens/s"
            + (f", {spread(against)} x serial" if clients > 1 else "")
            + f"; latency p50 {percentile(latencies, 50):.2f} s, p95 {percentile(latencies, 95):.2f} s; "
            + (describe(failures) if failures else "all answered")
        )
    return figure


def interleave(arena: Arena) -> list[Figure]:
    """small requests, one after the other, while the longest of --requests is being read, against alone"""
    records = text_records(arena)
    longest = max(records, key=lambda record: len(encode(record)))
    if arena.options.quick:
        longest = sorted(records, key=lambda record: len(encode(record)))[len(records) // 2]
    figure = Figure("interleave", "longest time of a small request", "s", [], [])
    waits: dict[str, list[float]] = {server.name: [] for server in arena.servers}
    alone: dict[str, list[float]] = {server.name: [] for server in arena.servers}
    raw: dict[str, list[dict[str, Any]]] = {server.name: [] for server in arena.servers}
    for order in arena.pairs(2, quick=1):
        request = arena.prompts.renewed(longest)
        for server in order:
            before = [arena.timed(server, arena.prompts.small()) for _ in range(3)]
            typical = statistics.median(reply.seconds for reply in before)
            time.sleep(arena.options.pause)
            reading, during = small_during(arena, server, encode(request))
            mine(arena, server, figure).append(max(during))
            alone[server.name].append(typical)
            # What a small request waits, in tokens of the long one at the speed at which this was read.
            speed = reading.input_tokens / max(typical, reading.seconds - len(during) * typical)
            waits[server.name] += [(seconds - typical) * speed for seconds in during]
            raw[server.name].append({"alone_s": typical, "during_s": during, "long_s": reading.seconds})
            figure.tokens = f"{before[0].input_tokens:,} beside {reading.input_tokens:,}"
    for server in arena.servers:
        runs, waited = raw[server.name], waits[server.name]
        during = [seconds for run in runs for seconds in run["during_s"]]
        figure.remarks.append(
            f"{server.name}: {statistics.median(alone[server.name]):.2f} s alone; {len(during)} beside the long one, "
            f"median {statistics.median(during):.2f} s, longest {max(during):.2f} s; they waited for as long as it "
            f"takes to read {max(0, statistics.median(waited)):,.0f} of its tokens (at most {max(0, *waited):,.0f}); "
            f"the long one took {statistics.median(run['long_s'] for run in runs):.1f} s"
        )
    figure.raw = raw
    return [figure]


def small_during(arena: Arena, server: Server, body: bytes) -> tuple[Reply, list[float]]:
    """Sends a long request and, until it is answered, small ones: the reply, and the seconds of each small one."""
    replies: list[Reply] = []
    errors: list[BenchError] = []

    def read() -> None:
        try:
            replies.append(server.decide(body))
        except BenchError as error:
            errors.append(error)

    # A daemon, as all threads here: at Ctrl-C nobody waits for an answer that may be minutes away.
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    times: list[float] = []
    reader.join(timeout=arena.options.every)
    while reader.is_alive():
        times.append(server.decide(encode(arena.prompts.small())).seconds)
        reader.join(timeout=arena.options.every)
    if errors:
        raise errors[0]
    if not times:
        raise BenchError(f"{server.name}: the long request was answered within {arena.options.every} s (--every)")
    return replies[0], times


def text_records(arena: Arena) -> list[Request]:
    """The requests of the file that have no pictures."""
    options = arena.options
    pictures = ("images", "videos", "assets")
    records = [record for record in read_records(options) if not any(record.get(name) for name in pictures)]
    if not records:
        limit = " below the limit" if options.largest_request else ""
        raise BenchError(f"{options.requests} has no request without pictures{limit}")
    return records


def read_records(options: Options) -> list[Request]:
    """All requests of the file that are not too large."""
    try:
        lines = options.requests.read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise BenchError(f"{options.requests}: {error}") from error
    limit = options.largest_request
    return [record for record in records if not (limit and len(encode(record)) > limit)]


def run_clients(server: Server, bodies: Sequence[bytes], clients: int) -> Load:
    """Has so many clients take the next of a list until none is left. What fails is counted, not raised."""
    load = Load()
    lock = threading.Lock()
    waiting = iter(bodies)
    barrier = threading.Barrier(clients + 1)

    def work() -> None:
        barrier.wait()
        while True:
            with lock:
                body = next(waiting, None)
            if body is None:
                return
            try:
                reply = server.client.send("POST", "/v1/systemone", body)
            except TimeoutError:
                failure = "time-out"
            except (OSError, http.client.HTTPException) as error:
                failure = type(error).__name__
            else:
                failure = "" if reply.status == 200 else str(reply.status)
            with lock:
                if failure:
                    load.failures[failure] += 1
                else:
                    load.latencies.append(reply.seconds)
                    load.tokens += reply.input_tokens

    threads = [threading.Thread(target=work, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    load.seconds = time.perf_counter() - start
    return load


def describe(failures: Counter[str]) -> str:
    """How many requests failed, and how."""
    return "not answered: " + ", ".join(f"{count} x {name}" for name, count in failures.most_common())
