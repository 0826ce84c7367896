#!/usr/bin/env python3
"""Attribute what llama.cpp's vision tower (mtmd) differs by from the float32 reference to the roundings it is made of.

Usage: vision_difference.py PROJECTOR FIXTURES [--embed PROGRAM --model MODEL]

Computes the tower in 64-bit floats from a PROJECTOR file (GGUF) and compares it with the reference's embeddings of the
pictures and videos in FIXTURES (`golden.jsonl`, `images/`, `debug/`, as in crates/testkit/fixtures). Then computes it
again with each of ggml's choices switched on alone, and with all of them. With --embed, mtmd's own embeddings are
compared as well: PROGRAM is what `cargo build --release -p clef-llama --example embed` builds, MODEL the backbone that
the projector belongs to.

Prints a table; a cell is the largest and the mean difference over all numbers of the embeddings. Needs numpy and gguf.
"""
import argparse
import json
import math
import pathlib
import struct
import subprocess
import tempfile
import zlib

import gguf
import numpy as np

MERGE = 2
# Below so many queries ggml's fused attention goes key by key, and adds up in 16 bits (ggml/src/ggml-cpu/common.h).
TILE = 64


def rounded(x):
    """To 16-bit floats and back."""
    return x.astype(np.float32).astype(np.float16).astype(np.float64)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def by_table(function):
    """ggml's GELU on the CPU: a table over 16-bit floats of 16-bit floats."""
    return lambda x: np.where(x <= -10, 0, np.where(x >= 10, x, rounded(function(rounded(x)))))


CHOICES = {
    "pixels": "pixels in 16 bits (`im2col`)",
    "block_table": "GELU of the blocks by table",
    "merger_tanh": "GELU of the merger by tanh, not erf",
    "merger_table": "GELU of the merger by table",
    "keys_values": "flash attention: keys and values in 16 bits",
    "accumulator": f"flash attention below {TILE} patches: queries and sums in 16 bits",
    "products": "16-bit weights: what they are multiplied with in 16 bits",
}
WITHOUT_FLASH = ("pixels", "block_table", "merger_tanh", "merger_table", "products")


