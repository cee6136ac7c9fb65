"""From the sympy expressions of a ShapeEnv to programs of the guard tree.

>>> import sympy
>>> a, b = sympy.symbols("a b", integer=True)
>>> writer = Writer({a: 0, b: 1}, ("x.size()[0]", "n"))
>>> writer.fact(sympy.Eq(a, 2 * b + 1))
>>> writer.words
['x.size()[0] == (1 + 2*n)']
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import sympy
import torch
from sympy.logic.boolalg import BooleanFalse, BooleanTrue
from torch.utils._sympy.functions import (
    CeilToInt,
    CleanDiv,
    FloatTrueDiv,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    PowByNatural,
    PythonMod,
    ToFloat,
    TruncToInt,
)
from torch.utils._sympy.printers import PythonPrinter

from framelift.shapes.guard_program import Number, Step, single


class Untranslatable(Exception):
    """An expression uses a function that programs do not have."""


class Calculation(NamedTuple):
    """How a symbol is calculated: a function of plain numbers and of torch's symbolic ones."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    words: str


class Writer:
    """Writes facts over symbols, each of which is loaded under a number."""

    def __init__(
        self,
        loads: Mapping[sympy.Symbol, int],
        names: Sequence[str],
        calculated: Mapping[sympy.Symbol, Calculation] = MappingProxyType({}),
    ) -> None:
        self._loads = loads
        self._names = names
        # Symbols that are loaded nowhere, but calculated from others.
        self._calculated = calculated
        self._spellings = {symbol: sympy.Symbol(names[load]) for symbol, load in loads.items()}
        self._spellings.update((symbol, sympy.Symbol(each.words)) for symbol, each in calculated.items())
        self.code: list[tuple[int, Number]] = []
        self.words: list[str] = []

    def fact(self, expression: Any) -> None:
        """Writes an expression that must be true; raises Untranslatable, with nothing written."""
        start = len(self.code)
        try:
            self._expression(expression)
        except Untranslatable:
            del self.code[start:]
            raise
        self._check(self._spell(expression))

    def equals(self, load: int, expression: Any) -> None:
        """The number that is loaded is what the expression gives."""
        self._step(Step.LOAD, load)
        self._expression(expression)
        self._step(Step.EQ if expression.is_integer else Step.SAME)  # 0.0 is not -0.0
        self._check(f"{self._names[load]} == {self._spell(expression)}")

    def bounds(self, load: int, lower: int | None, upper: int | None) -> None:
        """The number lies between the two, where they are given."""
        name = self._names[load]
        if lower is not None:
            self._step(Step.CONST, lower)
            self._step(Step.LOAD, load)
            self._step(Step.LE)
            self._check(f"{name} >= {lower}")
        if upper is not None:
            self._step(Step.LOAD, load)
            self._step(Step.CONST, upper)
            self._step(Step.LE)
            self._check(f"{name} <= {upper}")

    # -- words ---------------------------------------------------------------------------------------------------

    def _spell(self, expression: Any) -> str:
        return _unwrapped(_printer().doprint(expression.xreplace(self._spellings)))

    # -- code ----------------------------------------------------------------------------------------------------

    def _step(self, op: int, argument: Number = 0) -> None:
        self.code.append((int(op), argument))

    def _check(self, words: str) -> None:
        self._step(Step.CHECK)
        self.words.append(words)

    def _expression(self, expression: Any) -> None:
        write = _WRITERS.get(type(expression))
        if write is None:
            write = next((found for kind, found in _FAMILIES if isinstance(expression, kind)), None)
        if write is None:
            raise Untranslatable(str(expression))
        write(self, expression)

    def _symbol(self, symbol: Any) -> None:
        load = self._loads.get(symbol)
        if load is not None:
            self._step(Step.LOAD, load)
        elif symbol in self._calculated:
            self._calculation(self._calculated[symbol])
        else:
            raise Untranslatable(str(symbol))

    def _calculation(self, calculation: Calculation) -> None:
        """Floats as Python calculates them: of ints these functions mean something else."""
        function, args, words = calculation
        step = _CALCULATIONS.get(function)
        if step is None or all(_is_integer(arg) for arg in args):
            raise Untranslatable(words)
        for arg in args:
            if type(arg) is int:
                self._integer(arg)
            elif type(arg) is float:
                self._float(arg)
            else:
                self._expression(arg.node.expr)
        self._step(step)

    def _integer(self, number: Any) -> None:
        value = int(number)
        if not -(2**63) <= value < 2**63:
            raise Untranslatable(str(number))
        self._step(Step.CONST, value)

    def _float(self, number: Any) -> None:
        self._step(Step.CONST, float(number))

    def _truth(self, value: Any) -> None:
        self._step(Step.CONST, int(bool(value)))

    def _equal(self, expression: Any) -> None:
        for argument in expression.args:
            self._expression(argument)
        # What was found to be 0.0 may stand for that in the graph, where -0.0 is another number.
        is_whole = all(argument.is_integer for argument in expression.args)
        self._step(Step.EQ if is_whole else Step.SAME)

    def _power(self, expression: Any) -> None:
        base, exponent = expression.args
        if not (isinstance(exponent, sympy.Integer) and exponent >= 0 and base.is_integer):
            raise Untranslatable(str(expression))
        self._expression(base)
        self._step(Step.CONST, int(exponent))
        self._step(Step.POW)


