"""Numbers that tell one object or one thread from another: `id(obj)`, `threading.get_ident()`.

Which numbers they are is not known while capturing, and programs do not ask: they compare them and use them as keys.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class IdentityNumber(Value):
    """`function(*of)`: equal to another such number if both are about the same object."""

    __slots__ = ("function", "of")
    answers_operators = False

    def __init__(self, function: Callable[..., int], of: tuple[Any, ...]) -> None:
        super().__init__()
        self.function = function
        self.of = of

    def python_type(self) -> type:
        return int

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        if operator not in ("==", "!=") or not isinstance(other, IdentityNumber):
            self.refuse(f"comparison {operator}")
        equal = self.function is other.function and all(
            py.same(lift, mine, its) for mine, its in zip(self.of, other.of, strict=True)
        )
        return equal == (operator == "==")

    def key(self, lift: Lift) -> Any:
        """Numbers of one function share a hash, so that dicts compare them."""
        return py.NumberKey(lift, self, hash(self.function))

    def is_same(self, lift: Lift, other: Value) -> bool:
        self.refuse("'is'")

    def is_constant_object(self, lift: Lift, constant: Any) -> bool:
        return False if type(constant) is not int else self.refuse("'is'")

    def parts(self) -> list[Any]:
        return list(self.of)

    def rebuild(self, generate: Generator) -> None:
        generate.callable(self.function)
        for part in self.of:
            generate.value(part)
        generate.call(len(self.of))


@primitive(id)
def _id(lift: Lift, obj: Any, /) -> Any:
    # Whether two equal constants are one object is the compiler's business; of the small ones there is one.
    if not isinstance(obj, Value) and type(obj) not in _ONE_OBJECT:
        raise GraphBreak(FL0102, what=f"id() of a {type(obj).__name__}")
    return IdentityNumber(id, (obj,))


_ONE_OBJECT = (type(None), bool, type(Ellipsis), type(NotImplemented))


@primitive(_thread.get_ident)
def _get_ident(lift: Lift) -> Any:
    return IdentityNumber(_thread.get_ident, ())
