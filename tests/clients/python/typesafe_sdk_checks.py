#!/usr/bin/env python3
"""PyPI typesafe-sdk, unmodified, against a server: what its documentation shows, and what it makes of refusals.

Usage: typesafe_sdk_checks.py OPEN KEYED SMALL KEY SEEING
All but KEY are addresses: of a server without keys, of one with KEY, of one that takes 4 KiB and one request at a time,
and of one with a projector. The documented flow needs nothing but the SDK's own environment variables; requests are watched through the
hooks of the HTTP client that the SDK lets its users hand in.
"""
import asyncio
import base64
import json
import os
import struct
import sys
import zlib

import httpx2
from checking import Checks, choice_confidence, close, distribution, equal, require, score_confidence
from typesafe_sdk import (
    AsyncTypeSafeClient,
    Box,
    Choice,
    ChoiceAnswer,
    Image,
    Noul,
    NoulCriteria,
    RetryPolicy,
    Score,
    SystemOneResponse,
    TypeSafeAPIError,
    TypeSafeAPITimeoutError,
    TypeSafeAuthenticationError,
    TypeSafeClient,
    TypeSafeInternalServerError,
    TypeSafeNotFoundError,
    TypeSafeRateLimitError,
    TypeSafeUnprocessableEntityError,
    __version__,
)

OPEN, KEYED, SMALL, KEY, SEEING = sys.argv[1:]
checks = Checks("typesafe-python")

MESSAGE = "Customer message: I was charged twice for my order last week and nobody has replied."
LEVELS = ["can wait", "this week", "today", "right now"]
QUESTIONS = {
    "route": Choice(
        instructions="Which team should handle this?", criteria={"billing": None, "shipping": None, "technical": None}
    ),
    "angry": Noul(instructions="Is the customer angry?"),
    "urgency": Score(instructions="How urgent is this?", criteria=LEVELS),
}
SAME_QUESTIONS_AS_DICTIONARIES = {
    "route": {
        "type": "choice",
        "instructions": "Which team should handle this?",
        "criteria": {"billing": None, "shipping": None, "technical": None},
    },
    "angry": {"type": "noul", "instructions": "Is the customer angry?"},
    "urgency": {"type": "score", "instructions": "How urgent is this?", "criteria": LEVELS},
}
ONE = {"refund": Noul(instructions="Does the customer want money back?")}


class Watched:
    """An SDK client, with the requests it made and the replies it saw."""

    def __init__(self, address: str, key: str = "any-key", **options) -> None:
        self.requests: list[httpx2.Request] = []
        self.responses: list[httpx2.Response] = []
        hooks = {"request": [self.requests.append], "response": [self.responses.append]}
        self.client = TypeSafeClient(
            base_url=address, api_key=key, http_client=httpx2.Client(event_hooks=hooks, timeout=60), **options
        )

    def __enter__(self):
        return self, self.client.__enter__()

    def __exit__(self, *what) -> None:
        self.client.__exit__(*what)

    def statuses(self) -> list[int]:
        return [response.status_code for response in self.responses]


