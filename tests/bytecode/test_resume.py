"""Resume functions give what the plain function gives, from every instruction of every case.

Here and not beside the module's other tests because this is a matter of interpreter versions, not of torch.
"""

from __future__ import annotations

import functools
import random
import types

import pytest

from framelift.bytecode.decode import decode, slot_names
from framelift.bytecode.liveness import Liveness
from framelift.bytecode.stack_shapes import stack_shapes
from framelift.bytecode.verify import verify_bytecode
from framelift.residual.resume import make_resume
from tests.bytecode.cases import CASES, Case
from tests.bytecode.frozen import Frozen, Null, call, outcome
from tests.bytecode.stdlib import sampled_codes

HIDDEN = frozenset({"call", "thunk"})
#: Events left out between two that are tried, for cases where all would take long.
STRIDE = {"big": 91}
#: Cases that look at their own variables by name: there every bound slot must be kept.
LOOKS_AT_LOCALS = {"cells", "unbound"}


@pytest.mark.parametrize("variant", ["all slots", "live slots", "boxed"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_equal_from_every_instruction(case: Case, variant: str) -> None:
    function, log = case.make(), []
    want = outcome(lambda: call(function, log), log, HIDDEN | {"<lambda>"})
    number = tried = 0
    while True:
        function, log = case.make(), []
        with Frozen(function, log, number) as frozen:
            if frozen.state is None:
                break
            number += STRIDE.get(case.name, 1)
            if not _set_up(frozen.code, frozen.state.offset):
                continue
            state, code = frozen.state, frozen.code
            slots = [slot for slot, value in enumerate(state.slots) if value is not Null]
            if variant == "live slots" and case.name not in LOOKS_AT_LOCALS:
                live = _liveness(code).at(state.offset)
                slots = [slot for slot in slots if slot in live]
            resume = make_resume(code, state.offset, slots, state.tags, boxed=variant == "boxed")
            arguments = [
                state.slots[argument.number] if argument.kind == "slot" else state.stack[argument.number]
                for argument in resume.argument_order
            ]
            plain = getattr(function, "__func__", function)
            resumed = types.FunctionType(resume.code, plain.__globals__, code.co_name, None, tuple(state.free) or None)
            if variant == "boxed":
                arguments = [iter(arguments)]
            got = outcome(lambda: resumed(*arguments), log, HIDDEN | {"<lambda>"})
            assert got == want, f"{case.name} from offset {state.offset}, stack {state.tags}"
            tried += 1
            del state, arguments
    assert tried


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
