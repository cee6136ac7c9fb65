"""The public functions of framelift: what a user calls. Bad input ends here, in one line."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any, ClassVar, TypeVar, overload

import torch

from framelift import backends, runtime
from framelift.backends import list_backends, register_backend
from framelift.controls import (
    allow_in_graph,
    assume_constant_result,
    disable_function,
    error_on_graph_break,
    graph_break,
    is_compiling,
)
from framelift.errors import FrameliftWarning, short
from framelift.modules import LiftedModule, compile_in_place, original, wrap_module
from framelift.native import _core
from framelift.options import (
    Options,
    checked_deduplicate,
    checked_dynamic,
    checked_fullgraph,
    checked_inductor,
    checked_mode,
    checked_recompile_limit,
)
from framelift.passes.captured import checked_pass_options, checked_passes
from framelift.patching import Patched, replacements
from framelift.pickling import CALLED, lifted_by
from framelift.report import counters as _counters
from framelift.report import stream
from framelift.report.explain import Explanation, Recorder
from framelift.report.logs import LOGGING, set_logs
from framelift.report.pass_stats import PASS_STATS
from framelift.runtime.stance import set_stance
from framelift.shapes.marks import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic

__all__ = [
    "FrameliftWarning",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "counters",
    "disable",
    "explain",
    "export",
    "error_on_graph_break",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "optimize",
    "pass_stats",
    "patch_torch",
    "register_backend",
    "reset",
    "set_logs",
    "set_stance",
]

AnyCallable = TypeVar("AnyCallable", bound=Callable[..., Any])
BackendLike = str | Callable[..., Any]
Dynamic = bool | Mapping[str, Any] | None
# Entries of `options` that are framelift's; all others are the backend's.
OWN_OPTIONS = ("pre_grad_passes", "pass_options", "deduplicate")


@overload
def compile(
    model: AnyCallable,
    *,
    fullgraph: bool = ...,
    dynamic: Dynamic = ...,
    backend: BackendLike = ...,
    mode: str | None = ...,
    options: Mapping[str, Any] | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
) -> AnyCallable: ...


@overload
def compile(
    model: None = ...,
    *,
    fullgraph: bool = ...,
    dynamic: Dynamic = ...,
    backend: BackendLike = ...,
    mode: str | None = ...,
    options: Mapping[str, Any] | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
) -> Callable[[AnyCallable], AnyCallable]: ...


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: Dynamic = None,
    backend: BackendLike = "inductor",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
) -> Any:
    """Lift a function, method, module or other callable; the arguments mean what torch.compile's mean.

    fullgraph   raise if the function cannot be captured as one graph, or if Python would run a call instead of it
    dynamic     None: what changes from call to call becomes symbolic; False: nothing; True: all sizes at once;
                or for single inputs: `{"x": {0: (2, 4096)}, "self.step": True}`
    backend     a name (`framelift.list_backends()`) or `backend(graph_module, example_inputs) -> callable`
    mode        a preset of the Inductor backend; `options`: its settings one by one (not both)
    options     also says which passes run on graphs before the backend: `{"pre_grad_passes": False}` for none, or a
                list of names (`framelift.passes`), how (`{"pass_options": PassOptions(verify="numeric")}`), and with
                `{"deduplicate": True}` that repeated layers become one subgraph, which is compiled once
    disable     return the callable as it is
    recompile_limit   entries the callable may have; None: `config.recompile_limit`

    >>> @framelift.compile(backend="eager", fullgraph=True)
    ... def f(x):
    ...     return torch.sin(x) + 1
    """
    if not isinstance(disable, bool):
        raise TypeError(f"disable is {short(disable)}: True or False is needed")
    if model is not None:
        _checked_callable(model, "compile")
    lifting = make_lifting(
        fullgraph=fullgraph,
        dynamic=dynamic,
        backend=backend,
        mode=mode,
        options=options,
        recompile_limit=recompile_limit,
    )

    def decorator(target: Any) -> Any:
        return _checked_callable(target, "compile") if disable else _lift(target, lifting)

    return decorator if model is None else decorator(model)


def make_lifting(
    *,
    fullgraph: bool = False,
    dynamic: Dynamic = None,
    backend: BackendLike = "inductor",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    recompile_limit: int | None = None,
) -> Lifting:
    """The arguments of `compile`, checked."""
    own, options_of_backend = _divided(options)
    if mode is not None and options_of_backend is not None:
        raise ValueError(f"mode={mode!r} and options={short(options)} were both given: one of them is allowed")
    if not isinstance(backend, str) and not callable(backend):
        raise TypeError(
            f"backend is {short(backend)}: a name (see framelift.list_backends()) or "
            "a callable backend(graph_module, example_inputs) is needed"
        )
    if inspect.isclass(backend):
        raise TypeError(f"backend is the class {backend.__name__}: an instance, a function or a name is needed")
    checked: dict[str, Any] = {
        "fullgraph": checked_fullgraph(fullgraph),
        "dynamic": checked_dynamic(dynamic),
        "mode": checked_mode(mode),
        "inductor": checked_inductor(options_of_backend),
        "recompile_limit": checked_recompile_limit(recompile_limit),
        "passes": checked_passes(own.get("pre_grad_passes")),
        "pass_options": checked_pass_options(own.get("pass_options")),
        "deduplicate": checked_deduplicate(own.get("deduplicate", False)),
    }
    chosen = Options(backends.lookup(backend, mode, options_of_backend), **checked)
    given = {
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "backend": backend,
        "mode": mode,
        "options": options,
        "recompile_limit": recompile_limit,
    }
    return Lifting(chosen, given)


def _divided(options: Any) -> tuple[dict[str, Any], Any]:
    """framelift's own options, and those of the backend: None if there are no others, and whatever is no dict."""
    if not isinstance(options, Mapping):
        return {}, options
    own = {name: value for name, value in options.items() if name in OWN_OPTIONS}
    rest = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
    return own, rest or (None if own else rest)


