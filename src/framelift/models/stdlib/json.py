"""Models of what `json` has in C and calls functions of the program from: its own encoder and scanner in Python."""

from __future__ import annotations

import _json
import json
from typing import Any

from framelift.controls import graph_break
from framelift.models.registry import models


@models(_json.make_encoder)
def make_encoder(
    markers: Any,
    default: Any,
    encoder: Any,
    indent: Any,
    key_separator: Any,
    item_separator: Any,
    sort_keys: Any,
    skipkeys: Any,
    allow_nan: Any,
) -> Any:
    if not allow_nan:
        graph_break("json says in its own words which numbers it does not allow")
    encode = json.encoder._make_iterencode(  # type: ignore[attr-defined]
        markers, default, encoder, indent, _text_of, key_separator, item_separator, sort_keys, skipkeys, True
    )
    return lambda obj, level: tuple(encode(obj, level))


def _text_of(number: float) -> str:
    return json.dumps(float(number))


@models(_json.make_scanner)
def make_scanner(context: Any) -> Any:
    return json.scanner.py_make_scanner(context)  # type: ignore[attr-defined]
