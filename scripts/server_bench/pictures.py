"""Pictures for requests, as data URLs of PNG files: the one form that all servers take.

What is made here costs a server what a photograph costs: smooth gradients under noise, which hardly compress. Sides are
multiples of 32 and there are 64 to 4,096 tokens of 32x32 pixels, because only then all servers give a picture the same
tokens: outside of that one stretches a picture that another takes as it is. Everything else about pictures is as with
texts: each is new unless it is kept and sent again.
"""

from __future__ import annotations

import base64
import random
import struct
import zlib
from collections.abc import Iterator

TOKEN_SIDE = 32
LEAST_TOKENS, MOST_TOKENS = 64, 4096

PREFIX = "data:image/png;base64,"
SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER = struct.Struct(">IIBBBBB")
RGB = 2
CHANNELS = {0: 1, RGB: 3, 4: 2, 6: 4}  # by colour type; a palette's numbers cannot be replaced by any others


def has_equal_tokens(width: int, height: int) -> bool:
    """Whether all servers count the same tokens for a picture of this size."""
    tokens = (width // TOKEN_SIDE) * (height // TOKEN_SIDE)
    return width % TOKEN_SIDE == height % TOKEN_SIDE == 0 and LEAST_TOKENS <= tokens <= MOST_TOKENS


def photograph(generator: random.Random, width: int, height: int) -> str:
    """A new picture, 8 bits for each of three colours."""
    across, down = gradient(generator, width), gradient(generator, height)
    horizontal = int.from_bytes(b"".join(across), "big")
    grain = int.from_bytes(b"\x3f" * (3 * width), "big")
    rows = []
    for colour in down:
        # Each byte is at most 0x60 + 0x60 + 0x3f: nothing is carried into its neighbour.
        noise = int.from_bytes(generator.randbytes(3 * width), "big") & grain
        row = horizontal + int.from_bytes(colour * width, "big") + noise
        rows.append(b"\0" + row.to_bytes(3 * width, "big"))
    return data_url(HEADER.pack(width, height, 8, RGB, 0, 0, 0), b"".join(rows))


def gradient(generator: random.Random, length: int) -> list[bytes]:
    """Colours that go from one to another, none above 0x60."""
    ends = [(generator.randrange(0x61), generator.randrange(0x61)) for _ in range(3)]
    return [bytes(first + (last - first) * i // length for first, last in ends) for i in range(length)]


def renewed(generator: random.Random, url: str) -> str:
    """Somebody's picture whose last row of pixels is noise, so that no server has seen it."""
    header, rows = open_png(url)
    width, height, _, colours, *_ = HEADER.unpack(header)
    length = CHANNELS[colours] * width
    # A row says itself how it is predicted from the one above, and none is predicted from the last.
    kept = rows[: (height - 1) * (1 + length)]
    return data_url(header, kept + b"\0" + generator.randbytes(length))


def can_be_renewed(url: object) -> bool:
    """Whether this is a picture that `renewed` understands: a PNG of 8 bits without palette and interlacing."""
    try:
        return isinstance(url, str) and bool(open_png(url))
    except (ValueError, struct.error, zlib.error):
        return False


def size(url: str) -> tuple[int, int]:
    """Width and height of a picture that can be renewed."""
    width, height, *_ = HEADER.unpack(open_png(url)[0])
    return width, height


def open_png(url: str) -> tuple[bytes, bytes]:
    """The header, and the rows as they are predicted. Raises ValueError, struct.error or zlib.error."""
    if not url.startswith(PREFIX):
        raise ValueError("no PNG")
    content = base64.b64decode(url[len(PREFIX) :], validate=True)
    if not content.startswith(SIGNATURE):
        raise ValueError("no PNG")
    found = list(chunks(content))
    header = next((data for kind, data in found if kind == b"IHDR"), b"")
    width, height, bits, colours, _, _, interlacing = HEADER.unpack(header)
    rows = zlib.decompress(b"".join(data for kind, data in found if kind == b"IDAT"))
    if bits != 8 or interlacing or len(rows) != height * (1 + CHANNELS.get(colours, 0) * width):
        raise ValueError("another kind of PNG")
    return header, rows


def chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and data of each chunk."""
    at = len(SIGNATURE)
    while at < len(content):
        length, kind = struct.unpack_from(">I4s", content, at)
        yield kind, content[at + 8 : at + 8 + length]
        at += 12 + length


def data_url(header: bytes, rows: bytes) -> str:
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b""))
    content = SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return PREFIX + base64.b64encode(content).decode()
