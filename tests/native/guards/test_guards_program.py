"""Programs of facts about numbers: the native machine says what the reference says."""

from __future__ import annotations

import random
from typing import Any

import pytest

import framelift.guards.reference  # noqa: F401  (gives trees their words and their strict mode)
from framelift.native import core
from framelift.shapes.guard_program import GuardProgram, Load, Step, single
from tests.native.guards_builder import Nodes, hits, words


def make(loads: list[tuple[int, int, int]], code: list[tuple[int, Any]], facts: int = 1, members: int = 1) -> Any:
    nodes = Nodes()
    slots = [nodes.arg(i, f"a{i}") for i in range(members)]
    names = tuple(f"n{i}" for i in range(len(loads)))
    program = GuardProgram(
        tuple(loads), tuple(code), tuple(f"fact {i} of {' '.join(names)}" for i in range(facts)), names
    )
    nodes.relate("PROGRAM", slots, program)
    return nodes.tree(members)


def value_is(op: int, constant: Any) -> Any:
    return make([(0, Load.VALUE, 0)], [(Step.LOAD, 0), (Step.CONST, constant), (op, 0), (Step.CHECK, 0)])


@pytest.mark.parametrize(
    ("op", "constant", "yes", "no"),
    [
        (Step.EQ, 3, 3, 4),
        (Step.EQ, 2.5, 2.5, 2),
        (Step.NE, 3, 4, 3),
        (Step.LT, 3, 2, 3),
        (Step.LE, 3, 3, 4),
        (Step.LT, 0.5, -1, 1),
    ],
)
def test_comparisons(op: int, constant: Any, yes: Any, no: Any) -> None:
    tree = value_is(op, constant)
    assert hits(tree, yes)
    assert not hits(tree, no)


@pytest.mark.parametrize("other", [2**63, -(2**70), "3", None, True, [3], float("nan")])
def test_what_is_no_number_that_fits_is_a_miss(other: Any) -> None:
    assert not hits(value_is(Step.LE, 5), other)


def test_words() -> None:
    tree = value_is(Step.LE, 5)
    assert words(tree, 6) == "fact 0 of n0 was true, now n0 is 6"
    assert words(tree, "x") == "one of n0 is no number of its kind any more"
    assert words(tree, 5) is None


@pytest.mark.parametrize(
    ("op", "number", "constant", "result"),
    [
        (Step.FLOATPOW, 0.9, 3.0, 0.9**3.0),
        (Step.FLOATPOW, 0.9, -2, 0.9**-2),
        (Step.FLOATPOW, 2, 0.5, 2**0.5),
        (Step.TRUEDIV, 1.0, 3, 1 / 3),
    ],
)
def test_floats_are_calculated_as_python_does(op: int, number: Any, constant: Any, result: float) -> None:
    code = [(Step.LOAD, 0), (Step.CONST, constant), (op, 0), (Step.CONST, result), (Step.SAME, 0), (Step.CHECK, 0)]
    tree = make([(0, Load.VALUE, 0)], code)
    assert hits(tree, number)
    assert not hits(tree, number + 1)


@pytest.mark.parametrize("base", [0.0, -1.0, -0.0])
def test_powers_of_what_is_not_positive_are_a_miss(base: float) -> None:
    code = [(Step.LOAD, 0), (Step.CONST, 2.0), (Step.FLOATPOW, 0), (Step.CONST, -1.0), (Step.NE, 0), (Step.CHECK, 0)]
    assert not hits(make([(0, Load.VALUE, 0)], code), base)


def test_powers_that_are_too_large_are_a_miss() -> None:
    code = [(Step.LOAD, 0), (Step.CONST, 400.0), (Step.FLOATPOW, 0), (Step.CONST, 0.0), (Step.NE, 0), (Step.CHECK, 0)]
    assert not hits(make([(0, Load.VALUE, 0)], code), 10.0)
    assert hits(make([(0, Load.VALUE, 0)], code), 1.5)


