#!/usr/bin/env python3
"""Run a command and compare its peak resident memory with the size of the model file that it loads.

Usage: peak_memory.py MODEL COMMAND [ARGUMENT...]

The limit is 1.15 times the file and 100 MiB: room for caches and buffers, none for a second copy of the weights.
"""
import os
import resource
import subprocess
import sys

MIB = 1 << 20


def main() -> int:
    model, command = sys.argv[1], sys.argv[2:]
    status = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode
    if status != 0:
        print(f"load-memory: {command[0]} ended with status {status}", file=sys.stderr)
        return 1
    # Linux counts in KiB, macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    size = os.path.getsize(model)
    limit = 1.15 * size + 100 * MIB
    print(f"load-memory: peak {peak / MIB:.0f} MiB for a file of {size / MIB:.0f} MiB, the limit is {limit / MIB:.0f} MiB")
    return 0 if peak <= limit else 1


if __name__ == "__main__":
    sys.exit(main())
