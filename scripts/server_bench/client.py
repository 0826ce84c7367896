"""One HTTP request, timed.

Each request has a connection of its own, and connecting is part of its time: a kept connection that the other end has
closed in the meantime would put a reconnection into some measurements and not into others.
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.parse
from dataclasses import dataclass
from typing import Any


class BenchError(Exception):
    """The measurement cannot go on; the message is for the person who started it."""


class Refused(BenchError):
    """A server answered something else than 200."""


@dataclass(frozen=True)
class Reply:
    """A whole answer; `seconds` is from before connecting until its last byte was here."""

    status: int
    body: bytes
    seconds: float
    server_timing: str

    @property
    def message(self) -> str:
        """What an error says, else the beginning of the body."""
        try:
            return str(json.loads(self.body)["error"]["message"])
        except (ValueError, LookupError, TypeError):
            return self.body[:300].decode(errors="replace")

    @property
    def input_tokens(self) -> int:
        """The prompt's tokens as the server counted them."""
        return int(json.loads(self.body)["usage"]["input_tokens"])

    @property
    def answers(self) -> dict[str, Any]:
        """The answers by question id."""
        answers: dict[str, Any] = json.loads(self.body)["answers"]
        return answers

    @property
    def stages(self) -> dict[str, float]:
        """Milliseconds by stage from the `Server-Timing` header; empty if the server sends none."""
        return {name: float(value) for name, value in re.findall(r"(\w+);dur=([\d.]+)", self.server_timing)}


@dataclass(frozen=True)
class Client:
    """Where a server is, and how long to wait for it (seconds; for connecting and for each silence)."""

    url: str
    api_key: str | None
    timeout: float

    def send(self, method: str, path: str, body: bytes | None = None, timeout: float | None = None) -> Reply:
        """Sends a request and reads the whole answer, whatever its status. Raises OSError or HTTPException."""
        parts = urllib.parse.urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=timeout or self.timeout)
        try:
            start = time.perf_counter()
            connection.request(method, parts.path.rstrip("/") + path, body, headers)
            response = connection.getresponse()
            content = response.read()
            seconds = time.perf_counter() - start
            return Reply(response.status, content, seconds, response.getheader("Server-Timing") or "")
        finally:
            connection.close()

    def decide(self, body: bytes) -> Reply:
        """Asks for a decision. Raises Refused unless it was made."""
        reply = self.send("POST", "/v1/systemone", body)
        if reply.status != 200:
            raise Refused(f"a request of {len(body):,} bytes was answered {reply.status}: {reply.message}")
        return reply


def encode(request: dict[str, Any]) -> bytes:
    """A request as it goes over the wire."""
    return json.dumps(request, ensure_ascii=False).encode()


def largest_difference(left: dict[str, Any], right: dict[str, Any]) -> float:
    """The largest difference between the probabilities of two replies' answers.

    What is derived from them is left out: a confidence moves with its probability, and a choice may change hands
    between two options that are almost equal.
    """
    if left.keys() != right.keys():
        return float("inf")
    largest = 0.0
    for question, answer in left.items():
        ours, theirs = probabilities(answer), probabilities(right[question])
        if ours.keys() != theirs.keys():
            return float("inf")
        largest = max([largest, *(abs(ours[option] - theirs[option]) for option in ours)])
    return largest


def probabilities(answer: dict[str, Any]) -> dict[str, float]:
    """An answer's probabilities by option."""
    return {"true": answer["noul"]} if "noul" in answer else answer["probabilities"]
