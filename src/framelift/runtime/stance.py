"""The stance: what lifted calls do where they have no entry, and whether they use entries at all.

    >>> with set_stance("force_eager"):
    ...     current()
    'force_eager'

There is a stance of the process, and one of each context (thread, task) that has set its own for a block. Where both
are "default", torch's is taken: `torch.compiler.set_stance` keeps it in a global variable of a module that is looked at
only if a program has loaded it. It may also name a backend that takes the place of all others.
"""

from __future__ import annotations

import dis
import functools
import sys
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType, MappingProxyType
from typing import Any, TypeVar

from framelift.errors import short, unknown
from framelift.locks import Lock
from framelift.native import _core

AnyCallable = TypeVar("AnyCallable", bound=Callable[..., Any])

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")
# Stances of torch that mean one of ours.
_OF_TORCH = MappingProxyType({**{name: name for name in STANCES}, "aot_eager_then_compile": "eager_then_compile"})
_CACHE, _BEFORE_WITH = dis.opmap["CACHE"], dis.opmap["BEFORE_WITH"]
_KEPT_BY_TORCH = "torch._dynamo.eval_frame"


class Setting:
    """One setting of the process's stance. It can be taken back, from the middle too, while its owner lives."""

    __slots__ = ("name", "before", "owner")

    def __init__(self, name: str, before: Setting | None, owner: object) -> None:
        self.name = name
        self.before = before
        self.owner = weakref.ref(owner)


class Stances:
    """The stance of the process and those of contexts; tells the native entry when it has to ask."""

    def __init__(self) -> None:
        # Native code may ask while it is held: a finalizer can call anything.
        self._lock = Lock()
        # The setting that holds, and through it those it covers.
        self._setting: Setting | None = None
        self._context: ContextVar[str | None] = ContextVar("framelift_stance", default=None)
        # Lifts a callable anew for the backend that is forced.
        self._lift_anew: Callable[[Any], Any] | None = None
        # How many blocks force Python just now, on all threads.
        self._forcing = 0
        self._follow()

    def current(self) -> str:
        """The stance that holds here."""
        own = self._context.get() or self._process
        return own if own != "default" else _stance_of_torch()

    @property
    def _process(self) -> str:
        setting = self._setting
        return "default" if setting is None else setting.name

    def set(self, name: str, owner: object) -> Setting:
        """Set the stance of the process."""
        with self._lock:
            setting = self._setting = Setting(name, self._setting, owner)
            self._drop_what_stays_covered()
            self._follow()
        return setting

    def take_back(self, setting: Setting) -> None:
        """Other threads may have set theirs meanwhile: these stay."""
        with self._lock:
            if self._setting is setting:
                self._setting = setting.before
            else:
                above = self._setting
                while above is not None and above.before is not setting:
                    above = above.before
                if above is not None:
                    above.before = setting.before
            self._follow()

    def _drop_what_stays_covered(self) -> None:
        """A setting whose owner is gone stays for good, and nothing below it will be seen again."""
        setting = self._setting
        while setting is not None:
            if setting.owner() is None:
                setting.before = None
            setting = setting.before

    def enter(self, name: str) -> str | None:
        """Set the stance of this context; answers the one before."""
        before = self._context.get()
        self._context.set(name)
        self._count(name, 1)
        return before

    def leave(self, name: str, before: str | None) -> None:
        """End what `enter` began."""
        self._context.set(before)
        self._count(name, -1)

    def _count(self, name: str, more: int) -> None:
        if name == "force_eager":
            with self._lock:
                self._forcing += more
                self._follow()

    def ask(self) -> bool:
        """Whether Python runs everything here. Asked by native code."""
        with self._lock:
            self._follow()
        return self.current() == "force_eager"

    def _follow(self) -> None:
        forced = self._forcing > 0 or self._process == "force_eager" or _stance_of_torch() == "force_eager"
        instead = None if forced_backend() is None else self._lift_anew
        _core.follow_stance(self.ask, forced, _where_torch_keeps_it(), instead)

    def lift_anew_with(self, lift_anew: Callable[[Any], Any]) -> None:
        """Say how a lifted callable is lifted for the backend that is forced; None: it is already."""
        self._lift_anew = lift_anew


def _where_torch_keeps_it() -> dict[str, Any]:
    """The variables of torch's module, or what changes when it is loaded."""
    module = sys.modules.get(_KEPT_BY_TORCH)
    return sys.modules if module is None else vars(module)


def _stance_of_torch() -> str:
    kept = getattr(sys.modules.get(_KEPT_BY_TORCH), "_stance", None)
    return _OF_TORCH.get(getattr(kept, "stance", "default"), "default")


def forced_backend() -> str | Callable[..., Any] | None:
    """The backend that torch's stance puts in the place of all others."""
    kept = getattr(sys.modules.get(_KEPT_BY_TORCH), "_stance", None)
    backend: str | Callable[..., Any] | None = getattr(kept, "backend", None)
    return backend


_STANCES = Stances()
current = _STANCES.current
lift_anew_with = _STANCES.lift_anew_with


def _begins_a_block(frame: FrameType) -> bool:
    """Whether `with` takes what a frame is about to get from the call it makes."""
    code, following = frame.f_code.co_code, frame.f_lasti + 2
    while following < len(code) and code[following] == _CACHE:
        following += 2
    return following < len(code) and code[following] == _BEFORE_WITH


class set_stance:  # noqa: N801  (used like a function)
    """Set what lifted calls do; called, for the whole process, with `with` or as a decorator, for this context only.

    default              capture what has no entry
    force_eager          Python runs everything, as if nothing had been lifted
    eager_on_recompile   entries are used, Python runs what has none
    fail_on_recompile    entries are used, what has none raises RecompileError
    eager_then_compile   Python runs the first call of each function; what differs in the second is symbolic at once

    >>> with framelift.set_stance("fail_on_recompile"):
    ...     serve(model)
    """

    def __init__(self, stance: str = "default") -> None:
        self._begin(stance, sys._getframe(1))

    @classmethod
    def called_by(cls, caller: FrameType, stance: str) -> set_stance:
        """The same for functions that stand for this class: `caller` is the frame that called one."""
        made = cls.__new__(cls)
        made._begin(_OF_TORCH.get(stance, stance), caller)
        return made

    def _begin(self, stance: str, caller: FrameType) -> None:
        if not isinstance(stance, str):
            raise TypeError(f"set_stance() was given {short(stance)}: one of {', '.join(map(repr, STANCES))} is needed")
        if stance not in STANCES:
            raise ValueError(unknown("stance", stance, STANCES))
        self._stance = stance
        # Of the process, until it is known that it is for a block or a function: mostly it is known at once.
        self._setting = None if _begins_a_block(caller) else _STANCES.set(stance, self)
        self._entered: list[str | None] = []

    def _only_here(self) -> None:
        """It was not for the process."""
        if self._setting is not None:
            _STANCES.take_back(self._setting)
            self._setting = None

    def __enter__(self) -> set_stance:
        self._only_here()
        self._entered.append(_STANCES.enter(self._stance))
        return self

    def __exit__(self, *error: object) -> None:
        _STANCES.leave(self._stance, self._entered.pop())

    def __call__(self, function: AnyCallable) -> AnyCallable:
        self._only_here()
        stance = self._stance

        @functools.wraps(function)
        def in_stance(*args: Any, **kwargs: Any) -> Any:
            before = _STANCES.enter(stance)
            try:
                return function(*args, **kwargs)
            finally:
                _STANCES.leave(stance, before)

        return in_stance  # type: ignore[return-value]
