"""The whole residual function of one capture: graph call, replay, result or the rest of the frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from framelift.guards.source import Source
from framelift.residual.generator import Generator, output_name
from framelift.residual.resume import Argument, ResumeCode

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.values.tensors import TensorValue


@dataclass(frozen=True, slots=True)
class Return:
    """The frame returns a value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Rest:
    """The frame goes on in Python: `resume` with these variables and stack items, run by `runner`."""

    resume: ResumeCode
    slots: Sequence[Any]
    stack: Sequence[Any]
    runner: Callable[..., Any]


Ending = Return | Rest


def whole_frame(code: CodeType) -> ResumeCode:
    """The function itself, as code that takes the argument slots one by one and has no entries of its own."""
    names = argument_names(code)
    flags = code.co_flags & ~(0x04 | 0x08)
    flat = code.replace(co_argcount=len(names), co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags)
    return ResumeCode(flat, tuple(Argument("slot", index) for index in range(len(names))), {})


@dataclass(slots=True)
class Needs:
    """What residual code needs from outside: inputs to fetch, and results of the graph."""

    fetched: list[Source] = field(default_factory=list)
    outputs: list[TensorValue] = field(default_factory=list)


def collect_needs(
    lift: Lift, code: CodeType, inputs: Sequence[Source], ending: Ending, rerun: ResumeCode | None
) -> Needs:
    """Generate once for what it asks for: arguments come first in a code object, so they must be known."""
    needs = Needs()
    generator = Generator(lift, argument_names(code), needs.fetched, needs.outputs)
    _finish(generator, lift, ending)
    for source in inputs:
        generator.source(source)
    if rerun is not None:
        _make_function(generator, lift, rerun.code)
    return needs


def generate(
    lift: Lift,
    code: CodeType,
    needs: Needs,
    graph: Callable[..., Any] | None,
    inputs: Sequence[Source],
    ending: Ending,
    rerun: ResumeCode | None,
    restores_rng: bool,
) -> CodeType:
    """The residual code. `rerun`: where the graph raises, the original function runs and says what happened."""
    generator = Generator(lift, argument_names(code), list(needs.fetched), list(needs.outputs))
    builder = generator.builder
    builder.line(code.co_firstlineno)
    failed = builder.label()
    if graph is not None:
        if restores_rng:
            builder.load_callable(torch.get_rng_state)
            builder.call(0)
            builder.store_fast(".rng")
        if rerun is not None:
            with builder.protect(failed):
                _call_graph(generator, graph, inputs)
        else:
            _call_graph(generator, graph, inputs)
        builder.unpack_sequence(len(needs.outputs))
        for index in range(len(needs.outputs)):
            builder.store_fast(output_name(index))
    _finish(generator, lift, ending)
    if graph is not None and rerun is not None:
        builder.begin_handler(failed)
        _run_again(generator, lift, rerun, restores_rng)
    assert generator.fetched == needs.fetched, "the two passes of code generation disagree"
    return builder.to_code(code.co_name, filename=code.co_filename, firstlineno=code.co_firstlineno)


def _call_graph(generator: Generator, graph: Callable[..., Any], inputs: Sequence[Source]) -> None:
    generator.builder.load_callable(graph)
    for source in inputs:
        generator.source(source)
    generator.builder.call(len(inputs))


def _finish(generator: Generator, lift: Lift, ending: Ending) -> None:
    """Everything after the graph."""
    builder = generator.builder
    for value in lift.journal.changed:
        value.replay(generator)
    mode = lift.grad_mode.changed_to
    if mode is not None:
        builder.load_callable(torch._C._set_grad_enabled)
        builder.load_const(mode)
        builder.call(1)
        builder.pop_top()
    if isinstance(ending, Return):
        generator.value(ending.value)
    else:
        _call_rest(generator, lift, ending)
    builder.return_value()


def _call_rest(generator: Generator, lift: Lift, rest: Rest) -> None:
    builder = generator.builder
    builder.load_callable(rest.runner)
    _make_function(generator, lift, rest.resume.code)
    for argument in rest.resume.argument_order:
        _push(generator, rest, argument)
    builder.call(1 + len(rest.resume.argument_order))


def _push(generator: Generator, rest: Rest, argument: Argument) -> None:
    values = rest.slots if argument.kind == "slot" else rest.stack
    generator.value(values[argument.number])


def _make_function(generator: Generator, lift: Lift, code: CodeType) -> None:
    """A function of `code` with the globals and the closure of the function that was called."""
    function = lift.sources.function
    generator.builder.load_callable(FunctionType)
    generator.builder.load_const(code)
    generator.source(function.child("FUNC_GLOBALS"))
    generator.builder.load_const(code.co_name)
    generator.builder.load_const(None)
    if code.co_freevars:
        generator.source(function.child("FUNC_CLOSURE"))
    else:
        generator.builder.load_const(None)
    generator.builder.call(5)


def _run_again(generator: Generator, lift: Lift, rerun: ResumeCode, restores_rng: bool) -> None:
    """In the handler of a graph that raised: leave the handler, then call the function itself."""
    builder = generator.builder
    run = builder.label()
    builder.load_const(Exception)
    builder.check_exc_match()
    builder.jump_if_true(run)
    builder.reraise()
    builder.place(run)
    builder.pop_top()
    builder.end_handler()
    if restores_rng:
        builder.load_callable(torch.set_rng_state)
        builder.load_fast(".rng")
        builder.call(1)
        builder.pop_top()
    _make_function(generator, lift, rerun.code)
    builder.begin_call()
    for argument in rerun.argument_order:
        builder.load_fast(generator.arguments[argument.number])
    builder.call(len(rerun.argument_order))
    builder.return_value()


def argument_names(code: CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return code.co_varnames[:count]
