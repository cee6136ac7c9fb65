"""`torch.ops`: namespaces of operators, their packets and overloads; `torch.classes` and `torch._VF`, of the same kind.

All of them fill themselves on first use and never change what they gave once, so they are followed while capturing
and guarded at the root only. What else somebody stored in them is read from their namespaces, as of any object.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from torch import _VF
from torch._classes import _Classes
from torch._ops import OpOverload, OpOverloadPacket, TorchBindOpOverload, _OpNamespace, _Ops

from framelift.breaks import FL0102, GraphBreak
from framelift.guards.source import Source
from framelift.values.containers.dicts import DictValue
from framelift.values.core.base import Value
from framelift.values.core.constants import is_constant
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import raw_lookup
from framelift.values.core.primitives import primitive_of
from framelift.values.core.refusals import Operation

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

# Operators of these namespaces compute tensors from tensors, whatever their arguments are.
_PURE_NAMESPACES = frozenset({"aten", "prims"})


class OperatorsValue(
    Value,
    models=(
        _Ops,
        _OpNamespace,
        _Classes,
        OpOverloadPacket,
        OpOverload,
        TorchBindOpOverload,
        type(_VF),
    ),
):
    """A namespace of operators, an operator with its overloads, or one overload."""

    __slots__ = ("written",)
    mutates = ("written",)

    def __init__(self, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self.written: set[str] = set()

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        tracer.guard(self.source, "IS", self.concrete)

    def describe(self) -> str:
        return str(self.concrete)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__dict__":
            return self._namespace(tracer)
        if name in self.written:
            return self._namespace(tracer).item(tracer, name)
        try:
            found = getattr(self.concrete, name)
        except AttributeError as error:
            raise_error(AttributeError, *error.args)
        if isinstance(found, (dict, list)) and name in vars(self.concrete):
            return self._namespace(tracer).item(tracer, name)
        return found if is_constant(found) else tracer.known_object(found)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        kind = type(self.concrete)
        if raw_lookup(kind, "__setattr__") not in _PLAIN_ASSIGNMENT or raw_lookup(kind, name) is not NotImplemented:
            self.refuse(Operation.SET_ATTRIBUTE, name=name)
        tracer.journal.touch(self)
        self._namespace(tracer).set_key(tracer, name, value)
        self.written.add(name)

    def _namespace(self, tracer: Tracer) -> DictValue:
        assert self.source is not None
        namespace: DictValue = tracer.wrap(vars(self.concrete), self.source.child("INSTANCE_DICT"))
        return namespace

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        operator = self.concrete
        if not isinstance(operator, (OpOverload, OpOverloadPacket)):
            raise_error(TypeError, f"'{type(operator).__name__}' object is not callable")
        model = primitive_of(operator)
        if model is not None:
            return model(tracer, args, kwargs)
        namespace = _namespace(operator)
        if namespace not in _PURE_NAMESPACES and not _writes_by_schema_only(operator):
            raise GraphBreak(FL0102, what=str(operator))
        return tracer.call_torch(operator, tuple(args), kwargs)

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        self.note(tracer)
        other.note(tracer)
        return self.concrete is other.concrete

    def rebuild(self, emit: Emitter) -> None:
        emit.known_object(self.concrete)


_PLAIN_ASSIGNMENT = (object.__setattr__, types.ModuleType.__setattr__)


def _namespace(operator: OpOverload | OpOverloadPacket) -> str:
    packet = operator.overloadpacket if isinstance(operator, OpOverload) else operator
    return str(packet._qualified_op_name).partition("::")[0]


def _writes_by_schema_only(operator: OpOverload | OpOverloadPacket) -> bool:
    """Whether an operator of some library works on tensors: only then running it on fake tensors says all it does."""
    overloads = (
        [operator] if isinstance(operator, OpOverload) else [getattr(operator, name) for name in operator.overloads()]
    )
    return all(any("Tensor" in str(argument.type) for argument in overload._schema.arguments) for overload in overloads)
