"""`torch.ops`: namespaces of operators, their packets and overloads; and `torch._VF`, a namespace of the same kind.

All of them fill themselves on first use and never change what they gave once, so they are followed while capturing
and guarded at the root only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, GraphBreak
from framelift.values.base import Value
from framelift.values.constants import is_constant
from framelift.values.exceptions import raise_error
from framelift.values.primitives import primitive_of

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

# Operators of these namespaces compute tensors from tensors, whatever their arguments are.
_PURE_NAMESPACES = frozenset({"aten", "prims"})


class OperatorsValue(
    Value,
    models=(
        torch._ops._Ops,
        torch._ops._OpNamespace,
        torch._ops.OpOverloadPacket,
        torch._ops.OpOverload,
        torch._ops.TorchBindOpOverload,
        type(torch._VF),
    ),
):
    """A namespace of operators, an operator with its overloads, or one overload."""

    __slots__ = ()

    def note_facts(self, lift: Lift) -> None:
        assert self.source is not None
        lift.guard(self.source, "IS", self.concrete)

    def describe(self) -> str:
        return str(self.concrete)

    def attribute(self, lift: Lift, name: str) -> Any:
        try:
            found = getattr(self.concrete, name)
        except AttributeError as error:
            raise_error(AttributeError, *error.args)
        return found if is_constant(found) else lift.known_object(found)

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        operator = self.concrete
        if not isinstance(operator, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            raise_error(TypeError, f"'{type(operator).__name__}' object is not callable")
        model = primitive_of(operator)
        if model is not None:
            return model(lift, args, kwargs)
        namespace = _namespace(operator)
        if namespace not in _PURE_NAMESPACES and not _writes_by_schema_only(operator):
            raise GraphBreak(FL0102, what=str(operator))
        return lift.call_torch(operator, tuple(args), kwargs)

    def is_same(self, lift: Lift, other: Value) -> bool:
        self.note(lift)
        other.note(lift)
        return self.concrete is other.concrete

    def rebuild(self, generate: Generator) -> None:
        generate.known_object(self.concrete)


def _namespace(operator: torch._ops.OpOverload | torch._ops.OpOverloadPacket) -> str:
    packet = operator.overloadpacket if isinstance(operator, torch._ops.OpOverload) else operator
    return str(packet._qualified_op_name).partition("::")[0]


def _writes_by_schema_only(operator: torch._ops.OpOverload | torch._ops.OpOverloadPacket) -> bool:
    """Whether an operator of some library works on tensors: only then running it on fake tensors says all it does."""
    overloads = (
        [operator]
        if isinstance(operator, torch._ops.OpOverload)
        else [getattr(operator, name) for name in operator.overloads()]
    )
    return all(any("Tensor" in str(argument.type) for argument in overload._schema.arguments) for overload in overloads)
