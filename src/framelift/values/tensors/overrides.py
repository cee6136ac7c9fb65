"""The protocol of `__torch_function__`: whom torch asks before an operation, function modes first, then operands.

An operation asks here (`ask`) before it becomes a node of the graph. The program's own methods are traced like all its
code; what they call of torch's comes back here, with one mode less, or in a block without overrides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType, MethodWrapperType
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0306, GraphBreak
from framelift.values.containers.dicts import DictValue
from framelift.values.containers.sequences import ListValue, SequenceValue
from framelift.values.containers.slices import SliceValue, make_slice
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import make_tuple
from framelift.values.core.lookup import is_subclass, name_of, raw_lookup
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.tensors.override_probes import (
    FloatStandIn,
    IntStandIn,
    NotAsked,
    ThingStandIn,
    asked_of,
    mirrored,
)

if TYPE_CHECKING:
    from framelift.values.core.tracer import Model, Tracer


class Unasked:
    """Torch asks nobody: the operation is what it is."""


UNASKED = Unasked()


def notice(tracer: Tracer) -> None:
    """From here on operations look whether anybody is to be asked."""
    if not tracer.modes.has_overrides:
        tracer.modes.has_overrides = True
        tracer.forget_models()


def ask(tracer: Tracer, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What those say whom torch asks of `function(*args, **kwargs)`; UNASKED where it asks nobody."""
    operands = _Operands(tracer, [*args, *kwargs.values()])
    if not operands.kinds and not tracer.modes.functions:
        return operands.dispatched(function, args, kwargs)
    try:
        asked = asked_of(
            function, [operands.stand_in(arg) for arg in args], {n: operands.stand_in(v) for n, v in kwargs.items()}
        )
    except NotAsked:
        if type(function) is not FunctionType:
            raise GraphBreak(FL0306, type=operands.describe()) from None
        return tracer.inline(tracer.known_object(function), list(args), dict(kwargs))
    if asked is None:
        return operands.dispatched(function, args, kwargs)
    kinds = [operands.kind_of(mirror) for mirror in asked.types]
    given = [_function(tracer, asked.function), make_tuple([tracer.known_object(kind) for kind in kinds])]
    given += [operands.back(asked.args)] + ([] if asked.kwargs is None else [operands.back(dict(asked.kwargs))])
    if tracer.modes.functions:
        with _one_mode_less(tracer) as mode:
            result = py.call(tracer, py.attribute(tracer, mode, "__torch_function__"), list(given), {})
        if not _is_declined(result):
            return result
    for kind in kinds:
        result = py.call(tracer, _rules(tracer, operands.first_of(kind), kind), list(given), {})
        if not _is_declined(result):
            return result
    raise GraphBreak(FL0306, type=operands.describe())  # torch raises, in words of its own


