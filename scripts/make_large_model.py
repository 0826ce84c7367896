#!/usr/bin/env python3
"""Write a Clef model of real widths and meaningless weights, for measuring what loading one takes.

Usage: make_large_model.py DONOR.gguf OUT.gguf

The shape is that of a 0.8B model in Q8_0 with a small vocabulary, which the donor lends; about 600 MB. Needs nothing
but Python. Its answers mean nothing.
"""
import random
import struct
import sys

HIDDEN, FEED_FORWARD, LAYERS, HEADS, KV_HEADS, KEY_HEADS, VALUE_HEADS = 1024, 3584, 24, 8, 2, 16, 16
HEAD_DIM, DELTA_DIM, CONV = 256, 128, 4
HEAD_WIDTH, HEAD_FEED_FORWARD, HEAD_HEADS, ROUTING, JOINT = 1024, 4096, 16, 2, 4

U32, I32, F32, STRING, ARRAY = 4, 5, 6, 8, 9
FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
TYPE_F32, TYPE_Q8_0 = 0, 8
ALIGNMENT = 32


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


class Donor:
    """The metadata of a GGUF file, each value as it stands there."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self.data = file.read()
        magic, version, _, count = struct.unpack_from("<4sIQQ", self.data)
        assert magic == b"GGUF" and version == 3, path
        self.at, self.entries = 24, {}
        for _ in range(count):
            name = self.string().decode()
            start = self.at
            self.skip(self.number())
            self.entries[name] = self.data[start : self.at]

    def number(self) -> int:
        self.at += 4
        return struct.unpack_from("<I", self.data, self.at - 4)[0]

    def string(self) -> bytes:
        (length,) = struct.unpack_from("<Q", self.data, self.at)
        self.at += 8 + length
        return self.data[self.at - length : self.at]

    def skip(self, kind: int) -> None:
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            element = self.number()
            (count,) = struct.unpack_from("<Q", self.data, self.at)
            self.at += 8
            if element in FIXED:
                self.at += count * FIXED[element]
            else:
                for _ in range(count):
                    self.string()
        else:
            self.at += FIXED[kind]

    def tokens(self) -> int:
        return struct.unpack_from("<Q", self.entries["tokenizer.ggml.tokens"], 8)[0]


class Model:
    """Tensors by name, each with its shape, its type and one row that is repeated."""

    def __init__(self) -> None:
        self.random = random.Random(7)
        self.tensors = []

    def matrix(self, name: str, columns: int, rows: int) -> None:
        scale = struct.pack("<e", columns**-0.5 / 74)
        row = b"".join(scale + self.random.randbytes(32) for _ in range(columns // 32))
        self.tensors.append((name, (columns, rows), TYPE_Q8_0, row, rows))

    def vector(self, name: str, size: int, value: float = 0.0, rows: int = 1) -> None:
        shape = (size,) if rows == 1 else (size, rows)
        self.tensors.append((name, shape, TYPE_F32, struct.pack("<f", value) * size, rows))

    def norm(self, name: str, size: int, bias: bool = False) -> None:
        self.vector(name + ".weight", size, 1.0)
        if bias:
            self.vector(name + ".bias", size)

    def linear(self, name: str, columns: int, rows: int) -> None:
        self.matrix(name + ".weight", columns, rows)
        self.vector(name + ".bias", rows)

    def backbone(self, vocabulary: int) -> None:
        self.matrix("token_embd.weight", HIDDEN, vocabulary)
        self.matrix("output.weight", HIDDEN, vocabulary)
        self.norm("output_norm", HIDDEN)
        keys, values = KEY_HEADS * DELTA_DIM, VALUE_HEADS * DELTA_DIM
        for layer in range(LAYERS):
            name = f"blk.{layer}."
            self.norm(name + "attn_norm", HIDDEN)
            self.norm(name + "post_attention_norm", HIDDEN)
            if recurrent(layer):
                self.matrix(name + "attn_qkv.weight", HIDDEN, 2 * keys + values)
                self.matrix(name + "attn_gate.weight", HIDDEN, values)
                self.matrix(name + "ssm_alpha.weight", HIDDEN, VALUE_HEADS)
                self.matrix(name + "ssm_beta.weight", HIDDEN, VALUE_HEADS)
                self.matrix(name + "ssm_out.weight", values, HIDDEN)
                self.vector(name + "ssm_a", VALUE_HEADS, -0.5)
                self.vector(name + "ssm_dt.bias", VALUE_HEADS, -1.0)
                self.vector(name + "ssm_conv1d.weight", CONV, 0.3, rows=2 * keys + values)
                self.norm(name + "ssm_norm", DELTA_DIM)
            else:
                self.matrix(name + "attn_q.weight", HIDDEN, 2 * HEADS * HEAD_DIM)
                self.matrix(name + "attn_k.weight", HIDDEN, KV_HEADS * HEAD_DIM)
                self.matrix(name + "attn_v.weight", HIDDEN, KV_HEADS * HEAD_DIM)
                self.matrix(name + "attn_output.weight", HEADS * HEAD_DIM, HIDDEN)
                self.norm(name + "attn_q_norm", HEAD_DIM)
                self.norm(name + "attn_k_norm", HEAD_DIM)
            self.matrix(name + "ffn_gate.weight", HIDDEN, FEED_FORWARD)
            self.matrix(name + "ffn_up.weight", HIDDEN, FEED_FORWARD)
            self.matrix(name + "ffn_down.weight", FEED_FORWARD, HIDDEN)

    def head(self) -> None:
        def attention(name: str) -> None:
            for part in "qkvo":
                self.linear(f"{name}_{part}", HEAD_WIDTH, HEAD_WIDTH)

        for block in range(ROUTING + JOINT):
            name = f"dec.blk.{block}."
            attention(name + "cross_attn")
            self.norm(name + "cross_attn_norm", HEAD_WIDTH, bias=True)
            if block < ROUTING:
                self.norm(name + "cross_attn_norm_kv", HEAD_WIDTH, bias=True)
            else:
                attention(name + "attn")
                self.norm(name + "attn_norm", HEAD_WIDTH, bias=True)
            self.norm(name + "ffn_norm", HEAD_WIDTH, bias=True)
            self.linear(name + "ffn_up", HEAD_WIDTH, HEAD_FEED_FORWARD)
            self.linear(name + "ffn_down", HEAD_FEED_FORWARD, HEAD_WIDTH)
        self.norm("decision.hidden_norm", HIDDEN, bias=True)
        for part in ("option_summary_norm", "field_norm", "option_norm"):
            self.norm("decision." + part, HEAD_WIDTH, bias=True)
        for part in ("memory", "question", "option_question", "global", "option_context", "option_lexical"):
            self.matrix(f"decision.proj_{part}.weight", HIDDEN, HEAD_WIDTH)
        self.vector("decision.scales", 3, 1.0)
        self.vector("token_types.weight", HEAD_WIDTH, 0.1, rows=3)
        self.linear("decision.scorer", 4 * HEAD_WIDTH, HEAD_WIDTH)
        self.vector("decision.scorer_out.weight", HEAD_WIDTH, 0.1)
        self.vector("decision.scorer_out.bias", 1)


def recurrent(layer: int) -> bool:
    return (layer + 1) % 4 != 0


def metadata(donor: Donor) -> list[bytes]:
    numbers = {
        "block_count": LAYERS, "context_length": 262144, "embedding_length": HIDDEN,
        "feed_forward_length": FEED_FORWARD, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM, "attention.value_length": HEAD_DIM, "ssm.conv_kernel": CONV,
        "ssm.state_size": DELTA_DIM, "ssm.group_count": KEY_HEADS, "ssm.time_step_rank": VALUE_HEADS,
        "ssm.inner_size": VALUE_HEADS * DELTA_DIM, "full_attention_interval": 4,
        "rope.dimension_count": HEAD_DIM // 4, "decision.routing_block_count": ROUTING,
        "decision.block_count": JOINT, "decision.head_count": HEAD_HEADS,
    }  # fmt: skip
    floats = {
        "rope.freq_base": 1e7, "attention.layer_norm_rms_epsilon": 1e-6, "attention.layer_norm_epsilon": 1e-5
    }  # fmt: skip
    entries = [text("general.architecture") + struct.pack("<I", STRING) + text("clef")]
    entries += [text("clef." + key) + struct.pack("<II", U32, value) for key, value in numbers.items()]
    entries += [text("clef." + key) + struct.pack("<If", F32, value) for key, value in floats.items()]
    sections = struct.pack("<IIQ4i", ARRAY, I32, 4, 11, 11, 10, 0)
    entries.append(text("clef.rope.dimension_sections") + sections)
    entries += [text(key) + raw for key, raw in donor.entries.items() if key.startswith("tokenizer.")]
    return entries


def main() -> None:
    donor, model = Donor(sys.argv[1]), Model()
    model.backbone(donor.tokens())
    model.head()
    entries = metadata(donor)
    header = [struct.pack("<4sIQQ", b"GGUF", 3, len(model.tensors), len(entries)), *entries]
    offset = 0
    for name, shape, kind, row, rows in model.tensors:
        header.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
        offset += -(-len(row) * rows // ALIGNMENT) * ALIGNMENT
    with open(sys.argv[2], "wb") as out:
        out.write(b"".join(header))
        out.write(bytes(-out.tell() % ALIGNMENT))
        for _, _, _, row, rows in model.tensors:
            out.write(row * rows)
            out.write(bytes(-out.tell() % ALIGNMENT))


if __name__ == "__main__":
    main()
