"""Scripted functions: what they were made from means the same."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, FL0102_ARGUMENTS, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_PYTHON_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
# Where the two languages differ by intent.
_TELL_APART = frozenset({"is_scripting", "is_tracing", "annotate", "isinstance", "unused", "ignore"})


class ScriptFunctionValue(Value, models=torch.jit.ScriptFunction):
    """A function of TorchScript's, guarded by identity: the Python function it was made from means the same.

    Its arguments must have the types it declares: TorchScript converts others.
    """

    __slots__ = ()

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        tracer.guard(self.source, "IS", self.concrete)

    def describe(self) -> str:
        return f"scripted function {self.concrete.name}"

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        original = self.concrete.__dict__.get("_torchdynamo_inline")
        if type(original) is not FunctionType or not _TELL_APART.isdisjoint(original.__code__.co_names):
            raise GraphBreak(FL0102, what=self.describe())
        declared = self.concrete.schema.arguments
        by_name = {argument.name: argument for argument in declared}
        given = [*zip(declared, args, strict=False), *[(by_name.get(name), arg) for name, arg in kwargs.items()]]
        if len(args) > len(declared) or not all(_fits(tracer, argument, value) for argument, value in given):
            raise GraphBreak(FL0102_ARGUMENTS, what=self.describe())
        return py.call(tracer, tracer.known_object(original), args, kwargs)

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        self.note(tracer)
        other.note(tracer)
        return self.concrete is other.concrete


def _fits(tracer: Tracer, argument: Any, value: Any) -> bool:
    if argument is None:
        return False
    declared = str(argument.type)
    if declared.startswith("Optional[") and py.same(tracer, value, None):
        return True
    declared = declared.removeprefix("Optional[").removesuffix("]")
    if declared == "Tensor":
        return isinstance(value, TensorValue)
    return declared in _PYTHON_TYPES and tracer.type_of(value) is _PYTHON_TYPES[declared]
