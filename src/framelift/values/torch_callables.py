"""Functions of torch that run functions of the user: autograd functions and scripted functions."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, GraphBreak
from framelift.models import autograd
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.primitives import primitive
from framelift.values.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

# Autograd functions --------------------------------------------------------------------------------------------------


@primitive(torch._C._FunctionBase.__dict__["apply"])
def _apply(lift: Lift, function: Any, *args: Any) -> Any:
    """Inlined where nothing is differentiated. A gradient of the user's own has no place in the graph."""
    name = f"the autograd function {function.concrete.__qualname__}"
    needs = tuple([_requires_grad(lift, arg) for arg in args])
    if torch.is_grad_enabled() and any(needs):
        raise GraphBreak(FL0102, what=f"{name} on tensors that require gradients")
    base = torch.autograd.function._SingleLevelFunction
    default = py.attribute(lift, lift.known_object(base), "setup_context")
    has_setup = not py.same(lift, py.attribute(lift, function, "setup_context"), default)
    output = py.call(lift, lift.known_object(autograd.forward), [function, needs, has_setup, *args], {})
    kind = lift.type_of(output)
    results = py.items(lift, output) if kind is tuple else [output]
    if kind is not tuple and not isinstance(output, TensorValue):
        raise GraphBreak(FL0102, what=f"{name}, which returns a {kind.__name__}")
    if any(result is arg for result in results for arg in args if isinstance(result, TensorValue)):
        raise GraphBreak(FL0102, what=f"{name}, which returns its argument")
    if any(_requires_grad(lift, result) for result in results):
        raise GraphBreak(FL0102, what=f"{name}, which returns a tensor that requires gradients")
    return output


def _requires_grad(lift: Lift, value: Any) -> bool:
    return isinstance(value, TensorValue) and bool(py.attribute(lift, value, "requires_grad"))


@primitive(torch._C._functorch.unwrap_if_dead)
def _unwrap_if_dead(lift: Lift, tensor: Any) -> Any:
    """Wrappers of functorch's are no inputs of a graph."""
    return tensor


@primitive(torch._C._are_functorch_transforms_active)
def _transforms_active(lift: Lift) -> bool:
    if torch._C._are_functorch_transforms_active():
        raise GraphBreak(FL0102, what="a function inside of a functorch transform")
    return False


# Scripted functions --------------------------------------------------------------------------------------------------

_PYTHON_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
# Where the two languages differ by intent.
_TELL_APART = frozenset({"is_scripting", "is_tracing", "annotate", "isinstance", "unused", "ignore"})


class ScriptFunctionValue(Value, models=torch.jit.ScriptFunction):
    """A function of TorchScript's, guarded by identity: the Python function it was made from means the same.

    Its arguments must have the types it declares: TorchScript converts others.
    """

    __slots__ = ()

    def note_facts(self, lift: Lift) -> None:
        assert self.source is not None
        lift.guard(self.source, "IS", self.concrete)

    def describe(self) -> str:
        return f"scripted function {self.concrete.name}"

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        original = self.concrete.__dict__.get("_torchdynamo_inline")
        if type(original) is not FunctionType or not _TELL_APART.isdisjoint(original.__code__.co_names):
            raise GraphBreak(FL0102, what=self.describe())
        declared = self.concrete.schema.arguments
        by_name = {argument.name: argument for argument in declared}
        given = [*zip(declared, args, strict=False), *[(by_name.get(name), arg) for name, arg in kwargs.items()]]
        if len(args) > len(declared) or not all(_fits(lift, argument, value) for argument, value in given):
            raise GraphBreak(FL0102, what=f"{self.describe()} with these arguments")
        return py.call(lift, lift.known_object(original), args, kwargs)

    def is_same(self, lift: Lift, other: Value) -> bool:
        self.note(lift)
        other.note(lift)
        return self.concrete is other.concrete


def _fits(lift: Lift, argument: Any, value: Any) -> bool:
    if argument is None:
        return False
    declared = str(argument.type)
    if declared.startswith("Optional[") and py.same(lift, value, None):
        return True
    declared = declared.removeprefix("Optional[").removesuffix("]")
    if declared == "Tensor":
        return isinstance(value, TensorValue)
    return declared in _PYTHON_TYPES and lift.type_of(value) is _PYTHON_TYPES[declared]
