"""Facts about numbers of the inputs, as programs for a small stack machine.

A program loads sizes, strides, lengths, ints and floats, and checks one fact after another. The native guard tree runs
it (`native/guards/program.c`); `first_failure` says the same in Python. Where a number does not fit into 64 bits, or a
float could not tell it exactly, the fact does not hold: the call is captured again, with these numbers.

    >>> program = GuardProgram(((0, Load.SIZE, 1),), ((Step.LOAD, 0), (Step.CONST, 2), (Step.MOD, 0), (Step.CONST, 0),
    ...     (Step.EQ, 0), (Step.CHECK, 0)), ("x.size()[1] % 2 == 0",), ("x.size()[1]",))
    >>> first_failure(program, [6]), first_failure(program, [7])
    (None, 0)
    >>> failure_words(program, 0, [7])
    'x.size()[1] % 2 == 0 was true, now x.size()[1] is 7'
"""

from __future__ import annotations

import enum
import math
import operator
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from framelift.native import core

Number = int | float
_EXACT = 2**53
_MAX_EXPONENT = 64


class Load(enum.IntEnum):
    """What is loaded of an object."""

    VALUE = core.LOAD_VALUE
    SIZE = core.LOAD_SIZE
    STRIDE = core.LOAD_STRIDE
    LENGTH = core.LOAD_LENGTH
    ITEM = core.LOAD_ITEM


class Step(enum.IntEnum):
    """Steps of the machine: a constant, a number that was loaded, the end of a fact, operations."""

    CONST = core.PROGRAM_CONST
    LOAD = core.PROGRAM_LOAD
    CHECK = core.PROGRAM_CHECK
    ADD = core.PROGRAM_ADD
    SUB = core.PROGRAM_SUB
    MUL = core.PROGRAM_MUL
    FLOORDIV = core.PROGRAM_FLOORDIV
    MOD = core.PROGRAM_MOD
    POW = core.PROGRAM_POW
    TRUEDIV = core.PROGRAM_TRUEDIV
    MIN = core.PROGRAM_MIN
    MAX = core.PROGRAM_MAX
    EQ = core.PROGRAM_EQ
    NE = core.PROGRAM_NE
    LT = core.PROGRAM_LT
    LE = core.PROGRAM_LE
    AND = core.PROGRAM_AND
    OR = core.PROGRAM_OR
    SAME = core.PROGRAM_SAME
    FLOATPOW = core.PROGRAM_FLOATPOW
    NOT = core.PROGRAM_NOT
    TO_FLOAT = core.PROGRAM_TO_FLOAT
    FLOOR = core.PROGRAM_FLOOR
    CEIL = core.PROGRAM_CEIL
    TRUNC = core.PROGRAM_TRUNC
    SINGLE = core.PROGRAM_SINGLE


class GuardProgram(NamedTuple):
    """What is loaded (member of the relation, property, index), the steps, and all of it in words."""

    loads: tuple[tuple[int, int, int], ...]
    code: tuple[tuple[int, Number], ...]
    # Of each fact, and of each number that is loaded.
    words: tuple[str, ...]
    names: tuple[str, ...]


class DoesNotFit(Exception):
    """A number is out of the range in which the native program is exact."""


def first_failure(program: GuardProgram, numbers: Sequence[Number]) -> int | None:
    """The first fact that does not hold on these numbers; None if all do."""
    stack: list[Number] = []
    fact = 0
    try:
        for op, argument in program.code:
            if op == Step.CONST:
                stack.append(argument)
            elif op == Step.LOAD:
                stack.append(_fitting(numbers[int(argument)]))
            elif op == Step.CHECK:
                if not stack.pop():
                    return fact
                fact += 1
            elif op in _UNARY:
                stack.append(_fitting(_UNARY[op](stack.pop())))
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(_fitting(_binary(op, left, right)))
    except DoesNotFit:
        return fact
    return None


def failure_words(program: GuardProgram, fact: int, numbers: Sequence[Number | None]) -> str:
    """What was true and is no more, with the numbers it is about."""
    if fact < 0:
        return f"one of {', '.join(program.names)} is no number of its kind any more"
    words = program.words[fact]
    found = [
        f"{name} is {number}" for name, number in zip(program.names, numbers, strict=True) if mentions(words, name)
    ]
    return f"{words} was true, now {' and '.join(found)}"