@dataclass(frozen=True, slots=True)
class Lifting:
    """Lifts plain functions with some options; what a lifted module keeps, and pickles, to lift its call."""

    options: Options
    given: Mapping[str, Any] = field(
        compare=False
    )  # the arguments of compile(): a backend's name pickles, its code may not
    seen_through: ClassVar[bool] = True

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        plain = function.__wrapped__ if isinstance(function, _core.Lifted) else function
        made = plain if isinstance(plain, FunctionType) else _as_function(plain)
        return lifted_by(self, runtime.lift_function(made, self.options))

    def __reduce__(self) -> Any:
        return _lifting_again, (dict(self.given),)


def _lifting_again(given: dict[str, Any]) -> Lifting:
    return make_lifting(**given)


@dataclass(frozen=True, slots=True)
class Disabling:
    """The same for `disable`."""

    recursive: bool
    reason: str
    seen_through: ClassVar[bool] = False

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return disable_function(function, self.recursive, self.reason)


def _lift(target: Any, lifting: Lifting) -> Any:
    """The lifted form of anything callable. What is lifted already is lifted anew from its original, not twice."""
    _checked_callable(target, "compile")
    if isinstance(target, torch.nn.Module):
        if isinstance(target, LiftedModule) and target._framelift_wrap == lifting:
            return target
        return wrap_module(original(target), lifting)
    if isinstance(target, type):
        return _wrap_class(target, lifting)
    if isinstance(target, staticmethod):
        return staticmethod(_lift(target.__func__, lifting))
    if isinstance(target, MethodType):
        return MethodType(lifting(target.__func__), target.__self__)
    return lifting(target)


def _wrap_class(cls: type, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> type:
    """A decorated class: calls of its instances are wrapped, in place, as torch.compile does."""
    called = next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None)
    if called is None:
        raise TypeError(f"the class {cls.__name__} was given, but its instances cannot be called: it has no __call__")
    setattr(cls, "__call__", wrap(called))  # noqa: B010  (the class is not known to have it)
    return cls


def _as_function(target: Callable[..., Any]) -> FunctionType:
    """A builtin, a partial or another callable without Python code, as a function with code of its own.

    Of its own, because entries belong to code objects: two builtins must not share a table.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    call.__code__ = call.__code__.replace(co_name=getattr(target, "__name__", type(target).__name__))
    call.__dict__[CALLED] = target
    return functools.update_wrapper(call, target)  # type: ignore[return-value]


def _checked_callable(target: Any, user: str) -> Any:
    if isinstance(target, torch.jit.ScriptFunction | torch.jit.ScriptModule):
        raise TypeError(
            f"{user}() was given {type(target).__name__}: TorchScript has no Python code to lift, "
            "give the function or nn.Module it was made from"
        )
    if isinstance(target, classmethod):
        raise TypeError(f"{user}() was given a classmethod: put @classmethod above the decorator of {user}()")
    if not callable(target):
        hint = ""
        if isinstance(target, str) and target in list_backends(exclude_tags=()):
            hint = f" (for a backend: {user}(backend={target!r}))"
        raise TypeError(
            f"{user}() was given {short(target)} of type {type(target).__name__}: "
            f"a function, a method, an nn.Module or another callable is needed{hint}"
        )
    return target


class optimize:  # noqa: N801  (used like a function)
    """The older spelling of `compile`, as a decorator, and as a context manager that lifts what is called inside.

    >>> with framelift.optimize("eager"):
    ...     model(x)
    """

    def __init__(
        self,
        backend: BackendLike = "inductor",
        *,
        fullgraph: bool = False,
        dynamic: Dynamic = None,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
        disable: bool = False,
    ) -> None:
        if not isinstance(disable, bool):
            raise TypeError(f"disable is {short(disable)}: True or False is needed")
        self._lifting = make_lifting(fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options)
        self._disable = disable
        self._entered = threading.local()  # one object may be entered by several threads, and again inside itself

    def __call__(self, target: Any) -> Any:
        return _checked_callable(target, "optimize") if self._disable else _lift(target, self._lifting)

    def __enter__(self) -> optimize:
        stack: list[AbstractContextManager[Any] | None] = self._entered.__dict__.setdefault("stack", [])
        block = None if self._disable else runtime.hooked(self._lifting.options)
        if block is not None:
            block.__enter__()
        stack.append(block)
        return self

    def __exit__(self, *error: Any) -> None:
        block = self._entered.stack.pop()
        if block is not None:
            block.__exit__(*error)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Leave a callable, and with `recursive` everything it calls, to Python. Also a decorator.

    >>> @framelift.disable(reason="talks to a server")
    ... def fetch(x): ...
    """
    if not isinstance(recursive, bool):
        raise TypeError(f"disable(recursive=...) is {short(recursive)}: True or False is needed")
    if reason is not None and not isinstance(reason, str):
        raise TypeError(f"disable(reason=...) is {short(reason)}: a str is needed")
    disabling = Disabling(recursive, reason or "")

    def decorator(target: Any) -> Any:
        _checked_callable(target, "disable")
        if isinstance(target, torch.nn.Module):
            return wrap_module(original(target), disabling)
        if isinstance(target, type):
            return _wrap_class(target, disabling)
        if isinstance(target, MethodType):
            return MethodType(disabling(target.__func__), target.__self__)
        return disabling(target.__wrapped__ if isinstance(target, _core.Lifted) else target)

    return decorator if fn is None else decorator(fn)


