#!/usr/bin/env python3
"""Ask about a photo of 12 megapixels, and compare the peak of resident memory with that of asking about none.

Usage: photo_memory.py CLEF MODEL PROJECTOR

The limit is 60 bytes for each pixel: as bytes and floats on their way into the vision tower, with what a tower of the
test model's width computes of them. That of a real model computes more; `clef inspect MODEL --mmproj PROJECTOR` says how
much.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
WIDTH, HEIGHT = 4000, 3000
BYTES_PER_PIXEL = 60
REQUEST = {"state": "See the picture.", "questions": {"table": {"type": "noul"}}}


def bitmap() -> bytes:
    """A Windows bitmap of a gradient."""
    header = struct.pack("<2sIHHI", b"BM", 54 + 3 * WIDTH * HEIGHT, 0, 0, 54)
    header += struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 24, 0, 0, 0, 0, 0, 0)
    row = bytes(value for x in range(WIDTH) for value in (x & 255, (x >> 4) & 255, (x * 7) & 255))
    return header + row * HEIGHT


def run(command: list[str]) -> tuple[float, float, int]:
    """Seconds, peak of resident memory in bytes, and tokens of the prompt."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(json.dumps(REQUEST).encode())
    process.stdin.close()
    reply = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"images: {command[0]} ended with status {os.waitstatus_to_exitcode(status)}")
    # Linux counts in KiB, macOS in bytes.
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return time.monotonic() - start, peak, json.loads(reply)["usage"]["input_tokens"]


def main() -> int:
    clef, model, projector = sys.argv[1:]
    command = [clef, "decide", "-m", model, "--mmproj", projector]
    with tempfile.TemporaryDirectory() as folder:
        photo = os.path.join(folder, "photo.bmp")
        with open(photo, "wb") as file:
            file.write(bitmap())
        _, base, text = run(command)
        seconds, peak, tokens = run([*command, "--image", photo])
    limit = BYTES_PER_PIXEL * WIDTH * HEIGHT
    print(
        f"images: {WIDTH} x {HEIGHT} pixels are {tokens - text} tokens, seen and read in {seconds:.0f} s; "
        f"{(peak - base) / MIB:.0f} MiB beyond the {base / MIB:.0f} of asking about none, the limit is {limit / MIB:.0f}"
    )
    return 0 if peak - base <= limit else 1


if __name__ == "__main__":
    sys.exit(main())
