"""What residual code computes or does after the graph has run: texts that show tensors, and calls that tell the world.

A text that shows a tensor is not known while capturing. It is kept as the call that makes it, over a copy of the tensor
as it was at that point. So is everything a journaled call is given.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch._tensor_str import PRINT_OPTS

from framelift.breaks import FL0102, FL0201, GraphBreak
from framelift.models.side_effects import AFTERWARDS, FRAMES, PACKAGE, Caller, find_caller, shown
from framelift.values.containers.dicts import DictValue
from framelift.values.containers.sequences import ListValue, TupleValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import ExceptionValue
from framelift.values.core.primitives import primitive
from framelift.values.numbers.scalars import ScalarValue
from framelift.values.objects.classes import ClassValue
from framelift.values.objects.instances import UserObjectValue
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class DeferredValue(Value):
    """A plain object that residual code computes as `function(*operands)`; only its type is known before."""

    __slots__ = ("kind", "function", "operands")
    answers_operators = False
    keeps_parts = False

    def __init__(self, kind: type, function: Callable[..., Any], operands: Sequence[Any]) -> None:
        super().__init__()
        self.kind = kind
        self.function = function
        self.operands = list(operands)

    def python_type(self) -> type:
        return self.kind

    def _unknown(self, tracer: Tracer, *_: Any) -> NoReturn:
        self.refuse("use of the value, which is known when the graph has run,")

    truth = key = _unknown

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        self._unknown(tracer)

    def is_constant_object(self, tracer: Tracer, constant: Any) -> bool:
        return False if type(constant) is not self.kind else self._unknown(tracer)

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._joined(tracer, operator, [self, other])

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self._joined(tracer, operator, [other, self])

    def _joined(self, tracer: Tracer, symbol: str, parts: list[Any]) -> Any:
        if symbol not in ("+", "+=") or any(py.type_of(part) is not str for part in parts) or self.kind is not str:
            self._unknown(tracer)
        return joined(parts)

    def parts(self) -> list[Any]:
        return self.operands

    def made_by(self) -> Call:
        return self.function, self.operands


def joined(parts: Sequence[Any]) -> Any:
    """The concatenation of texts, some of which are made later."""
    return DeferredValue(str, _concatenate, list(parts))


def _concatenate(*parts: str) -> str:
    return "".join(parts)


# -- copies of what is shown -------------------------------------------------------------------------------------------


def shows_tensor(tracer: Tracer, value: Any) -> bool:
    """Whether the text of a value depends on the data of a tensor: it is one, or a plain container of some."""
    return _holds_tensor(tracer, value, [])


def _holds_tensor(tracer: Tracer, value: Any, around: list[Any]) -> bool:
    if isinstance(value, (TensorValue, DeferredValue)):
        return True
    if type(value) not in _PLAIN_CONTAINERS or any(value is outer for outer in around):
        return False
    return any(_holds_tensor(tracer, part, [*around, value]) for part in _PLAIN_CONTAINERS[type(value)](tracer, value))


_PLAIN_CONTAINERS: dict[type, Callable[[Tracer, Any], list[Any]]] = {
    ListValue: py.items,
    TupleValue: py.items,
    DictValue: lambda tracer, value: list(value.entries(tracer).values()),
}


def as_it_is(tracer: Tracer, value: Any, around: Sequence[Any] = ()) -> Any:
    """A value that stays what `value` is now, whatever the program does to it afterwards."""
    if isinstance(value, TensorValue):
        return _copied_tensor(tracer, value, shows_gradient=True)
    if any(value is outer for outer in around):
        raise GraphBreak(FL0201, operation="the text of a container that contains itself", type=py.describe(value))
    inside = (*around, value)
    if type(value) is ListValue:
        return ListValue([as_it_is(tracer, item, inside) for item in py.items(tracer, value)])
    if type(value) is TupleValue:
        return make_tuple([as_it_is(tracer, item, inside) for item in py.items(tracer, value)])
    if type(value) is DictValue:
        return DictValue({key: as_it_is(tracer, item, inside) for key, item in value.entries(tracer).items()})
    if isinstance(value, ScalarValue):
        tracer.type_of(value)
    elif isinstance(value, Value) and not isinstance(value, _PASSED_ON):
        value.refuse("a copy for later")
    return value


# What has no state that a text or a warning shows, or none that programs change once they passed it on.
_PASSED_ON = (DeferredValue, ClassValue, ExceptionValue)


def _copied_tensor(tracer: Tracer, value: TensorValue, shows_gradient: bool) -> Any:
    descriptor = value.ref(tracer).descriptor
    if value.python_type() is not torch.Tensor:
        value.refuse("the text of a parameter")
    if shows_gradient and _is_shown_otherwise(tracer):
        value.refuse("the text, in a way of showing tensors that the program chose,")
    if not descriptor.requires_grad:
        return tracer.call_torch(torch.clone, (value,), {})
    if shows_gradient:
        value.refuse("the text that names its gradient function")
    return tracer.call_torch(torch.clone, (tracer.call_tensor_method("detach", (value,), {}),), {})


def _is_shown_otherwise(tracer: Tracer) -> bool:
    """Whether texts depend on what the program has set: they are made when the graph has run, as it is set by then."""
    if tracer.graph.has_switched(torch._C._set_default_dtype):
        return True
    options = (PRINT_OPTS, vars(PRINT_OPTS))
    changed = [value.concrete for value in tracer.journal.changed if isinstance(value, Value)]
    return any(concrete is option for concrete in changed for option in options)


# -- texts -------------------------------------------------------------------------------------------------------------


def text_of(tracer: Tracer, value: Any, conversion: str) -> Any:
    """`str(value)` or `repr(value)`: a plain text, or one that is made later."""
    if isinstance(value, DeferredValue) and value.kind is str and conversion == "str":
        return value
    if shows_tensor(tracer, value):
        return DeferredValue(str, repr if conversion == "repr" else str, [as_it_is(tracer, value)])
    return tracer.text(value, conversion)


def formatted(tracer: Tracer, value: Any, spec: Any) -> Any:
    """`format(value, spec)`: a plain text, or one that is made later."""
    if isinstance(value, DeferredValue) and value.kind is str and not tracer.constant(spec):
        return value
    if isinstance(value, TensorValue):
        plain_spec = tracer.constant(spec)
        _check_format(tracer, value, plain_spec)
        is_number = not value.ref(tracer).descriptor.shape
        copy = _copied_tensor(tracer, value, shows_gradient=not is_number)
        return DeferredValue(str, format, [copy, plain_spec])
    if shows_tensor(tracer, value):
        if tracer.constant(spec):
            raise GraphBreak(FL0201, operation="format() with a specification", type=py.describe(value))
        return text_of(tracer, value, "str")
    return py.format_value(tracer, value, spec)


def _check_format(tracer: Tracer, value: TensorValue, spec: str) -> None:
    """Whether formatting cannot fail: later is too late for an exception."""
    descriptor = value.ref(tracer).descriptor
    if not spec:
        return
    sample = _sample(descriptor.dtype)
    if descriptor.shape or sample is None:
        value.refuse("format() with a specification")
    try:
        format(sample, spec)
    except (TypeError, ValueError):
        value.refuse("format() with a specification it may not take")


def _sample(dtype: torch.dtype) -> Any:
    """A number of the type that `item()` gives."""
    if dtype is torch.bool:
        return True
    return 1.5 if dtype.is_floating_point else None if dtype.is_complex else 1


@primitive(shown)
def _shown(tracer: Tracer, value: Any) -> Any:
    if isinstance(value, ScalarValue) and value.source is not None:
        tracer.type_of(value)
        return DeferredValue(str, str, [value])
    return text_of(tracer, value, "str")


def percent(tracer: Tracer, template: Any, arguments: Any) -> Any:
    """`template % arguments` where an argument shows a tensor."""
    plain = tracer.constant(template)
    try:
        plain % _stand_in(tracer, arguments)
    except (TypeError, ValueError, KeyError):
        raise GraphBreak(FL0201, operation="formatting with %", type="tensor") from None
    return DeferredValue(str, operator.mod, [plain, as_it_is(tracer, arguments)])


def _stand_in(tracer: Tracer, value: Any) -> Any:
    """A text wherever a tensor is shown: what can be formatted with texts needs nothing but texts."""
    if type(value) is TupleValue:
        return tuple([_stand_in(tracer, item) for item in py.items(tracer, value)])
    if type(value) is DictValue:
        return {key: _stand_in(tracer, item) for key, item in value.entries(tracer).items()}
    return "" if shows_tensor(tracer, value) else tracer.constant(value)


# -- calls -------------------------------------------------------------------------------------------------------------


class LaterCall(Value):
    """A call that residual code makes when it replays the journal."""

    __slots__ = ("function", "operands")
    has_twins = False

    def __init__(self, function: Callable[..., Any], operands: Sequence[Any]) -> None:
        super().__init__()
        self.function = function
        self.operands = operands

    def describe(self) -> str:
        return f"the world outside ({self.function.__name__.strip('_').replace('_', ' ')})"

    def replay(self, emit: Emitter) -> None:
        emit.callable(self.function)
        for operand in self.operands:
            emit.value(operand)
        emit.call(len(self.operands))
        emit.pop_top()


def call_later(tracer: Tracer, function: Callable[..., Any], operands: Sequence[Any]) -> None:
    """Have residual code call `function`, in the order of the program."""
    tracer.journal.perform(LaterCall(function, [_kept(tracer, operand) for operand in operands]))


def _kept(tracer: Tracer, operand: Any) -> Any:
    """An operand of a call made later: the very object where it has an identity of its own, else a copy."""
    if isinstance(operand, (UserObjectValue, DictValue)) and operand.source is not None:
        return operand
    return operand.kept() if hasattr(operand, "kept") else as_it_is(tracer, operand)


def _register_calls() -> None:
    for function in AFTERWARDS:

        def perform(tracer: Tracer, *operands: Any, _function: Any = function) -> None:
            call_later(tracer, _function, operands)

        primitive(function)(perform)


_register_calls()


@primitive(find_caller)
def _find_caller(tracer: Tracer, level: Any, internal: Any) -> Any:
    """Where the caller of the model that asks stands, `level` - 1 frames up."""
    frame = tracer.frame
    assert frame is not None
    left, skipped = tracer.constant(level), tracer.constant(internal)
    frame = frame.caller
    while frame is not None:
        code = frame.program.canonical.code
        if code.co_filename != skipped and not code.co_filename.startswith(PACKAGE):
            left -= 1
            if left == 0:
                return _caller_value(tracer, Caller(code.co_filename, frame.line, code.co_name, frame.globals, 0))
        left -= FRAMES.get(code, 0)
        if left <= 0:
            raise GraphBreak(FL0102, what="a function that tells a line of torch's")
        frame = frame.caller
    if tracer.steps.are_waiting:  # between those that are traced and the one that called residual code
        raise GraphBreak(FL0102, what="a function that tells the line of a frame that waits")
    return _caller_value(tracer, Caller("", 0, "", None, left))


def _caller_value(tracer: Tracer, found: Caller) -> Any:
    return py.call(tracer, tracer.known_object(Caller), list(found), {})
