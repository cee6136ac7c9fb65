"""What the C core asks of Python: all that it calls by name, and the functions that it is handed once.

Nothing else of framelift is known in C, and C imports none of it. A `Context` and a `Judge` are objects that Python
passes in; the `Functions` are handed over by `_core.connect(name=function)` when the module that defines one is loaded.
`_core.ASKED_BY_NAME` and `_core.connected()` are the same lists as C has them, and a test compares them. (What is
asked about torch is handed over with its calibration, `torch/calibrate.py`, and the stance by `follow_stance`.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, EllipsisType, FunctionType, NotImplementedType
from typing import Any, Protocol, TypeAlias, TypedDict

# Types of `_core`, whose stub names the protocols of this file.
Entry: TypeAlias = Any
Tail: TypeAlias = Any


class Context(Protocol):
    """By whom frames are lifted: given to `run_hooked`, `hooked` and `step`.

    Answers are looked at in C: nothing that one of them raises is heard by the frame, but for an exception that
    `resume` or the call *returns*: that is raised in its place.
    """

    # The key of the tables that frames are looked up in. A context without one is its own key, held weakly.
    @property
    def key(self) -> Any: ...

    def __call__(
        self, code: CodeType, function: FunctionType, slots: tuple[Any, ...], /
    ) -> Entry | EllipsisType | NotImplementedType | BaseException | bool | None:
        """The frame hook met a frame that no entry takes. None: not this time; NotImplemented: nor what it calls;
        False: never for this code; ...: nor for what it calls."""

    def resume(
        self, function: FunctionType, slots: tuple[Any, ...], /
    ) -> Entry | NotImplementedType | BaseException | None:
        """What follows a break has no entry for these arguments. None: Python runs it; NotImplemented: alone."""

    def join(self, tail: Tail, /) -> tuple[FunctionType, Sequence[Any]]:
        """Frames were left together, one waiting for the other: as which function they go on, with which arguments."""

    def unlifted(
        self, function: FunctionType, slots: tuple[Any, ...], error: BaseException | None, /
    ) -> tuple[FunctionType, Sequence[Any]]:
        """What Python runs instead of a resume function; `error` is to be raised where it begins."""


class Judge(Protocol):
    """Who is told of a graph that raised: given to `give_up`, and to `Table.install` with a direct call."""

    def python_succeeded(self, entry: Entry, error: BaseException | None, /) -> BaseException | None:
        """Python has run the call and did not raise. An exception that is returned is raised."""


class Functions(TypedDict, total=False):
    """What `connect` takes. Before a function is there, C does without, as each says."""

    # (error, anywhere): take the callers of modules out of a traceback that begins in one, or has them anywhere. It is
    # asked about frames with its own globals. (Without: there are none.)
    hide_callers: Callable[[BaseException, bool], None]
    # Whether what a graph raised comes of what it computes, and not from a signal's handler. (Without: every Exception
    # does.)
    is_failure: Callable[[BaseException], bool]
    # (id, function): Python is about to run a call, for a reason that only C knows. (Without: nobody hears.)
    hear_of_fallback: Callable[[str, FunctionType], None] | None
    # (kind, name, argument, found): the guard that does not hold, in words. (Without: by its number.)
    describe: Callable[[int, Any, Any, Any], str]
    # (tree, slots, function, fetched): why that is not what the reference says, or None. (Without: a strict check is an
    # error.)
    disagreement: Callable[[Any, tuple[Any, ...], Any, tuple[Any, ...] | None], str | None]
