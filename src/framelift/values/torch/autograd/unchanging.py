"""Functions that do the same whenever they are called: what autograd calls later may be traced now.

They read nothing that anybody can set to something else in between: no variable that is assigned twice, no list, no
attribute of an object, no global variable but modules and functions.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from framelift.values.containers.dicts import MISSING
from framelift.values.core.base import Value
from framelift.values.core.constants import is_constant
from framelift.values.functions.functions import FunctionLike
from framelift.values.numbers.scalars import ScalarValue
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.tensors.tensors import TensorValue
from framelift.values.tensors.torch_functions import is_of_torch

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# Modules whose names nobody sets to something else.
_LIBRARIES = ("torch", "math", "operator", "builtins")
_WRITES = ("STORE_DEREF", "DELETE_DEREF")


def is_unchanging(tracer: Tracer, function: Any) -> bool:
    """Whether a function would do the same later."""
    if not isinstance(function, FunctionLike):
        return _is_of_library(getattr(function, "concrete", function))
    parts = [*function.defaults(tracer), *function.keyword_defaults(tracer).values()]
    return (
        all(map(_is_fixed, parts))
        and all(_is_fixed_global(tracer, function, name) for name in _globals_read(function.code))
        and all(map(_is_fixed, (cell.get(tracer) for cell in function.cells(tracer))))
        and all(_is_assigned_once(tracer, name) for name in function.code.co_freevars)
    )


def _is_fixed(value: Any) -> bool:
    if isinstance(value, Value):
        return isinstance(value, (TensorValue, ScalarValue, SymbolicValue))
    return is_constant(value)


def _is_fixed_global(tracer: Tracer, function: FunctionLike, name: str) -> bool:
    found = function.globals(tracer).get_key(tracer, name)
    if found is MISSING:  # a builtin
        return True
    return _is_of_library(getattr(found, "concrete", found))


def _is_of_library(obj: Any) -> bool:
    if isinstance(obj, types.ModuleType):
        return obj.__name__.partition(".")[0] in _LIBRARIES
    if isinstance(obj, types.FunctionType):
        return is_of_torch(obj)
    return isinstance(obj, (types.BuiltinFunctionType, types.MethodDescriptorType))


def _globals_read(code: types.CodeType) -> Iterator[str]:
    for part in _codes_in(code):
        yield from (each.argval for each in dis.get_instructions(part) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"))


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_in(constant)


def _is_assigned_once(tracer: Tracer, name: str) -> bool:
    """Whether a variable that a function shares with the frame that is traced has its value for good.

    That frame is the one to assign it: once, and in no loop.
    """
    frame = tracer.frame
    if frame is None:
        return False
    code: types.CodeType = frame.program.canonical.code
    if name not in code.co_cellvars:
        return False
    inside = [part for part in _codes_in(code) if part is not code and name in part.co_freevars]
    if any(each.opname in _WRITES and each.argval == name for part in inside for each in dis.get_instructions(part)):
        return False
    steps = list(dis.get_instructions(code))
    writes = [each.offset for each in steps if each.opname in _WRITES and each.argval == name]
    is_argument = name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]
    loops = [(each.argval, each.offset) for each in steps if "JUMP_BACKWARD" in each.opname]
    again = any(start <= offset <= end for offset in writes for start, end in loops)
    return len(writes) + is_argument <= 1 and not again