def mentions(words: str, name: str) -> bool:
    """Whether a fact speaks of a number."""
    start = words.find(name)
    while start >= 0:
        end = start + len(name)
        if not (words[end : end + 1].isidentifier() or words[end : end + 1] in ("[", ".")):
            return True
        start = words.find(name, end)
    return False


def _fitting(number: Number) -> Number:
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise DoesNotFit
    return number


def _exact(number: Number) -> float:
    if isinstance(number, int) and abs(number) > _EXACT:
        raise DoesNotFit
    return float(number)


def _whole(function: Callable[[float], int]) -> Callable[[Number], int]:
    def convert(number: Number) -> int:
        if isinstance(number, int):
            return number
        if not abs(number) <= _EXACT:
            raise DoesNotFit
        return function(number)

    return convert


def _power(base: Number, exponent: Number) -> Number:
    if not 0 <= exponent <= _MAX_EXPONENT:
        raise DoesNotFit
    # The native machine multiplies step by step.
    result: Number = 1
    for _ in range(int(exponent)):
        result = _fitting(result * base)
    return result


def _divided(function: Callable[[Number, Number], Number]) -> Callable[[Number, Number], Number]:
    def divide(left: Number, right: Number) -> Number:
        if right == 0:
            raise DoesNotFit
        return function(left, right)

    return divide


def single(number: float) -> float:
    """A float as one of half as many bits holds it. Raises OverflowError where that has none.

    >>> single(0.1), single(3.0)
    (0.10000000149011612, 3.0)
    """
    rounded: float = _SINGLE.unpack(_SINGLE.pack(number))[0]
    return rounded


_SINGLE = struct.Struct("f")


def _single(number: Number) -> Number:
    try:
        return single(_exact(number))
    except OverflowError:
        raise DoesNotFit from None


def _float_power(base: Number, exponent: Number) -> Number:
    if not base > 0:
        raise DoesNotFit
    try:
        return float(base) ** float(exponent)
    except OverflowError:
        raise DoesNotFit from None


def _same_float(left: Number, right: Number) -> Number:
    return left == right and math.copysign(1.0, left) == math.copysign(1.0, right)


def _floor_divided(left: Number, right: Number) -> Number:
    _fitting(left // right)
    return left % right


_COMPARE: dict[int, Callable[[Number, Number], Number]] = {
    Step.EQ: operator.eq,
    Step.NE: operator.ne,
    Step.LT: operator.lt,
    Step.LE: operator.le,
}
_ANY: dict[int, Callable[[Number, Number], Number]] = {
    Step.ADD: operator.add,
    Step.SUB: operator.sub,
    Step.MUL: operator.mul,
    **_COMPARE,
}
_INTS: dict[int, Callable[[Number, Number], Number]] = {
    **_ANY,
    Step.FLOORDIV: _divided(operator.floordiv),
    Step.MOD: _divided(_floor_divided),
    Step.POW: _power,
    Step.MIN: min,
    Step.MAX: max,
    Step.AND: lambda left, right: bool(left and right),
    Step.OR: lambda left, right: bool(left or right),
}
_FLOATS: dict[int, Callable[[Number, Number], Number]] = {
    **_ANY,
    Step.TRUEDIV: _divided(operator.truediv),
    Step.SAME: _same_float,
    Step.FLOATPOW: _float_power,
}
_UNARY: dict[int, Callable[[Number], Number]] = {
    Step.NOT: lambda number: not number,
    Step.TO_FLOAT: _exact,
    Step.FLOOR: _whole(math.floor),
    Step.CEIL: _whole(math.ceil),
    Step.TRUNC: _whole(math.trunc),
    Step.SINGLE: _single,
}


def _binary(op: int, left: Number, right: Number) -> Number:
    on_ints = isinstance(left, int) and isinstance(right, int) and op not in (Step.TRUEDIV, Step.FLOATPOW)
    if not on_ints:
        left, right = _exact(left), _exact(right)
    function = (_INTS if on_ints else _FLOATS).get(op)
    if function is None:
        raise DoesNotFit
    return function(left, right)
