"""Lifted modules.

`compile(module)` gives an instance of a subclass of the module's own class whose `__dict__` *is* the module's
`__dict__`. So parameters, buffers, submodules, hooks, `train()`, `to()`, `state_dict()` and every attribute are the
same seen from either side, and nothing has to be forwarded. Only the call differs: it goes to a lifted function that
calls the original module. Each class has such a function, with code of its own: entries are kept by code object, so
those of different classes are never searched together, and logs say `Net.__call__`.

    >>> lifted = framelift.compile(model)
    >>> isinstance(lifted, type(model)), lifted.__dict__ is model.__dict__, lifted._orig_mod is model
    (True, True, True)
"""

from __future__ import annotations

import abc
import copy
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, TracebackType
from typing import Any, ClassVar, cast

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from framelift import config
from framelift.locks import Lock

# How a plain function is made into the one that is called: the lifting, or the disabling, of compile() and disable().
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


_set_class = object.__dict__["__class__"].__set__


class _CallSignature:
    """`inspect.signature(lifted)`: that of the original's call. A lifted module's class has the signature it had."""

    def __get__(self, instance: Any, owner: type) -> inspect.Signature | None:
        return None if instance is None else inspect.signature(instance._orig_mod)


class LiftedModule:
    """What every lifted module's class has in front of the module's own class."""

    __slots__ = ()

    # The slots, declared by the two kinds of made subclasses below. The last one is what is called.
    _orig_mod: torch.nn.Module
    _framelift_wrap: Wrap
    _framelift_call: Callable[..., Any]

    __signature__ = _CallSignature()

    # The class that was lifted; set on the made subclass.
    _framelift_class: ClassVar[type]

    def __init_subclass__(cls) -> None:
        """Ends here: the user's `__init_subclass__` (a registry, say) must not hear of classes made by framelift."""

    @property
    def __class__(self) -> type:
        """What isinstance() asks when the type says no: the original may have another class since."""
        if type(self._orig_mod) is not self._framelift_class:
            _renew(self)
        return type(self)

    @__class__.setter
    def __class__(self, made: type) -> None:
        _set_class(self, made)

    def __getattr__(self, name: str) -> Any:
        if type(self._orig_mod) is not self._framelift_class and _renew(self):
            return getattr(self, name)
        return super().__getattr__(name)  # type: ignore[misc]  # nn.Module's, or the module class's own

    def __copy__(self) -> Any:
        return wrap_module(copy.copy(self._orig_mod), self._framelift_wrap)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return wrap_module(copy.deepcopy(self._orig_mod, memo), self._framelift_wrap)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return wrap_module, (self._orig_mod, self._framelift_wrap)


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: set for classes made by class statements, not for builtin ones
_SLOTS = ("_orig_mod", "_framelift_wrap", "_framelift_call")


class _Common(LiftedModule, torch.nn.Module):
    """The usual layout of a lifted module. One layout for all classes lets an instance follow its original from one
    class to another (a lazy module that becomes a plain one, a parametrization that replaces the class)."""

    __slots__ = _SLOTS


def _make_callable(kind: type[LiftedModule]) -> None:
    """Let instances of a class be called by what their slot `_framelift_call` holds, without a Python frame between."""
    kind.__call__ = kind.__dict__["_framelift_call"]  # type: ignore[method-assign]


_make_callable(_Common)


def wrap_module(module: torch.nn.Module, wrap: Wrap) -> torch.nn.Module:
    """The module with its call replaced by `wrap(function that calls the module)`."""
    if isinstance(module, torch.jit.ScriptModule):
        raise TypeError(
            f"{type(module).__name__} is a TorchScript module, which has no Python code to lift: "
            "compile the nn.Module it was made from"
        )
    builtin = next((base for base in type(module).__mro__[:-1] if not base.__flags__ & _HEAP_TYPE), None)
    if builtin is not None:
        raise TypeError(
            f"{type(module).__name__} is an nn.Module and a {builtin.__name__} in one, and the contents of a builtin "
            "cannot be shared with a lifted module: compile its forward method instead"
        )
    made = object.__new__(_subclass(type(module)))
    object.__setattr__(made, "__dict__", module.__dict__)
    _set(made, "_orig_mod", module)
    _set(made, "_framelift_wrap", wrap)
    _renew(made)
    return cast(torch.nn.Module, made)


