"""What the handlers of a code object do with an exception: end it, or let it go on.

A handler that ends without raising again has ended the exception: `except` mostly does, `finally` does not, `with`
leaves it to the `__exit__` of its manager. Which exceptions an `except` names is not looked at.
"""

from __future__ import annotations

from typing import NamedTuple

from framelift.bytecode.canonical import Handler, Step
from framelift.bytecode.canonical_ops import JUMP_OPS

# Where they stand an exception goes on, to the handler around them.
_RAISING = frozenset({"RERAISE", "RAISE_VARARGS", "CLEANUP_THROW"})


class Way(NamedTuple):
    """What a handler may do with an exception."""

    may_end_it: bool
    # Only if the manager of a `with` says so.
    asks_manager: bool
    # Who may have it next, or what is raised in its place, if this one does not end it.
    outer: tuple[Handler, ...]


def way_from(steps: list[Step], target: int) -> Way:
    """What the handler that begins at a step may do: all that can follow it is looked at."""
    may_end_it = False
    outer: dict[Handler, None] = {}
    asks_manager = steps[target + 1].op == "WITH_EXCEPT_START"
    waiting, seen = [target], set[int]()
    while waiting:
        index = waiting.pop()
        step = steps[index]
        if index in seen:
            continue
        seen.add(index)
        if step.op in _RAISING:
            if step.handler is not None:
                outer[step.handler] = None
        elif step.op == "POP_EXCEPT" and steps[index + 1].op != "RERAISE":
            may_end_it = True
        elif step.op == "JUMP":
            waiting.append(step.arg)
        elif step.op != "RETURN_VALUE":
            waiting.append(index + 1)
            if step.op in JUMP_OPS:
                waiting.append(step.arg)
    return Way(may_end_it, asks_manager, tuple(outer))


def returns_nothing_true(steps: list[Step]) -> bool:
    """Whether all that code returns are constants that are false: so an `__exit__` ends no exception."""
    entered = {step.arg for step in steps if step.op in JUMP_OPS}
    returns = [index for index, step in enumerate(steps) if step.op == "RETURN_VALUE"]
    before = [steps[index - 1] for index in returns]
    return entered.isdisjoint(returns) and all(step.op == "LOAD_CONST" and not step.arg for step in before)
