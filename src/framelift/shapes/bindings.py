"""Where the symbols that come with the result of an operation are found in it.

>>> from torch.utils._pytree import SequenceKey
>>> number_at((torch.ones(3), 5), (SequenceKey(1),))
5
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import (
    CallMethodKey,
    ConvertIntKey,
    DivideByKey,
    PendingUnbackedSymbolNotFound,
    ShapeEnv,
    compute_unbacked_bindings,
    free_unbacked_symbols,
)
from torch.utils._pytree import SequenceKey

# Where in the result of an operation the number is found that a symbol stands for.
Bindings = dict[sympy.Symbol, tuple[Any, ...]]


class Unlikely(Exception):
    """What would have to be presumed is known to be false."""


class Foreseen(Unlikely):
    """What the program says of its data, or an operation demands, is false in the call that is captured: it raises."""


class CannotCheck(Exception):
    """A fact uses a function that a graph cannot compute, or speaks of a symbol that it does not have."""


def bindings_of(env: ShapeEnv, result: Any, known: Any) -> Bindings:
    """The symbols that a result brings with it, beside those that are known, and where in it they are found."""
    found = {symbol for number in _numbers(result) for symbol in number.node._expr.free_symbols}
    new = [symbol for symbol in sorted(found - env.unbacked_inputs, key=str) if free_unbacked_symbols(symbol)]
    pending = env.pending_fresh_unbacked_symbols
    # torch remembers results; whoever first brought a symbol along may have been taken back.
    pending.extend(symbol for symbol in new if symbol not in known and symbol not in pending)
    try:
        return compute_unbacked_bindings(env, result) or {}
    except PendingUnbackedSymbolNotFound as error:
        raise Unlikely(str(error).partition("\n")[0]) from None


def _numbers(result: Any) -> Iterator[Any]:
    """The symbolic numbers in a result, and in the metadata of its tensors."""
    if isinstance(result, torch.SymInt | torch.SymFloat | torch.SymBool):
        yield result
    elif isinstance(result, torch.Tensor):
        if result.layout is torch.strided and not result.is_nested:
            yield from _numbers([*result.shape, *result.stride(), result.storage_offset()])
    elif isinstance(result, list | tuple):
        for item in result:
            yield from _numbers(item)
    elif isinstance(result, dict):
        yield from _numbers(list(result.values()))


def steps_to(path: tuple[Any, ...]) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """How to get from a result to one number in it: functions, and their arguments after the first."""
    aten = torch.ops.aten
    keys = list(path)
    while keys:
        key = keys.pop(0)
        if isinstance(key, CallMethodKey) and key.name in ("size", "stride"):
            dim = keys.pop(0).idx
            read = aten.sym_size.int if key.name == "size" else aten.sym_stride.int
            yield read, (dim,)
        elif isinstance(key, CallMethodKey) and key.name == "storage_offset":
            yield aten.sym_storage_offset.default, ()
        elif isinstance(key, SequenceKey):
            yield operator.getitem, (key.idx,)
        elif isinstance(key, ConvertIntKey):
            yield torch.sym_ite, (1, 0)
        elif isinstance(key, DivideByKey):
            yield operator.floordiv, (key.divisor,)
        else:
            raise CannotCheck(f"the path {path}")


def number_at(result: Any, path: tuple[Any, ...]) -> Any:
    """The number in a real result."""
    for function, rest in steps_to(path):
        result = function(result, *rest)
    return result
