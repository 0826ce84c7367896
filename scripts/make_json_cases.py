#!/usr/bin/env python3
"""Write tests/fixtures/json-cases.jsonl: JSON texts in odd spellings and what CPython makes of them.

The model was trained on what CPython's `json` prints, so CPython itself is the oracle: every case is a raw text and
either `dumps`, what `json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"), sort_keys=True)` gives, or
`"refused": true` where a strict reader must refuse. Strict means: as CPython, but `NaN` and `Infinity` as input, lone
surrogates and a byte order mark are no JSON. The file is plain ASCII, one case a line, after one line that says how it
was made.

    python3 scripts/make_json_cases.py            # writes the file
    python3 scripts/make_json_cases.py --check    # fails if the file is not what this script writes
"""

import json
import math
import platform
import random
import struct
import sys
from pathlib import Path

SEED = 20_250_817
OUT = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "json-cases.jsonl"
MAX_DEPTH = 64

NAMED = {
    "integer": "1250",
    "float-with-zero": "1250.0",
    "float-with-exponent": "1.25e2",
    "overflow": "1E400",
    "negative-overflow": "-1e400",
    "underflow": "1e-400",
    "negative-underflow": "-1e-400",
    "negative-zero-float": "-0.0",
    "negative-zero-integer": "-0",
    "smallest-subnormal": "5e-324",
    "largest-double": "1.7976931348623157e308",
    "rounds-to-infinity": "1.7976931348623159e308",
    "tenth": "0.1",
    "sixteen": "1e16",
    "below-sixteen": "9999999999999998.0",
    "twenty-two": "1e22",
    "twenty-three": "1e23",
    "small": "0.0001",
    "smaller": "0.00001",
    "halfway-up": "9007199254740993.0",
    "halfway-digits": "140877619171601.625",
    "halfway-digits-up": "140877619171601.875",
    "halfway-long": "2.00000000000000011102230246251565404236316680908203125",
    "big-integer": "123456789012345678901234567890",
    "negative-big-integer": "-123456789012345678901234567890",
    "i64-max": "9223372036854775807",
    "u64-max-and-one": "18446744073709551616",
    "longest-integer": "9" * 4300,
    "long-float": "0." + "3" * 5000,
    "true": "true",
    "false": "false",
    "null": "null",
    "empty-containers": '{"a":{},"b":[],"c":[[],{}],"d":{"e":{"f":[]}}}',
    "key-order": '{"\\uffff":1,"\\ud800\\udc00":2,"z":3,"Z":4,"\\u00e9":5,"":6,"_":7}',
    "key-order-raw": '{"\uffff":1,"\U00010000":2}',
    "key-order-escapes": '{"\\n":1,"Z":2,"\\u0001":3,"\\"":4,"\\\\":5,"]":6,"[":7,"/":8,"\\/a":9}',
    "key-prefixes": '{"ab":1,"a":2,"":3,"abc":4,"a\\u0000":5}',
    "controls": '"' + "".join(f"\\u{code:04x}" for code in range(0x20)) + '"',
    "controls-upper": '"' + "".join(f"\\u{code:04X}" for code in range(0x20)) + '"',
    "short-escapes": '"\\b\\f\\n\\r\\t\\"\\\\\\/"',
    "delete": '"\\u007f\x7f"',
    "line-separators": '"\\u2028\\u2029\u2028\u2029"',
    "noncharacters": '"\\ufffe\\uffff\ufdd0"',
    "emoji": '"\U0001f600 \\ud83d\\ude00"',
    "last-code-point": '"\\udbff\\udfff"',
    "surrogate-pair-case": '"\\uD83D\\uDe00"',
    "html": '"</script> & \' <x>"',
    "duplicates": '{"a":1,"b":2,"a":3}',
    "duplicates-by-escape": '{"a":1,"\\u0061":2}',
    "duplicates-nested": '{"a":{"x":1},"b":{"y":1,"y":2},"a":{"z":[{"q":1,"q":2}]}}',
    "whitespace": ' \t\r\n{ "b" : [ 1 ,\n2 ] , "a" : "x"\t}\r\n ',
    "deepest-arrays": "[" * MAX_DEPTH + "]" * MAX_DEPTH,
    "deepest-objects": '{"a":' * (MAX_DEPTH - 1) + "{}" + "}" * (MAX_DEPTH - 1),
    "empty-string": '""',
    "empty-key": '{"":""}',
}

