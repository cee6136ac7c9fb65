"""Residual code: what the frame still does besides the graph.

The generated code calls the graph, brings every changed object to its final state, rebuilds the result and returns it
(or, after a break, calls the rest of the frame). It reaches inputs through argument slots and through `fetched` ones,
which the guard check fills in; so an attribute chain is walked once per call, by the guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch

from framelift.bytecode.builder import Builder
from framelift.guards.quantity import Calculated, Quantity
from framelift.guards.source import Source
from framelift.native._core import store_attributes
from framelift.residual.resume import NULL as NULL_TAG
from framelift.residual.resume import VALUE, CannotResume, StackTag
from framelift.residual.segments import Fragments
from framelift.residual.waiting_frames import Entering, needed
from framelift.shapes.history import is_ordinary
from framelift.values.core.base import NULL, Value
from framelift.values.core.constants import is_constant
from framelift.values.core.lookup import flags_of, is_subclass
from framelift.values.core.tracer import Tracer

if TYPE_CHECKING:
    from framelift.values.core.tracer import TracedFrame
    from framelift.values.numbers.symbolic import SymbolicValue
    from framelift.values.tensors.tensors import TensorValue

T = TypeVar("T")

_HEAPTYPE = 1 << 9


class Captured(Tracer, Protocol):
    """A capture that residual code is made for."""

    @property
    def fragments(self) -> Fragments:
        """The parts of code objects that residual code goes on with."""


class ResidualEmitter:
    """Emits code that rebuilds values. What it needs is collected on the way, for the code in front of that to give."""

    def __init__(self, tracer: Captured, arguments: tuple[str, ...]) -> None:
        self.tracer = tracer
        self.arguments = arguments
        # Objects to be fetched, results of the graph, numbers at entry, tensors to be made.
        self.fetched: list[Source] = []
        self.outputs: list[TensorValue | SymbolicValue] = []
        self.measured: list[Quantity] = []
        self.new: list[Source] = []
        # Numbers to be calculated: one that nobody needs may raise, or be of another type.
        self.calculated = tracer.inputs.calculations
        self.builder = Builder(arguments)
        self._fetched_index: dict[Source, int] = {}
        self._output_index: dict[int, int] = {}
        # With the value itself: one that was made for this use would else give its address to the next.
        self._remembered: dict[int, tuple[Value, str]] = {}
        # Values that are being rebuilt: a tuple may hold an object that holds the tuple. Whether that made it already.
        self._unfinished: dict[int, bool] = {}

    @contextmanager
    def in_front(self) -> Iterator[None]:
        """What is emitted inside comes before all there is so far: what that makes does not exist yet."""
        remembered, self._remembered = self._remembered, {}
        with self.builder.in_front():
            yield
        assert not self._remembered, "what is made in front is needed nowhere else"
        self._remembered = remembered

    # -- values --------------------------------------------------------------------------------------------------

    def value(self, value: Any) -> None:
        """Leave `value` on the stack. Asked twice for the same one, it gives the same object."""
        if not isinstance(value, Value):
            self.constant(value)
        elif id(value) in self._remembered:
            self.load_remembered(value)
        elif value.source is not None:
            self.source(value.source)
        else:
            self._rebuild(value)

    def _rebuild(self, value: Value) -> None:
        if not value.shared:
            value.rebuild(self)
            return
        is_outer = id(value) not in self._unfinished
        self._unfinished[id(value)] = not is_outer
        value.rebuild(self)
        if is_outer and self._unfinished.pop(id(value)):
            self.pop_top()
            self.load_remembered(value)
        elif id(value) not in self._remembered:
            self.remember(value)

    def constant(self, constant: Any) -> None:
        if type(constant) is slice:
            for bound in (constant.start, constant.stop, constant.step):
                self.constant(bound)
            self.builder.build_slice(3)
        else:
            assert is_constant(constant), f"{constant!r} is no constant"
            self.builder.load_const(constant)

    def source(self, source: Source | None) -> None:
        """Leave the object at a source on the stack, as it was at entry."""
        assert source is not None
        if source.access == "ARG":
            self.builder.load_fast(self.arguments[source.argument])
            return
        if source.is_new:
            if source not in self.new:
                self.new.append(source)
            self.builder.load_fast(f".{source.name}")
            return
        self.builder.load_fast(_fetched_name(self._index_of(source)))

    def _index_of(self, source: Source) -> int:
        """Where among the fetched objects a source is; -1 for an argument."""
        if source.access == "ARG":
            return -1
        index = self._fetched_index.get(source)
        if index is None:
            index = self._fetched_index[source] = len(self.fetched)
            self.fetched.append(source)
            self.builder.add_argument(_fetched_name(index))
        return index

    def quantity(self, quantity: Quantity | Calculated) -> None:
        """Leave a number in an input, or one that is calculated from such, on the stack."""
        if isinstance(quantity, Calculated):
            self._calculated_number(quantity)
            return
        if quantity.kind in _MEASURES:
            if quantity not in self.measured:
                self._index_of(quantity.source)
                self.measured.append(quantity)
            self.builder.load_fast(_measured_name(self.measured.index(quantity)))
            return
        self.source(quantity.source)
        if quantity.kind == "SIZE":
            self.builder.load_method("size")
            self.builder.load_const(quantity.dim)
            self.builder.call(1)

    def _calculated_number(self, number: Calculated) -> None:
        keys = [known.key for known in self.calculated]
        self.builder.load_fast(_calculated_name(keys.index(number.key)))

    def calculate(self) -> None:
        """Calculate the numbers that are needed; what raises is for Python to run."""
        for index, number in enumerate(self.calculated):
            self.builder.load_callable(partial(calculated_as, number.result, number.function))
            for arg in number.args:
                self.value(arg)
            self.builder.call(len(number.args))
            self.builder.store_fast(_calculated_name(index))

    def measure(self) -> None:
        """Note what is needed of inputs that the frame may change, before anything is changed."""
        for index, quantity in enumerate(self.measured):
            self.builder.load_callable(_MEASURES[quantity.kind])
            self.source(quantity.source)
            self.builder.call(1)
            self.builder.store_fast(_measured_name(index))

    def make_new(self) -> None:
        """Make what the graph or what follows needs, before anything is changed."""
        made = self.tracer.sources.in_order(self.new)
        for source in made:
            source.argument.generate(self)
            self.builder.store_fast(f".{source.name}")
        assert len(made) == len(self.new), "what is made needs no other that is made"

    def known_object(self, obj: Any) -> None:
        """Leave an object that is part of no input on the stack: a class of the user is held weakly, by the guards."""
        made = self.tracer.made.of(obj)
        if made is not None:
            self.value(made)
        elif is_subclass(type(obj), type) and not flags_of(obj) & _HEAPTYPE:
            self.builder.load_const(obj)
        else:
            self.source(self.tracer.sources.known(obj))

    def graph_output(self, value: TensorValue | SymbolicValue) -> None:
        index = self._output_index.get(id(value))
        if index is None:
            index = self._output_index[id(value)] = len(self.outputs)
            self.outputs.append(value)
        self.builder.load_fast(output_name(index))

    def remember(self, value: Value) -> None:
        """Keep what is on top of the stack as the object of `value`."""
        name = self.builder.temporary("value")
        self._remembered[id(value)] = value, name
        self.builder.copy(1)
        self.builder.store_fast(name)

    def is_remembered(self, value: Value) -> bool:
        return id(value) in self._remembered

    def load_remembered(self, value: Value) -> None:
        self.builder.load_fast(self._remembered[id(value)][1])

    def store_attributes(self, owner: Value, attributes: dict[str, Any]) -> None:
        """Store attributes in an object that was just made, past what its class may say to that."""
        for part in _short_parts(list(attributes.items())):
            self.builder.load_callable(store_attributes)
            self.load_remembered(owner)
            self.constant(tuple(name for name, _ in part))
            for _, value in part:
                self.value(value)
            self.call(2 + len(part))
            self.pop_top()

    def at_its_yield(self, frame: TracedFrame) -> tuple[CodeType, list[Any]] | None:
        """The code of generators that begin where a frame has yielded, and what they take; None: there can be none."""
        segments = self.tracer.fragments.of(frame.program.canonical.code).segments
        offset = frame.program.steps[frame.pc].offset
        stack = [*frame.stack, None]  # what the `yield` gives this time
        tags: list[StackTag] = [NULL_TAG if item is NULL else VALUE for item in stack]
        try:
            made = segments.suspended(offset, needed(segments, offset, frame.locals, self.tracer.watched), tags)
        except CannotResume:
            return None
        return made.code, Entering(made, frame.locals, stack).arguments()

    def fill_namespace(self, namespace: Any) -> None:
        """Fill the `__dict__` of the object on top of the stack, which was just made."""
        namespace.fill_real(self)

    # -- single instructions, under names that read well in `rebuild` methods ----------------------------------------

    def callable(self, obj: Any) -> None:
        self.known_object(obj)
        self.builder.begin_call()

    def load_method(self, name: str) -> None:
        self.builder.load_method(name)

    def call(self, count: int) -> None:
        self.builder.call(count)

    def call_method(self, name: str, args: Sequence[Any]) -> None:
        """Call a method of what is on top of the stack."""
        self.load_method(name)
        for argument in args:
            self.value(argument)
        self.call(len(args))

    def build_tuple(self, count: int) -> None:
        self.builder.build_tuple(count)

    def build_list(self, count: int) -> None:
        self.builder.build_list(count)

    def list_of(self, items: Sequence[Any]) -> None:
        """Leave a list of values on the stack: long ones are put together of short ones, for the stack's sake."""
        first, *rest = _short_parts(items) or [[]]
        self._short_list(first)
        for more in rest:
            self._short_list(more)
            self.list_extend()

    def _short_list(self, items: Sequence[Any]) -> None:
        for item in items:
            self.value(item)
        self.build_list(len(items))

    def build_map(self, count: int) -> None:
        self.builder.build_map(count)

    def build_slice(self) -> None:
        self.builder.build_slice(3)

    def list_extend(self) -> None:
        self.builder.list_extend(1)

    def get_iter(self) -> None:
        self.builder.get_iter()

    def copy_top(self) -> None:
        self.builder.copy(1)

    def swap(self) -> None:
        self.builder.swap(2)

    def pop_top(self) -> None:
        self.builder.pop_top()

    def load_attribute(self, name: str) -> None:
        self.builder.load_attr(name)

    def store_attribute(self, name: str) -> None:
        self.builder.store_attr(name)

    def delete_attribute(self, name: str) -> None:
        self.builder.delete_attr(name)

    def store_subscript(self) -> None:
        self.builder.store_subscr()

    def delete_subscript(self) -> None:
        self.builder.delete_subscr()


_MANY = 64


def _short_parts(items: Sequence[T]) -> list[Sequence[T]]:
    """The items in order, in parts that are not too much for the stack."""
    return [items[start : start + _MANY] for start in range(0, len(items), _MANY)]


# How numbers are found that the frame may change.
_MEASURES: dict[str, Callable[[Any], Any]] = {"LENGTH": len, "ITEM": torch.Tensor.item}


def _measured_name(index: int) -> str:
    return f".measured{index}"


def _calculated_name(index: int) -> str:
    return f".calculated{index}"


def calculated_as(kind: type, function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives, if that is a number as the one that was captured."""
    result = function(*args)
    if type(result) is not kind or not is_ordinary(result):
        raise ValueError(f"{result!r} is another kind of number")
    return result


def _fetched_name(index: int) -> str:
    return f".fetched{index}"


def output_name(index: int) -> str:
    """The variable of residual code that holds an output of the graph."""
    return f".out{index}"
