"""The whole residual function of one capture: graph call, replay, result or the rest of the frame.

It is written once, and back to front: each part says what it needs of those in front of it. What follows the graph
comes first, as the graph is finished with the results that are needed there.

    measure, make tensors, calculate numbers  ◄─  call the graph  ◄─  replay, return or go on
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from framelift.bytecode.builder import Label
from framelift.bytecode.decode import argument_names
from framelift.fallbacks import NUMBER_DIFFERS
from framelift.guards.quantity import Calculated, Quantity
from framelift.guards.source import Source
from framelift.interrupts import is_failure
from framelift.native import _core
from framelift.residual.emitter import Captured, ResidualEmitter, output_name
from framelift.residual.failures import GraphJudge, Presumption
from framelift.residual.resume import Argument, ResumeCode
from framelift.residual.rollback import Precautions
from framelift.residual.waiting_frames import INNER
from framelift.values.functions.functions import FunctionLike
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.values.functions.generators import GeneratorValue


_SAVED = ".saved"


@dataclass(frozen=True, slots=True)
class Return:
    """The frame returns a value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Activation:
    """A frame to enter: a function made of `resume` and of what `function` knows, its variables and stack items."""

    resume: ResumeCode
    slots: Mapping[int, Any] | Sequence[Any]
    stack: Sequence[Any]
    function: FunctionLike


@dataclass(frozen=True, slots=True)
class Rest:
    """The frame goes on in Python, with the frames it called: outermost first, each waiting for the next one.

    Residual code only says so (`_core.step`): whoever entered it calls the outermost function, with frames lifted by
    the context, or with None by nobody. So an exception leaves the frame once, through the handlers it is in now.
    """

    frames: Sequence[Activation]
    context: Any
    kept: tuple[Any, ...] = ()


Ending = Return | Rest


def whole_frame(code: CodeType) -> ResumeCode:
    """The function itself, as code that takes the argument slots one by one and has no entries of its own."""
    names = argument_names(code)
    flags = code.co_flags & ~(0x04 | 0x08)
    flat = code.replace(co_argcount=len(names), co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags)
    return ResumeCode(flat, tuple(Argument("slot", index) for index in range(len(names))), {})


@dataclass(frozen=True, slots=True)
class GraphCall:
    """The compiled graph, where its inputs are found, and which of them it writes to."""

    function: Callable[..., Any]
    inputs: Sequence[Quantity | Calculated]
    written: Sequence[Source]
    precautions: Precautions
    # Told what the graph has raised, if Python does not raise in its place.
    judge: GraphJudge


# (graph, indices of its inputs among slots and fetched objects, which of its outputs is returned, number of outputs,
# who judges what it raises)
Direct = tuple[Callable[..., Any], tuple[int, ...], int, int, GraphJudge]


class ResidualCode:
    """The residual code of one capture, begun with what follows the graph."""

    def __init__(self, lift: Captured, code: CodeType, ending: Ending) -> None:
        self.ending = ending
        self._lift = lift
        self._code = code
        self._emit = ResidualEmitter(lift, argument_names(code))
        self._emit.builder.line(code.co_firstlineno)
        _finish(self._emit, lift, ending)

    @property
    def outputs(self) -> list[TensorValue | SymbolicValue]:
        """The results of the graph that it needs."""
        return self._emit.outputs

    @property
    def fetched(self) -> list[Source]:
        """The inputs that guards fetch for it."""
        return self._emit.fetched

    @property
    def generators(self) -> list[GeneratorValue]:
        """Those it makes; others the program has let go."""
        return [made for made in self._lift.suspended if self._emit.is_remembered(made)]

    def finish(self, graph: GraphCall | None) -> CodeType:
        """The code with what comes before."""
        emit, code = self._emit, self._code
        builder = emit.builder
        failed, uncalculated = builder.label(), builder.label()
        if graph is not None:
            self._call_graph(graph, failed)
        if emit.calculated:
            with emit.in_front(), builder.protect(uncalculated):
                emit.calculate()
        if emit.new:
            with emit.in_front():
                emit.make_new()
        if emit.measured:
            with emit.in_front():
                emit.measure()
        if graph is not None:
            builder.begin_handler(failed)
            _run_again(emit, graph, graph.judge)
        if emit.calculated:
            builder.begin_handler(uncalculated)
            _run_again(emit, None, Presumption(code.co_qualname, NUMBER_DIFFERS))
        return builder.to_code(code.co_name, filename=code.co_filename, firstlineno=code.co_firstlineno)

    def _call_graph(self, graph: GraphCall, failed: Label) -> None:
        emit = self._emit
        builder = emit.builder
        with emit.in_front():
            with builder.protect(failed):
                builder.load_callable(graph.function)
                for quantity in graph.inputs:
                    emit.quantity(quantity)
                builder.call(len(graph.inputs))
                if isinstance(self.ending, Rest) or self._lift.modes.calls:
                    _let_interrupts_in(emit)
            builder.unpack_sequence(len(emit.outputs))
            for index in range(len(emit.outputs)):
                builder.store_fast(output_name(index))
        if graph.precautions:
            with emit.in_front():
                _take_precautions(emit, graph, "save")
                builder.store_fast(_SAVED)

    def direct_call(self, graph: GraphCall | None) -> Direct | None:
        """What the code does, if that is to return one result of the graph: then it need not even run."""
        if graph is None or graph.precautions or self._lift.journal.changed or self._lift.modes.calls:
            return None
        value = self.ending.value if isinstance(self.ending, Return) else None
        if not isinstance(value, TensorValue) or value.is_input or value.has_attributes:
            return None
        if self._emit.new or self._emit.calculated or any(quantity.kind != "VALUE" for quantity in graph.inputs):
            return None
        first = len(argument_names(self._code))
        where = {source: first + index for index, source in enumerate(self.fetched)}
        sources = [quantity.source for quantity in graph.inputs if isinstance(quantity, Quantity)]
        inputs = tuple(source.argument if source.access == "ARG" else where[source] for source in sources)
        output = next(index for index, output in enumerate(self.outputs) if output is value)
        return graph.function, inputs, output, len(self.outputs), graph.judge


