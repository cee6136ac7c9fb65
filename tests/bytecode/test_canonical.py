"""The canonical view: total over every version's opcodes, one meaning, and the real stack item by item."""

from __future__ import annotations

import dis
import types

import pytest

from framelift.bytecode import canonical
from framelift.bytecode.canonical import NotLowered, lower, treatment
from framelift.bytecode.canonical_ops import JUMP_OPS, NEVER_GO_ON, OPS, Call, effect
from framelift.bytecode.decode import decode
from framelift.bytecode.opcodes import NULL_POSITION
from framelift.bytecode.stack_depth import stack_depths
from tests.bytecode.cases import CASES, Case
from tests.bytecode.frozen import outcome
from tests.bytecode.machine import Machine
from tests.bytecode.stdlib import sampled_codes

#: The frame of the machine is not the frame of the function.
LOOKS_AT_LOCALS = {"cells", "unbound"}


@pytest.mark.parametrize("case", [c for c in CASES if c.name not in LOOKS_AT_LOCALS], ids=lambda case: case.name)
def test_runs_equally_on_the_machine(case: Case) -> None:
    def run(machine: bool) -> object:
        function, log = case.make(), []
        plain, before = getattr(function, "__func__", function), ()
        if plain is not function:
            before = (function.__self__,)
        if plain.__code__.co_kwonlyargcount and not before:
            args, kwargs = (), {"log": log}
        else:
            args, kwargs = (*before, log), {}
        thunk = (lambda: Machine(plain, *args, **kwargs).run()) if machine else (lambda: plain(*args, **kwargs))
        result, written, handled = outcome(thunk, log, frozenset())
        return result[:4], written, handled

    assert run(machine=True) == run(machine=False), lower(getattr(case.make(), "__code__")).dump()


#: Not in a plain function, or not on the machine.
OUTSIDE = """
    NOP LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_NAME STORE_NAME DELETE_NAME LOAD_LOCALS
    SETUP_ANNOTATIONS RETURN_GENERATOR YIELD_VALUE SEND END_SEND CLEANUP_THROW GET_YIELD_FROM_ITER GET_AWAITABLE
    GET_AITER GET_ANEXT END_ASYNC_FOR BEFORE_ASYNC_WITH
""".split()
#: Only some versions write these.
VERSIONED = """
    TO_BOOL CONVERT_VALUE BINARY_SLICE STORE_SLICE LOAD_SUPER_ATTR LOAD_SUPER_METHOD SET_FUNCTION_ATTRIBUTE
    JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP LOAD_FAST_AND_CLEAR DELETE_DEREF
    LIST_APPEND SET_ADD MAP_ADD
""".split()


def test_the_cases_reach_every_operation() -> None:
    """So that running equally on the machine says something about each of them."""
    used = {step.op for case in CASES for step in lower(case.make().__code__).steps}
    assert set(OPS) - used - set(OUTSIDE) - set(VERSIONED) == set()


def test_every_opcode_has_a_treatment() -> None:
    treatments = {name: treatment(name) for name in dis.opmap}
    assert not [name for name, what in treatments.items() if what == "unknown"]
    for name, what in treatments.items():
        if what == "kept":
            plain = name.removeprefix("INSTRUMENTED_")
            assert plain in OPS, name


def _code_of(*opnames: str) -> types.CodeType:
    """Looks like a code object; a real one with instrumented opcodes crashes the interpreter."""
    raw = bytes(byte for name in opnames for byte in (dis.opmap[name], 0))
    fields = {name: () for name in ("co_consts", "co_names", "co_varnames", "co_cellvars", "co_freevars")}
    counts = {"co_argcount": 0, "co_kwonlyargcount": 0, "co_flags": 3, "co_firstlineno": 1}
    tables = {"co_code": raw, "co_linetable": b"", "co_exceptiontable": b""}
    return types.SimpleNamespace(**fields, **counts, **tables)  # type: ignore[return-value]


REJECTED = [name for name, n in dis.opmap.items() if n < 256 and treatment(name).startswith("rejected")]


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_opcodes_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        lower(_code_of("RESUME", name))


@pytest.mark.skipif("INSTRUMENTED_RESUME" not in dis.opmap, reason="this version has no instrumented opcodes")
def test_instrumented_opcodes_mean_the_plain_ones() -> None:
    plain = decode(_code_of("RESUME", "POP_TOP", "RETURN_VALUE"))
    instrumented = decode(_code_of("INSTRUMENTED_RESUME", "POP_TOP", "INSTRUMENTED_RETURN_VALUE"))
    assert [i.opname for i in plain] == [i.opname for i in instrumented]


