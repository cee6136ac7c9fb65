"""Numbers that tell one object or one thread from another: `id(obj)`, `threading.get_ident()`.

Which numbers they are is not known while capturing, and programs do not ask: they compare them and use them as keys.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0107, GraphBreak
from framelift.guards.equality import constants_equal
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.hash_keys import NumberKey
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class IdentityNumber(Value):
    """`function(*of)`: equal to another such number if both are about the same object."""

    __slots__ = ("function", "of")
    answers_operators = False
    keeps_parts = False

    def __init__(self, function: Callable[..., int], of: tuple[Any, ...]) -> None:
        super().__init__()
        self.function = function
        self.of = of

    def python_type(self) -> type:
        return int

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator not in ("==", "!=") or not isinstance(other, IdentityNumber):
            self.refuse(Operation.COMPARISON, operator=operator)
        equal = self.function is other.function and all(
            self._is_one(tracer, mine, its) for mine, its in zip(self.of, other.of, strict=True)
        )
        return equal == (operator == "==")

    def _is_one(self, tracer: Tracer, mine: Any, its: Any) -> bool:
        if isinstance(mine, Value) or isinstance(its, Value) or not _may_be_two(mine):
            return py.same(tracer, mine, its)
        if constants_equal(mine, its):
            self.refuse("comparison of that of two constants")
        return False

    def key(self, tracer: Tracer) -> Any:
        """Numbers of one function that may be equal share a hash, so that dicts compare them."""
        told = [part for part in self.of if isinstance(part, Value) and _is_itself_only(part)]
        for part in told:
            part.note(tracer)
        return NumberKey(tracer, self, hash((self.function, *[Value.key(part, tracer) for part in told])))

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        self.refuse(Operation.IDENTITY)

    def is_constant_object(self, tracer: Tracer, constant: Any) -> bool:
        return False if type(constant) is not int else self.refuse(Operation.IDENTITY)

    def parts(self) -> list[Any]:
        return list(self.of)

    def made_by(self) -> Call:
        if any(not isinstance(part, Value) and _may_be_two(part) for part in self.of):
            raise GraphBreak(FL0107, what="the id() of a constant")
        return self.function, self.of


@primitive(id)
def _id(tracer: Tracer, obj: Any, /) -> Any:
    return IdentityNumber(id, (obj,))


def _is_itself_only(value: Value) -> bool:
    """Whether two values of this kind are never one object, as guards see to for keys."""
    return type(value).is_same is Value.is_same


_ONE_OBJECT = (type(None), bool, type(Ellipsis), type(NotImplemented))


def _may_be_two(constant: Any) -> bool:
    """Whether two equal constants are one object is the compiler's business; of some there is one."""
    return type(constant) not in _ONE_OBJECT


@primitive(_thread.get_ident)
def _get_ident(tracer: Tracer) -> Any:
    return IdentityNumber(_thread.get_ident, ())
