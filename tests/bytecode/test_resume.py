"""Resume functions give what the plain function gives, from every instruction of every case.

Here and not beside the module's other tests because this is a matter of interpreter versions, not of torch.
"""

from __future__ import annotations

import functools
import types

import pytest

from framelift.bytecode.decode import decode
from framelift.bytecode.liveness import Liveness
from framelift.residual.resume import make_resume
from tests.bytecode.cases import CASES, Case
from tests.bytecode.frozen import Frozen, Null, call, outcome

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