def test_floats_of_half_as_many_bits() -> None:
    code = [(Step.LOAD, 0), (Step.SINGLE, 0), (Step.CONST, single(0.1)), (Step.SAME, 0), (Step.CHECK, 0)]
    tree = make([(0, Load.VALUE, 0)], code)
    assert hits(tree, 0.1)
    assert hits(tree, single(0.1))
    assert not hits(tree, 0.2)
    assert not hits(tree, 1e300)


def test_the_same_float_has_the_same_sign() -> None:
    tree = value_is(Step.SAME, 0.0)
    assert hits(tree, 0.0)
    assert not hits(tree, -0.0)


def test_lengths() -> None:
    tree = make([(0, Load.LENGTH, 0)], [(Step.LOAD, 0), (Step.CONST, 2), (Step.LE, 0), (Step.CHECK, 0)])
    assert hits(tree, [1, 2]) and hits(tree, ())
    assert not hits(tree, [1, 2, 3]) and not hits(tree, 3)


def test_several_members_and_facts() -> None:
    code = [
        *[(Step.LOAD, 0), (Step.LOAD, 1), (Step.EQ, 0), (Step.CHECK, 0)],
        *[(Step.LOAD, 1), (Step.CONST, 0), (Step.NE, 0), (Step.CHECK, 0)],
    ]
    tree = make([(0, Load.VALUE, 0), (1, Load.LENGTH, 0)], code, facts=2, members=2)
    assert hits(tree, 2, [1, 2])
    assert words(tree, 2, [1]) == "fact 0 of n0 n1 was true, now n0 is 2 and n1 is 1"
    assert words(tree, 0, []) == "fact 1 of n0 n1 was true, now n0 is 0 and n1 is 0"


@pytest.mark.parametrize(
    "code",
    [
        [(Step.LOAD, 1), (Step.CHECK, 0)],
        [(Step.LOAD, 0), (Step.ADD, 0), (Step.CHECK, 0)],
        [(Step.LOAD, 0)],
        [(Step.CHECK, 0)],
        [(Step.LOAD, 0), (99, 0), (Step.CHECK, 0)],
        [(Step.LOAD, "x"), (Step.CHECK, 0)],
        [(Step.CONST, 1)] * 100,
        [(Step.CONST, 2**64), (Step.CHECK, 0)],
    ],
)
def test_programs_that_make_no_sense_are_refused(code: list[Any]) -> None:
    with pytest.raises(ValueError):
        make([(0, Load.VALUE, 0)], code)


BINARY = [op for op in Step if Step.ADD <= op < Step.NOT]
UNARY = [op for op in Step if op > Step.NOT]
EDGES = [0, 1, -1, 2, 3, -7, 63, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 0.0, 0.5, -2.5, 1e300, -1e18]


@pytest.mark.parametrize("seed", range(300))
def test_random_programs_agree_with_the_reference(seed: int) -> None:
    """hits() compares the two; what is asserted is only that they never disagree."""
    choose = random.Random(seed)
    inputs = [choose.choice(EDGES) for _ in range(3)]
    code: list[tuple[int, Any]] = []
    depth = 0
    for _ in range(choose.randrange(2, 14)):
        if depth >= 2 and choose.random() < 0.5:
            code.append((choose.choice(BINARY), 0))
            depth -= 1
        elif depth >= 1 and choose.random() < 0.2:
            code.append((choose.choice(UNARY), 0))
        elif choose.random() < 0.7:
            code.append((Step.LOAD, choose.randrange(3)))
            depth += 1
        else:
            code.append((Step.CONST, choose.choice(EDGES)))
            depth += 1
    code += [(choose.choice([Step.EQ, Step.LE, Step.NE, Step.LT]), 0) for _ in range(depth - 1)]
    code += [(Step.CONST, choose.choice([0, 1, -1])), (Step.LT, 0), (Step.CHECK, 0)]
    tree = make([(i, Load.VALUE, 0) for i in range(3)], code, members=3)
    for _ in range(8):
        hits(tree, *inputs)
        inputs = [choose.choice(EDGES) for _ in range(3)]
    assert tree.relations[0][0] == core.REL_PROGRAM
