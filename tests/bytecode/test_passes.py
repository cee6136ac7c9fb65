"""remove_dead_code and remove_pointless_jumps."""

from __future__ import annotations

import random
import types

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framelift.bytecode.assemble import assemble
from framelift.bytecode.decode import decode
from framelift.bytecode.instruction import ExceptionEntry, Instruction
from framelift.bytecode.opcodes import TERMINAL, UNCONDITIONAL
from framelift.bytecode.passes import remove_dead_code, remove_pointless_jumps, thread_jumps
from framelift.bytecode.verify import verify_bytecode
from tests.bytecode.cases import CASES, Case
from tests.bytecode.frozen import call, outcome
from tests.bytecode.stdlib import sampled_codes

make = Instruction.make
CONDITIONAL = next(name for name in ("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE") if name in __import__("dis").opmap)


def test_code_after_a_return_is_dead() -> None:
    program = [make("LOAD_CONST", 1), make("RETURN_VALUE"), make("LOAD_CONST", 2), make("RETURN_VALUE")]
    assert remove_dead_code(program) == program[:2]


def test_both_arms_of_a_conditional_jump_live() -> None:
    arm = make("LOAD_CONST", 2)
    program = [
        make("LOAD_CONST", 0),
        make(CONDITIONAL, target=arm),
        make("LOAD_CONST", 1),
        make("RETURN_VALUE"),
        arm,
        make("RETURN_VALUE"),
    ]
    assert remove_dead_code(program) == program


def test_a_handler_reached_only_by_exceptions_lives() -> None:
    handler = make("PUSH_EXC_INFO")
    entry = ExceptionEntry(handler, 0, False)
    load = make("LOAD_CONST", 0, handler=entry)
    skipped = make("NOP", handler=entry)
    program = [
        make("JUMP_FORWARD", target=load),
        skipped,  # the range starts with an instruction that goes
        load,
        make("RETURN_VALUE"),
        handler,
        make("RERAISE", 0),
    ]
    cleaned = remove_dead_code(program)
    assert cleaned == [i for i in program if i is not skipped]
    code = (lambda: 0).__code__
    again = decode(assemble(remove_pointless_jumps(cleaned), code))
    assert [(i.opname, i.handler is not None) for i in again] == [
        ("LOAD_CONST", True),
        ("RETURN_VALUE", False),
        ("PUSH_EXC_INFO", False),
        ("RERAISE", False),
    ]


def test_a_handler_of_dead_code_is_dead() -> None:
    handler = make("PUSH_EXC_INFO")
    dead = make("NOP", handler=ExceptionEntry(handler, 0, False))
    program = [make("LOAD_CONST", 0), make("RETURN_VALUE"), dead, handler, make("RERAISE", 0)]
    assert remove_dead_code(program) == program[:2]


def test_a_jump_to_the_next_instruction_goes_and_jumps_to_it_are_redirected() -> None:
    load = make("LOAD_CONST", 0)
    jump = make("JUMP_FORWARD", target=load)
    first = make("LOAD_CONST", 1)
    conditional = make(CONDITIONAL, target=jump)
    program = [first, conditional, make("NOP"), jump, load, make("RETURN_VALUE")]
    cleaned = remove_pointless_jumps(program)
    assert jump not in cleaned
    assert conditional.target is load


def test_handlers_that_are_dropped_move_on() -> None:
    after = make("PUSH_EXC_INFO")
    jump = make("JUMP_FORWARD", target=after)
    entry = ExceptionEntry(jump, 0, False)
    program = [make("LOAD_CONST", 0, handler=entry), make("RETURN_VALUE"), jump, after, make("RERAISE", 0)]
    remove_pointless_jumps(program)
    assert entry.target is after


def test_removing_one_exposes_another() -> None:
    end = make("LOAD_CONST", 0)
    second = make("JUMP_FORWARD", target=end)
    first = make("JUMP_FORWARD", target=end)
    assert remove_pointless_jumps([first, second, end, make("RETURN_VALUE")])[0] is end


def test_threading_follows_chains_and_survives_cycles() -> None:
    end = make("LOAD_CONST", 0)
    third = make("JUMP_FORWARD", target=end)
    second = make("JUMP_FORWARD", target=third)
    first = make("JUMP_FORWARD", target=second)
    thread_jumps([first, make("NOP"), second, make("NOP"), third, make("NOP"), end, make("RETURN_VALUE")])
    assert first.target is end
    one, two = make("JUMP_FORWARD"), make("JUMP_BACKWARD")
    one.target, two.target = two, one
    assert len(remove_pointless_jumps([one, make("NOP"), two])) == 3


def test_nops_can_go() -> None:
    load = make("LOAD_CONST", 0)
    nop = make("NOP")
    program = [make("JUMP_FORWARD", target=nop), nop, load, make("RETURN_VALUE")]
    assert nop not in remove_dead_code(program, keep_nops=False)
    assert program[0].target is load


