"""The two servers, and the taking of turns.

Both are alive, one computes: each measurement of one server has its counterpart on the other right before or after it,
and who comes first changes from pair to pair, so whatever else the machine does falls on both alike. How much processor
time the server used that should have been idle is counted, too: one that spins takes from the other's figures.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .client import Reply, encode, largest_difference
from .prompts import Prompts, Request
from .server import Server


@dataclass
class Options:
    """What the command line says; sizes in tokens, times in seconds."""

    pairs: int | None
    quick: bool
    cold_tokens: int
    question_tokens: int
    state_tokens: int
    long_tokens: int
    pictures: list[tuple[int, int]]
    clients: list[int]
    rounds: int
    requests: Path
    largest_request: int | None
    repeat_states: bool
    every: float
    pause: float


@dataclass
class Figure:
    """One line of the table: what was measured on both servers, in pairs; smaller is better.

    `ratios` are theirs / ours, pair by pair; where only one server could be measured there are none.
    """

    scenario: str
    quantity: str
    unit: str
    ours: list[float]
    theirs: list[float]
    tokens: str = ""
    remarks: list[str] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)

    @property
    def ratios(self) -> list[float]:
        """Theirs / ours by pair."""
        return [theirs / ours for ours, theirs in zip(self.ours, self.theirs) if ours > 0]


@dataclass(frozen=True)
class Step:
    """One request to measure, after others that are sent but not counted."""

    measured: Request
    before: tuple[Request, ...] = ()


class Arena:
    """What a scenario needs: both servers, new requests, and ways to measure."""

    def __init__(self, ours: Server, theirs: Server, cold: Server | None, prompts: Prompts, options: Options) -> None:
        self.ours = ours
        self.theirs = theirs
        self.cold = cold
        self.prompts = prompts
        self.options = options
        self.idle_use: dict[str, list[tuple[float, float]]] = {ours.name: [], theirs.name: []}

    @property
    def servers(self) -> tuple[Server, Server]:
        """Both, ours first."""
        return self.ours, self.theirs

    def pairs(self, usual: int, quick: int = 2) -> Iterator[tuple[Server, Server]]:
        """As many pairs as were asked for, or as are usual; who is first alternates."""
        count = self.options.pairs or (quick if self.options.quick else usual)
        for i in range(count):
            tell(f"  pair {i + 1} of {count}")
            yield self.servers if i % 2 == 0 else self.servers[::-1]

    def timed(self, server: Server, request: Request) -> Reply:
        """One measured request, after a pause in which threads that spin for a while come to rest."""
        body = encode(request)
        other = self.theirs if server is self.ours else self.ours
        time.sleep(self.options.pause)
        used, start = other.processor_seconds(), time.monotonic()
        reply = server.decide(body)
        self.idle_use[other.name].append((other.processor_seconds() - used, time.monotonic() - start))
        return reply

    def compare(self, scenario: str, steps: Iterable[Step], usual: int, check_cold: bool = False) -> Figure:
        """Sends each step to both servers in turns and compares times and answers."""
        figure = Figure(scenario, "time", "s", [], [])
        counted: set[int] = set()
        differences: list[float] = []
        answered: list[tuple[Request, Reply]] = []
        stages: dict[str, list[dict[str, float]]] = {server.name: [] for server in self.servers}
        for order, step in zip(self.pairs(usual), steps):
            for server in order:
                for request in step.before:
                    server.decide(encode(request))
            replies = {server.name: self.timed(server, step.measured) for server in order}
            ours, theirs = replies[self.ours.name], replies[self.theirs.name]
            figure.ours.append(ours.seconds)
            figure.theirs.append(theirs.seconds)
            counted |= {ours.input_tokens, theirs.input_tokens}
            if ours.input_tokens != theirs.input_tokens:
                figure.remarks.append(
                    f"tokens differ: ours counts {ours.input_tokens:,}, theirs {theirs.input_tokens:,}"
                )
            differences.append(largest_difference(ours.answers, theirs.answers))
            answered.append((step.measured, ours))
            for name, reply in replies.items():
                stages[name].append(reply.stages)
        figure.tokens = span(counted)
        figure.raw["largest_probability_differences"] = differences
        figure.raw["stages_ms"] = stages
        figure.remarks.append(f"probabilities of the two differ by at most {max(differences):.2g}")
        if check_cold and self.cold is not None:
            figure.remarks.append(self._check_cold(self.cold, answered, figure))
        return figure

    def _check_cold(self, cold: Server, answered: list[tuple[Request, Reply]], figure: Figure) -> str:
        # Only now, so that no third process is alive while times are taken.
        tell("  asking the server that keeps nothing")
        try:
            cold.start()
            pairs = [(ours.answers, cold.decide(encode(request)).answers) for request, ours in answered]
        finally:
            cold.stop()
        equal = sum(ours == theirs for ours, theirs in pairs)
        largest = max(largest_difference(ours, theirs) for ours, theirs in pairs)
        figure.raw["cold_check"] = {"requests": len(pairs), "bit_equal": equal, "largest_difference": largest}
        return (
            f"of {len(pairs)} answers {equal} are bit-equal to a cold server's, the largest difference is {largest:.2g}"
        )

    def show_pictures(self, is_shown: bool) -> None:
        """Starts anew, with a projector or without, each server that is given one and is not that way already."""
        for server in self.servers:
            if server.shows_pictures != is_shown and server.projector is not None:
                server.stop()
                server.shows_pictures = is_shown
                self.start(server)
        if self.cold is not None:
            self.cold.shows_pictures = is_shown

    def restart(self) -> None:
        """Starts both servers anew, where they were given by command."""
        for server in self.servers:
            server.stop()
        for server in self.servers:
            self.start(server)

    @staticmethod
    def start(server: Server) -> None:
        """Starts one server and sends it a first request, which may be slower than others.

        One after the other: a server may measure the machine while it starts.
        """
        tell(f"starting {server.name} ...")
        server.start()
        server.decide(encode({"state": "a", "questions": {"q": {"type": "noul", "instructions": "Is it?"}}}))


def stages_by_server(figure: Figure) -> dict[str, dict[str, list[float]]]:
    """What `compare` kept of the stages: milliseconds by server and stage; nothing of a server that tells none."""
    by_server: dict[str, dict[str, list[float]]] = {}
    for name, replies in figure.raw["stages_ms"].items():
        for stages in replies:
            for stage, milliseconds in stages.items():
                by_server.setdefault(name, {}).setdefault(stage, []).append(milliseconds)
    return by_server


def span(values: Iterable[float]) -> str:
    """One number, or the smallest and the largest."""
    values = list(values)
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def spread(values: list[float], digits: int = 2) -> str:
    """A median with the smallest and the largest value."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def tell(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)
