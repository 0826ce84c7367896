"""One line per check on standard output, which tests/clients/run counts; and what every answer has to satisfy."""
import math
import sys
import traceback


class Checks:
    """Runs checks one after the other; a failed one does not stop the next."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.failed = 0

    def ok(self, name: str) -> None:
        print(f"ok      {self.client}: {name}", flush=True)

    def fail(self, name: str, why: str) -> None:
        self.failed += 1
        print(f"FAILED  {self.client}: {name}: {' '.join(why.split())[:600]}", flush=True)

    def note(self, text: str) -> None:
        print(f"note    {self.client}: {text}", flush=True)

    def run(self, name: str, check) -> None:
        try:
            check()
        except Exception as error:  # Whatever a client raises is the finding.
            traceback.print_exc(file=sys.stderr)
            self.fail(name, f"{type(error).__name__}: {error}")
        else:
            self.ok(name)


def require(holds: bool, *facts: object) -> None:
    """An assertion that survives `python -O` and shows what it saw."""
    if not holds:
        raise AssertionError(" ".join(map(str, facts)))


def equal(seen: object, wanted: object, what: str = "") -> None:
    require(seen == wanted, f"{what}: {seen!r} is not {wanted!r}")


def close(seen: float, wanted: float, tolerance: float, what: str = "") -> None:
    require(abs(seen - wanted) <= tolerance, f"{what}: {seen!r} is not within {tolerance} of {wanted!r}")


def distribution(probabilities: dict, keys: list) -> None:
    equal(list(probabilities), keys, "options in the order of the request")
    for key, value in probabilities.items():
        require(isinstance(value, float) and math.isfinite(value) and 0 <= value <= 1, key, value)
    close(sum(probabilities.values()), 1, 1e-6, "sum of the probabilities")


def choice_confidence(p: list[float]) -> float:
    n = len(p)
    return 1.0 if n == 1 else max(0.0, (max(p) - 1 / n) / (1 - 1 / n))


def score_confidence(p: list[float]) -> float:
    n, mode = len(p), p.index(max(p))
    spread = sum(abs(i - (n - 1) / 2) for i in range(n)) / n
    return max(0.0, 1 - sum(value * abs(i - mode) for i, value in enumerate(p)) / spread)