def _take_precautions(emit: ResidualEmitter, graph: GraphCall, method: str) -> None:
    builder = emit.builder
    builder.load_callable(getattr(graph.precautions, method))
    if method == "undo":
        builder.load_fast(_SAVED)
    for source in graph.written:
        emit.source(source)
    builder.call(len(graph.written) + (method == "undo"))


def _let_interrupts_in(emit: ResidualEmitter) -> None:
    """Call something: what interrupted the graph is raised behind the next call of a C function.

    Better here than behind the first of those that switch modes or enter blocks, which nobody would leave then.
    """
    emit.builder.load_callable(_core.is_suspended)
    emit.builder.call(0)
    emit.builder.pop_top()


def _finish(emit: ResidualEmitter, lift: Captured, ending: Ending) -> None:
    """Everything after the graph."""
    builder = emit.builder
    for value in lift.journal.changed:
        value.replay(emit)
    for function, args in lift.modes.calls:
        builder.load_callable(function)
        for arg in args:
            builder.load_const(arg)
        builder.call(len(args))
        builder.pop_top()
    if isinstance(ending, Return):
        emit.value(ending.value)
    else:
        _call_rest(emit, ending)
    builder.return_value()


def _call_rest(emit: ResidualEmitter, rest: Rest) -> None:
    emit.builder.load_callable(_core.step)
    emit.builder.load_const(rest.context)
    emit.builder.load_const(rest.kept)
    emit.builder.call(2 + _function_and_arguments(emit, rest.frames))


def _function_and_arguments(emit: ResidualEmitter, frames: Sequence[Activation]) -> int:
    """Push the function of the first frame and its arguments; how many items that makes."""
    frame, *inner = frames
    _make_function(emit, frame)
    for kind, number in frame.resume.argument_order:
        value = (frame.slots if kind == "slot" else frame.stack)[number]
        if value is INNER:
            emit.builder.load_callable(_core.given)
            emit.builder.call(_function_and_arguments(emit, inner))
        else:
            emit.value(value)
    return 1 + len(frame.resume.argument_order)


def _make_function(emit: ResidualEmitter, frame: Activation) -> None:
    """A function of the frame's code with the globals and the closure of the function that was called."""
    code, function = frame.resume.code, frame.function
    emit.builder.load_callable(FunctionType)
    emit.builder.load_const(code)
    if function.source is not None:
        emit.source(function.source.child("FUNC_GLOBALS"))
    else:
        emit.value(function.globals(emit.tracer))
    emit.builder.load_const(code.co_name)
    emit.builder.load_const(None)
    if not code.co_freevars:
        emit.builder.load_const(None)
    elif function.source is not None:
        emit.source(function.source.child("FUNC_CLOSURE"))
    else:
        cells = function.cells(emit.tracer)
        for cell in cells:
            emit.value(cell)
        emit.build_tuple(len(cells))
    emit.builder.call(5)


def _run_again(emit: ResidualEmitter, graph: GraphCall | None, judge: GraphJudge | Presumption) -> None:
    """In the handler of a graph that raised, or of what comes before it: the function itself is to run instead.

    Whoever entered this code runs it. It raises, or handles, what it really raises, and no frame of ours shows in the
    traceback. What interrupted it goes on at once, but in the modes in which the graph began.
    """
    builder = emit.builder
    run = builder.label()
    builder.load_callable(is_failure)
    builder.copy(3)  # the exception, from below the callable
    builder.call(1)
    builder.jump_if_true(run)
    if graph is not None and graph.precautions.modes is not None:
        builder.load_callable(graph.precautions.restore_modes)
        builder.load_fast(_SAVED)
        builder.call(1)
        builder.pop_top()
    builder.reraise()
    builder.place(run)
    if graph is not None and graph.precautions:
        undone = builder.label()
        _take_precautions(emit, graph, "undo")
        builder.jump_if_true(undone)
        builder.reraise()
        builder.place(undone)
    for value in emit.tracer.journal.changed:
        value.put_back(emit)
    builder.load_callable(_core.give_up)
    builder.load_const(judge)
    builder.copy(4)  # the exception, from below the callable and the judge
    builder.call(2)
    builder.pop_top()
    builder.pop_top()
    builder.end_handler()
    builder.load_const(_core.RERUN)
    builder.return_value()