def patch_torch() -> Patched:
    """Let `torch.compile`, `nn.Module.compile` and `torch.compiler` mean framelift, so that libraries use it unchanged.

    In force at once and until `undo()`, or for a block:

    >>> with framelift.patch_torch():
    ...     model.compile(backend="eager")
    """
    others: dict[str, Callable[..., Any]] = {
        "allow_in_graph": allow_in_graph,
        "assume_constant_result": assume_constant_result,
        "disable": disable,
        "list_backends": list_backends,
        "reset": reset,
    }
    return Patched(replacements(compile, _compile_in_place, set_stance.called_by, others))


def _compile_in_place(module: torch.nn.Module, disable: bool = False, **given: Any) -> None:
    lifting = make_lifting(**given)
    if not disable:
        compile_in_place(original(module), lifting)


def reset() -> None:
    """Forget all entries and counts, as in a new process."""
    runtime.reset()
    _counters.COUNTERS.reset()
    LOGGING.reset()
    PASS_STATS.reset()


def export(
    function: Callable[..., Any],
    *args: Any,
    aten_graph: bool = False,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    **kwargs: Any,
) -> Any:
    """Capture one call as one graph: `(graph_module, guards)`. Raises if the function does not fit into one graph.

    The module is called as the function is, with the same containers, and returns the same. It checks what it was
    exported for: sizes, dtypes and devices of tensors, constants, what else the function asked of its arguments (their
    strides, for instance) and what was assumed about symbolic sizes and numbers. Another argument is a ValueError,
    another structure a TypeError, an assumption that does not hold a RuntimeError, with what was expected and found.
    `dynamic_shapes` says which sizes and numbers may differ, as `dynamic` of `compile` does, or as torch's own export
    has it. Without arguments it gives a function that takes them: `export(f)(x)` is `export(f, x)`.

    >>> graph_module, guards = framelift.export(lambda x: (x + x).relu(), torch.randn(2, 2))
    >>> graph_module, guards = framelift.export(f, dynamic_shapes={"x": {0: (2, 64)}})(torch.randn(2, 2))
    """
    _checked_callable(function, "export")
    if not isinstance(aten_graph, bool):
        raise TypeError(f"aten_graph is {short(aten_graph)}: True or False is needed")

    def run(*args: Any, **kwargs: Any) -> Any:
        return runtime.export(function, args, kwargs, aten_graph, dynamic_shapes)

    return run(*args, **kwargs) if args or kwargs else run


def explain(
    function: Callable[..., Any],
    *,
    dynamic: Dynamic = None,
) -> Callable[..., Explanation]:
    """What lifting a function gives for some arguments: graphs, breaks with their lines, guards.

    >>> print(framelift.explain(f)(torch.randn(3)))
    """
    _checked_callable(function, "explain")
    target = original(function) if isinstance(function, torch.nn.Module) else function

    def run(*args: Any, **kwargs: Any) -> Explanation:
        def eager(
            graph_module: Any, example_inputs: Any
        ) -> Any:  # a new one each time: nothing was captured for it yet
            return graph_module.forward

        recorder = Recorder()
        lifting = make_lifting(backend=eager, dynamic=dynamic)
        lifted = _lift(target, lifting)
        with stream.listening(recorder):
            lifted(*args, **kwargs)
        return recorder.explanation(runtime.entry_uses(lifting.options))

    return run


def counters() -> _counters.Counts:
    """How much was captured, broken, recompiled and run in Python since the start, or since `reset()`."""
    return _counters.COUNTERS.counts(runtime.untold_calls(), runtime.entry_uses())


def pass_stats() -> dict[str, dict[str, Any]]:
    """What each pass did since the start, or since `reset()`: matches, rewrites, nodes, time, and why it did not.

    >>> framelift.pass_stats()["merge_concats_pass"]["rewrites"]
    1
    """
    return PASS_STATS.as_dict()
