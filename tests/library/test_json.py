"""`json` with functions and classes of the program's, in one graph."""

from __future__ import annotations

import dataclasses
import decimal
import json
import re

import torch

from tests.library.outcomes import outcomes
from tests.values.programs import Programs, x

programs = Programs()
words = re.compile(r"\w+").findall


@dataclasses.dataclass
class Config:
    rate: float = 0.1
    steps: int = 2


class Encoder(json.JSONEncoder):
    def default(self, obj):
        if dataclasses.is_dataclass(obj):
            return dataclasses.asdict(obj)
        if isinstance(obj, torch.Tensor):
            return obj.shape
        if isinstance(obj, (set, frozenset)):
            return sorted(obj)
        return json.JSONEncoder.default(self, obj)


class Decoder(json.JSONDecoder):
    def decode(self, text):
        return {"got": super().decode(text)}


@programs(args=(x(), Config(), {"a": {3, 1}}), fullgraph=True)
def an_encoder_of_the_program(x, config, table):
    plain = [1.5, float("inf"), -0.0, 10**30, True, None, "é\n", {1: 2, None: 3, 2.5: 1, False: 0, "b": [], "a": {}}]
    return (
        x + 1,
        json.dumps(config, cls=Encoder),
        json.dumps([config, table, x], cls=Encoder, sort_keys=True),
        json.dumps({"q": config}, cls=Encoder, indent=2),
        json.dumps(plain, cls=Encoder),
        list(Encoder().iterencode([x, 1])),
        json.JSONEncoder().encode({"a": 1}),
    )


@programs(args=(x(), []), fullgraph=True)
def a_default_that_has_effects(x, log):
    def show(obj):
        log.append(type(obj).__name__)
        return list(obj.shape) if isinstance(obj, torch.Tensor) else sorted(obj)

    compact = json.dumps([{2, 1}], default=show, separators=(",", ":"), ensure_ascii=False)
    return x + 1, json.dumps({"a": x, "b": {1}}, default=show), compact


@programs(fullgraph=True)
def what_cannot_be_encoded(x):
    circular = []
    circular.append(circular)
    return x + 1, outcomes(
        lambda: json.dumps(3j, cls=Encoder),
        lambda: json.dumps({(1,): 2}, default=str),
        lambda: json.dumps({(1,): 2, 3: 4}, default=str, skipkeys=True),
        lambda: json.dumps(1j, default=lambda obj: 1 / 0),
        lambda: json.dumps([{1}], default=3),
        lambda: json.dumps(circular, default=str),
    )


@programs(args=(x(), '{"k": [1, 2]}'), fullgraph=True)
def hooks_of_a_decoder(x, text):
    hooked = json.loads('{"a": {"b": 1}, "c": [1, 2.5, null, true, "x\\u00e9\\n"]}', object_hook=sorted)
    pairs = json.loads('{"a": 1, "a": 2}', object_pairs_hook=list)
    numbers = json.loads(
        "[1.5, 2e3, -7, NaN, -Infinity]",
        parse_float=decimal.Decimal,
        parse_int=lambda digits: digits + "!",
        parse_constant=lambda name: "c" + name,
    )
    decoded = json.loads(text, cls=Decoder)
    rest = json.JSONDecoder().raw_decode(text + "z"), json.loads(b'{"a": []}', object_pairs_hook=dict)
    return x * decoded["got"]["k"][1], hooked, pairs, numbers, rest, words("a b")


@programs(fullgraph=True)
def what_cannot_be_decoded(x):
    texts = (
        "{",
        "",
        "[1,]",
        '{"a" 1}',
        "{a: 1}",
        "[1] x",
        '["a\nb"]',
        '["a',
        '{"a": 1',
        "[1 2]",
        '{"a": }',
        "tru",
        "-",
    )
    errors = outcomes(*[lambda text=text: json.loads(text, object_hook=len) for text in (*texts, '"\\u12"', "[")])
    return (
        x + 1,
        errors,
        outcomes(
            lambda: json.loads(3, object_hook=len),
            lambda: json.loads("{}", object_hook=lambda table: 1 / 0),
        ),
    )


test_programs = programs.test()
