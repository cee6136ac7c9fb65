"""Tensors of classes of one's own, and other objects that torch asks before it does anything (`__torch_function__`).

What such a class makes of an operation is its own affair, in Python and below the dispatcher. So the graph ends at an
instruction that does something with one, and Python runs it; none is ever an input or a result of a graph. Being
passed around, told apart and asked for their type needs no rules, and is traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch

from framelift.breaks import FL0306, GraphBreak
from framelift.values.containers.dicts import MISSING
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lookup import class_lookup, has_default, instance_dict, is_subclass, name_of, raw_lookup
from framelift.values.objects.classes import ClassValue
from framelift.values.objects.instances import OpaqueValue, UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class TensorSubclassValue(OpaqueValue):
    """A tensor of another class than torch.Tensor and Parameter."""

    __slots__ = ()

    def note_facts(self, tracer: Tracer) -> None:
        refuse(type(self.concrete))

    def torch_rules(self, tracer: Tracer) -> type | None:
        refuse(type(self.concrete))

    def has_flag(self, tracer: Tracer, name: str | None) -> bool:
        """`getattr(tensor, name, False)`, where nothing of the program's answers for its attributes or its class."""
        kind = self.guarded_type(tracer)
        namespace = instance_dict(self.concrete)
        claimed = class_lookup(tracer, kind, "__class__")
        answers = claimed is None or claimed.raw is not _CLASS or namespace is None
        if answers or not has_default(tracer, kind, "__getattribute__", object.__getattribute__):
            refuse(kind)
        if name is None:
            return False
        assert self.source is not None
        found = tracer.wrap(namespace, self.source.child("INSTANCE_DICT")).get_key(tracer, name)
        if class_lookup(tracer, kind, name) is not None:
            refuse(kind)
        if found is MISSING and class_lookup(tracer, kind, "__getattr__") is not None:
            refuse(kind)
        return found is not MISSING and py.truth(tracer, found)


_CLASS = object.__dict__["__class__"]


def is_tensor_class(cls: type) -> bool:
    return is_subclass(cls, torch.Tensor)


def dispatches(cls: type) -> bool:
    """Whether tensors of a class have rules of their own below the dispatcher: gradients are of that class, too."""
    return is_tensor_class(cls) and raw_lookup(cls, "__torch_dispatch__") is not _NO_RULES


_NO_RULES = raw_lookup(torch.Tensor, "__torch_dispatch__")


def refuse(cls: type) -> NoReturn:
    raise GraphBreak(FL0306, type=name_of(cls))


def has_rules(tracer: Tracer, operand: Any) -> bool:
    """Whether torch asks what an operation meets; a break where what it says is nothing to be traced."""
    if isinstance(operand, TensorSubclassValue):
        operand.note(tracer)
    if isinstance(operand, ClassValue):
        refuse_rules(tracer, operand)
    return isinstance(operand, Value) and operand.torch_rules(tracer) is not None


def refuse_rules(tracer: Tracer, operand: Any) -> None:
    """Break where what a tensor meets in an operation has rules of its own for it."""
    if isinstance(operand, TensorSubclassValue):
        operand.note(tracer)
    elif isinstance(operand, (UserObjectValue, ClassValue)) and tracer.has_attribute(operand, "__torch_function__"):
        refuse(py.type_of(operand))
