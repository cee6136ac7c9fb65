"""What an expression of symbols is for given numbers.

sympy computes with numbers slowly, and asserts what it takes for granted; so expressions become Python, once.

    >>> u = sympy.Symbol("u0", integer=True)
    >>> truth(sympy.Eq(2 * u, 4), {u: 2}), truth(sympy.Eq(u, 4), {}), truth(sympy.Eq(1 // u, 4), {u: 0})
    (True, None, None)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import sympy
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP
from torch.utils._sympy.printers import PythonPrinter

__all__ = ["function_of", "truth"]


@functools.lru_cache(1024)
def function_of(expression: Any) -> tuple[tuple[sympy.Symbol, ...], Callable[..., Any]]:
    """The symbols of an expression, and a function of their values."""
    symbols = tuple(sorted(expression.free_symbols, key=str))
    words = f"lambda {', '.join(map(str, symbols))}: {PythonPrinter().doprint(expression)}"
    function: Callable[..., Any] = eval(words, dict(SYMPY_INTERP))  # an expression of torch's, and nothing else
    return symbols, function


def truth(expression: Any, values: Mapping[sympy.Symbol, Any]) -> bool | None:
    """Whether it is true; None where some symbol has no value, or it has none itself."""
    symbols, function = function_of(expression)
    if not all(symbol in values for symbol in symbols):
        return None
    try:
        return bool(function(*[values[symbol] for symbol in symbols]))
    except ZeroDivisionError:
        return None
