"""Operations on tensors and symbolic numbers: what the traced program calls becomes a node of the graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from framelift.breaks import FL0102, FL0301, FL0302, FL0303, FL0306, FL0307, FL0308, GraphBreak, Overridden
from framelift.capture.early_checks import checked_first
from framelift.capture.interpreter.tracing import Tracing
from framelift.graph import MetadataFailure, NeedsNumbers, NumberRef, TensorRef, TokenRef
from framelift.models import is_of_models
from framelift.shapes.bindings import Foreseen
from framelift.shapes.symbols import decide, known_of_data
from framelift.shapes.unbacked import depends_on_data
from framelift.values.containers.dicts import DictValue
from framelift.values.containers.sequences import ListValue, TupleValue
from framelift.values.containers.structs import StructSequenceValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import from_constant, make_tuple
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.stdlib.warnings import refuse_unheard
from framelift.values.tensors.data_dependent import item_of
from framelift.values.tensors.overrides import UNASKED, ask, hears_of, notice
from framelift.values.tensors.sizes import SizeValue
from framelift.values.tensors.tensors import TensorValue
from framelift.values.torch.data_errors import may_raise
from framelift.values.torch.generators import GeneratorValue, is_default

# What operations call factors of a whole operand.
_FACTORS = ("alpha", "beta", "value")
# So many facts are noted about symbolic numbers before they are specialised.
_MOST_DECISIONS = 64


class Operations:
    """Puts operations into the graph, and knows the values of their results."""

    def __init__(self) -> None:
        # Values of inputs and results of the graph, by the identity of their ref.
        self._values: dict[int, Value] = {}
        self._decisions = 0

    def remember(self, ref: TensorRef | NumberRef, value: Value) -> None:
        """Note which value stands for an input of the graph."""
        self._values[id(ref)] = value

    def on_values(
        self,
        lift: Tracing,
        emit: Callable[..., Any],
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        raises: bool | None = None,
    ) -> Any:
        """A call of a torch function or of a tensor's method; `emit` is the method of the graph for it.

        `raises`: whether it may raise; None: as its name tells.
        """
        if lift.has_changed_filters:
            refuse_unheard(lift)
        device = lift.modes.device_for(target) if lift.modes.has_moved else None
        if device is not None and py.same(lift, kwargs.get("device"), None):
            kwargs = {**kwargs, "device": device}
        if kwargs and "generator" in kwargs:
            generator, kwargs = kwargs["generator"], {name: kwargs[name] for name in kwargs if name != "generator"}
            if isinstance(generator, GeneratorValue):
                return generator.draw(lift, target, args, kwargs, raises)
            if not is_default(lift, generator):
                raise GraphBreak(FL0102, what=f"{_spell(target)} with this generator")
        try:
            plain_args = tuple([lift.graph_argument(arg) for arg in args])
            plain_kwargs = {name: lift.graph_argument(arg) for name, arg in kwargs.items()}
        except Overridden:
            result = _asked_instead(lift, target, args, kwargs)
            if result is not UNASKED:
                return result
            with lift.modes.asking_no_classes():
                return self.on_values(lift, emit, target, args, kwargs, raises)
        if lift.modes.functions:
            _refuse_unasked(lift, target, args, kwargs)
        if raises is None:
            raises = may_raise(target, plain_args)
        if raises and not lift.graph.can_be_undone:
            if not checked_first(lift, target, plain_args, plain_kwargs):
                raise GraphBreak(FL0303, op=_spell(target))
            raises = False
        changes = len(lift.graph.propagation.changes)
        try:
            result = emit(target, plain_args, plain_kwargs, lift.program_point(), must_run=raises)
        except MetadataFailure as failure:
            specialised = (
                [_specialised(lift, arg) for arg in args],
                {key: _specialised(lift, arg) for key, arg in kwargs.items()},
            )
            if failure.kind == "data-dependent":
                specialised[1].update(_items_of_factors(lift, kwargs))
            if _differ(specialised, args, kwargs):  # not every operation takes symbolic numbers
                return self.on_values(lift, emit, target, tuple(specialised[0]), specialised[1], raises)
            raise _break_for(failure) from failure
        if lift.graph.raises_too_late:
            raise GraphBreak(FL0303, op=_spell(target))
        if lift.modes.has_overrides:
            _refuse_changes(lift, changes)
        return self._result(lift, result)

    def on_bodies(self, lift: Tracing, target: Callable[..., Any], args: tuple[Any, ...], raises: bool) -> Any:
        """An operation on values of the graph and on bodies."""
        if lift.has_changed_filters:
            refuse_unheard(lift)
        try:
            result = lift.graph.call_function(target, args, {}, lift.program_point(), must_run=raises)
        except MetadataFailure as failure:
            raise _break_for(failure) from failure
        return self._result(lift, result)

    def on_numbers(self, lift: Tracing, target: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """An operation on symbolic numbers, or one that gives them.

        NotImplemented where symbols cannot do what numbers can: be compared with nan, for instance.
        """
        plain = tuple([lift.graph_argument(arg) for arg in args])
        if any(type(arg) is float and not math.isfinite(arg) for arg in plain):
            return NotImplemented
        try:
            result = lift.graph.call_function(target, plain, {}, lift.program_point())
        except MetadataFailure:
            return NotImplemented
        return self._result(lift, result)

    def specialise(self, lift: Tracing, ref: NumberRef) -> Any:
        """The number a symbolic one is now; guarded from here on."""
        symbols = lift.graph.symbols
        if depends_on_data(ref.known_fake):
            known = known_of_data(ref.known_fake)
            is_truth = isinstance(ref.known_fake, torch.SymBool)
            # What is presumed of sizes says how a branch goes, never how often a loop runs.
            is_in_loop = is_truth and _is_in_open_loop(lift)
            if known is None and is_truth and not is_in_loop:
                known = lift.graph.size_question(ref)
            if known is None or is_in_loop:
                reason = FL0301 if isinstance(ref.known_fake, torch.SymBool) else FL0308
                raise GraphBreak(reason, what=lift.graph.origin_of(ref))
            return known
        is_loop = self._decisions >= _MOST_DECISIONS
        names = symbols.names_in_float(ref.known_fake)
        if is_loop or type(ref.known_fake) is not torch.SymBool:
            names += symbols.items_in(ref.known_fake)  # each call has another: then the graph reads them
        if names and not lift.policy.insists_on(names):
            raise NeedsNumbers(names)
        if is_loop:  # over a symbol: better one fact than one for each round
            symbols.specialise(ref.known_fake)
        known = len(symbols.shape_env.guards)
        number = decide(ref.known_fake)
        self._decisions += len(symbols.shape_env.guards) > known
        symbols.note_place(lift.user_line)
        return number

    def presume(self, lift: Tracing, ref: NumberRef, is_said: bool) -> None:
        """Go on as if a condition were true, and check it when the graph runs."""
        try:
            lift.graph.presume(ref, is_said)
        except MetadataFailure as failure:
            raise _break_for(failure) from failure

    def _result(self, lift: Tracing, result: Any) -> Any:
        lift.graph.symbols.note_place(lift.user_line)
        return self.value_of(lift, result)

    def value_of(self, lift: Tracing, result: Any) -> Any:
        """A result of the graph as a value of the program."""
        kind = type(result)
        if kind is TensorRef or kind is NumberRef:
            known = self._values.get(id(result))
            if known is None:
                known = TensorValue(result) if kind is TensorRef else SymbolicValue(result)
                self._values[id(result)] = known
            return known
        if kind is TokenRef:
            return None
        if kind is tuple:
            return make_tuple([self.value_of(lift, item) for item in result])
        if kind is list:
            return ListValue([self.value_of(lift, item) for item in result])
        if kind is dict:
            return DictValue({key: self.value_of(lift, item) for key, item in result.items()})
        if isinstance(result, tuple) and not is_constant(result):
            return StructSequenceValue(kind, [self.value_of(lift, item) for item in result])
        return from_constant(lift, result)


def _asked_instead(lift: Tracing, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an operand says of an operation, as the program called it."""
    notice(lift)
    if lift.frame is not None and is_of_models(lift.frame.program.canonical.code):
        raise GraphBreak(FL0306, type="an operand")
    function = getattr(torch.Tensor, target) if isinstance(target, str) else target
    return ask(lift, function, args, kwargs)


