#!/usr/bin/env python3
"""Judge the JSON report of a jevcompat run: one line per requirement.

Usage: jevcompat_report.py REPORT NAME MUSTS [REPORTED...]

Every requirement that was exercised has to pass, but those in REPORTED (an id, or a section such as `semantics.*`):
they depend on the weights of the model and are told, not judged. What was not exercised is told, too. At least MUSTS
of the MUSTs have to have passed, so a run that exercised little cannot pass.
"""
import fnmatch
import json
import sys
from pathlib import Path

from checking import Checks


def main() -> int:
    path, name, musts, reported = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    checks = Checks(name)
    report = json.loads(Path(path).read_text(encoding="utf-8"))
    for result in report["results"]:
        title = f"{result['level']} {result['id']}, {result['title']}"
        if any(fnmatch.fnmatchcase(result["id"], pattern) for pattern in reported):
            why = "".join(f": {finding['message']}" for finding in result["findings"][:1])
            checks.note(f"{title}: {result['status']} (depends on the weights){why}")
        elif result["status"] == "pass":
            checks.ok(title)
        elif result["status"] == "skip":
            checks.note(f"{title}: not exercised ({result['reason']})")
        else:
            checks.fail(title, "; ".join(f"{finding['case']}: {finding['message']}" for finding in result["findings"]))

    loose_ends = [report["aborted"]] if report["aborted"] else []
    loose_ends += report["inconclusive"] + [": ".join(error) for error in report["case_errors"]]
    if loose_ends:
        checks.fail("every request had its answer", "; ".join(loose_ends))
    else:
        checks.ok(f"every request had its answer ({len(report['exchanges'])})")

    passed, tested = (report["summary"]["MUST"][key] for key in ("passed", "tested"))
    title = f"at least {musts} MUSTs passed ({passed} of {tested})"
    if passed >= musts:
        checks.ok(title)
    else:
        checks.fail(title, report["summary"]["verdict"])
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