REFUSED = {
    "empty": "",
    "only-whitespace": " \n\t ",
    "colon": "{:",
    "nan": "NaN",
    "infinity": "Infinity",
    "negative-infinity": "[-Infinity]",
    "lone-high": '"\\ud83d"',
    "lone-low": '"\\ude00"',
    "lone-high-then-text": '"\\ud83dx"',
    "lone-high-then-escape": '"\\ud83d\\n"',
    "two-highs": '"\\ud83d\\ud83d\\ude00"',
    "swapped-pair": '"\\ude00\\ud83d"',
    "lone-in-key": '{"\\udc00":1}',
    "raw-newline": '"a\nb"',
    "raw-tab": '"a\tb"',
    "raw-nul": '"a\0b"',
    "nul-outside": "[1,\0]",
    "byte-order-mark": "\ufeff{}",
    "leading-zero": "01",
    "leading-plus": "+1",
    "no-integer-part": ".5",
    "no-fraction": "1.",
    "no-exponent": "1e",
    "signed-nothing": "[-]",
    "hexadecimal": "0x10",
    "underscore": "1_000",
    "trailing-comma": "[1,]",
    "trailing-comma-object": '{"a":1,}',
    "two-values": "1 2",
    "single-quotes": "{'a':1}",
    "bare-key": "{a:1}",
    "upper-literal": "True",
    "cut-literal": "tru",
    "long-literal": "nulls",
    "bad-escape": '"\\x41"',
    "short-unicode-escape": '"\\u12"',
    "signed-unicode-escape": '"\\u+123"',
    "open-string": '"abc',
    "open-array": "[1",
    "wrong-bracket": "[1}",
    "missing-colon": '{"a" 1}',
    "missing-value": '{"a":}',
    "comment": "[1] // one",
    "no-break-space": "\u00a0[1]",
    "vertical-tab": "[1\x0b]",
    "longest-integer-and-one": "9" * 4301,
}

ALPHABET = (
    [chr(code) for code in range(0x20)]
    + list("abcAZ09 _-./\"\\'<>&[]{}:,")
    + list("\x7f\x80\x85\xa0é\u0301߿ࠀ中한\u2028\u2029\ud7ff\ue000\ufeff\ufffd\uffff")
    + list("\U00010000😀👩\u200d\U0010ffff")
)
SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "/": "\\/"}


