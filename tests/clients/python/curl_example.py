#!/usr/bin/env python3
"""Judge what curl printed for the README's example: its values, against those that the README shows.

Usage: curl_example.py README FILE NAME MODEL
"""
import json
import sys
from pathlib import Path

from checking import Checks, choice_confidence, close, distribution, equal, require, score_confidence


def shown(readme: str) -> dict:
    block = readme.split("<!-- curl output -->", 1)[1].split("```json", 1)[1].split("```", 1)[0]
    return json.loads(block)


def main() -> int:
    readme, file, name, model = sys.argv[1:]
    body = json.loads(Path(file).read_text(encoding="utf-8"))
    wanted = shown(Path(readme).read_text(encoding="utf-8"))
    checks = Checks(name)

    def envelope() -> None:
        equal(list(body), ["model", "answers", "usage"], "members")
        equal(body["model"], model, "model")
        equal(list(body["answers"]), list(wanted["answers"]), "answers in the order of the questions")
        equal(body["usage"], wanted["usage"], "usage")

    def values() -> None:
        for question, answer in body["answers"].items():
            equal(list(answer), list(wanted["answers"][question]), question)
        route, urgency = body["answers"]["route"], body["answers"]["urgency"]
        equal(route["choice"], "billing", "route")
        distribution(route["probabilities"], ["billing", "shipping", "technical"])
        close(route["confidence"], choice_confidence(list(route["probabilities"].values())), 1e-9, "confidence")
        require(0 <= body["answers"]["angry"]["noul"] <= 1, body["answers"]["angry"])
        distribution(urgency["probabilities"], ["0", "1", "2", "3"])
        equal(list(urgency["legend"].values()), ["can wait", "this week", "today", "right now"], "legend")
        levels = list(urgency["probabilities"].values())
        close(urgency["score"], sum(i * p for i, p in enumerate(levels)), 1e-9, "score")
        close(urgency["confidence"], score_confidence(levels), 1e-9, "confidence")

    # Kernels of other processors round differently; the values of the toy model move by less than this.
    def readme_is_true() -> None:
        for question, key in (("route", "confidence"), ("angry", "noul"), ("urgency", "score")):
            close(body["answers"][question][key], wanted["answers"][question][key], 0.01, f"{question}.{key}")

    checks.run("members, order, usage", envelope)
    checks.run("chosen option, sums, score and confidence", values)
    checks.run("values are those that the README shows", readme_is_true)
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
