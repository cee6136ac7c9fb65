"""Lifted callables in pickles: by name, as functions are; else as what was lifted and the arguments of `compile()`.

    >>> pickle.loads(pickle.dumps(step)) is step        # @framelift.compile def step
    True

A process that unpickles one has a lifted callable, too, with entries of its own. (A bound method is pickled by Python,
as its object and its name: it is lifted again where its class has it lifted.)
"""

from __future__ import annotations

import copyreg
import functools
import pickle
import sys
from collections.abc import Callable
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
    return lifting, (lifted.__wrapped__.__dict__.get(CALLED, lifted.__wrapped__),)


def _under_its_name(lifted: _core.Lifted) -> Any:
    """What whoever unpickles it by its name would find."""
    try:
        return functools.reduce(getattr, lifted.__qualname__.split("."), sys.modules[lifted.__module__])
    except (AttributeError, KeyError):
        return None


copyreg.pickle(_core.Lifted, _reduce)
