"""Bytes that `pickle.dumps` gave: what they make when they are loaded is known, but not what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102_OPERAND, FL0107, GraphBreak
from framelift.models.stdlib.pickle import pickled, recipe_of
from framelift.values.core import protocol as py
from framelift.values.core.construct import make_tuple
from framelift.values.core.primitives import primitive
from framelift.values.tensors.deferred import DeferredValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class PickleValue(DeferredValue):
    """The bytes of a recipe (`framelift.models.stdlib.pickle`). They cannot be made from it: Python pickles objects."""

    __slots__ = ("recipe", "protocol", "born")

    def __init__(self, recipe: Any, protocol: int, born: int) -> None:
        super().__init__(bytes, pickled, [])
        self.recipe = recipe
        self.protocol = protocol
        self.born = born

    def rebuild(self, emit: Emitter) -> None:
        raise GraphBreak(FL0107, what="what pickle.dumps() gave", born=self.born)


@primitive(pickled)
def _pickled(tracer: Tracer, recipe: Any, protocol: Any) -> Any:
    return PickleValue(recipe, tracer.constant(protocol), tracer.steps.count)


@primitive(recipe_of)
def _recipe_of(tracer: Tracer, data: Any) -> Any:
    if not isinstance(data, PickleValue):
        raise GraphBreak(FL0102_OPERAND, what="pickle.loads()", operand=py.describe(data))
    return make_tuple([data.recipe, data.protocol])
