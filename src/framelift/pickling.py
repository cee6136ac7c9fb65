"""Lifted callables in pickles: by name, as functions are; else as what was lifted and the arguments of `compile()`.

    >>> pickle.loads(pickle.dumps(step)) is step        # @framelift.compile def step
    True

A process that unpickles one has a lifted callable, too, with entries of its own. Python pickles bound methods as their
object and their name, which finds the method, but not what was lifted of it. The pickler of `multiprocessing` has rules
of its own for them, in Python: there a bound method that was lifted arrives lifted. (`copyreg` is the whole process's:
what framelift said of bound methods there would be asked about all of them.)
"""

from __future__ import annotations

import copyreg
import functools
import pickle
import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from types import MethodType
from typing import Any

from framelift.native import _core

# Attributes of a lifted callable, and of the function that stands for something else which can be called.
LIFTED_BY = "__framelift_lifted_by__"
CALLED = "__framelift_called__"


def lifted_by(lifting: Callable[..., Any], lifted: Any) -> Any:
    """A lifted callable that remembers what lifted it."""
    lifted.__dict__[LIFTED_BY] = lifting
    return lifted


def _reduce(lifted: _core.Lifted) -> Any:
    named = _under_its_name(lifted)
    if named is lifted:
        return lifted.__qualname__
    lifting = lifted.__dict__.get(LIFTED_BY)
    if lifting is None:
        raise pickle.PicklingError(f"{lifted!r} was not made by framelift.compile()")
    if isinstance(named, _core.Lifted) and named.__wrapped__ is lifted.__wrapped__:
        return lifting, (named,)
    return lifting, (_plain(lifted),)


def _under_its_name(lifted: _core.Lifted) -> Any:
    """What whoever unpickles it by its name would find."""
    try:
        return functools.reduce(getattr, lifted.__qualname__.split("."), sys.modules[lifted.__module__])
    except (AttributeError, KeyError):
        return None


def _reduce_method(method: MethodType) -> Any:
    function, owner = method.__func__, method.__self__
    by_name = getattr, (owner, function.__name__)
    if type(function) is not _core.Lifted:
        return by_name
    found = getattr(owner, function.__name__, None)
    lifting = function.__dict__.get(LIFTED_BY)
    if lifting is None or type(found) is not MethodType or found.__self__ is not owner or found.__func__ is function:
        return by_name
    return (_lifted_method, (lifting, found)) if _plain(found.__func__) is _plain(function) else by_name


def _plain(function: Any) -> Any:
    """What was lifted, or the callable itself."""
    if type(function) is not _core.Lifted:
        return function
    return function.__wrapped__.__dict__.get(CALLED, function.__wrapped__)


def _lifted_method(lifting: Callable[..., Any], method: MethodType) -> MethodType:
    return MethodType(lifting(method.__func__), method.__self__)


copyreg.pickle(_core.Lifted, _reduce)
ForkingPickler.register(MethodType, _reduce_method)