class Speller:
    """Spells a random value as JSON in one of the many ways that mean the same."""

    def __init__(self, rng):
        self.rng = rng

    def space(self):
        return "".join(self.rng.choices(" \t\r\n", k=self.rng.choice([0, 0, 0, 1, 3])))

    def character(self, character):
        forms = [character] if character >= " " and character not in '"\\' else []
        if character in SHORT:
            forms.append(SHORT[character])
        units = struct.unpack(f"<{len(character.encode('utf-16-le')) // 2}H", character.encode("utf-16-le"))
        digits = self.rng.choice(["04x", "04X"])
        forms.append("".join(f"\\u{unit:{digits}}" for unit in units))
        return self.rng.choice(forms if self.rng.random() < 0.5 else forms[:1])

    def string(self, longest=12):
        characters = self.rng.choices(ALPHABET, k=self.rng.randint(0, longest))
        return '"' + "".join(map(self.character, characters)) + '"'

    def number(self):
        rng = self.rng
        kind = rng.randrange(8)
        if kind == 0:
            return str(rng.randint(-1000, 1000))
        if kind == 1:
            return str(rng.randint(-(10 ** rng.randint(1, 60)), 10 ** rng.randint(1, 60)))
        if kind == 2:
            while True:
                value = struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
                if math.isfinite(value):
                    return rng.choice([repr, "{:.17e}".format, "{:.16E}".format, "{:.20e}".format])(value)
        if kind == 3:
            return f"{rng.uniform(-1, 1) * 10 ** rng.randint(-8, 20):.{rng.randint(1, 25)}f}"
        if kind == 4:
            exponent = rng.choice(["e", "E"]) + rng.choice(["", "+", "-"]) + str(rng.randint(0, 330)).zfill(rng.randint(1, 4))
            return f"{rng.choice(['', '-'])}{rng.randint(0, 9)}{rng.choice(['', '.0', '.5', '.25', '.00'])}{exponent}"
        if kind == 5:
            # Halfway between two doubles, exactly or off by the last digit: where a parser that rounds twice goes wrong.
            low = struct.unpack("<d", struct.pack("<Q", rng.randrange(0x3FF0 << 48, 0x4330 << 48)))[0]
            high = math.nextafter(low, math.inf)
            numerator, denominator = low.as_integer_ratio()
            other, other_denominator = high.as_integer_ratio()
            scale = max(denominator, other_denominator) * 2
            middle = (numerator * (scale // denominator) + other * (scale // other_denominator)) // 2
            digits = scale.bit_length() - 1
            text = str(middle * 5**digits).zfill(digits + 1)
            return text[:-digits] + "." + text[-digits:] + rng.choice(["", "0", "1"])
        if kind == 6:
            # Doubles with few bits behind the point: two texts of the fewest digits may be equally near, and Python
            # takes the even one.
            return repr(rng.randrange(1 << 52, 1 << 53) / 2 ** rng.randint(1, 8)) + rng.choice(["", "0"])
        return rng.choice(["0", "-0", "0.0", "-0.0", "0e0", "1e15", "1e16", "1e-4", "1e-5", "123456789.0"])

    def key(self, earlier):
        if earlier and self.rng.random() < 0.2:
            return self.rng.choice(earlier)
        return self.string(longest=4)

    def value(self, depth):
        rng = self.rng
        kind = rng.randrange(10 if depth else 6)
        if kind < 2:
            return self.number()
        if kind < 5:
            return self.string()
        if kind == 5:
            return rng.choice(["true", "false", "null"])
        count = rng.choice([0, 1, 2, 3, 6])
        if kind < 8:
            items = [self.space() + self.value(depth - 1) + self.space() for _ in range(count)]
            return "[" + (",".join(items) or self.space()) + "]"
        keys, items = [], []
        for _ in range(count):
            keys.append(self.key(keys))
            value = self.value(depth - 1)
            items.append(f"{self.space()}{keys[-1]}{self.space()}:{self.space()}{value}{self.space()}")
        return "{" + (",".join(items) or self.space()) + "}"


def refuse_constant(name):
    raise ValueError(name)


def dumps(text):
    """What CPython prints, or None where a strict reader refuses."""
    if text.startswith("\ufeff"):
        return None
    try:
        value = json.loads(text, parse_constant=refuse_constant)
        printed = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        printed.encode()
    except (ValueError, UnicodeEncodeError):
        return None
    return printed


def mutate(rng, text):
    """The text with one character taken out, doubled or exchanged."""
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(["", text[at] * 2, rng.choice('[]{}",:\\0-.eE \nx\ud7ff')]) + text[at + 1 :]


def cases():
    rng = random.Random(SEED)
    speller = Speller(rng)
    for name, text in NAMED.items():
        printed = dumps(text)
        assert printed is not None, name
        yield {"name": name, "text": text, "dumps": printed}
    for name, text in REFUSED.items():
        assert dumps(text) is None, name
        yield {"name": name, "text": text, "refused": True}
    makers = [
        (700, speller.number),
        (500, speller.string),
        (1200, lambda: speller.space() + speller.value(rng.randint(1, 5)) + speller.space()),
        (600, lambda: mutate(rng, speller.value(rng.randint(1, 3)))),
    ]
    for count, make in makers:
        for _ in range(count):
            text = make()
            printed = dumps(text)
            yield {"text": text, "refused": True} if printed is None else {"text": text, "dumps": printed}


def main():
    header = {
        "generator": "scripts/make_json_cases.py",
        "python": platform.python_version(),
        "seed": SEED,
    }
    lines = [json.dumps(line) for line in [header, *cases()]]
    content = "\n".join(lines) + "\n"
    if "--check" not in sys.argv[1:]:
        OUT.write_text(content)
        return
    # The header names the Python that wrote the file; what it wrote must be the same in every version.
    if OUT.read_text().split("\n", 1)[1] != content.split("\n", 1)[1]:
        sys.exit(f"{OUT.name} is not what {header['generator']} writes")


if __name__ == "__main__":
    main()
