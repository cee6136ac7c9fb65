"""Models of what objects say about themselves to `copy` and `pickle`: `__reduce_ex__`, `__reduce__`, `__getstate__`."""

from __future__ import annotations

import copyreg
from collections import OrderedDict, defaultdict, deque
from typing import Any

from framelift.models.registry import Missing, models


def holds_more_than(obj: Any, slots: Any) -> bool:
    """Whether an object has state besides its namespace and slots of these names; the interpreter knows."""
    raise NotImplementedError  # never called: values/ has a primitive for it


@models(object.__reduce_ex__)
def reduce_ex(self: Any, protocol: Any, /) -> Any:
    own = self.__reduce__
    if type(self).__reduce__ is not object.__reduce__:
        return own()
    return _plain_reduce(self, protocol)


@models(object.__reduce__)
def reduce(self: Any, /) -> Any:
    return _plain_reduce(self, 0)


def _plain_reduce(self: Any, protocol: Any) -> Any:
    if protocol < 2:
        return copyreg._reduce_ex(self, protocol)  # type: ignore[attr-defined]
    args, kwargs = _new_arguments(self)
    if kwargs:
        make: Any = copyreg.__newobj_ex__  # type: ignore[attr-defined]
        given: Any = (type(self), args, kwargs)
    else:
        make = copyreg.__newobj__  # type: ignore[attr-defined]
        given = (type(self),) if args is None else (type(self), *args)
    is_list, is_dict = isinstance(self, list), isinstance(self, dict)
    if type(self).__getstate__ is object.__getstate__:
        state = _plain_state(self, args is None and not is_list and not is_dict)
    else:
        state = self.__getstate__()
    return make, given, state, iter(self) if is_list else None, iter(self.items()) if is_dict else None


def _new_arguments(self: Any) -> tuple[Any, Any]:
    """What `__new__` is to be called with, besides the class; None for nothing."""
    extended = getattr(type(self), "__getnewargs_ex__", Missing)
    if extended is not Missing:
        found = self.__getnewargs_ex__()
        if not isinstance(found, tuple):
            raise TypeError(f"__getnewargs_ex__ should return a tuple, not '{type(found).__name__}'")
        if len(found) != 2:
            raise ValueError(f"__getnewargs_ex__ should return a tuple of length 2, not {len(found)}")
        args, kwargs = found
        if not isinstance(args, tuple):
            raise TypeError(
                f"first item of the tuple returned by __getnewargs_ex__ must be a tuple, not '{type(args).__name__}'"
            )
        if not isinstance(kwargs, dict):
            raise TypeError(
                f"second item of the tuple returned by __getnewargs_ex__ must be a dict, not '{type(kwargs).__name__}'"
            )
        return args, kwargs
    if getattr(type(self), "__getnewargs__", Missing) is not Missing:
        args = self.__getnewargs__()
        if not isinstance(args, tuple):
            raise TypeError(f"__getnewargs__ should return a tuple, not '{type(args).__name__}'")
        return args, None
    return None, None


@models(object.__getstate__)
def getstate(self: Any, /) -> Any:
    return _plain_state(self, False)


def _plain_state(self: Any, all_of_it: bool) -> Any:
    """The namespace and the slots; with `all_of_it` it is an error if there is more."""
    names = copyreg._slotnames(type(self))  # type: ignore[attr-defined]
    if all_of_it and holds_more_than(self, names):
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")
    state = getattr(self, "__dict__", None) or None
    slots = {}
    for name in names:
        found = getattr(self, name, Missing)
        if found is not Missing:
            slots[name] = found
    return (state, slots) if slots else state


@models(set.__reduce__, frozenset.__reduce__)
def reduce_set(self: Any, /) -> Any:
    return type(self), (list(self),), self.__getstate__()


@models(OrderedDict.__reduce__)
def reduce_ordered_dict(self: Any, /) -> Any:
    return type(self), (), self.__getstate__(), None, iter(self.items())


@models(defaultdict.__reduce__)
def reduce_default_dict(self: Any, /) -> Any:
    factory = self.default_factory
    return type(self), () if factory is None else (factory,), None, None, iter(self.items())


@models(deque.__reduce__)
def reduce_deque(self: Any, /) -> Any:
    given = () if self.maxlen is None else ((), self.maxlen)
    return type(self), given, self.__getstate__(), iter(self)


@models(BaseException.__reduce__)
def reduce_exception(self: Any, /) -> Any:
    names = self.__dict__
    return (type(self), self.args, names) if names else (type(self), self.args)


@models(BaseException.__setstate__)
def set_state_of_exception(self: Any, state: Any, /) -> None:
    if state is None:
        return
    if not isinstance(state, dict):
        raise TypeError("state is not a dictionary")
    for name, value in state.items():
        setattr(self, name, value)