def hears_of(tracer: Tracer, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a mode would be asked of an operation."""
    operands = _Operands(tracer, [*args, *kwargs.values()])
    try:
        return (
            asked_of(
                function, [operands.stand_in(arg) for arg in args], {n: operands.stand_in(v) for n, v in kwargs.items()}
            )
            is not None
        )
    except NotAsked:
        return True


def ask_first(function: Any, model: Model) -> Model:
    """A function of torch that asks before it does what `model` says."""

    def asking(tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        result = ask(tracer, function, args, kwargs)
        if result is not UNASKED:
            return result
        if args and isinstance(args[0], Value):
            args[0].refuse_own(getattr(function, "__name__", ""))
        return model(tracer, *plain_arguments(tracer, args, kwargs))

    return asking


def plain_arguments(tracer: Tracer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments without the classes of tensors among them, for an operation of which nobody is asked."""
    return [plain(tracer, arg) for arg in args], {name: plain(tracer, arg) for name, arg in kwargs.items()}


def plain(tracer: Tracer, value: Any) -> Any:
    return value.without_class(tracer) if isinstance(value, Value) else value


@contextmanager
def _one_mode_less(tracer: Tracer) -> Iterator[Any]:
    """The innermost mode; while it is asked the next one is the innermost."""
    modes = tracer.modes
    tracer.journal.touch(modes)
    before = modes.functions
    modes.functions = before[:-1]
    try:
        yield before[-1].mode
    finally:
        modes.functions = before


def _rules(tracer: Tracer, operand: Value, kind: type) -> Any:
    if isinstance(raw_lookup(kind, "__torch_function__"), FunctionType):
        raise GraphBreak(FL0306, type=name_of(kind))  # torch warns of methods that are none of the class
    return py.attribute(tracer, operand, "__torch_function__")


def _is_declined(result: Any) -> bool:
    return py.type_of(result) is type(NotImplemented)


def _function(tracer: Tracer, function: Any) -> Any:
    """The function that is asked of, as a value. Those that read attributes are made anew each time."""
    if type(function) is MethodWrapperType and function.__name__ in ("__get__", "__set__", "__delete__"):
        return py.attribute(tracer, tracer.known_object(function.__self__), function.__name__)
    return tracer.known_object(function)


class _Operands:
    """The arguments of an operation, those with rules of their own among them, and what stands for each."""

    def __init__(self, tracer: Tracer, values: Sequence[Any]) -> None:
        self._tracer = tracer
        self._firsts: list[tuple[type, Value]] = []
        self._back: dict[int, tuple[Any, Any]] = {}
        self._wrapper: Value | None = None
        for value in values:
            self._find(value)
        self._mirrored = mirrored(tuple(self._mirror_of(kind) for kind in self.kinds)) if self._firsts else ()

    def dispatched(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the dispatcher makes of an operation; UNASKED where no class of an operand has rules there."""
        return UNASKED if self._wrapper is None else self._wrapper.dispatch(self._tracer, function, args, kwargs)

    @property
    def kinds(self) -> list[type]:
        return [kind for kind, _ in self._firsts]

    def describe(self) -> str:
        return " and ".join(map(name_of, self.kinds)) or "a function mode"

    def _find(self, value: Any) -> None:
        if not isinstance(value, Value):
            return
        if isinstance(value, SequenceValue):
            for item in value.items(self._tracer):
                self._find(item)
            return
        value.note(self._tracer)
        if value.is_wrapper and self._wrapper is None:
            self._wrapper = value
        kind = value.torch_rules(self._tracer)
        if kind is not None and not any(kind is known for known in self.kinds):
            self._firsts.append((kind, value))

    def _mirror_of(self, kind: type) -> tuple[bool, tuple[int, ...]]:
        kinds = self.kinds
        above = [i for i, other in enumerate(kinds) if other is not kind and is_subclass(kind, other)]
        return is_subclass(kind, torch.Tensor), tuple(above)

    def kind_of(self, mirror: type) -> type:
        return self.kinds[self._mirrored.index(mirror)] if mirror in self._mirrored else mirror

    def first_of(self, kind: type) -> Value:
        """The operand that speaks for a class."""
        for known, value in self._firsts:
            if known is kind:
                return value
        raise GraphBreak(FL0306, type=self.describe())  # code in Python asks plain tensors as well, last

    # -- there -----------------------------------------------------------------------------------------------------

    def stand_in(self, value: Any) -> Any:
        if not isinstance(value, Value):
            return value
        made = self._made_for(value)
        self._back[id(made)] = made, value
        return made

    def _made_for(self, value: Value) -> Any:
        tracer = self._tracer
        kind = value.torch_rules(tracer)
        tensor = value.without_class(tracer)
        if tensor.is_wrapper:
            made = torch.empty([0] * len(tensor.layout.size), dtype=tensor.layout.dtype)
            return made if kind is None else made.as_subclass(self._mirror(kind))
        if tensor.is_tensor:
            descriptor = tensor.ref(tracer).descriptor
            made = torch.empty([0] * len(descriptor.shape), dtype=descriptor.dtype)
            if kind is not None:
                return made.as_subclass(self._mirror(kind))
            is_parameter = value.python_type() is torch.nn.Parameter
            return torch.nn.Parameter(made, requires_grad=False) if is_parameter else made
        if kind is not None:
            return self._mirror(kind)()
        if isinstance(value, SequenceValue):
            items = [self.stand_in(item) for item in value.items(tracer)]
            return items if isinstance(value, ListValue) else tuple(items)
        if isinstance(value, SliceValue):
            return slice(*[self.stand_in(bound) for bound in value.bounds(tracer)])
        if isinstance(value, SymbolicValue):
            return {int: IntStandIn, float: FloatStandIn}.get(value.python_type(), ThingStandIn)()
        if value.source is not None and is_constant(value.concrete):
            return tracer.constant(value)
        return ThingStandIn()

    def _mirror(self, kind: type) -> Any:
        return self._mirrored[next(i for i, known in enumerate(self.kinds) if known is kind)]

    # -- and back --------------------------------------------------------------------------------------------------

    def back(self, obj: Any) -> Any:
        """What torch gives to who is asked, as a value of the program."""
        known = self._back.get(id(obj))
        if known is not None and not is_constant(obj):
            return known[1]
        if type(obj) is tuple:
            return make_tuple([self.back(item) for item in obj])
        if type(obj) is list:
            return ListValue([self.back(item) for item in obj])
        if type(obj) is dict:
            return DictValue({name: self.back(item) for name, item in obj.items()})
        if type(obj) is slice:
            return make_slice(self.back(obj.start), self.back(obj.stop), self.back(obj.step))
        if is_constant(obj):
            return obj
        raise GraphBreak(FL0306, type=self.describe())
