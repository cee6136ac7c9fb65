"""decode and assemble are inverses, on every code object of the standard library."""

from __future__ import annotations

import sys
import types
from types import CodeType

import pytest

from framelift.bytecode.assemble import assemble
from framelift.bytecode.decode import decode, slot_names
from framelift.bytecode.exceptiontable import decode_rows
from framelift.bytecode.locations import decode_positions
from framelift.bytecode.verify import verify_bytecode
from tests.bytecode.cases import CASES, Case
from tests.bytecode.frozen import call, outcome
from tests.bytecode.stdlib import all_codes, nested, sampled_codes


def check_round_trip(code: CodeType) -> None:
    made = assemble(decode(code), code)
    where = f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"
    assert made.co_code == code.co_code, where
    assert decode_rows(made.co_exceptiontable) == decode_rows(code.co_exceptiontable), where
    assert made.co_linetable == code.co_linetable, where
    assert list(made.co_positions()) == list(code.co_positions()), where
    assert 0 <= made.co_stacksize <= code.co_stacksize, where


def test_sample() -> None:
    for code in sampled_codes(2500):
        check_round_trip(code)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_whole_standard_library(part: int) -> None:
    count = 0
    for code in all_codes(part, 4):
        check_round_trip(code)
        count += 1
    assert count > 1000


def test_sample_verifies() -> None:
    for code in sampled_codes(2500):
        verify_bytecode(decode(code))


def test_tables_agree_with_the_interpreter() -> None:
    for code in sampled_codes(2500):
        assert decode_positions(code.co_linetable, code.co_firstlineno) == list(code.co_positions())
        names = slot_names(code)
        assert [code._varname_from_oparg(slot) for slot in range(len(names))] == list(names)


def reassembled(code: CodeType) -> CodeType:
    """The code and every code in it, taken apart and put together."""
    consts = tuple(reassembled(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return assemble(decode(code), code, co_consts=consts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases_run_equally(case: Case) -> None:
    def run(change: bool) -> object:
        function, log = case.make(), []
        plain = getattr(function, "__func__", function)
        if change:
            plain.__code__ = reassembled(plain.__code__)
        return outcome(lambda: call(function, log), log, frozenset({"<lambda>", "call"}))

    want = run(change=False)
    assert run(change=True) == want


MODULES = ["textwrap", "json.encoder", "ast", "dataclasses", "difflib", "argparse"]


@pytest.mark.parametrize("name", MODULES)
def test_reassembled_modules_work(name: str) -> None:
    """A module whose every code object was taken apart still does its work."""
    original = __import__(name, fromlist=["x"])
    assert original.__file__ is not None
    with open(original.__file__, "rb") as file:
        source = compile(file.read(), original.__file__, "exec", dont_inherit=True)
    module = types.ModuleType(name)
    module.__dict__.update(__file__=original.__file__, __package__=name.rpartition(".")[0])
    sys.modules[name], before = module, sys.modules[name]
    try:
        exec(reassembled(source), module.__dict__)
        assert USES[name](module) == USES[name](original)
    finally:
        sys.modules[name] = before


def _use_dataclasses(module: types.ModuleType) -> str:
    point = module.make_dataclass("Point", [("x", int), ("y", list, module.field(default_factory=list))], order=True)
    return repr([point(1), point(1) == point(1), point(1) < point(2), module.asdict(point(3))])


def _use_argparse(module: types.ModuleType) -> str:
    parser = module.ArgumentParser("p")
    parser.add_argument("-n", type=int, default=3, help="number")
    parser.add_argument("rest", nargs="*")
    return parser.format_help() + str(sorted(vars(parser.parse_args(["-n", "4", "a", "b"])).items()))


USES = {
    "textwrap": lambda m: m.dedent("  a\n   b") + m.fill("word " * 40, 30) + m.shorten("x y z " * 9, 12),
    "json.encoder": lambda m: "".join(m.JSONEncoder(indent=1).iterencode({"a": [1, 2.5, None, {"b": "ü"}]})),
    "ast": lambda m: m.unparse(m.parse("def f(a, *b, c=1):\n  return [x for x in b if a < c]")) + m.dump(m.parse("x")),
    "dataclasses": _use_dataclasses,
    "difflib": lambda m: "".join(m.unified_diff(["a\n", "b\n", "c\n"], ["a\n", "c\n", "d\n"])),
    "argparse": _use_argparse,
}


def test_nested_finds_inner_functions() -> None:
    assert len(list(nested(test_cases_run_equally.__code__))) >= 3