def png() -> bytes:
    """A picture of one white pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\xff\xff")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def refused(kind: type, status: int, call) -> TypeSafeAPIError:
    """The error that `call` ends with, which is of exactly this class, and whose parts the SDK could read."""
    try:
        call()
    except TypeSafeAPIError as error:
        equal((type(error), error.status), (kind, status), "class and status")
        require(bool(error.request_id), "no request id")
        message = error.body["error"]["message"]
        require(bool(message) and message in str(error), "the SDK shows", str(error), "and not", message)
        require(error.request_id in str(error), str(error))
        return error
    raise AssertionError(f"answered, and not refused with {status}")


def without_retries() -> RetryPolicy:
    return RetryPolicy(max_retries=0)


def quickstart() -> None:
    os.environ.update(TYPESAFE_API_KEY="any-key", TYPESAFE_BASE_URL=OPEN)
    with TypeSafeClient() as client:
        response = client.system_one(
            state={"document": "I was charged twice. Please fix this ASAP."},
            questions={
                "category": Choice(
                    instructions="What is this ticket about?",
                    criteria={"billing": None, "technical": None, "other": None},
                ),
            },
        )
    answer = response.choices["category"]
    distribution(answer.probabilities, ["billing", "technical", "other"])
    equal(answer.choice, max(answer.probabilities, key=answer.probabilities.get), "the most probable one")


def judge(response: SystemOneResponse) -> None:
    equal(list(response.answers), ["route", "angry", "urgency"], "answers in the order of the questions")
    route, angry, urgency = response.choices["route"], response.nouls["angry"], response.scores["urgency"]
    equal(route.choice, "billing", "route")
    distribution(route.probabilities, ["billing", "shipping", "technical"])
    close(route.confidence, choice_confidence(list(route.probabilities.values())), 1e-9, "confidence")
    require(isinstance(angry.noul, float) and 0 <= angry.noul <= 1, angry)
    distribution(urgency.probabilities, [0, 1, 2, 3])
    equal(urgency.legend, dict(enumerate(LEVELS)), "legend")
    levels = list(urgency.probabilities.values())
    close(urgency.score, sum(i * p for i, p in enumerate(levels)), 1e-9, "score")
    close(urgency.confidence, score_confidence(levels), 1e-9, "confidence")
    equal(response.model, "clef-nano", "model")
    require(response.usage.input_tokens > 0, response.usage)
    equal(response.usage.output_tokens, 0, "output tokens")


def all_types() -> None:
    with TypeSafeClient(base_url=OPEN, api_key="any-key") as client:
        judge(client.system_one(MESSAGE, QUESTIONS))


def dictionaries() -> None:
    with TypeSafeClient(base_url=OPEN, api_key="any-key") as client:
        objects = client.system_one(MESSAGE, QUESTIONS)
        equal(client.system_one(MESSAGE, SAME_QUESTIONS_AS_DICTIONARIES).answers, objects.answers, "answers")


def structured() -> None:
    questions = {
        "질문 🎯": Noul(
            instructions={"task": "Is money asked for?", "include": ["refunds", "chargebacks"]},
            criteria=NoulCriteria(true={"examples": ["refund me"]}, false=None),
        ),
        "team": Choice(instructions=["Route it.", "One team."], criteria={"환불": {"owns": ["refunds"]}, "🙂": ["rest"]}),
        "mood": Score(instructions={"scale": "mood"}, criteria=[{"label": "calm"}, ["cross", "loud"], "furious"]),
    }
    state = [{"role": "user", "content": "I was charged twice 😡"}, {"n": 1.5, "paid": True, "note": None}]
    with TypeSafeClient(base_url=OPEN, api_key="any-key") as client:
        response = client.system_one(state, questions)
    require(0 <= response.nouls["질문 🎯"].noul <= 1, response)
    distribution(response.choices["team"].probabilities, ["환불", "🙂"])
    equal(response.scores["mood"].legend, {0: {"label": "calm"}, 1: ["cross", "loud"], 2: "furious"}, "legend")


def custom_response() -> None:
    class Routing(SystemOneResponse):
        route: ChoiceAnswer

    with TypeSafeClient(base_url=OPEN, api_key="any-key") as client:
        response = client.system_one(MESSAGE, QUESTIONS, response_model=Routing)
    equal(response.route.choice, "billing", "route")


def unknown_fields() -> None:
    with TypeSafeClient(base_url=OPEN, api_key="any-key") as client:
        plain = client.system_one(MESSAGE, ONE)
        more = client.system_one(
            MESSAGE, ONE, model="another", extra_body={"x_trace": {"a": 1}}, extra_headers={"x-trace": "1"}
        )
    equal(more.answers, plain.answers, "answers")


def models() -> None:
    with TypeSafeClient(base_url=OPEN, api_key="any-key") as client:
        listed = client.models.list()
        equal([model.name for model in listed.models], ["clef-nano"], "names")
        require(bool(listed.models[0].description), listed)
        require(isinstance(listed.models[0].release_date, str), listed)
        require(bool(listed.request_id), "no request id")
        response = client.system_one(MESSAGE, ONE, model=listed.models[0].name)
        equal(response.model, "clef-nano", "the listed name answers")


def request_ids() -> None:
    with Watched(OPEN) as (watched, client):
        ids = [client.system_one(MESSAGE, ONE).request_id for _ in range(3)]
    equal(len(set(ids)), 3, "different ids")
    equal([response.headers["x-typesafe-request-id"] for response in watched.responses], ids, "ids")


def zstd() -> None:
    state = {"messages": [f"{i}: {MESSAGE}" for i in range(40)]}
    with Watched(OPEN) as (watched, client):
        compressed = client.system_one(state, QUESTIONS)
    with Watched(OPEN, compression=False) as (plain, client):
        uncompressed = client.system_one(state, QUESTIONS)
    (sent,), (sent_plain,) = watched.requests, plain.requests
    equal(sent.headers["content-encoding"], "zstd", "content-encoding")
    equal(sent.content[:4], b"\x28\xb5\x2f\xfd", "a zstd frame")
    require("content-encoding" not in sent_plain.headers, sent_plain.headers)
    require(len(sent_plain.content) > 1024, len(sent_plain.content))
    require(len(sent.content) < len(sent_plain.content), len(sent.content), len(sent_plain.content))
    equal(compressed.answers, uncompressed.answers, "answers")
    equal(compressed.usage, uncompressed.usage, "usage")


def many_options() -> None:
    options = {f"queue {i}": None for i in range(255)}
    with Watched(OPEN) as (watched, client):
        response = client.system_one(MESSAGE, {"queue": Choice(instructions="Which queue?", criteria=options)})
    distribution(response.choices["queue"].probabilities, list(options))
    equal(watched.requests[0].headers["content-encoding"], "zstd", "content-encoding")


def with_key() -> None:
    with TypeSafeClient(base_url=KEYED, api_key=KEY) as client:
        judge(client.system_one(MESSAGE, QUESTIONS))
        equal([model.name for model in client.models.list().models], ["clef-nano"], "names")


def wrong_key() -> None:
    for call in (lambda client: client.system_one(MESSAGE, ONE), lambda client: client.models.list()):
        with Watched(KEYED, key="wrong-key") as (watched, client):
            refused(TypeSafeAuthenticationError, 401, lambda: call(client))
        equal(watched.statuses(), [401], "asked once")


def unknown_path() -> None:
    with Watched(f"{OPEN}/elsewhere") as (watched, client):
        error = refused(TypeSafeNotFoundError, 404, lambda: client.system_one(MESSAGE, ONE))
    equal(watched.statuses(), [404], "asked once")
    equal(error.body["detail"]["error_type"], "not_found_error", "detail")


def too_large() -> None:
    with Watched(SMALL, compression=False) as (watched, client):
        error = refused(TypeSafeAPIError, 413, lambda: client.system_one("word " * 20_000, ONE))
    equal(watched.statuses(), [413], "asked once")
    require("retry-after" not in error.headers, error.headers)
    # Compressed, the same text is a few bytes; the limit holds for what comes out.
    with Watched(SMALL) as (watched, client):
        refused(TypeSafeAPIError, 413, lambda: client.system_one("word " * 20_000, ONE))
    require(int(watched.requests[0].headers["content-length"]) < 4096, watched.requests[0].headers)


def invalid() -> None:
    with Watched(OPEN) as (watched, client):
        error = refused(
            TypeSafeUnprocessableEntityError,
            422,
            lambda: client.system_one(MESSAGE, {"place": Box(instructions="Where is the dent?")}),
        )
    equal(watched.statuses(), [422], "asked once")
    require("place" in str(error), str(error))
    equal(error.body["detail"][0]["loc"][:3], ["body", "questions", "place"], "loc")
    require(isinstance(error.body["detail"][0]["msg"], str), error.body)


def too_long() -> None:
    with Watched(OPEN) as (watched, client):
        error = refused(
            TypeSafeUnprocessableEntityError, 422, lambda: client.system_one("a long story, and " * 20_000, ONE)
        )
    equal(watched.statuses(), [422], "asked once")
    equal(error.body["error"]["type"], "exceed_context_size_error", "type")
    require(error.body["error"]["n_prompt_tokens"] > error.body["error"]["n_ctx"] > 0, error.body)


def multipart_assets() -> None:
    image = Image(png())
    calls = {
        "in the state": lambda client: client.system_one({"photo": image}, ONE),
        "by name": lambda client: client.system_one("What is in photo?", ONE, assets={"photo": image}),
        "attached": lambda client: attached(client, image),
    }
    for name, call in calls.items():
        with Watched(OPEN, retry=without_retries()) as (watched, client):
            error = refused(TypeSafeInternalServerError, 501, lambda: call(client))
        (sent,) = watched.requests
        require(sent.headers["content-type"].startswith("multipart/form-data"), name, sent.headers)
        equal(error.body["error"]["type"], "not_supported_error", name)
        equal(error.body["detail"]["error_type"], "not_supported_error", name)


def attached(client: TypeSafeClient, image: Image) -> SystemOneResponse:
    with client.attach_assets(image):
        return client.system_one(f"Product: {image}", ONE)


def compressed_multipart_assets() -> None:
    with Watched(OPEN, retry=without_retries()) as (watched, client):
        refused(
            TypeSafeInternalServerError,
            501,
            lambda: client.system_one({"photo": Image(png()), "text": MESSAGE * 20}, ONE),
        )
    equal(watched.requests[0].headers["content-encoding"], "zstd", "content-encoding")
    require(watched.requests[0].headers["content-type"].startswith("multipart/form-data"), watched.requests[0].headers)


def json_assets() -> None:
    reference = f"<image:{'0a' * 16}>"
    asset = {"type": "image", "format": "png", "data_base64": base64.b64encode(png()).decode()}
    with Watched(OPEN, retry=without_retries()) as (watched, client):
        error = refused(
            TypeSafeInternalServerError,
            501,
            lambda: client.system_one(f"Product: {reference}", ONE, extra_body={"assets": {reference: asset}}),
        )
    equal(watched.requests[0].headers["content-type"], "application/json", "content-type")
    equal(error.body["error"]["type"], "not_supported_error", "type")


def seen_assets() -> None:
    """The same picture in the same state, sent in every way there is, gets the same answer."""
    image, reference = Image(png()), f"<image:{'0a' * 16}>"
    asset = {"type": "image", "format": "png", "data_base64": base64.b64encode(png()).decode()}
    calls = {
        "in the state": lambda client: client.system_one(f"Product: {image}", ONE, assets={str(image): image}),
        "by name": lambda client: client.system_one("Product: photo", ONE, assets={"photo": image}),
        "attached": lambda client: attached(client, image),
        "as JSON": lambda client: client.system_one(
            f"Product: {reference}", ONE, extra_body={"assets": {reference: asset}}
        ),
    }
    answers = {}
    for name, call in calls.items():
        with Watched(SEEING, retry=without_retries()) as (watched, client):
            response = call(client)
        (sent,) = watched.requests
        kind = "application/json" if name == "as JSON" else "multipart/form-data"
        require(sent.headers["content-type"].startswith(kind), name, sent.headers)
        answers[name] = (response.answers["refund"].noul, response.usage.input_tokens)
    require(len(set(answers.values())) == 1, answers)
    with TypeSafeClient(base_url=SEEING, api_key="any-key") as client:
        blind = client.system_one("Product: image 1", ONE)
        twice = client.system_one({"before": image, "after": Image(png())}, ONE)
    tokens = answers["by name"][1]
    # 64 tokens of the picture, two around it, one behind all pictures.
    equal(tokens - blind.usage.input_tokens, 67, "tokens of a picture")
    require(twice.usage.input_tokens > tokens + 66, twice.usage)


def seen_assets_compressed() -> None:
    with Watched(SEEING, retry=without_retries()) as (watched, client):
        response = client.system_one({"photo": Image(png()), "text": MESSAGE * 20}, ONE)
    equal(watched.requests[0].headers["content-encoding"], "zstd", "content-encoding")
    require(0 < response.answers["refund"].noul < 1, response)


def retries_of_501() -> None:
    with Watched(OPEN, retry=RetryPolicy(backoff_initial=0)) as (watched, client):
        refused(TypeSafeInternalServerError, 501, lambda: client.system_one({"photo": Image(png())}, ONE))
    equal(watched.statuses(), [501, 501, 501], "the SDK retries every 5xx twice")
    require(all("retry-after" not in response.headers for response in watched.responses), "Retry-After with a 501")


def timeout() -> None:
    with TypeSafeClient(base_url=OPEN, api_key="any-key", retry=without_retries()) as client:
        try:
            client.system_one(MESSAGE * 100, QUESTIONS, timeout=httpx2.Timeout(60, read=0.002))
        except TypeSafeAPITimeoutError:
            pass
        else:
            raise AssertionError("answered within two milliseconds")
        judge(client.system_one(MESSAGE, QUESTIONS, timeout=60))


async def burst(retry: RetryPolicy, size: int) -> tuple[list, list[httpx2.Response]]:
    """Many requests at once, to a server that takes one."""
    responses: list[httpx2.Response] = []

    async def seen(response: httpx2.Response) -> None:
        responses.append(response)

    http_client = httpx2.AsyncClient(event_hooks={"response": [seen]}, timeout=60)
    async with AsyncTypeSafeClient(base_url=SMALL, api_key="any-key", http_client=http_client, retry=retry) as client:
        calls = [client.system_one(MESSAGE * 30, QUESTIONS) for _ in range(size)]
        return await asyncio.gather(*calls, return_exceptions=True), responses


def full_queue() -> None:
    results, _ = asyncio.run(burst(without_retries(), 8))
    answered = [result for result in results if isinstance(result, SystemOneResponse)]
    turned_away = [result for result in results if not isinstance(result, SystemOneResponse)]
    require(bool(answered), "nobody was answered:", results)
    require(bool(turned_away), "nobody was turned away by a queue of one")
    for error in turned_away:
        equal((type(error), error.status), (TypeSafeRateLimitError, 429), "class and status")
        require(error.retry_after_ms and error.retry_after_ms > 0, error.headers)


def retries_through_a_full_queue() -> None:
    results, responses = asyncio.run(burst(RetryPolicy(max_retries=30, timeout=None), 4))
    for result in results:
        require(isinstance(result, SystemOneResponse), repr(result))
    equal(len({json.dumps(result.model_dump(), sort_keys=True) for result in results}), 1, "different answers")
    equal(sum(response.status_code == 200 for response in responses), 4, "answers")
    require(all(response.status_code in (200, 429) for response in responses), responses)
    require(any(response.status_code == 429 for response in responses), "nothing had to be retried")


async def asynchronous() -> None:
    async with AsyncTypeSafeClient(base_url=KEYED, api_key=KEY) as client:
        responses = await asyncio.gather(*(client.system_one(MESSAGE, QUESTIONS) for _ in range(6)))
        for response in responses:
            judge(response)
            equal(response.answers, responses[0].answers, "answers")
        equal(len({response.request_id for response in responses}), 6, "different ids")
        equal([model.name for model in (await client.models.list()).models], ["clef-nano"], "names")
        try:
            await client.system_one(MESSAGE, {"place": Box(instructions="Where?")})
        except TypeSafeUnprocessableEntityError as error:
            require(bool(error.request_id), "no request id")
        else:
            raise AssertionError("a box was answered")
        try:
            await client.system_one({"photo": Image(png())}, ONE, retry=without_retries())
        except TypeSafeInternalServerError as error:
            equal(error.status, 501, "status")
        else:
            raise AssertionError("an image was answered")


def main() -> int:
    equal(__version__, "0.7.5", "version of typesafe-sdk")
    checks.run("quickstart of its README, from environment variables", quickstart)
    checks.run("answers of all three types, with values", all_types)
    checks.run("questions as dictionaries have the same answers", dictionaries)
    checks.run("structured state, instructions and criteria, any id", structured)
    checks.run("a response model of one's own", custom_response)
    checks.run("unknown fields, headers and model names are taken", unknown_fields)
    checks.run("models.list(), and the listed name answers", models)
    checks.run("request_id on each result", request_ids)
    checks.run("a body over 1,024 bytes goes by zstd, with the same answers", zstd)
    checks.run("255 options", many_options)
    checks.run("with a key", with_key)
    checks.run("401 is TypeSafeAuthenticationError, not retried", wrong_key)
    checks.run("404 is TypeSafeNotFoundError, not retried", unknown_path)
    checks.run("413 is TypeSafeAPIError, not retried, also for what zstd unpacks to", too_large)
    checks.run("422 is TypeSafeUnprocessableEntityError, not retried, and names the place", invalid)
    checks.run("a prompt over the context is 422 with its length", too_long)
    checks.run("assets by multipart are refused with 501, TypeSafeInternalServerError", multipart_assets)
    checks.run("assets by multipart and zstd are refused with 501", compressed_multipart_assets)
    checks.run("assets by JSON are refused with 501, TypeSafeInternalServerError", json_assets)
    checks.run("assets by JSON and multipart, placed, named and attached, are seen and answered alike", seen_assets)
    checks.run("assets by multipart and zstd are seen", seen_assets_compressed)
    checks.run("501 is retried as every 5xx, and says nothing about when", retries_of_501)
    checks.run("429 is TypeSafeRateLimitError with a wait", full_queue)
    checks.run("the SDK's retries carry a burst through a full queue", retries_through_a_full_queue)
    checks.run("a timeout is TypeSafeAPITimeoutError, and the next request is answered", timeout)
    checks.run("the asynchronous client", lambda: asyncio.run(asynchronous()))
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