class Tower:
    """The vision tower of a projector file."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.weights, self.halves = {}, set()
        for tensor in reader.tensors:
            if tensor.tensor_type == gguf.GGMLQuantizationType.F16:
                self.halves.add(tensor.name)
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            self.weights[tensor.name] = values.reshape(tensor.shape[::-1]).astype(np.float64)

        def value(key):
            return reader.fields[f"clip.vision.{key}"].contents()

        self.layers, self.heads, self.patch = value("block_count"), value("attention.head_count"), value("patch_size")
        self.epsilon = value("attention.layer_norm_epsilon")
        self.mean, self.deviation = np.array(value("image_mean")), np.array(value("image_std"))

    def moved(self, relative):
        """A tower whose weights are off by chance."""
        random, other = np.random.default_rng(1), object.__new__(Tower)
        other.__dict__ = dict(self.__dict__)
        other.weights = {k: w * (1 + relative * random.standard_normal(w.shape)) for k, w in self.weights.items()}
        return other

    def patches(self, first, second):
        """Two frames of 8-bit RGB as rows of (channel, moment, row, column), the patches of a token together."""
        frames = ((np.stack([first, second]).astype(np.float32) / 255 - self.mean) / self.deviation).astype(np.float32)
        high, wide = (side // self.patch // MERGE for side in first.shape[:2])
        frames = frames.reshape(2, high, MERGE, self.patch, wide, MERGE, self.patch, 3)
        return frames.transpose(1, 4, 2, 5, 7, 0, 3, 6).reshape(high * wide * MERGE**2, -1)

    def frame(self, patches, height, width):
        """The first of the two frames that such rows were made of."""
        rows = patches.reshape(height // MERGE, width // MERGE, MERGE, MERGE, 3, 2, self.patch, self.patch)
        picture = rows[..., 0, :, :].transpose(0, 2, 5, 1, 3, 6, 4).reshape(height * self.patch, width * self.patch, 3)
        levels = (picture * self.deviation + self.mean) * 255
        assert np.abs(levels - np.rint(levels)).max() < 1e-3, "these are no 8-bit levels"
        return np.rint(levels).astype(np.uint8)

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + self.epsilon)
        return scaled * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def linear(self, x, name, choices):
        if "products" in choices and name + ".weight" in self.halves:
            x = rounded(x)
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def positions(self, height, width):
        """The learned positions, stretched to the grid: bilinear, corner to corner."""
        table = self.weights["v.position_embd.weight"]
        side = math.isqrt(len(table))
        table = table.reshape(side, side, -1)
        ys, xs = np.linspace(0, side - 1, height), np.linspace(0, side - 1, width)
        top, left = np.floor(ys).astype(int), np.floor(xs).astype(int)
        low, right = np.minimum(top + 1, side - 1), np.minimum(left + 1, side - 1)
        y, x = (ys - top)[:, None, None], (xs - left)[None, :, None]
        upper = table[top][:, left] * (1 - x) + table[top][:, right] * x
        lower = table[low][:, left] * (1 - x) + table[low][:, right] * x
        return upper * (1 - y) + lower * y

    def rotations(self, height, width, head):
        """Angles of a head's numbers by row and column, as cosines and sines for each patch."""
        frequencies = 10000.0 ** -(np.arange(0, head // 2, 2) / (head // 2))
        rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
        grid = by_token(np.stack([rows, columns], -1))
        angles = (grid[:, :, None] * frequencies).reshape(len(grid), -1)
        angles = np.concatenate([angles, angles], 1)[:, None]
        return np.cos(angles), np.sin(angles)

    def embed(self, patches, height, width, choices=()):
        """Embeddings of a picture's patches, `height` rows of `width`."""
        x = patches.astype(np.float64)
        if "pixels" in choices:
            x = rounded(x)
        kernels = [self.weights["v.patch_embd.weight"], self.weights["v.patch_embd.weight.1"]]
        kernel = np.stack(kernels, 2)
        x = x @ kernel.reshape(len(kernel), -1).T + self.weights["v.patch_embd.bias"]
        x = x + by_token(self.positions(height, width))
        width_of_state = x.shape[-1]
        head = width_of_state // self.heads
        cosines, sines = self.rotations(height, width, head)

        def turned(q):
            return q * cosines + np.concatenate([-q[..., head // 2 :], q[..., : head // 2]], -1) * sines

        gelu = by_table(gelu_tanh) if "block_table" in choices else gelu_tanh
        for block in range(self.layers):
            name = f"v.blk.{block}."
            qkv = self.linear(self.norm(x, name + "ln1"), name + "attn_qkv", choices)
            qkv = qkv.reshape(len(x), 3, self.heads, head)
            attended = attention(turned(qkv[:, 0]), turned(qkv[:, 1]), qkv[:, 2], choices)
            x = x + self.linear(attended.reshape(len(x), -1), name + "attn_out", choices)
            inner = gelu(self.linear(self.norm(x, name + "ln2"), name + "ffn_up", choices))
            x = x + self.linear(inner, name + "ffn_down", choices)
        x = self.norm(x, "v.post_ln").reshape(-1, width_of_state * MERGE**2)
        gelu = gelu_tanh if "merger_tanh" in choices else gelu_erf
        if "merger_table" in choices:
            gelu = by_table(gelu)
        return self.linear(gelu(self.linear(x, "mm.0", choices)), "mm.2", choices)


def by_token(grid):
    """Rows of a grid of patches in the order that puts the patches of a token together."""
    height, width, depth = grid.shape
    grid = grid.reshape(height // MERGE, MERGE, width // MERGE, MERGE, depth)
    return grid.transpose(0, 2, 1, 3, 4).reshape(height * width, depth)


def attention(q, k, v, choices):
    """Attention of all to all; patches, heads, width of a head."""
    if "keys_values" in choices:
        k, v = rounded(k), rounded(v)
    is_summed_in_16_bits = "accumulator" in choices and len(q) < TILE
    if is_summed_in_16_bits:
        q = rounded(q)
    scores = np.einsum("ihd,jhd->ihj", q, k) / math.sqrt(q.shape[-1])
    if not is_summed_in_16_bits:
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("ihj,jhd->ihd", shares / shares.sum(-1, keepdims=True), v)
    most = np.full(scores.shape[:2], -np.inf)
    total, summed = np.zeros(scores.shape[:2]), np.zeros(q.shape)
    for j in range(len(k)):
        now = np.maximum(most, scores[..., j])
        shrink, share = np.exp(most - now), np.exp(scores[..., j] - now)
        summed = rounded(rounded(summed * shrink[..., None]) + share[..., None] * v[j])
        total, most = total * shrink + share, now
    return summed / total[..., None]


def read_png(path):
    """A PNG of 8-bit RGB that is not interlaced."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        chunk = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, *variety = struct.unpack(">IIBBBBB", chunk)
            assert variety == [8, 2, 0, 0, 0], f"{path} is of another variety"
        packed += chunk if kind == b"IDAT" else b""
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
    picture = np.zeros((height + 1, 3 * width + 3), int)
    for y, line in enumerate(lines, 1):
        up = picture[y - 1]
        for x, value in enumerate(line[1:], 3):
            a, b, c = picture[y, x - 3], up[x], up[x - 3]
            paeth = min((a, b, c), key=lambda known: abs(a + b - c - known))
            picture[y, x] = (value + (0, a, b, (a + b) // 2, paeth)[line[0]]) & 255
    return picture[1:, 3:].reshape(height, width, 3).astype(np.uint8)


def cases(tower, fixtures):
    """Name, steps of (patches, frames, height, width), and the reference's embeddings, where the pixels are known."""
    # Not `splitlines`, which also splits at characters that JSON leaves in its texts.
    for line in (fixtures / "golden.jsonl").read_text().rstrip("\n").split("\n"):
        record = json.loads(line)
        reference = fixtures / "debug" / f"{record['name']}.vision_embeds.npy"
        if not reference.exists() or not (record.get("images") or record.get("videos")):
            continue
        media = record["media"]
        (_, height, width), *others = media.get("image_grid_thw", []) + media.get("video_grid_thw", [])
        files = record.get("images") or record["videos"][0]
        pixels = fixtures / "debug" / f"{record['name']}.pixel_values.npy"
        steps = []
        if pixels.exists():
            patches = np.load(pixels)
            steps = [(patches, [tower.frame(patches, height, width)], height, width)]
        elif not others:
            frames = [read_png(fixtures / name) for name in files]
            if all(frame.shape[:2] == (height * tower.patch, width * tower.patch) for frame in frames):
                pairs = [frames[at : at + 2] for at in range(0, len(frames), 2)]
                steps = [(tower.patches(pair[0], pair[-1]), pair, height, width) for pair in pairs]
        if steps:
            yield record["name"], steps, np.load(reference).astype(np.float64)


def of_mtmd(arguments, step, flash_attention):
    """mtmd's embeddings of a step."""
    _, frames, height, width = step
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / str(index) for index in range(len(frames))]
        for file, frame in zip(files, frames):
            file.write_bytes(frame.tobytes())
        sides = f"{frames[0].shape[1]}x{frames[0].shape[0]}"
        command = [arguments.embed, arguments.model, arguments.projector, flash_attention, sides, *files]
        rows = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return np.frombuffer(rows, np.float32).reshape(height * width // MERGE**2, -1).astype(np.float64)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("projector", type=pathlib.Path)
    parser.add_argument("fixtures", type=pathlib.Path)
    parser.add_argument("--embed", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    arguments = parser.parse_args()
    if (arguments.embed is None) != (arguments.model is None):
        parser.error("--embed and --model belong together")

    tower = Tower(arguments.projector)
    found = list(cases(tower, arguments.fixtures))
    random = np.random.default_rng(1)
    for tokens in (1, 6):
        noise = random.integers(0, 256, (32, 32 * tokens, 3)).astype(np.uint8)
        step = (tower.patches(noise, noise), [noise], MERGE, MERGE * tokens)
        found.append((f"noise, {tokens} token{'s' * (tokens > 1)}", [step], None))

    table = {}

    def cell(row, column, left, right):
        cells = table.setdefault(row, {})
        if left is not None and right is not None:
            difference = np.abs(left - right)
            cells[column] = f"{difference.max():.1e} / {difference.mean():.1e}"

    for name, steps, reference in found:
        def embed(which, choices=()):
            return np.concatenate([which.embed(patches, *grid, choices) for patches, _, *grid in steps])

        exact = embed(tower)
        cell("64-bit floats, with the reference", name, exact, reference)
        for choice, words in CHOICES.items():
            before = ("keys_values",) if choice == "accumulator" else ()
            is_small = all(len(patches) < TILE for patches, *_ in steps)
            is_idle = choice == "accumulator" and not is_small or choice == "products" and not tower.halves
            cell(f"alone: {words}", name, None if is_idle else embed(tower, (*before, choice)), embed(tower, before))
        for setting, choices in (("off", WITHOUT_FLASH), ("on", tuple(CHOICES))):
            model = embed(tower, choices)
            cell(f"all, flash attention {setting}, with 64-bit floats", name, model, exact)
            moved = embed(tower.moved(1e-7), choices)
            cell(f"all, flash attention {setting}, weights moved by 1e-7", name, model, moved)
            if arguments.embed:
                theirs = np.concatenate([of_mtmd(arguments, step, setting) for step in steps])
                cell(f"mtmd, flash attention {setting}, with the reference", name, theirs, reference)
                cell(f"mtmd, flash attention {setting}, with all", name, theirs, model)

    columns = [name for name, _, _ in found]
    print("| largest / mean difference | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for row, cells in table.items():
        if not cells:
            continue
        print(f"| {row} | " + " | ".join(cells.get(column, "") for column in columns) + " |")


if __name__ == "__main__":
    main()
