"""Lifted modules.

`compile(module)` gives an instance of a subclass of the module's own class whose `__dict__` *is* the module's
`__dict__`. So parameters, buffers, submodules, hooks, `train()`, `to()`, `state_dict()` and every attribute are the
same seen from either side, and nothing has to be forwarded. Only the call differs: it goes to the lifted
`type(module).__call__`, with the original module as `self`.

    >>> lifted = framelift.compile(model)
    >>> isinstance(lifted, type(model)), lifted.__dict__ is model.__dict__, lifted._orig_mod is model
    (True, True, True)
"""

from __future__ import annotations

import abc
import copy
import threading
import weakref
from collections.abc import Callable
from types import MemberDescriptorType, MethodType
from typing import Any, ClassVar, cast

import torch

# How a plain function is made into the one that is called: the lifting, or the disabling, of compile() and disable().
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class LiftedModule:
    """What every lifted module's class has in front of the module's own class."""

    __slots__ = ()

    # Slots of the made subclass, which has them because this class must not change the layout of the module's.
    _orig_mod: torch.nn.Module
    _framelift_wrap: Wrap
    _framelift_called: Callable[..., Any]
    _framelift_call: Callable[..., Any]

    # The class that was lifted; set on the made subclass.
    _framelift_class: ClassVar[type]

    def __init_subclass__(cls) -> None:
        """Ends here: the user's `__init_subclass__` (a registry, say) must not hear of classes made by framelift."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kind = type(self._orig_mod)
        if kind.__call__ is not self._framelift_called or kind is not self._framelift_class:
            _renew(self)
        return self._framelift_call(*args, **kwargs)

    def __copy__(self) -> Any:
        return wrap_module(copy.copy(self._orig_mod), self._framelift_wrap)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return wrap_module(copy.deepcopy(self._orig_mod, memo), self._framelift_wrap)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return wrap_module, (self._orig_mod, self._framelift_wrap)


def wrap_module(module: torch.nn.Module, wrap: Wrap) -> torch.nn.Module:
    """The module with its call replaced by `wrap(type(module).__call__)`."""
    if isinstance(module, torch.jit.ScriptModule):
        raise TypeError(
            f"{type(module).__name__} is a TorchScript module, which has no Python code to lift: "
            "compile the nn.Module it was made from"
        )
    made = _instance(_subclass(type(module)))
    object.__setattr__(made, "__dict__", module.__dict__)
    _set(made, "_orig_mod", module)
    _set(made, "_framelift_wrap", wrap)
    _renew(made)
    return cast(torch.nn.Module, made)


def original(module: torch.nn.Module) -> torch.nn.Module:
    """The module that was lifted, or the module itself if it is not a lifted one."""
    return module._orig_mod if isinstance(module, LiftedModule) else module


def _renew(lifted: LiftedModule) -> None:
    """Wrap the call as the class defines it now: it may have been replaced, or a lazy module changed its class."""
    module = lifted._orig_mod
    kind = type(module)
    if type(lifted)._framelift_class is not kind:
        object.__setattr__(lifted, "__class__", _subclass(kind))
    _set(lifted, "_framelift_called", kind.__call__)
    _set(lifted, "_framelift_call", MethodType(lifted._framelift_wrap(kind.__call__), module))


def _set(lifted: LiftedModule, slot: str, value: object) -> None:
    # Not setattr: a module's own __setattr__ would put a submodule or a parameter into the shared dict.
    getattr(type(lifted), slot).__set__(lifted, value)


def _instance(kind: type[LiftedModule]) -> LiftedModule:
    try:
        return object.__new__(kind)
    except TypeError:
        base = kind._framelift_class
        raise TypeError(
            f"{base.__name__} is an nn.Module and a builtin container in one; "
            "the contents of such an object cannot be shared with a lifted one: compile its forward method instead"
        ) from None


class _Subclasses:
    """The subclass made for each module class, while it is in use. Weak both ways: a subclass keeps its base alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: weakref.WeakKeyDictionary[type, weakref.ref[type[LiftedModule]]] = weakref.WeakKeyDictionary()

    def __call__(self, kind: type) -> type[LiftedModule]:
        with self._lock:
            reference = self._made.get(kind)
            made = reference() if reference is not None else None
            if made is None:
                made = _make_subclass(kind)
                self._made[kind] = weakref.ref(made)
            return made


_subclass = _Subclasses()


def _make_subclass(kind: type) -> type[LiftedModule]:
    """A subclass of a module class, made without running the class's own metaclass or `__init_subclass__`."""
    namespace: dict[str, Any] = {
        "__slots__": ("_orig_mod", "_framelift_wrap", "_framelift_called", "_framelift_call"),
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "_framelift_class": kind,
    }
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if type(member) is MemberDescriptorType and name not in namespace:
                namespace[name] = _forwarded(member)
    if hasattr(kind, "__del__"):
        namespace["__del__"] = _nothing  # the original's runs when the original dies, and only then
    metaclass = type(kind)
    maker = abc.ABCMeta if issubclass(metaclass, abc.ABCMeta) else type
    return cast(type[LiftedModule], maker.__new__(metaclass, kind.__name__, (LiftedModule, kind), namespace))


def _forwarded(slot: MemberDescriptorType) -> property:
    """A slot of the module's class is a field of the original object, outside the `__dict__`: it stays there."""

    def get(self: LiftedModule) -> Any:
        return slot.__get__(self._orig_mod)

    def set(self: LiftedModule, value: Any) -> None:
        slot.__set__(self._orig_mod, value)

    def delete(self: LiftedModule) -> None:
        slot.__delete__(self._orig_mod)

    return property(get, set, delete)


def _nothing(self: object) -> None:
    pass