def original(module: torch.nn.Module) -> torch.nn.Module:
    """The module that was lifted, or the module itself if it is not a lifted one."""
    return module._orig_mod if isinstance(module, LiftedModule) else module


def _renew(lifted: LiftedModule) -> bool:
    """Follow the original to the class it has now; says if the lifted module could change its class too."""
    module = lifted._orig_mod
    kind = type(module)
    made = _subclass(kind)
    moved = made is not type(lifted) and issubclass(made, _Common) and isinstance(lifted, _Common)
    if moved:
        _set_class(lifted, made)
    _set(lifted, "_framelift_call", MethodType(lifted._framelift_wrap(_caller(kind)), module))
    return moved


def _set(lifted: LiftedModule, slot: str, value: object) -> None:
    # Not setattr: a module's own __setattr__ would put a submodule or a parameter into the shared dict.
    getattr(type(lifted), slot).__set__(lifted, value)


def compile_in_place(module: torch.nn.Module, wrap: Wrap) -> None:
    """Let the module itself be called lifted, hooks included, by whoever has it: what `nn.Module.compile` does."""
    module._compiled_call_impl = MethodType(wrap(_caller_in_place(type(module))), module)


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self(*args, **kwargs)


def _call_in_place(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self._call_impl(*args, **kwargs)  # a plain call would come back here


def hide_callers(error: BaseException, anywhere: bool) -> None:
    """Take the functions above out of a traceback that begins in one, or has them anywhere: they are framelift's."""
    first = error.__traceback__
    if config.full_traceback or first is None:
        return
    if not anywhere:
        error.__traceback__ = first.tb_next
        return
    file = _call.__code__.co_filename
    kept = [entry for entry in _entries(first) if entry.tb_frame.f_code.co_filename != file]
    for entry, following in itertools.pairwise([*kept, None]):
        entry.tb_next = following  # type: ignore[union-attr]
    error.__traceback__ = kept[0] if kept else None


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


class _Callers:
    """A function for each module class that calls a module of it; its code lives as long as the class."""

    def __init__(self, template: Callable[..., Any]) -> None:
        self._code = template.__code__
        self._codes: weakref.WeakKeyDictionary[type, CodeType] = weakref.WeakKeyDictionary()

    def __call__(self, kind: type) -> FunctionType:
        code = self._codes.get(kind)
        if code is None:
            made = self._code.replace(co_name="__call__", co_qualname=f"{kind.__qualname__}.__call__")
            code = self._codes.setdefault(kind, made)
        return FunctionType(code, globals(), "__call__")


_caller = _Callers(_call)
_caller_in_place = _Callers(_call_in_place)


class _Subclasses:
    """The subclass made for each module class, while it is in use. Weak both ways: a subclass keeps its base alive."""

    def __init__(self) -> None:
        self._lock = Lock()
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
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "_framelift_class": kind,
    }
    slots = [item for base in kind.__mro__ for item in vars(base).items() if type(item[1]) is MemberDescriptorType]
    for name, member in reversed(slots):  # a slot of a subclass hides one of its base
        namespace[name] = _forwarded(member)
    if slots:
        # Slots of its own give the class a layout of its own, which cannot be combined with the common one.
        namespace["__slots__"] = _SLOTS
    if issubclass(kind, LazyModuleMixin):
        namespace["__call__"] = _call_lazy
    if hasattr(kind, "__del__"):
        namespace["__del__"] = _nothing  # the original's runs when the original dies, and only then
    metaclass = type(kind)
    maker = abc.ABCMeta if issubclass(metaclass, abc.ABCMeta) else type
    bases = (LiftedModule if slots else _Common, kind)
    made = cast(type[LiftedModule], maker.__new__(metaclass, kind.__name__, bases, namespace))
    if slots and "__call__" not in namespace:
        _make_callable(made)
    return made


def _call_lazy(self: LiftedModule, *args: Any, **kwargs: Any) -> Any:
    """The first call of a lazy module gives it another class."""
    try:
        return self._framelift_call(*args, **kwargs)
    finally:
        if type(self._orig_mod) is not self._framelift_class:
            _renew(self)


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
