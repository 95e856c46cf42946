"""Inputs that are almost right: bytes, JSON, and archives whose checksum is made to fit again."""

import json
import random
from typing import Any

from ahop._core.files import digest
from ahop.memory.saving.reading import KEY, LENGTH_BYTES

NUMBERS: list[float] = [0, -1, 1, 2, 255, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30]
NUMBERS += [10**400, 0.5, -0.0, 1e-320, 1e308, -1e308, 1e19, 3.5e38]
WORDS = ["", "a", "\x00", "\ud800", "é", "名", "id", "NULL", "'", '"; --', "../../etc/passwd", "x" * 5000, "NaN"]
WORDS += ["component", "arguments", "F32", "U8", "patterns", "__class__", "__init__", "torch", "float32", "meta"]
TOKENS = [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"null", b"[" * 500, b"{" * 500, b"]", b"}", b",,"]
TOKENS += [b'"\\ud800"', b"9" * 5000, b"\xff\xfe", b"\x00" * 8, b'{"a":' * 300, b"\\u0000", b"0" * 400, b"1E400"]
INTEGERS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


def bent_bytes(content: bytes, chance: random.Random) -> bytes:
    """Some bytes are flipped, overwritten, cut off, repeated or put in."""
    made = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        place = chance.randrange(len(made) + 1)
        how = chance.randrange(7)
        if how == 0 and place < len(made):
            made[place] ^= 1 << chance.randrange(8)
        elif how == 1 and place < len(made):
            made[place] = chance.randrange(256)
        elif how == 2:
            size = chance.choice((1, 2, 4, 8))
            number = chance.choice(INTEGERS) & (256**size - 1)
            made[place : place + size] = number.to_bytes(size, "little")
        elif how == 3:
            made[place:place] = chance.choice(TOKENS)
        elif how == 4:
            del made[place : place + chance.choice((1, 4, 8, 64))]
        elif how == 5 and chance.random() < 0.3:
            del made[place:]
        else:
            end = place + chance.choice((1, 8, 64))
            made[place:place] = made[place:end]
    return bytes(made)


def bent_json(value: Any, chance: random.Random) -> Any:
    """The same with one part of it, at any depth, replaced, left out, wrapped or repeated."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        name = chance.choice(list(value))
        return _bent_object(value, name, chance)
    if isinstance(value, list) and value and chance.random() < 0.8:
        place = chance.randrange(len(value))
        how = chance.randrange(8)
        if how == 0:
            return value[:place] + value[place + 1 :]
        if how == 1:
            return value[:place] + [value[place]] * chance.choice((2, 50)) + value[place + 1 :]
        return [*value[:place], bent_json(value[place], chance), *value[place + 1 :]]
    return strange(value, chance)


def _bent_object(value: dict[str, Any], name: str, chance: random.Random) -> dict[str, Any]:
    how = chance.randrange(10)
    if how == 0:
        return {key: each for key, each in value.items() if key != name}
    if how == 1:
        return {**value, chance.choice(WORDS): strange(None, chance)}
    if how == 2:
        other = chance.choice(list(value))
        return {**value, name: value[other], other: value[name]}
    return {**value, name: bent_json(value[name], chance)}


def strange(value: Any, chance: random.Random) -> Any:
    how = chance.randrange(10)
    if how < 3:
        return chance.choice(NUMBERS)
    if how < 5:
        return chance.choice(WORDS)
    if how == 5:
        return chance.choice((None, True, False, [], {}, [[]], [None], {"": None}))
    if how == 6:
        return [value] * chance.choice((1, 2, 30))
    if how == 7:
        return {chance.choice(WORDS): value}
    if how == 8:
        return nested(chance.choice((20, 200)))
    return chance.uniform(-1e3, 1e3)


def nested(depth: int) -> Any:
    made: Any = 0
    for _ in range(depth):
        made = [made]
    return made


def to_json(value: Any) -> bytes:
    return json.dumps(value).encode("ascii")


def bent_archive(content: bytes, chance: random.Random) -> bytes:
    """A file of tensors and words in which something is wrong, and whose lengths and checksum fit all the same."""
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    header, body = json.loads(content[LENGTH_BYTES : LENGTH_BYTES + length]), content[LENGTH_BYTES + length :]
    words = json.loads(header["__metadata__"][KEY].split(" ", 1)[1])
    tensors = {name: each for name, each in header.items() if name != "__metadata__"}
    if chance.random() < 0.8:
        for _ in range(chance.choice((1, 1, 2, 3))):
            words = bent_json(words, chance)
    else:
        tensors = bent_json(tensors, chance)
    text = json.dumps(words)
    checksum = _checksum(text, tensors, body)
    made = {"__metadata__": {KEY: f"{checksum} {text}"}, **(tensors if isinstance(tensors, dict) else {})}
    head = json.dumps(made).encode("ascii")
    return len(head).to_bytes(LENGTH_BYTES, "little") + head + body


def _checksum(words: str, tensors: Any, body: bytes) -> str:
    """As ahop counts it, where the tensors can be told."""
    parts = [words.encode("utf-8", "surrogatepass")]
    names = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "U8": "uint8", "I64": "int64"}
    try:
        for name in sorted(tensors):
            told = tensors[name]
            start, end = told["data_offsets"]
            shape = tuple(told["shape"])
            parts += [f"\n{name} torch.{names[told['dtype']]} {shape}\n".encode(), body[start:end]]
    except (AttributeError, KeyError, TypeError, ValueError, UnicodeError):
        pass
    return digest(*parts)
