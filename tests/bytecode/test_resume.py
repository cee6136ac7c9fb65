"""Resume functions give what the plain function gives, from every instruction of every case.

Here and not beside the module's other tests because this is a matter of interpreter versions, not of torch.
"""

from __future__ import annotations

import functools
import random
import types
from typing import Any

import pytest

from framelift.bytecode.decode import decode, slot_names
from framelift.bytecode.liveness import Liveness
from framelift.bytecode.stack_shapes import stack_shapes
from framelift.bytecode.verify import verify_bytecode
from framelift.residual.resume import make_resume
from tests.bytecode.cases import CASES, Case
from tests.bytecode.frozen import Frozen, Null, State, call, outcome
from tests.bytecode.stdlib import sampled_codes

HIDDEN = frozenset({"call", "<lambda>"})
#: Events left out between two that are tried, for cases where all would take long.
STRIDE = {"big": 91}
#: Cases that look at their own variables by name: there every bound slot must be kept.
LOOKS_AT_LOCALS = {"cells", "unbound"}


@pytest.mark.parametrize("variant", ["all slots", "live slots", "boxed"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_equal_from_every_instruction(case: Case, variant: str) -> None:
    want = plain_outcome(case)
    number = tried = 0
    while True:
        function, log = case.make(), []
        with Frozen(function, lambda: call(function, log), number) as frozen:
            if frozen.state is None:
                break
            number += STRIDE.get(case.name, 1)
            if not _set_up(frozen.code, frozen.state.offset):
                continue
            prune = variant == "live slots" and case.name not in LOOKS_AT_LOCALS
            resumed, arguments = resumed_function(function, frozen.state, prune, variant == "boxed")
            got = outcome(lambda: resumed(*arguments), log, HIDDEN)
            assert got == want, f"{case.name} from offset {frozen.state.offset}, stack {frozen.state.tags}"
            tried += 1
            del arguments
    assert tried


TWICE = ["nested_handlers", "with_raising", "free_variables", "comprehensions", "calls", "raise_in_handler"]


@pytest.mark.parametrize("case", [c for c in CASES if c.name in TWICE], ids=lambda case: case.name)
def test_resume_functions_can_be_resumed(case: Case) -> None:
    """A break in a resume function: its frame is stopped in turn, from a third and two thirds of the first."""
    want = plain_outcome(case)
    for first in (_events(case) // 3, 2 * _events(case) // 3):
        second = tried = 0
        while True:
            function, log = case.make(), []
            with Frozen(function, lambda: call(function, log), first) as outer:
                assert outer.state is not None
                resumed, arguments = resumed_function(function, outer.state)
                with Frozen(resumed, lambda: resumed(*arguments), second, tool=3) as inner:
                    if inner.state is None:
                        break
                    second += 3
                    if not _set_up(inner.code, inner.state.offset):
                        continue
                    again, rest = resumed_function(resumed, inner.state)
                    got = outcome(lambda: again(*rest), log, HIDDEN)
                    assert got == want, f"{case.name} from {outer.state.offset}, then from {inner.state.offset}"
                    tried += 1
        assert tried


def plain_outcome(case: Case) -> object:
    function, log = case.make(), []
    return outcome(lambda: call(function, log), log, HIDDEN)


def _events(case: Case) -> int:
    function, log = case.make(), []
    with Frozen(function, lambda: call(function, log), 1 << 30) as frozen:
        return (1 << 30) - frozen.left


def resumed_function(
    function: Any, state: State, prune: bool = False, boxed: bool = False
) -> tuple[types.FunctionType, list[Any]]:
    """A function that goes on where the frame stands, and its arguments."""
    plain = getattr(function, "__func__", function)
    code = plain.__code__
    slots = {slot for slot, value in enumerate(state.slots) if value is not Null}
    if prune:
        slots &= _liveness(code).at(state.offset)
    resume = make_resume(code, state.offset, slots, state.tags, boxed=boxed)
    arguments = [
        state.slots[argument.number] if argument.kind == "slot" else state.stack[argument.number]
        for argument in resume.argument_order
    ]
    made = types.FunctionType(resume.code, plain.__globals__, code.co_name, None, tuple(state.free) or None)
    return made, [iter(arguments)] if boxed else arguments


@functools.cache
def _liveness(code: types.CodeType) -> Liveness:
    return Liveness(code)


@functools.cache
def _set_up(code: types.CodeType, offset: int) -> bool:
    resume = next(i.offset for i in decode(code) if i.opname == "RESUME")
    return offset > resume


def test_resume_codes_of_the_standard_library_are_valid() -> None:
    """Built at random places of many functions, with every slot bound: consistent, and at the right lines."""
    chance = random.Random(5)
    built = 0
    for code in sampled_codes(2500):
        if code.co_flags & 3 != 3 or code.co_flags & 0x2A0:
            continue
        shapes = stack_shapes(code)
        resume = next(i.offset for i in decode(code) if i.opname == "RESUME")
        for offset in chance.sample(sorted(shapes), min(2, len(shapes))):
            if offset <= resume:
                continue
            slots = range(len(slot_names(code)) - len(code.co_freevars))
            made = make_resume(code, offset, slots, shapes[offset], boxed=chance.random() < 0.3)
            verify_bytecode(decode(made.code))
            was = {i.offset: i for i in decode(code)}
            for instruction in decode(made.code):
                original = made.original_offsets.get(instruction.offset)
                if original is not None:
                    assert instruction.positions == was[original].positions
                    assert (instruction.handler is None) == (was[original].handler is None)
            built += 1
    assert built > 1000


def test_an_interrupt_on_entry_reaches_the_handler() -> None:
    """RESUME is where signals are seen: it must lie inside the handler of the instruction to go on at."""

    def f(log):
        try:
            log.append(1)
        finally:
            log.append(2)

    code = f.__code__
    offset = next(i.offset for i in decode(code) if i.opname == "LOAD_CONST" and i.argval == 1)
    made = make_resume(code, offset, [0], ["value", "value"])
    entry = next(i for i in decode(made.code) if i.opname == "RESUME")
    assert entry.handler is not None
    assert entry.line == next(i.line for i in decode(code) if i.offset == offset)
