"""verify_bytecode finds what is wrong."""

from __future__ import annotations

import pytest

from framelift.bytecode.decode import decode
from framelift.bytecode.instruction import ExceptionEntry, Instruction
from framelift.bytecode.opcodes import EXTENDED_ARG, VERSION
from framelift.bytecode.verify import InvalidBytecode, verify_bytecode

make = Instruction.make


def program() -> list[Instruction]:
    def f(x):
        try:
            return g(x, k=1)  # noqa: F821
        except ValueError:
            return x

    return decode(f.__code__)


def test_compiled_code_is_valid() -> None:
    verify_bytecode(program())


def broken(change) -> str:
    instructions = program()
    changed = change(instructions)
    with pytest.raises(InvalidBytecode) as info:
        verify_bytecode(instructions if changed is None else changed)
    return str(info.value)


def test_empty() -> None:
    assert "no instructions" in broken(lambda p: [])


def test_twice() -> None:
    assert "twice" in broken(lambda p: [*p, p[3]])


def test_runs_off() -> None:
    assert "off the end" in broken(lambda p: p + [make("NOP")])


def test_wrong_name() -> None:
    assert "is called" in broken(lambda p: setattr(p[0], "opname", "NOP"))


def test_not_an_instruction() -> None:
    assert "not an instruction" in broken(lambda p: [Instruction(EXTENDED_ARG, "EXTENDED_ARG", 1), *p])


def test_jump_without_target() -> None:
    assert "nowhere" in broken(lambda p: [make("JUMP_FORWARD"), *p])


def test_target_without_jump() -> None:
    assert "does not jump" in broken(lambda p: setattr(p[0], "target", p[1]))


def test_target_elsewhere() -> None:
    assert "out of the list" in broken(lambda p: [make("JUMP_FORWARD", target=make("NOP")), *p])


def test_handler_elsewhere() -> None:
    assert "handler" in broken(lambda p: setattr(p[1], "handler", ExceptionEntry(make("NOP"), 0, False)))


def test_handler_too_deep() -> None:
    def deepen(p: list[Instruction]) -> None:
        next(i for i in p if i.handler and i.opname == "RETURN_VALUE" or i.handler).handler.depth = 9

    assert "its handler expects 9" in broken(deepen)


def test_missing_operand() -> None:
    def drop(p: list[Instruction]) -> None:
        next(i for i in p if i.opname == "LOAD_FAST").arg = None

    assert "operand" in broken(drop)


def test_underflow() -> None:
    assert "more from the stack" in broken(lambda p: [make("POP_TOP"), *p])


def test_two_depths() -> None:
    load, end = make("LOAD_CONST", 0), make("RETURN_VALUE")
    conditional = "POP_JUMP_FORWARD_IF_TRUE" if VERSION == (3, 11) else "POP_JUMP_IF_TRUE"
    bad = [make("LOAD_CONST", 0), make(conditional, target=load), make("LOAD_CONST", 0), load, end]
    with pytest.raises(InvalidBytecode, match="and with"):
        verify_bytecode(bad)


def test_a_return_leaves_nothing_behind() -> None:
    end = make("RETURN_VALUE")
    with pytest.raises(InvalidBytecode, match="leaves value, value"):
        verify_bytecode([make("LOAD_CONST", 0), make("LOAD_CONST", 0), end])
    handled = [make("LOAD_CONST", 0), make("PUSH_EXC_INFO"), make("RETURN_VALUE")]
    with pytest.raises(InvalidBytecode, match="leaves handled"):
        verify_bytecode(handled)


@pytest.mark.skipif(VERSION >= (3, 13), reason="3.13 has no KW_NAMES")
def test_parts_of_a_call_stay_together() -> None:
    def split(p: list[Instruction]) -> list[Instruction]:
        at = next(n for n, i in enumerate(p) if i.opname == "KW_NAMES")
        return [*p[: at + 1], make("NOP"), *p[at + 1 :]]

    assert "is followed by NOP" in broken(split)
