"""Requests of a wanted number of tokens, never the same twice.

How many tokens a text has depends on the model's vocabulary, which is not known here. But words that follow a space are
tokenized one by one, so their tokens add up: a few small requests, whose `usage.input_tokens` the server reports, tell
what a fixed list of words costs, and a text that holds the list so many times, in any order, then has a known length. A
number in front makes each text new from its first tokens on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

Request = dict[str, Any]

# What stands before the state in every prompt: the instruction to decide. Counted with the released models' vocabulary.
FIXED_PREFIX_TOKENS = 37

WORDS = (
    "order invoice customer delivery refund parcel account password morning payment "
    "printer contract address meeting ticket battery"
).split()
FILLER = "a"
FILLERS_COUNTED = 16


class Prompts:
    """Makes requests; `count` tells the tokens of one."""

    def __init__(self, generator: random.Random, count: Callable[[Request], int]) -> None:
        self.generator = generator
        questions = self._questions("")
        fillers = f" {FILLER}" * FILLERS_COUNTED
        words = "".join(" " + word for word in WORDS)

        def tokens(state: Any) -> int:
            return count({"state": state, "questions": questions})

        with_head = tokens(self._head())
        self._filler = (tokens(self._head() + fillers) - with_head) / FILLERS_COUNTED
        self._words = tokens(self._head() + words) - with_head
        without_state = tokens(FILLER) - round(self._filler)
        self._head_tokens = with_head - without_state
        self._shortest_questions = without_state - FIXED_PREFIX_TOKENS
        counted = [tokens(self._messages([0] * messages)) - without_state for messages in (1, 2, 3)]
        # A message of each role; the second of a role has the comma before it.
        self._message = (counted[2] - counted[1], counted[1] - counted[0])
        self._brackets = counted[0] - self._message[0]

    def cold(self, total: int, question_tokens: int) -> Request:
        """A new state with new questions, so many tokens in all, of which so many are questions."""
        questions = max(question_tokens, self._shortest_questions)
        return self.request(self.text(total - FIXED_PREFIX_TOKENS - questions), question_tokens)

    def small(self) -> Request:
        """A new request that is about as short as one can be."""
        question = {
            "type": "choice",
            "instructions": f"Decide {self._number()}.",
            "criteria": {"yes": None, "no": None},
        }
        return {"state": self._head(), "questions": {"q": question}}

    def request(self, state: Any, question_tokens: int) -> Request:
        """A state with new questions of so many tokens."""
        return {"state": state, "questions": self._questions(self.more(question_tokens - self._shortest_questions))}

    def text(self, tokens: int) -> str:
        """A new text of so many tokens."""
        return self._head() + self.more(tokens - self._head_tokens)

    def more(self, tokens: int) -> str:
        """So many tokens to append to a text; none if there is no room for any."""
        rounds, rest = divmod(max(0, tokens), self._words)
        words = WORDS * rounds + [FILLER] * round(rest / self._filler)
        self.generator.shuffle(words)
        return "".join(" " + word for word in words)

    def messages(self, count: int, tokens: int, after: Sequence[Request] = ()) -> list[Request]:
        """So many new messages of so many tokens together; `after` are those that they will follow."""
        contents = tokens - (0 if after else self._brackets)
        contents -= sum(self._message[i % 2] for i in range(len(after), len(after) + count))
        shares = [contents // count] * count
        shares[-1] += contents % count
        return self._messages(shares, len(after))

    def renewed(self, request: Request) -> Request:
        """Somebody's request with a number put at the beginning of its state, so that no server has seen it."""
        number, state = self._number(), request["state"]
        if isinstance(state, str):
            state = f"{number} {state}"
        elif isinstance(state, dict):
            state = {"!": number, **state}  # keys are sorted in the prompt
        elif isinstance(state, list) and state and isinstance(state[0], dict):
            state = [{"!": number, **state[0]}, *state[1:]]
        else:
            state = [number, state]
        return {**request, "state": state}

    def asked_anew(self, request: Request) -> Request:
        """Somebody's request with a number put before each question's instructions, so that its questions are new."""
        questions = {}
        for name, question in request["questions"].items():
            number, asked = self._number(), question.get("instructions") or name
            instructions = f"{number} {asked}" if isinstance(asked, str) else [number, asked]
            questions[name] = {**question, "instructions": instructions}
        return {**request, "questions": questions}

    def shuffled(self, requests: Sequence[Request]) -> list[Request]:
        """The same requests in another order."""
        return self.generator.sample(requests, len(requests))

    def _messages(self, tokens: Sequence[int], first: int = 0) -> list[Request]:
        return [
            {"role": ("user", "assistant")[i % 2], "content": self._head() + self.more(share)}
            for i, share in enumerate(tokens, first)
        ]

    def _questions(self, words: str) -> Request:
        return {
            "team": {
                "type": "choice",
                "instructions": f"Case {self._number()}:{words}",
                "criteria": {"billing": None, "shipping": None, "technical": None},
            },
            "angry": {"type": "noul", "instructions": "Angry?", "criteria": {"true": "yes", "false": "no"}},
        }

    def _head(self) -> str:
        return f"Note {self._number()}:"

    def _number(self) -> str:
        # Vocabularies of this family have no token of more than one digit: all numbers of nine digits cost the same.
        return str(self.generator.randrange(10**8, 10**9))
