"""Functions written in Python that are not traced: a call of one is a graph break."""

from __future__ import annotations

import builtins
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol

import torch

from framelift.breaks import FL0102, FL0104, GraphBreak
from framelift.controls import disabled_mark
from framelift.own_builtins import OWN

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# Operators that take functions of the user; torch's own compiler traces those for them.
_HIGHER_ORDER = torch.__path__[0] + "/_higher_order_ops/"


class Callee(Protocol):
    """A function of the program, as it is called."""

    @property
    def concrete(self) -> Any: ...

    @property
    def code(self) -> CodeType: ...

    def describe(self) -> str: ...


def refuse_untraceable(tracer: Tracer, function: Callee) -> None:
    """Break at a function that is not to be traced."""
    if isinstance(function.concrete, FunctionType):
        _refuse_marked(function, function.concrete)
    # (They are inlined as long as they hear that they are compiled: else they start torch's compiler.)
    if tracer.answers.reconsidered and function.code.co_filename.startswith(_HIGHER_ORDER):
        tracer.answers.doubt()
        why = f" ({tracer.answers.why})," if tracer.answers.why else ""
        raise GraphBreak(FL0102, what=f"the operator {function.code.co_qualname}, which takes functions{why}")


def _refuse_marked(function: Callee, concrete: FunctionType) -> None:
    if has_own_builtins(concrete):
        raise GraphBreak(FL0102, what=f"{function.describe()}, which has builtins of its own")
    mark = disabled_mark(concrete)
    if mark is not None:
        raise GraphBreak(FL0104, what=function.describe(), why=f": {mark.reason}" if mark.reason else "")
    if concrete.__dict__.get("_torchdynamo_disable"):
        raise GraphBreak(FL0104, what=function.describe(), why="")
    if "_torchdynamo_orig_callable" in concrete.__dict__:  # the wrapper that torch's own compiler made
        raise GraphBreak(FL0102, what=f"{function.describe()}, which torch compiles")


def has_own_builtins(function: Any) -> bool:
    """Whether a function's globals name other builtins; the empty ones of named tuples are asked for nothing."""
    own = function.__builtins__
    return own is not builtins.__dict__ and own is not OWN and bool(own)