def test_deep_nesting_needs_no_recursion() -> None:
    program = []
    target = make("LOAD_CONST", 0)
    tail = [target, make("RETURN_VALUE")]
    for _ in range(5000):
        jump = make("JUMP_FORWARD", target=target)
        program.insert(0, jump)
        target = jump
    assert len(remove_dead_code(program + tail)) == 5002


def cleaned(code: types.CodeType) -> types.CodeType:
    instructions = remove_pointless_jumps(remove_dead_code(decode(code)))
    verify_bytecode(instructions)
    return assemble(instructions, code)


def test_the_standard_library_stays_valid() -> None:
    for code in sampled_codes(1500):
        made = cleaned(code)
        assert made.co_stacksize <= code.co_stacksize
        assert len(decode(made)) <= len(decode(code))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases_run_equally(case: Case) -> None:
    def run(change: bool) -> object:
        function, log = case.make(), []
        plain = getattr(function, "__func__", function)
        if change:
            plain.__code__ = cleaned(plain.__code__)
        return outcome(lambda: call(function, log), log, frozenset({"<lambda>", "call"}))

    assert run(change=False) == run(change=True)


# ---- random programs -------------------------------------------------------------------------------------------

LINES = ["x = x * 3 + y", "y -= 1", "log.append((x, y))", "x, y = y, x", "x %= 7", "x // (y % 3)", "y = [x][y % 2]"]


@st.composite
def block(draw: st.DrawFn, depth: int, loop: bool) -> list[str]:
    out: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["line", "line", "if", "for", "try", "finally", "return", "leave"]))
        if kind == "line" or depth == 0:
            out.append(draw(st.sampled_from(LINES)))
        elif kind == "if":
            out.append(draw(st.sampled_from(["if x % 2:", "if y > 1:", "if x is y:"])))
            out += _indent(draw(block(depth - 1, loop)))
            if draw(st.booleans()):
                out += ["else:", *_indent(draw(block(depth - 1, loop)))]
        elif kind == "for":
            out += ["for x in range(3):", *_indent(draw(block(depth - 1, True)))]
        elif kind == "try":
            out += ["try:", *_indent(draw(block(depth - 1, loop)))]
            out += ["except (ZeroDivisionError, IndexError) as e:", *_indent(draw(block(depth - 1, loop)))]
        elif kind == "finally":
            out += ["try:", *_indent(draw(block(depth - 1, loop)))]
            out += ["finally:", *_indent(draw(block(depth - 1, False)))]
        elif kind == "return":
            out.append("return x, y")
        elif loop:
            out.append(draw(st.sampled_from(["break", "continue"])))
    return out or ["pass"]


def _indent(lines: list[str]) -> list[str]:
    return ["  " + line for line in lines]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(block(3, False), st.integers(0, 5), st.integers(0, 5), st.integers(0, 1 << 30))
def test_random_functions_run_equally(lines: list[str], x: int, y: int, seed: int) -> None:
    source = "\n".join(["def f(x, y, log):", *_indent(lines), "  return x, y"])
    namespace: dict[str, types.FunctionType] = {}
    exec(compile(source, "random", "exec"), namespace)
    plain = namespace["f"]
    changed = types.FunctionType(cleaned(scattered(plain.__code__, seed)), {"__builtins__": __builtins__})

    def run(function: types.FunctionType) -> object:
        log: list = []
        return outcome(lambda: function(x, y, log), log, frozenset())

    assert run(changed) == run(plain), source


def scattered(code: types.CodeType, seed: int) -> types.CodeType:
    """The same program with dead code and jumps to the next instruction strewn in."""
    chance = random.Random(seed)
    out: list[Instruction] = []
    instructions = decode(code)
    for index, instruction in enumerate(instructions):
        out.append(instruction)
        if instruction.opname in ("RESUME", "KW_NAMES", "PRECALL") or index + 1 == len(instructions):
            continue
        after = instructions[index + 1]
        if after.opname == "END_FOR" or instruction.opname == "END_FOR":
            continue  # a loop's end is looked for by the interpreter
        if instruction.opcode in TERMINAL:
            if chance.random() < 0.5:
                out += [make("LOAD_CONST", 0), make("RETURN_VALUE")]
        elif chance.random() < 0.3:
            same = {"positions": instruction.positions, "handler": after.handler}
            out.append(make("JUMP_FORWARD", target=after, **same))
            if chance.random() < 0.5:
                out += [make("LOAD_CONST", 0, **same), make("RETURN_VALUE", **same)]
    return assemble(out, code)


def test_scattering_is_undone() -> None:
    code = next(c for c in CASES if c.name == "nested_loops").make().__code__
    strewn = scattered(code, 3)
    jumps = [i for i in decode(strewn) if i.opcode in UNCONDITIONAL]
    assert len(jumps) > len([i for i in decode(code) if i.opcode in UNCONDITIONAL])
    assert len(cleaned(strewn).co_code) <= len(code.co_code)