def _refuse_changes(lift: Tracing, since: int) -> None:
    """Break where the metadata of a tensor of some class was changed: the graph has another one in its place."""
    for ref, _ in lift.graph.propagation.changes[since:]:
        value = lift.inputs.tensors.get(id(ref))
        if value is not None and value.source is not None and value.source.access == "AS_PLAIN":
            raise GraphBreak(FL0306, type=value.describe())


def _refuse_unasked(lift: Tracing, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Break where a mode is asked of an operation that came here in another way than by a call of the program's."""
    function = getattr(torch.Tensor, target) if isinstance(target, str) else target
    if function is getattr or hears_of(lift, function, args, kwargs):
        raise GraphBreak(FL0306, type="a function mode")


def _is_in_open_loop(lift: Tracing) -> bool:
    frame = lift.frame
    return frame is not None and frame.program.is_in_open_loop(frame.pc)


def _break_for(failure: MetadataFailure) -> GraphBreak:
    """The graph break for an operation that cannot be put into the graph."""
    if isinstance(failure.__cause__, Foreseen):
        raise failure.__cause__
    if failure.kind == "data-dependent":
        return GraphBreak(FL0301, what=failure.operation)
    if failure.kind == "opaque":
        return GraphBreak(FL0307, what=f"a result of {failure.operation}", kind=failure.reason)
    return GraphBreak(FL0302, op=failure.operation, error=failure.reason)


def _specialised(lift: Tracing, value: Any) -> Any:
    """An argument with numbers in place of symbols; itself, if there are none in it."""
    if isinstance(value, SymbolicValue | SizeValue):
        return lift.constant(value)
    if isinstance(value, TupleValue | ListValue):
        items = value.items(lift)
        specialised = [_specialised(lift, item) for item in items]
        if any(now is not before for now, before in zip(specialised, items, strict=True)):
            return value.make(lift, specialised)
    return value


def _items_of_factors(lift: Tracing, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The numbers in tensors that are given as factors, for which torch takes a number: it reads that out of them."""
    given = {key: kwargs[key] for key in _FACTORS if isinstance(kwargs.get(key), TensorValue)}
    return {key: item_of(lift, tensor) for key, tensor in given.items()}


def _differ(specialised: tuple[list[Any], dict[str, Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    pairs = [*zip(specialised[0], args, strict=True), *[(specialised[1][name], arg) for name, arg in kwargs.items()]]
    return any(now is not before for now, before in pairs)


def _spell(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))
