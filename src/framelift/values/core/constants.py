"""Which Python objects are constants: immutable, with C-level equality, safe to compute with while capturing."""

from __future__ import annotations

import datetime
import sys
import types
from typing import Any

import torch

from framelift.breaks import FL0102, GraphBreak

# The bits of the longest number that every interpreter writes out, whatever its limit.
_ALWAYS_SHOWN = (10**sys.int_info.str_digits_check_threshold).bit_length() - 1
SCALAR_TYPES: frozenset[type] = frozenset(
    {
        int,
        float,
        bool,
        str,
        bytes,
        complex,
        type(None),
        type(Ellipsis),
        type(NotImplemented),
        types.CodeType,
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
        torch.Size,
        torch.finfo,
        torch.iinfo,
        torch.nn.attention.SDPBackend,
        range,
        datetime.date,
        datetime.timedelta,
    }
)


# By identity: hashing the class of a user's object may run its metaclass.
_SCALAR_IDS = frozenset(map(id, SCALAR_TYPES))


def plain_text(constant: Any, conversion: str) -> str:
    """`str(constant)` or `repr(constant)`."""
    if type(constant) is int and constant.bit_length() > _ALWAYS_SHOWN:
        raise GraphBreak(FL0102, what="the text of a number of many digits, for which the interpreter has a limit,")
    return repr(constant) if conversion == "repr" else str(constant)


def is_constant(value: Any) -> bool:
    """Whether `value` may stand on the interpreter's stack as itself."""
    kind = type(value)
    if id(kind) in _SCALAR_IDS:
        return True
    if kind is tuple or kind is frozenset:
        return all(map(is_constant, value))
    if kind is slice:
        return is_constant(value.start) and is_constant(value.stop) and is_constant(value.step)
    return False
