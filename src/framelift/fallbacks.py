"""The registry of reasons why Python runs a call of a lifted function. Every id is stable, and the prose lives here.

    BUILTINS_REPLACED.because(names="len")

Graph breaks are something else (`breaks.py`): there the call has graphs, and Python runs what stands between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fallback:
    """Why Python runs a call, and what a user can do about it. `text` is a format string.

    `is_error`: with `fullgraph=True` the call raises FullGraphError instead. It does not where the program asked for
    Python, nor where the call was captured and what its graph presumes does not hold this time.
    """

    id: str
    text: str
    remedy: str
    is_error: bool

    @property
    def with_fullgraph(self) -> str:
        """What `fullgraph=True` makes of it, in words."""
        return _WITH_FULLGRAPH.get(self.id, "FullGraphError" if self.is_error else "the same")

    def because(self, **details: Any) -> Because:
        """The reason of one call."""
        return Because(self, self.text.format(**details))


@dataclass(frozen=True, slots=True)
class Because:
    """A reason with the words for one call."""

    fallback: Fallback
    words: str


FALLBACKS: dict[str, Fallback] = {}
_WITH_FULLGRAPH = {"FL0003": "BackendError", "FL0503": "captured and used"}


def _fallback(id: str, text: str, remedy: str, *, is_error: bool) -> Fallback:
    assert id not in FALLBACKS, f"{id} is taken"
    FALLBACKS[id] = Fallback(id, text, remedy, is_error)
    return FALLBACKS[id]


# 00xx: framelift, a limit, or a backend (each is warned of, too)
CAPTURE_FAILED = _fallback(
    "FL0001",
    "its capture failed before",
    "This is a fault of framelift: please report what the warning says.",
    is_error=True,
)
LIMIT_REACHED = _fallback(
    "FL0002",
    "the recompile limit is reached: {limit}",
    "The warning says which guard fails for most entries, and what to do about it.",
    is_error=True,
)
GRAPH_FAILED = _fallback(
    "FL0003",
    "its graph raised {error} where Python does not",
    "The backend compiled the graph wrongly, or ran out of memory: see whether backend='eager' raises as well.",
    is_error=True,
)
# 05xx: what the program asked for
DISABLED = _fallback(
    "FL0501",
    "it was called within framelift.disable, or by what runs while framelift captures",
    "Nothing to do: the program asked for it.",
    is_error=False,
)
STANCE = _fallback(
    "FL0502", "the stance is {stance}", "framelift.set_stance('default') captures again.", is_error=False
)
WATCHED = _fallback(
    "FL0503",
    "a debugger or a coverage tool follows the program",
    "With fullgraph=True it is captured and used all the same, unseen by the tool.",
    is_error=False,
)
OTHER_COMPILER = _fallback(
    "FL0504",
    "another compiler is tracing",
    "Nothing to do: the other compiler traces the function itself.",
    is_error=False,
)
# 06xx: the state of the process or the thread
TRANSFORMED = _fallback(
    "FL0601",
    "a torch.func transform is active",
    "Compile the function that calls vmap, grad or jvp, so that the transform is part of the graph.",
    is_error=True,
)
DISPATCH_MODE = _fallback(
    "FL0602",
    "a torch dispatch mode is active",
    "Call it outside the mode: what a mode does to operations is not captured.",
    is_error=True,
)
FUNCTION_MODE = _fallback(
    "FL0603",
    "a torch function mode is active",
    "Call it outside the mode: what a mode does to operations is not captured.",
    is_error=True,
)
BUILTINS_REPLACED = _fallback(
    "FL0604",
    "builtins are replaced: {names}",
    "Put the builtins back.",
    is_error=True,
)
OWN_BUILTINS = _fallback(
    "FL0605", "it has builtins of its own", "Give the function the builtins of everybody.", is_error=True
)
STACK_USED_UP = _fallback(
    "FL0606",
    "the stack is nearly used up",
    "Call it from less deep, or with a higher sys.setrecursionlimit().",
    is_error=True,
)
COLLECTED = _fallback(
    "FL0607",
    "the lifted function is being collected",
    "Do not call it from finalizers.",
    is_error=False,
)
CHANGED_MEANWHILE = _fallback(
    "FL0608",
    "what was captured does not fit the call any more: something else changed meanwhile",
    "See whether another thread, or the backend, changes what the function reads.",
    is_error=False,
)
TORCH_UNFIT = _fallback(
    "FL0609",
    "nothing is lifted with this version of torch: {reason}",
    "Use a version of torch that framelift is tested with; the warning at import names what is missing.",
    is_error=True,
)
# 07xx: what follows a graph break
MANY_FRAMES = _fallback(
    "FL0701",
    "too many frames were left together",
    "Break the graph in fewer calls that wait for each other.",
    is_error=False,
)
UNPROMISING = _fallback(
    "FL0702",
    "what was captured of it is not used again",
    "Give a number or an object that is another one each time as a tensor.",
    is_error=False,
)
# 08xx: what a graph presumes, and what did not hold
DATA_DIFFERS = _fallback(
    "FL0801",
    "what its graph presumes about data is {check}",
    "Nothing to do, unless it happens again and again: the next capture presumes less.",
    is_error=False,
)
ERROR_PRESUMED_AWAY = _fallback(
    "FL0802",
    "the value of a tensor leads to an error, which the program handles",
    "Use torch.where or torch.cond if that happens often.",
    is_error=False,
)
ERROR_HANDLED = _fallback(
    "FL0803",
    "an operation raised {error} in a `try` or `with` of the program",
    "Nothing to do, unless it happens often: then the graph is run for nothing.",
    is_error=False,
)
ERROR_FORESEEN = _fallback(
    "FL0805",
    "its data lead to an error: {check} is false",
    "Nothing to do: the call raises, or the program handles it. The next call is captured.",
    is_error=False,
)
NUMBER_DIFFERS = _fallback(
    "FL0804",
    "a number that it calculates is of another kind, or cannot be calculated ({error})",
    "Let functions of changing numbers give the same type of number each time.",
    is_error=False,
)
