#!/usr/bin/env python3
"""Measure that 255 options cost what their tokens cost: a request with them against a plain one of as many tokens.

Usage: options_cost.py CLEF_SERVER MODEL

Starts the server, sends the two requests in turns, and compares the medians of the time that it reports for backbone and
head. The limit is 1.3 times.
"""
import json
import re
import statistics
import subprocess
import sys
import urllib.request

ROUNDS = 3
LIMIT = 1.3


def ask(url: str, request: dict) -> tuple[int, float]:
    """The prompt's tokens, and the milliseconds in backbone and head."""
    body = json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/systemone", body), timeout=600) as reply:
        timing = dict(re.findall(r"(\w+);dur=([\d.]+)", reply.headers["Server-Timing"]))
        tokens = json.load(reply)["usage"]["input_tokens"]
    return tokens, float(timing["backbone"]) + float(timing["head"])


def main() -> int:
    # Of what is held nothing would have to be computed.
    command = [sys.argv[1], "-m", sys.argv[2], "--port", "0", "--cache-ram", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://\S+", server.stdout.readline())[0].rstrip("/")
        subprocess.run(["curl", "-sf", "--retry", "60", "--retry-all-errors", "--retry-delay", "1", url + "/health"],
                       check=True, stdout=subprocess.DEVNULL)
        options = {f"option_{i:03}": f"the customer's message is about topic number {i}" for i in range(255)}
        many = {"state": "I was charged twice.", "questions": {"q": {"type": "choice", "criteria": options}}}
        tokens, _ = ask(url, many)
        plain = {"state": "word " * (2 * tokens), "questions": {"q": {"type": "noul"}},
                 "truncate": "end", "max_length": tokens}
        times = {"many": [], "plain": []}
        for _ in range(ROUNDS):
            for name, request in (("many", many), ("plain", plain)):
                counted, milliseconds = ask(url, request)
                assert counted == tokens, (counted, tokens)
                times[name].append(milliseconds)
        medians = {name: statistics.median(values) for name, values in times.items()}
        ratio = medians["many"] / medians["plain"]
        print(f"options: {tokens} tokens with 255 options {medians['many']:.0f} ms, without {medians['plain']:.0f} ms: "
              f"{ratio:.2f} times, the limit is {LIMIT}")
        return 0 if ratio <= LIMIT else 1
    finally:
        server.terminate()
        server.wait(timeout=60)


if __name__ == "__main__":
    sys.exit(main())
