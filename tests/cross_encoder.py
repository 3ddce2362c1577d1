"""A cross-encoder of a few hundred bytes: it scores a chunk by how often words of the question stand in it.

The ONNX file is written by hand, message by message (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), so that tests
of reranking run the real library on a real model without a download.
"""

from __future__ import annotations

import json
from pathlib import Path

INT64, FLOAT = 7, 1
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")


def write_cross_encoder(folder: Path, words: str, *, sign: int = 1) -> Path:
    """A model folder as rerankers are published: model.onnx and its tokenizer, whose vocabulary is ``words``. With
    ``sign`` -1 the chunk that shares least comes first."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *dict.fromkeys(words.lower().split())])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 512, "pad_token": "[PAD]"}))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (folder / "model.onnx").write_bytes(_model(sign))
    return folder


def _model(sign: int) -> bytes:
    """sum over i, j of [id_i = id_j] [i is a word of the question] [j is a word of the chunk]."""
    nodes = [
        _node("Unsqueeze", ["input_ids", "two"], "ids_i"),
        _node("Unsqueeze", ["input_ids", "one"], "ids_j"),
        _node("Equal", ["ids_i", "ids_j"], "same"),
        _node("Cast", ["same"], "same_f", to=FLOAT),
        _node("Greater", ["input_ids", "last_special"], "word"),
        _node("Cast", ["word"], "word_f", to=FLOAT),
        _node("Cast", ["token_type_ids"], "chunk", to=FLOAT),
        _node("Sub", ["one_f", "chunk"], "question"),
        _node("Mul", ["word_f", "question"], "asked"),
        _node("Mul", ["word_f", "chunk"], "said"),
        _node("Unsqueeze", ["asked", "two"], "asked_i"),
        _node("Unsqueeze", ["said", "one"], "said_j"),
        _node("Mul", ["same_f", "asked_i"], "half"),
        _node("Mul", ["half", "said_j"], "pairs"),
        _node("ReduceSum", ["pairs", "both"], "sums", keepdims=0),
        _node("Mul", ["sums", "sign"], "signed"),
        _node("Unsqueeze", ["signed", "one"], "logits"),
    ]
    constants = [_integers("one", [1]), _integers("two", [2]), _integers("both", [1, 2])]
    constants += [_integers("last_special", [len(SPECIAL) - 1]), _real("one_f", 1.0), _real("sign", float(sign))]
    inputs = [_value(name, INT64, ["pairs", "tokens"]) for name in ("input_ids", "token_type_ids")]
    graph = b"".join(_bytes(1, node) for node in nodes) + _bytes(2, b"overlap")
    graph += b"".join(_bytes(5, constant) for constant in constants) + b"".join(_bytes(11, value) for value in inputs)
    graph += _bytes(12, _value("logits", FLOAT, ["pairs", "labels"]))
    return _integer(1, 8) + _bytes(7, graph) + _bytes(8, _bytes(1, b"") + _integer(2, 13))


def _node(kind: str, inputs: list[str], output: str, **attributes: int) -> bytes:
    found = (
        b"".join(_bytes(1, name.encode()) for name in inputs) + _bytes(2, output.encode()) + _bytes(4, kind.encode())
    )
    for name, value in attributes.items():
        found += _bytes(5, _bytes(1, name.encode()) + _integer(3, value) + _integer(20, 2))
    return found


def _integers(name: str, values: list[int]) -> bytes:
    data = b"".join(value.to_bytes(8, "little") for value in values)
    return _integer(1, len(values)) + _integer(2, INT64) + _bytes(8, name.encode()) + _bytes(9, data)


def _real(name: str, value: float) -> bytes:
    import struct

    return _integer(1, 1) + _integer(2, FLOAT) + _bytes(8, name.encode()) + _bytes(9, struct.pack("<f", value))


def _value(name: str, kind: int, axes: list[str]) -> bytes:
    shape = b"".join(_bytes(1, _bytes(2, axis.encode())) for axis in axes)
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _integer(1, kind) + _bytes(2, shape)))


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])
