"""Why the entries of a function do not fit a call, in words, and what can be done about it."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from types import FunctionType
from typing import Any, NamedTuple

from framelift.guards.checks import CHECKS
from framelift.native import core
from framelift.options import Options

# So many values are listed.
_SHOWN = 4


class Misfit(NamedTuple):
    """The guard of one entry that does not hold: about what, of which kind, what was and what is."""

    source: str
    kind: str
    words: str


def misfits(entries: Sequence[Any], function: FunctionType, slots: tuple[Any, ...]) -> list[Misfit]:
    """Why each entry does not fit, in their order."""
    explained = [(entry.tree, entry.tree.explain(slots, function)) for entry in entries]
    return [_misfit(tree, *failure) for tree, failure in explained if failure is not None]


def _misfit(tree: Any, node: int, kind: int, words: str) -> Misfit:
    if node < 0:
        return Misfit("", _OTHER_KINDS.get(kind, ""), words)
    name = CHECKS[kind].name if kind in CHECKS else _OTHER_KINDS.get(kind, "")
    if name == "EQUALS":
        expected = dict(tree.nodes[node][3])[kind]
        name = "NUMBER" if type(expected) in (int, float) else "CONSTANT"
    return Misfit(tree.names[node], name, words)


_OTHER_KINDS = {core.REL_PROGRAM: "PROGRAM", core.FAILED_STATE: "STATE", core.FAILED_DEAD: "DEAD"}


def what_keeps_failing(found: Sequence[Misfit], options: Options) -> str:
    """The guard that fails for most entries, the values it was seen with, and the remedy."""
    if not found:
        return ""
    (source, kind), count = collections.Counter((misfit.source, misfit.kind) for misfit in found).most_common(1)[0]
    words = list(dict.fromkeys(m.words for m in found if (m.source, m.kind) == (source, kind)))
    more = [f"... and {len(words) - _SHOWN} more"] if len(words) > _SHOWN else []
    about = f"what fails of {source}" if source else "what fails"
    head = f"{about} ({count} of {len(found)} entries):"
    return "\n    ".join([head, *words[:_SHOWN], *more]) + f"\n  remedy: {_remedy(kind, options)}"


def _remedy(kind: str, options: Options) -> str:
    if kind in _OF_NUMBERS and options.dynamic is False:
        return "compile without dynamic=False, so that what differs becomes symbolic"
    return _REMEDIES.get(kind, "let calls that differ in this be calls of different functions")


_OF_NUMBERS = frozenset({"TENSOR", "NUMBER", "LENGTH", "PROGRAM"})
_REMEDIES = {
    "TENSOR": "say which sizes differ with mark_dynamic or compile(dynamic={...}); let them have one layout",
    "PROGRAM": "the program decides by these numbers: decide fewer things by them, or pad to some sizes",
    "NUMBER": "give a number that always differs as a tensor, or name it in compile(dynamic={...})",
    "LENGTH": "give containers of one length, or a tensor",
    "IS": "give the same object again instead of a new one",
    "DEAD": "keep the objects alive that the function was called with",
    "STATE": "call the function in one mode of torch",
}


def refused(name: str, function: FunctionType, found: Sequence[Misfit]) -> str:
    """The message of a call that had no entry where that is an error."""
    code = function.__code__
    head = f"{name} ({code.co_filename}:{code.co_firstlineno}) has no entry for this call, "
    head += "and the stance is 'fail_on_recompile'"
    return "\n  ".join(
        [head, *(misfit.words for misfit in found[:_SHOWN])] if found else [f"{head}: it has none at all"]
    )
