"""Guard trees evaluated in Python, node by node: what the native check must agree with.

Importing this module gives native trees their words (`tree.explain`) and their strict mode (`tree.check_strict`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from framelift.guards.accessors import ACCESSORS
from framelift.guards.checks import CHECKS
from framelift.guards.equality import constants_equal, same_object
from framelift.guards.reading import MISSING, number_at
from framelift.guards.relations import relation_change
from framelift.native import core
from framelift.shapes.guard_program import failure_words, first_failure


@dataclass(frozen=True, slots=True)
class Failure:
    """The first guard of a tree that does not hold."""

    node: int
    kind: int
    words: str


def describe(kind: int, name: Any, argument: Any, found: Any) -> str:
    """What was and what is; `found` is what a check met, or what an accessor could not step from."""
    if kind in CHECKS:
        return CHECKS[kind].change(name, argument, found)
    if kind in ACCESSORS:
        return f"{name} is gone"
    if kind == core.REL_PROGRAM:
        return failure_words(*argument)
    return relation_change(kind, name, argument)


def evaluate(tree: Any, slots: tuple[Any, ...], function: Any) -> tuple[Any, ...] | Failure:
    """What `tree.check` fetches, or the first guard that does not hold."""
    if tree.dead:
        return Failure(-1, core.FAILED_DEAD, "an object that the guards depend on is gone")
    if tree.state is not None and (words := tree.state.describe()) is not None:
        return Failure(-1, core.FAILED_STATE, words)
    nodes = tree.nodes
    names = tree.names or tuple(f"node {i}" for i in range(len(nodes)))
    values: list[Any] = []
    fetched: list[Any] = [None] * tree.nfetched
    for i, (parent, access, argument, checks, out) in enumerate(nodes):
        value = ACCESSORS[access].step(_origin(access, parent, values, slots, function), argument)
        if value is MISSING:
            return Failure(i, access, describe(access, names[i], argument, None))
        for kind, expected in checks:
            if not CHECKS[kind].holds(value, expected):
                return Failure(i, kind, describe(kind, names[i], expected, value))
        values.append(value)
        if out >= 0:
            fetched[out] = value
    for kind, argument in tree.relations:
        if kind == core.REL_PROGRAM:
            failed = _failed_fact(argument, values)
            if failed is not None:
                return Failure(argument[0][0], kind, failed)
            continue
        members, expected, written = _members(kind, argument)
        if not _related(kind, [values[i] for i in members], expected, written):
            return Failure(members[0], kind, relation_change(kind, tuple(names[i] for i in members), expected))
    return tuple(fetched)


def _failed_fact(argument: Any, values: list[Any]) -> str | None:
    """What does not hold of the numbers of a program, in words."""
    members, program = argument
    numbers = [number_at(values[members[member]], kind, index) for member, kind, index in program.loads]
    known = [number for number in numbers if number is not None]
    fact = first_failure(program, known) if len(known) == len(numbers) else -1
    return None if fact is None else failure_words(program, fact, numbers)


def _members(kind: int, argument: Any) -> tuple[list[int], bool, int]:
    """The nodes of a relation, what is expected of them, and how many of them are written to."""
    if kind == core.REL_OVERLAP:
        return argument[:2], argument[2], 0
    if kind == core.REL_DISJOINT:
        return [*argument[0], *argument[1]], True, len(argument[0])
    return argument, True, 0


def _origin(access: int, parent: int, values: list[Any], slots: tuple[Any, ...], function: Any) -> Any:
    if parent >= 0:
        return values[parent]
    return slots if access == core.ACCESS_ARG else function


def _related(kind: int, values: list[Any], expected: bool, written: int) -> bool:
    if kind == core.REL_SAME:
        return values[0] is values[1]
    if kind == core.REL_DISTINCT:
        return len({id(value) for value in values}) == len(values)
    if kind == core.REL_OVERLAP:
        return core.tensors_overlap(*values) is expected
    return not any(core.tensors_overlap(values[i], other) for i in range(written) for other in values[i + 1 :])


def _same_fetched(native: Any, reference: Any) -> bool:
    """One object, or two that were made by looking ahead: numbers of a range, entries of a dictionary."""
    if same_object(reference, native) or constants_equal(native, reference):
        return True
    return type(native) is type(reference) is tuple and all(map(same_object, native, reference))


# What is made anew each time.
_ANEW = (core.ACCESS_AS_TENSOR, core.ACCESS_AS_PLAIN)


def disagreement(tree: Any, slots: tuple[Any, ...], function: Any, native: tuple[Any, ...] | None) -> str | None:
    """Why the native answer is not the reference's, in words; None if it is."""
    reference = evaluate(tree, slots, function)
    if isinstance(reference, Failure):
        return None if native is None else f"the native guards hit, but {reference.words}"
    if native is None:
        explained = tree.explain(slots, function)
        reason = explained[2] if explained is not None else "no reason found"
        return f"the native guards missed ({reason}), but every guard holds"
    made = {out for _, access, _, _, out in tree.nodes if access in _ANEW}
    compared = [pair for index, pair in enumerate(zip(native, reference, strict=True)) if index not in made]
    if not all(_same_fetched(*pair) for pair in compared):
        return "the native guards fetched other objects than the reference"
    return None


core.connect(describe=describe, disagreement=disagreement)
