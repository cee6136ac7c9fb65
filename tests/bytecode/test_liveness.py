"""Live variables."""

from __future__ import annotations

import types

from framelift.bytecode.decode import decode
from framelift.bytecode.liveness import Liveness
from tests.bytecode.stdlib import sampled_codes


def live_at(function: types.FunctionType, opname: str, nth: int = 0) -> set[str]:
    code = function.__code__
    offsets = [i.offset for i in decode(code) if i.opname == opname]
    names = code.co_varnames + code.co_cellvars
    return {names[slot] for slot in Liveness(code).at(offsets[nth])}


def test_straight_line() -> None:
    def f(a, b, c):
        d = a + b
        a = 1
        return d - a

    assert live_at(f, "RESUME") == {"a", "b"}
    assert live_at(f, "BINARY_OP", 1) == set()


def test_branches_join() -> None:
    def f(flag, a, b):
        if flag.x:
            return a
        return b

    assert live_at(f, "LOAD_ATTR") == {"a", "b"}


def test_loops_keep_what_the_next_round_needs() -> None:
    def f(xs, step):
        total = 0
        for x in xs:
            total = total + step
        return total

    assert live_at(f, "BINARY_OP") == {"step"}  # total is on the stack, x is never read
    assert live_at(f, "FOR_ITER") == {"total", "step"}


def test_handlers_keep_what_they_read() -> None:
    def f(g, saved):
        try:
            saved = g()
        except ValueError:
            return saved
        return 1

    assert "saved" in live_at(f, "CALL")


def test_a_store_does_not_hide_the_value_from_the_handler() -> None:
    def f(g, x):
        try:
            x = g.a.b
            g()
        finally:
            print(x)

    assert "x" in live_at(f, "LOAD_ATTR", 0)


def test_delete_reads() -> None:
    def f(x, y):
        y.go
        del x

    assert live_at(f, "LOAD_ATTR") == {"x"}


def test_cells_are_read_by_every_use() -> None:
    def f(a, g):
        g.x
        a = 2
        return lambda: a

    assert "a" in live_at(f, "LOAD_ATTR")


def test_super_reads_the_first_argument() -> None:
    class A:
        def m(self):
            return 1

    class B(A):
        def m(self, log=None):
            log.x
            return super

    code = B.m.__code__
    offset = next(i.offset for i in decode(code) if i.opname == "LOAD_ATTR")
    assert 0 in Liveness(code).at(offset)


def test_all_codes_have_liveness() -> None:
    """Everything that is live at entry is an argument, a cell, or a variable the compiler could not prove bound."""
    for code in sampled_codes(1500):
        liveness = Liveness(code)
        own = len(code.co_varnames) + len([c for c in code.co_cellvars if c not in code.co_varnames])
        for instruction in decode(code):
            assert all(slot < own for slot in liveness.at(instruction.offset))
