"""What is measured with pictures.

A picture stands before everything else in a prompt, has hundreds of tokens, and goes through a vision tower before the
first of them is read. So two figures belong to each: what a question costs once the picture is known, and what the
picture costs.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from . import pictures
from .arena import Arena, Figure, Step, stages_by_server
from .load import read_records
from .prompts import Prompts, Request

STATE_TOKENS = 50


def image(arena: Arena) -> Iterator[Figure]:
    """new questions about a picture (--pictures, and those of --requests) that was seen before, and about a new one"""
    for subject in subjects(arena):
        yield with_stages(
            arena.compare(f"image {subject.name}, seen", subject.seen(arena.prompts), 10, check_cold=True)
        )
        yield with_stages(arena.compare(f"image {subject.name}, new", subject.new(arena.prompts), 5))


@dataclass(frozen=True)
class Photograph:
    """Pictures that are made here, with a short state beside them."""

    width: int
    height: int
    question_tokens: int

    @property
    def name(self) -> str:
        """As a line of the table calls it."""
        return f"{self.width}x{self.height}"

    def seen(self, prompts: Prompts) -> Iterator[Step]:
        """One picture and one state, always with new questions."""
        shown = {"images": [self._picture(prompts)]}
        state = prompts.text(STATE_TOKENS)
        before: tuple[Request, ...] = (prompts.request(state, self.question_tokens) | shown,)
        while True:
            yield Step(prompts.request(state, self.question_tokens) | shown, before)
            before = ()

    def new(self, prompts: Prompts) -> Iterator[Step]:
        """Always another picture, with another state and other questions."""
        while True:
            request = prompts.request(prompts.text(STATE_TOKENS), self.question_tokens)
            yield Step(request | {"images": [self._picture(prompts)]})

    def _picture(self, prompts: Prompts) -> str:
        return pictures.photograph(prompts.generator, self.width, self.height)


@dataclass(frozen=True)
class Record:
    """Somebody's request with pictures: its own state, and its own questions with a number before each."""

    request: Request

    @property
    def name(self) -> str:
        """As a line of the table calls it."""
        sizes = (pictures.size(url) for url in self.request["images"])
        return " + ".join(f"{width}x{height}" for width, height in sizes) + " of the file"

    def seen(self, prompts: Prompts) -> Iterator[Step]:
        """As it is, always with new questions."""
        before: tuple[Request, ...] = (prompts.asked_anew(self.request),)
        while True:
            yield Step(prompts.asked_anew(self.request), before)
            before = ()

    def new(self, prompts: Prompts) -> Iterator[Step]:
        """With pictures whose last row of pixels is another each time."""
        while True:
            shown = [pictures.renewed(prompts.generator, url) for url in self.request["images"]]
            yield Step(prompts.asked_anew(prompts.renewed(self.request)) | {"images": shown})


def subjects(arena: Arena) -> list[Photograph | Record]:
    """What is asked about: pictures of the wanted sizes, and the requests of the file whose pictures can be renewed."""
    options = arena.options
    made = [Photograph(width, height, options.question_tokens) for width, height in options.pictures]
    if options.quick:
        return list(made)
    shown = (record for record in read_records(options) if record.get("images"))
    return [*made, *(Record(record) for record in shown if all(map(pictures.can_be_renewed, record["images"])))]


def with_stages(figure: Figure) -> Figure:
    """Adds how long the stages took, where a server tells it, in medians of milliseconds."""
    for name, stages in stages_by_server(figure).items():
        medians = (f"{stage} {statistics.median(times):,.1f} ms" for stage, times in stages.items())
        figure.remarks.append(f"{name}, by its own clock: " + ", ".join(medians))
    return figure
