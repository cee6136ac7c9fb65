"""What the assembler does beyond undoing decode: growing jumps, turning them round, refusing what is no program."""

from __future__ import annotations

import dis
import types

import pytest

from framelift.bytecode.assemble import AssemblyError, assemble
from framelift.bytecode.builder import Builder
from framelift.bytecode.decode import decode
from framelift.bytecode.instruction import ExceptionEntry, Instruction
from framelift.bytecode.opcodes import VERSION
from framelift.bytecode.stack_depth import StackError, stack_depths


def run(builder: Builder, *args: object) -> object:
    return types.FunctionType(builder.to_code("made", clean=False), {})(*args)


@pytest.mark.parametrize("padding", [0, 1, 100, 127, 128, 200, 254, 255, 256, 257, 300, 65_530, 65_540])
def test_jumps_grow_as_far_as_needed(padding: int) -> None:
    b = Builder(("x",))
    over = b.label()
    b.load_fast("x")
    b.jump_if_true(over)
    b.load_const("fell through")
    b.return_value()
    for _ in range(padding):
        b.emit("NOP")
    b.place(over)
    b.load_const("jumped")
    b.return_value()
    code = b.to_code("made", clean=False)
    function = types.FunctionType(code, {})
    assert (function(1), function(0)) == ("jumped", "fell through")
    assert [i.opname for i in decode(code)] == [i.opname for i in b.instructions]


@pytest.mark.parametrize("padding", [0, 250, 300, 66_000])
def test_jumps_that_hold_each_other_up(padding: int) -> None:
    """Backward and forward jumps over the same stretch: each one's growth can make the other grow."""
    b = Builder(("n",))
    done = b.label()
    b.load_const(0)
    b.store_fast("i")
    top = b.here()
    b.load_fast("i")
    b.load_fast("n")
    b.compare("<")
    b.jump_if_false(done)
    b.load_fast("i")
    b.load_const(1)
    b.binary_op("+=")
    b.store_fast("i")
    for _ in range(padding):
        b.emit("NOP")
    b.jump(top)
    b.place(done)
    b.load_fast("i")
    b.return_value()
    assert run(b, 5) == 5


@pytest.mark.parametrize("jump, values", [
    ("jump_if_true", (1, 0)), ("jump_if_false", (0, 1)), ("jump_if_none", (None, 1)), ("jump_if_not_none", (1, None)),
])  # fmt: skip
def test_conditional_jumps_may_go_backward(jump: str, values: tuple) -> None:
    b = Builder(("items",))
    top = b.here()
    b.load_fast("items")
    b.load_method("pop")
    b.call(0)
    getattr(b, jump)(top)
    b.load_fast("items")
    b.return_value()
    again, stop = values
    assert run(b, ["rest", stop, again, again]) == ["rest"]


def test_arguments_above_255() -> None:
    b = Builder(())
    for n in range(700):
        b.load_const(f"constant {n}")
        b.store_fast(f"v{n}")
    b.load_fast("v699")
    b.load_fast("v3")
    b.build_tuple(2)
    b.return_value()
    assert run(b) == ("constant 699", "constant 3")


def test_redundant_prefixes_survive() -> None:
    code = (lambda x: x).__code__
    wide = code.replace(
        co_code=code.co_code[:2] + bytes([dis.EXTENDED_ARG, 0]) + code.co_code[2:],
        co_linetable=code.co_linetable + bytes([0x80 | 15 << 3]),
    )
    assert assemble(decode(wide), wide).co_code == wide.co_code
    assert types.FunctionType(wide, {})(4) == 4


def test_offsets_are_written_back() -> None:
    code = (lambda x: x + 1).__code__
    instructions = decode(code)
    nop = Instruction.make("NOP")
    made = assemble([instructions[0], nop, *instructions[1:]], code)
    assert nop.offset == 2
    assert [i.offset for i in decode(made)] == [i.offset for i in (instructions[0], nop, *instructions[1:])]


def _returning() -> tuple[list[Instruction], types.CodeType]:
    code = (lambda x: x).__code__
    return decode(code), code


def test_an_instruction_appears_once() -> None:
    instructions, code = _returning()
    with pytest.raises(AssemblyError, match="twice"):
        assemble([*instructions, instructions[-1]], code)


def test_jumps_out_of_the_list_are_refused() -> None:
    instructions, code = _returning()
    stray = Instruction.make("JUMP_FORWARD", target=Instruction.make("NOP"))
    with pytest.raises(AssemblyError, match="not in the list"):
        assemble([stray, *instructions], code)


def test_handlers_out_of_the_list_are_refused() -> None:
    instructions, code = _returning()
    instructions[1].handler = ExceptionEntry(Instruction.make("NOP"), 0, False)
    with pytest.raises((AssemblyError, KeyError)):
        assemble(instructions, code)


def test_raw_prefixes_are_refused() -> None:
    instructions, code = _returning()
    with pytest.raises(AssemblyError, match="not an instruction"):
        assemble([Instruction.make("EXTENDED_ARG", 1), *instructions], code)


def test_for_iter_cannot_go_backward() -> None:
    instructions, code = _returning()
    loop = Instruction.make("FOR_ITER", target=instructions[0])
    with pytest.raises(AssemblyError, match="cannot go backward"):
        assemble([*instructions[:-1], loop, instructions[-1]], code, co_stacksize=3)


def test_operands_are_checked() -> None:
    instructions, code = _returning()
    instructions[1].arg = 1 << 40
    with pytest.raises(AssemblyError, match="out of range"):
        assemble(instructions, code)


def test_stack_errors() -> None:
    instructions, _ = _returning()
    with pytest.raises(StackError, match="more from the stack"):
        stack_depths([Instruction.make("POP_TOP"), *instructions])
    with pytest.raises(StackError, match="off the end"):
        stack_depths(instructions[:-1])


def test_equal_entries_stay_apart_and_one_entry_stays_one() -> None:
    """Two rows with the same content are two rows; the instructions of one row form one."""
    code = (lambda x: x).__code__
    resume, load, leave = decode(code)
    handler = Instruction.make("PUSH_EXC_INFO"), Instruction.make("RERAISE", 0)
    nops = [Instruction.make("NOP") for _ in range(4)]
    one, two = ExceptionEntry(handler[0], 0, False), ExceptionEntry(handler[0], 0, False)
    for nop, entry in zip(nops, (one, one, two, two), strict=True):
        nop.handler = entry
    made = assemble([resume, *nops, load, leave, *handler], code)
    again = [i.handler for i in decode(made) if i.opname == "NOP"]
    assert again[0] is again[1] and again[2] is again[3] and again[1] is not again[2]


@pytest.mark.skipif(VERSION != (3, 11), reason="only 3.11 has conditional jumps for both directions")
def test_jump_opcodes_follow_their_direction() -> None:
    b = Builder(("x",))
    top = b.here()
    b.load_fast("x")
    b.jump_if_none(top)
    b.load_const(1)
    b.return_value()
    assert "POP_JUMP_BACKWARD_IF_NONE" in [i.opname for i in decode(b.to_code("f"))]