def test_ops_are_only_those_documented() -> None:
    for code in sampled_codes(3000):
        for step in lower(code).steps:
            assert step.op in OPS


def _depths(code: canonical.CanonicalCode) -> list[int | None]:
    depths: list[int | None] = [None] * len(code.steps)
    work = [(0, 0)]
    while work:
        index, depth = work.pop()
        while depths[index] is None:
            depths[index] = depth
            step = code.steps[index]
            if step.handler is not None and step.op != "PUSH_EXC_INFO":
                work.append((step.handler.target, step.handler.depth + step.handler.lasti + 1))
            if step.op in JUMP_OPS:
                taken, given = effect(step.op, step.arg, jumping=True)
                work.append((step.arg, depth - taken + given))
            if step.op in NEVER_GO_ON:
                break
            taken, given = effect(step.op, step.arg)
            assert depth >= taken, step
            depth += given - taken
            index += 1
        else:
            assert depths[index] == depth, (code.code.co_qualname, index, depths[index], depth)
    return depths


def test_stack_effects_give_the_depth_of_the_real_stack() -> None:
    """At every real instruction the canonical program has as many items on the stack as the real one."""
    for code in sampled_codes(3000):
        lowered = lower(code)
        instructions = decode(code)
        real = {i.offset: depth for i, depth in zip(instructions, stack_depths(instructions), strict=True)}
        for index, (step, depth) in enumerate(zip(lowered.steps, _depths(lowered), strict=True)):
            if step.first == index:
                assert depth == real[step.offset], (code.co_qualname, step)


def test_positions_and_slots() -> None:
    for code in sampled_codes(1500):
        lowered = lower(code)
        assert [code._varname_from_oparg(n) for n in range(len(lowered.slot_names))] == list(lowered.slot_names)
        assert len(lowered.slot_kinds) == len(lowered.slot_names)
        real = {i.offset: i for i in decode(code)}
        for step in lowered.steps:
            assert step.offset in real
            if step.op != "CALL":
                assert step.positions == real[step.offset].positions


def _steps(function: types.FunctionType) -> list[tuple[str, object]]:
    return [(step.op, step.arg) for step in lower(function.__code__).steps]


def test_a_keyword_call_is_one_step() -> None:
    def f(g, a):
        return g(a, k=a)

    steps = [step for step in lower(f.__code__).steps if step.op == "CALL"]
    (step,) = steps
    assert step.arg == Call(2, ("k",), NULL_POSITION)
    names = [i for i in decode(f.__code__) if i.opname == "KW_NAMES" or i.argval == ("k",)]
    assert step.offset == names[0].offset


def test_for_iter_leaves_the_loop_behind_its_end() -> None:
    def f(xs):
        for x in xs:
            pass
        return 1

    lowered = lower(f.__code__)
    step = next(step for step in lowered.steps if step.op == "FOR_ITER")
    assert [s.op for s in lowered.steps[step.arg :]] == ["LOAD_CONST", "RETURN_VALUE"]
    assert "END_FOR" not in [s.op for s in lowered.steps]


def test_step_at() -> None:
    def f(a, b):
        return a < b

    lowered = lower(f.__code__)
    compare = next(n for n, step in enumerate(lowered.steps) if step.op == "COMPARE_OP")
    offset = lowered.steps[compare].offset
    assert lowered.steps[lowered.step_at(offset)].op == "COMPARE_OP"
    assert lowered.steps[lowered.step_at(offset + 2)].op == "RETURN_VALUE"


def test_body_starts_behind_the_frame_set_up() -> None:
    def f(a):
        return lambda: a

    lowered = lower(f.__code__)
    assert [step.op for step in lowered.steps[: lowered.body]] == ["MAKE_CELL"]
    assert lowered.slot_kinds == ("cell",)
    assert lowered.argument_slots == 1


def test_argument_slots_count_starred_ones() -> None:
    def f(a, /, b, *args, c, **kwargs):
        d = a
        return d

    assert lower(f.__code__).argument_slots == 5


def test_closures_are_loaded_as_closures() -> None:
    def f(a):
        return lambda: a

    assert ("LOAD_CLOSURE", 0) in _steps(f)


def test_dump_shows_every_step() -> None:
    lowered = lower(_steps.__code__)
    assert len(lowered.dump().splitlines()) == len(lowered.steps)


def test_not_lowered_says_why() -> None:
    assert issubclass(NotLowered, ValueError)
