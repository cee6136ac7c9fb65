"""Digests of constants: `hashlib.sha256(b"...").hexdigest()` and its like, computed while capturing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.values.core import protocol as py
from framelift.values.core.primitives import primitive
from framelift.values.stdlib.made_by_call import MadeByCall, constants

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class DigestValue(MadeByCall):
    """What a function of `hashlib` gave. What it is fed, the function could have been given at once."""

    __slots__ = ()
    data = frozenset({"digest_size", "block_size", "name"})
    methods = frozenset({"update", "digest", "hexdigest", "copy"})
    changes = frozenset({"update"})

    def change(self, tracer: Tracer, name: str, *args: Any, **kwargs: Any) -> Any:
        super().change(tracer, name, *args, **kwargs)
        if self._made_by is not None:
            function, given = self._made_by
            named = 1 if function is hashlib.new else 0
            self._made_by = function, (*given[:named], b"".join([*given[named:], *args, *kwargs.values()]))

    def answer(self, tracer: Tracer, name: str, args: tuple[Any, ...] | None, result: Any) -> Any:
        if name == "copy":
            return DigestValue(None, result, self._made_by)
        return super().answer(tracer, name, args, result)


def _register() -> None:
    for function in (hashlib.new, *[getattr(hashlib, name) for name in sorted(hashlib.algorithms_guaranteed)]):

        def make(tracer: Tracer, *args: Any, _function: Callable[..., Any] = function, **kwargs: Any) -> Any:
            plain, named = constants(tracer, list(args), kwargs)
            made = py.evaluate(tracer, _function, *plain, **named)
            return DigestValue(None, made, None if named else (_function, plain))

        primitive(function)(make)


_register()
