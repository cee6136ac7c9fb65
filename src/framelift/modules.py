"""Lifted modules.

`compile(module)` gives an instance of a subclass of the module's own class whose `__dict__` *is* the module's
`__dict__`. So parameters, buffers, submodules, hooks, `train()`, `to()`, `state_dict()` and every attribute are the
same seen from either side, and nothing has to be forwarded. Only the call differs: it goes to a lifted function that
calls the original module; and `forward` is the original's, lifted by itself. Each class has a function that
calls, with code of its own: entries are kept by code object, so those of different classes are never searched together,
and logs say `Net.__call__`. torch's own compilers are shown a call of the original in Python.

    >>> lifted = framelift.compile(model)
    >>> isinstance(lifted, type(model)), lifted.__dict__ is model.__dict__, lifted._orig_mod is model
    (True, True, True)
"""

from __future__ import annotations

import abc
import copy
import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, TracebackType
from typing import Any, ClassVar, Protocol, cast

import torch
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.nn.modules.lazy import LazyModuleMixin

from framelift import config
from framelift.locks import Lock
from framelift.native import _core


class Wrap(Protocol):
    """How a plain function is made into the one that is called: by lifting it, or by disabling it."""

    # Whether code that is being captured may take the plain function: it becomes part of that graph.
    seen_through: ClassVar[bool]

    def __call__(self, function: Callable[..., Any], /) -> Callable[..., Any]: ...


_set_class = object.__dict__["__class__"].__set__


class _OfInstances:
    """An attribute that is worked out, of instances only: a lifted module's class has what it had."""

    def __init__(self, read: Callable[[LiftedModule], Any]) -> None:
        self._read = read

    def __get__(self, instance: LiftedModule | None, owner: type) -> Any:
        return None if instance is None else self._read(instance)


class _Forward:
    """`lifted.forward`: the method that the original has now, lifted by itself: without hooks, as in eager.

    Of the class it is the module class's own function, for whoever looks at its signature or its source.
    """

    def __get__(self, instance: LiftedModule | None, owner: type[LiftedModule]) -> Any:
        if instance is None:
            return owner._framelift_class.forward
        found = instance._orig_mod.forward
        if torch.compiler.is_compiling() and instance._framelift_wrap.seen_through:
            return found
        known = instance._framelift_forward
        if known is None or not _same_method(known[0], found):
            known = found, _wrapped_forward(instance, found)
            _set(instance, "_framelift_forward", known)
        return known[1]

    def __set__(self, instance: LiftedModule, value: Any) -> None:
        instance._orig_mod.forward = value

    def __delete__(self, instance: LiftedModule) -> None:
        del instance._orig_mod.forward


def _same_method(one: Any, other: Any) -> bool:
    """Each look at a method makes a new object of it."""
    if isinstance(one, MethodType) and isinstance(other, MethodType):
        return one.__func__ is other.__func__ and one.__self__ is other.__self__
    return one is other


def _wrapped_forward(lifted: LiftedModule, found: Any) -> Callable[..., Any]:
    """A plain function is wrapped itself, so that it tells its name and signature; all else is called by one."""
    bound = isinstance(found, MethodType)
    plain = found.__func__ if bound else found
    wrap, module = lifted._framelift_wrap, lifted._orig_mod
    if wrap.seen_through and isinstance(plain, FunctionType):
        return MethodType(wrap(plain), found.__self__) if bound else wrap(plain)
    caller = _caller_of_forward(type(module))
    return MethodType(wrap(functools.update_wrapper(caller, plain) if bound else caller), module)


class LiftedModule:
    """What every lifted module's class has in front of the module's own class."""

    __slots__ = ()

    # The slots, declared by the two kinds of made subclasses below.
    _orig_mod: torch.nn.Module
    _framelift_wrap: Wrap
    _framelift_call: Callable[..., Any]  # what is called
    _framelift_forward: tuple[Any, Callable[..., Any]] | None  # a `forward` of the original, and its lifted form

    __signature__ = _OfInstances(lambda lifted: inspect.signature(lifted._orig_mod))
    forward = _Forward()
    # Where torch.compile looks for what a wrapper wraps: it compiles the original.
    _torchdynamo_orig_callable = _OfInstances(lambda lifted: lifted._orig_mod)
    _torchdynamo_wrapper_id = _OfInstances(id)

    # The class that was lifted; set on the made subclass.
    _framelift_class: ClassVar[type[torch.nn.Module]]

    def __init_subclass__(cls) -> None:
        """Ends here: the user's `__init_subclass__` (a registry, say) must not hear of classes made by framelift."""

    @property
    def __class__(self) -> type:
        """What isinstance() asks when the type says no: the original may have another class since.

        torch.export makes proxies of modules, of classes derived from theirs: the proxy is of the original's.
        """
        if type(self._orig_mod) is not self._framelift_class:
            _renew(self)
        return self._framelift_class if torch.compiler.is_exporting() else type(self)

    @__class__.setter
    def __class__(self, kind: type) -> None:
        self._orig_mod.__class__ = kind
        _renew(self)

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
_SLOTS = ("_orig_mod", "_framelift_wrap", "_framelift_call", "_framelift_forward")


class _Common(LiftedModule, torch.nn.Module):
    """The usual layout of a lifted module. One layout for all classes lets an instance follow its original from one
    class to another (a lazy module that becomes a plain one, a parametrization that replaces the class)."""

    __slots__ = _SLOTS


def _make_callable(kind: type[LiftedModule]) -> None:
    """Let instances of a class be called by what their slot `_framelift_call` holds, without a Python frame between."""
    slot = kind.__dict__["_framelift_call"]
    made: Any = _core.ModuleCall(slot, _call_lifted, torch.nn.Module, _watched_call)
    kind.__call__ = made  # type: ignore[method-assign]


def _call_lifted(self: LiftedModule, *args: Any, **kwargs: Any) -> Any:
    """A call as torch.compile sees it, which does not know what is in slots of C."""
    if torch.compiler.is_compiling() and self._framelift_wrap.seen_through:
        return self._orig_mod(*args, **kwargs)
    return self._framelift_call(*args, **kwargs)


def _watched_call(lifted: LiftedModule) -> Callable[..., Any]:
    """FX, where it traces, hears of the module that its root has: of the lifted one, not of the original."""
    if is_fx_symbolic_tracing():
        return MethodType(lifted._framelift_class.__call__, lifted)
    return lifted._framelift_call


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
    _set(made, "_framelift_forward", None)
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


def _call_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self.forward(*args, **kwargs)


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

    def __init__(self, template: Callable[..., Any], name: str = "__call__") -> None:
        self._code = template.__code__
        self._name = name
        self._codes: weakref.WeakKeyDictionary[type, CodeType] = weakref.WeakKeyDictionary()

    def __call__(self, kind: type) -> FunctionType:
        code = self._codes.get(kind)
        if code is None:
            made = self._code.replace(co_name=self._name, co_qualname=f"{kind.__qualname__}.{self._name}")
            code = self._codes.setdefault(kind, made)
        return FunctionType(code, globals(), self._name)


_caller = _Callers(_call)
_caller_in_place = _Callers(_call_in_place)
_caller_of_forward = _Callers(_call_forward, "forward")


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
        return _call_lifted(self, *args, **kwargs)
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


_core.connect(hide_callers=hide_callers)