def _chain(op: int) -> Callable[[Writer, Any], None]:
    """An operation on any number of arguments, from left to right."""

    def write(writer: Writer, expression: Any) -> None:
        first, *rest = expression.args
        writer._expression(first)
        for argument in rest:
            writer._expression(argument)
            writer._step(op)

    return write


def _swapped(op: int) -> Callable[[Writer, Any], None]:
    def write(writer: Writer, expression: Any) -> None:
        left, right = expression.args
        writer._expression(right)
        writer._expression(left)
        writer._step(op)

    return write


def _on_one(op: int) -> Callable[[Writer, Any], None]:
    def write(writer: Writer, expression: Any) -> None:
        writer._expression(expression.args[0])
        writer._step(op)

    return write


def _unwrapped(words: str) -> str:
    """Without brackets around the whole, if they belong together."""
    inner = words[1:-1]
    depth = 0
    for letter in inner:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return words
    return inner if words[:1] == "(" and words[-1:] == ")" else words


def _is_integer(number: Any) -> bool:
    return type(number) is int or isinstance(number, torch.SymInt)


# What residual code calculates with floats, and programs as well.
_CALCULATIONS: dict[Callable[..., Any], int] = {
    operator.add: Step.ADD,
    operator.sub: Step.SUB,
    operator.mul: Step.MUL,
    operator.truediv: Step.TRUEDIV,
    operator.pow: Step.FLOATPOW,
    single: Step.SINGLE,
}
_printer = functools.cache(PythonPrinter)
_WRITERS: dict[type, Callable[[Writer, Any], None]] = {
    sympy.Symbol: Writer._symbol,
    BooleanTrue: Writer._truth,
    BooleanFalse: Writer._truth,
    sympy.Add: _chain(Step.ADD),
    sympy.Mul: _chain(Step.MUL),
    sympy.And: _chain(Step.AND),
    sympy.Or: _chain(Step.OR),
    sympy.Not: _on_one(Step.NOT),
    sympy.Eq: Writer._equal,
    sympy.Ne: _chain(Step.NE),
    sympy.Lt: _chain(Step.LT),
    sympy.Le: _chain(Step.LE),
    sympy.Gt: _swapped(Step.LT),
    sympy.Ge: _swapped(Step.LE),
    sympy.Pow: Writer._power,
    sympy.Max: _chain(Step.MAX),
    sympy.Min: _chain(Step.MIN),
    Max: _chain(Step.MAX),
    Min: _chain(Step.MIN),
    PowByNatural: Writer._power,
    FloorDiv: _chain(Step.FLOORDIV),
    CleanDiv: _chain(Step.FLOORDIV),
    PythonMod: _chain(Step.MOD),
    Mod: _chain(Step.MOD),
    IntTrueDiv: _chain(Step.TRUEDIV),
    FloatTrueDiv: _chain(Step.TRUEDIV),
    ToFloat: _on_one(Step.TO_FLOAT),
    FloorToInt: _on_one(Step.FLOOR),
    CeilToInt: _on_one(Step.CEIL),
    TruncToInt: _on_one(Step.TRUNC),
}
# Numbers have a class each: zero, one, minus one, ...
_FAMILIES: tuple[tuple[Any, Callable[[Writer, Any], None]], ...] = (
    (sympy.Integer, Writer._integer),
    (sympy.Float, Writer._float),
    (sympy.Symbol, Writer._symbol),
)
