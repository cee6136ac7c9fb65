"""What a new class calls: `__set_name__` of its attributes, `__init_subclass__` of its base."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102_CLASS, GraphBreak
from framelift.values.classes.descriptors import MadeDescriptor
from framelift.values.classes.new_classes import hook_of_bases
from framelift.values.core import protocol as py
from framelift.values.core.base import Raised
from framelift.values.core.lookup import name_of, own_entries, special_method
from framelift.values.core.primitives import primitive
from framelift.values.objects.classes import SuperValue
from framelift.values.objects.exceptions import ExceptionObjectValue
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.classes.new_classes import MadeClassValue
    from framelift.values.core.tracer import Tracer

_OF_OBJECT = own_entries(object)["__init_subclass__"]


def name_attributes(tracer: Tracer, made: MadeClassValue) -> None:
    """Tell the attributes of a new class their names."""
    for name, value in list(made.entries.items()):
        if isinstance(value, UserObjectValue):
            method = special_method(tracer, value, value.cls, "__set_name__")
            if method is not None:
                _set_name(tracer, method, value, made, name)
        elif isinstance(value, MadeDescriptor):
            value.set_name(tracer, own_entries(made.concrete)[name], name)


def _set_name(tracer: Tracer, method: Any, attribute: UserObjectValue, made: MadeClassValue, name: str) -> None:
    """Call `__set_name__`; until 3.12 what it raises becomes the cause of another error, since then it gets a note."""
    try:
        py.call(tracer, method, [made, name], {})
    except Raised as raised:
        owner = name_of(made.concrete)
        words = f"Error calling __set_name__ on '{name_of(attribute.cls)}' instance '{name}' in '{owner}'"
        if sys.version_info >= (3, 12):
            py.call(tracer, py.attribute(tracer, raised.value, "add_note"), [words], {})
            raise
        error = ExceptionObjectValue(RuntimeError, (words,))
        error.cause, error.context, error.suppress_context = raised.value, raised.value, True
        raise Raised(error) from None


def init_subclass(tracer: Tracer, made: MadeClassValue, keywords: dict[str, Any]) -> None:
    """Tell the base of a new class about it."""
    if hook_of_bases(made.concrete) is not _OF_OBJECT:
        above = SuperValue(made.concrete, made, made.concrete)
        py.call(tracer, above.attribute(tracer, "__init_subclass__"), [], keywords)
    elif keywords:
        raise GraphBreak(FL0102_CLASS, why="with keywords that nothing takes")


@primitive(_OF_OBJECT)
def _object_init_subclass(tracer: Tracer, cls: Any, /) -> None:
    """`object.__init_subclass__()`: with arguments it is not traced, and complains."""
