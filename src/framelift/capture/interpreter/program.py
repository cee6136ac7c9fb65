"""Programs: a code object lowered once and bound to the handlers that run its steps.

A handler is a small function over the operands of one operation. How many operands it takes and how many results it
gives stand in the table of canonical operations, `bytecode.canonical_ops.OPS`, and nowhere else; from that line this
module makes the code that moves the stack. Operands leave the stack only when the handler has succeeded, so an
operation that cannot be traced leaves the frame as it was.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Protocol

from framelift.breaks import FL0101, GraphBreak
from framelift.bytecode.by_code import ByCode
from framelift.bytecode.canonical import CanonicalCode, Step, lower
from framelift.bytecode.canonical_ops import OPS, effect
from framelift.bytecode.handlers import Way, returns_nothing_true, way_from
from framelift.values.core.tracer import Tracer


class Activation(Protocol):
    """The frame that a step runs in."""

    @property
    def lift(self) -> Tracer: ...

    @property
    def stack(self) -> list[Any]: ...


# A bound step: runs one operation in a frame; gives the index of the next step where it jumps.
Run = Callable[[Activation], "int | None"]
Handler = Callable[..., Any]

HANDLERS: dict[str, Handler] = {}
RAW: dict[str, Callable[..., int | None]] = {}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Register the handler of canonical operations: `handler(frame, arg, *operands) -> result(s)`."""

    def register(handler: Handler) -> Handler:
        for name in names:
            assert name in OPS, name
            HANDLERS[name] = handler
        return handler

    return register


def control(*names: str) -> Callable[[Handler], Handler]:
    """Register an operation that jumps or moves the stack itself: `handler(frame, arg) -> next step or None`."""

    def register(handler: Handler) -> Handler:
        for name in names:
            assert name in OPS, name
            RAW[name] = handler
        return handler

    return register


class Program:
    """The bound steps of one code object."""

    __slots__ = (
        "canonical",
        "runs",
        "_stepping_runs",
        "steps",
        "is_generator",
        "filename",
        "first_line",
        "_ways",
        "_returns_nothing_true",
        "__weakref__",
    )

    def __init__(self, canonical: CanonicalCode) -> None:
        self.canonical = canonical
        self.steps = canonical.steps
        self.runs: list[Run] = [
            _counted(_bind(step.op, step.arg)) if _goes_back(step, index) else _bind(step.op, step.arg)
            for index, step in enumerate(canonical.steps)
        ]
        self._stepping_runs: list[Run] = []
        code = canonical.code
        self.is_generator = bool(code.co_flags & _GENERATORS)
        self.filename = code.co_filename
        self.first_line = code.co_firstlineno
        self._ways: dict[int, Way] = {}
        self._returns_nothing_true: bool | None = None

    @property
    def assigns_names(self) -> bool:
        """Whether the code assigns variables that are items of a namespace."""
        return any(step.op in ("STORE_NAME", "DELETE_NAME") for step in self.steps)

    def is_in_open_loop(self, pc: int) -> bool:
        """Whether the innermost loop around a step is a `while`: only its own conditions end it."""
        loops = [(index - step.arg, step.arg) for index, step in enumerate(self.steps) if _goes_back(step, index)]
        around = [(length, start) for length, start in loops if start <= pc <= start + length]
        return bool(around) and self.steps[min(around)[1]].op != "FOR_ITER"

    def way_from(self, target: int) -> Way:
        """What the handler at a step may do with an exception."""
        way = self._ways.get(target)
        if way is None:
            way = self._ways[target] = way_from(self.steps, target)
        return way

    @property
    def returns_nothing_true(self) -> bool:
        """Whether all that the code returns are constants that are false."""
        if self._returns_nothing_true is None:
            self._returns_nothing_true = returns_nothing_true(self.steps)
        return self._returns_nothing_true

    @property
    def stepping_runs(self) -> list[Run]:
        """The same for a frame that can be left before every instruction: it hears when one begins."""
        if not self._stepping_runs:
            pairs = zip(self.steps, self.runs, strict=True)
            self._stepping_runs = [
                _announced(run) if step.first == index else run for index, (step, run) in enumerate(pairs)
            ]
        return self._stepping_runs

    def line(self, pc: int) -> int:
        """The user's line of a step."""
        return self.steps[pc].positions[0] or self.first_line


# Generators, coroutines, and asynchronous generators.
_GENERATORS = 0x20 | 0x80 | 0x200


class Programs:
    """Programs by code object, kept as long as the code object lives."""

    def __init__(self) -> None:
        self._programs: ByCode[Program] = ByCode()

    def of(self, code: types.CodeType) -> Program:
        program = self._programs.get(code)
        if program is None:
            program = self._programs[code] = Program(lower(code))
        return program


def _bind(op: str, arg: Any) -> Run:
    raw = RAW.get(op)
    if raw is not None:
        return lambda frame: raw(frame, arg)
    handler = HANDLERS.get(op)
    if handler is None:

        def unsupported(frame: Activation) -> int | None:
            raise GraphBreak(FL0101, opcode=op)

        return unsupported
    taken, given = effect(op, arg)
    return _SHAPES.get((taken, given), _any_shape)(handler, arg, taken, given)


def _goes_back(step: Step, index: int) -> bool:
    """Whether a step is the jump at the end of a loop."""
    return "JUMP" in step.op and step.arg <= index


def _counted(run: Run) -> Run:
    def round_of_a_loop(frame: Activation) -> int | None:
        frame.lift.spend(1, "too many rounds of loops")
        return run(frame)

    return round_of_a_loop


def _announced(run: Run) -> Run:
    def instruction(frame: Any) -> int | None:
        frame.begin_step()
        return run(frame)

    return instruction


# -- moving the stack: the common shapes, then the general one -------------------------------------------------------


def _push(handler: Handler, arg: Any, taken: int, given: int) -> Run:
    def run(frame: Activation) -> int | None:
        frame.stack.append(handler(frame, arg))
        return None

    return run


def _replace(handler: Handler, arg: Any, taken: int, given: int) -> Run:
    def run(frame: Activation) -> int | None:
        stack = frame.stack
        stack[-1] = handler(frame, arg, stack[-1])
        return None

    return run


def _combine(handler: Handler, arg: Any, taken: int, given: int) -> Run:
    def run(frame: Activation) -> int | None:
        stack = frame.stack
        result = handler(frame, arg, stack[-2], stack[-1])
        stack.pop()
        stack[-1] = result
        return None

    return run


def _any_shape(handler: Handler, arg: Any, taken: int, given: int) -> Run:
    def run(frame: Activation) -> int | None:
        stack = frame.stack
        bottom = len(stack) - taken
        result = handler(frame, arg, *stack[bottom:])
        del stack[bottom:]
        if given == 1:
            stack.append(result)
        elif given:
            assert len(result) == given, f"{handler.__name__} gave {len(result)} results instead of {given}"
            stack.extend(result)
        return None

    return run


_SHAPES = {(0, 1): _push, (1, 1): _replace, (2, 1): _combine}
