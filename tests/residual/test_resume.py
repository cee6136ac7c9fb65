"""What make_resume promises beyond running equally (tests/bytecode/test_resume.py does that from every instruction)."""

from __future__ import annotations

import gc
import types
import weakref

import pytest

from framelift.bytecode.decode import decode
from framelift.bytecode.stack_shapes import HANDLED, LASTI, NULL, VALUE, stack_shapes
from framelift.bytecode.verify import verify_bytecode
from framelift.residual.resume import Argument, CannotResume, make_resume


def offset_of(function: types.FunctionType, opname: str, nth: int = 0) -> int:
    return [i.offset for i in decode(function.__code__) if i.opname == opname][nth]


def straight(a, b, c):
    d = a + b
    return d * c


def test_variables_arrive_in_their_own_slots_where_they_can() -> None:
    resume = make_resume(straight.__code__, offset_of(straight, "BINARY_OP", 1), [2], [VALUE, VALUE])
    assert resume.argument_order == (Argument("stack", 0), Argument("stack", 1), Argument("slot", 2))
    assert resume.code.co_varnames == straight.__code__.co_varnames
    assert types.FunctionType(resume.code, {})(6, 7, None) == 42


def test_more_stack_items_than_slots() -> None:
    def f():
        return [1, 2, 3, 4][0]

    code = f.__code__
    resume = make_resume(code, offset_of(f, "BINARY_SUBSCR"), [], [VALUE, VALUE])
    assert resume.code.co_argcount == 2
    assert types.FunctionType(resume.code, {})("xyz", 1) == "y"


def test_what_is_behind_is_not_copied() -> None:
    resume = make_resume(straight.__code__, offset_of(straight, "BINARY_OP", 1), [], [VALUE, VALUE])
    names = [i.opname for i in decode(resume.code)]
    assert names.count("BINARY_OP") == 1
    verify_bytecode(decode(resume.code))


def test_offsets_lead_back_to_the_original() -> None:
    resume = make_resume(straight.__code__, offset_of(straight, "BINARY_OP", 1), [], [VALUE, VALUE])
    at = next(i.offset for i in decode(resume.code) if i.opname == "BINARY_OP")
    assert resume.original_offsets[at] == offset_of(straight, "BINARY_OP", 1)


def test_where_an_exception_was_raised_is_said_to_be_the_entry() -> None:
    def f(g):
        try:
            g()
        finally:
            g = 0

    code = f.__code__
    shapes = stack_shapes(code)
    at = next(offset for offset, tags in shapes.items() if LASTI in tags and HANDLED in tags)
    resume = make_resume(code, at, [0], shapes[at])
    entry = next(instruction.offset for instruction in decode(resume.code) if instruction.opname == "RESUME")
    assert entry is not None
    assert resume.code.co_consts[-1] == entry // 2


def test_unnamed_slots_are_unbound() -> None:
    def f(a, b):
        a.x
        return sorted(locals())

    resume = make_resume(f.__code__, offset_of(f, "LOAD_ATTR"), [1], [VALUE])
    assert resume.argument_order == (Argument("stack", 0), Argument("slot", 1))
    assert types.FunctionType(resume.code, globals())(types.SimpleNamespace(x=0), 2) == ["b"]


def test_boxed_arguments_are_given_away() -> None:
    class Thing:
        pass

    def f(x, probe):
        probe.start
        del x
        return probe()

    resume = make_resume(f.__code__, offset_of(f, "LOAD_ATTR"), [0, 1], [VALUE], boxed=True)
    assert resume.code.co_argcount == 1
    thing = Thing()
    alive = weakref.ref(thing)

    class Probe:
        start = 0

        def __call__(self):
            gc.collect()
            return alive()

    probe = Probe()
    values = {("slot", 0): thing, ("slot", 1): probe, ("stack", 0): probe}
    given = [values[tuple(argument)] for argument in resume.argument_order]
    del values, thing

    class Box:
        def __iter__(self):
            return self

        def __next__(self):
            if not given:
                raise StopIteration
            return given.pop(0)

    assert types.FunctionType(resume.code, {})(Box()) is None


@pytest.mark.parametrize("kind", ["generator", "class", "module", "coroutine"])
def test_only_plain_functions(kind: str) -> None:
    source = {
        "generator": "def f():\n yield 1",
        "coroutine": "async def f():\n pass",
        "class": "class f:\n x = 1",
        "module": "x = 1",
    }[kind]
    module = compile(source, "x", "exec")
    code = module if kind == "module" else next(c for c in module.co_consts if isinstance(c, types.CodeType))
    with pytest.raises(CannotResume, match="plain function"):
        make_resume(code, 2, [], [])


def test_refusals_say_why() -> None:
    code = straight.__code__
    with pytest.raises(CannotResume, match="not an instruction"):
        make_resume(code, 3, [], [])
    with pytest.raises(CannotResume, match="not set up"):
        make_resume(code, 0, [], [])
    with pytest.raises(CannotResume, match="slots"):
        make_resume(code, offset_of(straight, "BINARY_OP"), [77], [VALUE, VALUE])


def test_null_takes_no_argument() -> None:
    def f(g, x):
        return g(x)

    call = offset_of(f, "CALL")
    order = [VALUE, NULL, VALUE] if stack_null_is_above() else [NULL, VALUE, VALUE]
    resume = make_resume(f.__code__, call, [], order)
    assert len(resume.argument_order) == 2
    assert types.FunctionType(resume.code, {})(abs, -4) == 4


def stack_null_is_above() -> bool:
    from framelift.bytecode.opcodes import NULL_POSITION

    return NULL_POSITION == "above"


def test_free_variables_move_when_slots_are_added() -> None:
    free = 5

    def f():
        return (1, 2, 3, 4, free)[free - 1] + free

    code = f.__code__
    at = offset_of(f, "BINARY_OP", 1)
    resume = make_resume(code, at, [], [VALUE, VALUE])
    assert types.FunctionType(resume.code, {}, "f", None, f.__closure__)(1, 2) == 3
    at = offset_of(f, "BINARY_SUBSCR")
    resume = make_resume(code, at, [], [VALUE, VALUE])
    assert types.FunctionType(resume.code, {}, "f", None, f.__closure__)([10], 0) == 15
