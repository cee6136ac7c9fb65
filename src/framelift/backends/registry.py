"""The table of backends, and the object a compile() holds for the one it was given."""

from __future__ import annotations

import importlib
import importlib.metadata
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar, overload

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule

from framelift import config
from framelift.backends import torch_registry
from framelift.backends.example_inputs import Given
from framelift.backends.tracing import compiling, presumed_so_far
from framelift.backends.trial import is_refused
from framelift.errors import BackendError, short, unknown
from framelift.native import _core
from framelift.shapes.bindings import CannotCheck
from framelift.silence import heard_when_done, raising_no_warnings

# A backend: takes a graph module and example inputs, returns a callable with the same inputs and outputs.
CompilerFunction = Callable[..., Callable[..., Any]]
Function = TypeVar("Function", bound=CompilerFunction)
OptionPairs = tuple[tuple[str, Any], ...]

_TORCH = torch.__path__[0] + "/"

# How AOTAutograd warns of a backward that it tries and that raises.
_ANOMALY = "Error detected in "

# Packages announce their backends to torch in this group of entry points; they serve here as well.
ENTRY_POINTS = "torch_dynamo_backends"


class Backend:
    """A backend with the mode and options it is to be used with.

    Equal backends (same compiler, mode and options) are interchangeable: entries compiled by one serve the other.

    >>> lookup("eager") == lookup("eager")
    True
    """

    __slots__ = ("name", "function", "mode", "options", "_key", "__weakref__")

    def __init__(self, name: str, function: CompilerFunction, mode: str | None, options: OptionPairs) -> None:
        self.name = name
        self.function = function
        self.mode = mode
        self.options = options
        self._key = (id(function), mode, frozen(options))

    @property
    def runs_as_it_is(self) -> bool:
        """Whether it runs the operations of a graph one by one: then nothing need be prepared for a compiler."""
        return bool(getattr(self.function, "runs_as_it_is", False))

    @property
    def is_own(self) -> bool:
        """Whether it knows what framelift's graphs need: it finds symbolic sizes at the tensors that have them, and
        checks what it presumes about data."""
        return bool(getattr(self.function, "is_own", False))

    @property
    def is_bitwise(self) -> bool:
        """Whether it promises eager's very bits: then graphs are not rewritten in ways that round otherwise."""
        return bool(getattr(self.function, "is_bitwise", True))

    @property
    def takes_subgraphs(self) -> bool:
        """Whether it compiles a subgraph that `invoke_subgraph` calls once, however often it is called."""
        return bool(getattr(self.function, "takes_subgraphs", False))

    @property
    def reuses_saved(self) -> bool:
        """Whether its backwards use the memory of what was saved for them, which needs less: AOTAutograd then refuses
        `retain_graph=True` after a backward without it."""
        return bool(getattr(self.function, "reuses_saved", False))

    @property
    def derives(self) -> bool:
        """Whether it may work out derivatives when it compiles; else autograd does when the graph runs."""
        return not self.runs_as_it_is

    def compile(
        self, graph_module: GraphModule, example_inputs: Sequence[Any], original: GraphModule | None = None
    ) -> Callable[..., Any]:
        """Compiles a graph that was captured; whatever goes wrong in the backend is a BackendError.

        `original` is the same graph where it writes to what autograd may need: it runs if autograd refuses it as well.
        """
        with self._reporting(graph_module):
            if self.runs_as_it_is:
                return self._compile(graph_module, example_inputs)
            given = Given(graph_module, example_inputs)
            given.put_floats_in_tensors()
            if self.is_bitwise:
                given.keep_unused()
                given.copy_written()
            if not self.is_own:
                given.put_sizes_in_front()
            checked = None if self.is_own else presumed_so_far(graph_module)
            context = compiling(graph_module, given.examples, not self.is_own, self.reuses_saved)
            with context as inputs, _core.disturbed():
                if original is None:
                    compiled = given.adapt(self._compile(graph_module, inputs))
                else:
                    compiled = self._compile_or_run(given, inputs, original, example_inputs)
        if checked is not None and checked.missing():
            raise CannotCheck(f"what the backend {self.name!r} presumes about data")
        return compiled

    def __call__(self, graph_module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """The same for whoever has a graph at hand. A backend that hands its own on to this one hands on what it was
        given, within the same tracing context."""
        if TracingContext.try_get() is None:
            return self.compile(graph_module, example_inputs)
        with self._reporting(graph_module):
            return self._compile(graph_module, example_inputs)

    def _compile_or_run(
        self, given: Given, inputs: Sequence[Any], original: GraphModule, examples: Sequence[Any]
    ) -> Callable[..., Any]:
        """What a compiler raises and warns of at once, eager mode does when backward is called, if it ever is."""
        try:
            return given.adapt(heard_when_done(self._compile, _ANOMALY)(given.module, inputs))
        except Exception:  # raised again, whatever it is, if the graph is not to blame
            if not is_refused(original.forward, examples):
                raise
            run: Callable[..., Any] = original.forward
            return run

    def _compile(self, graph_module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        keywords: dict[str, Any] = {}
        if self.mode not in (None, "default"):
            keywords["mode"] = self.mode
        if self.options:
            keywords["options"] = dict(self.options)
        compiled = self.function(graph_module, example_inputs, **keywords)
        if not callable(compiled):
            what = f"returned {short(compiled)}, which cannot be called"
            raise BackendError(self.name, last_line(graph_module), what)
        return compiled

    @contextmanager
    def _reporting(self, graph_module: GraphModule) -> Iterator[None]:
        keys = _dispatch_keys()
        try:
            yield
        except (BackendError, CannotCheck):
            raise
        except Exception as error:  # a backend is foreign code: anything it raises is reported as its own failure
            _end_frames(error)
            _put_back(*keys)
            what = f"raised {type(error).__name__}: {short_text(error)}"
            if not config.full_traceback:
                error.__traceback__ = _without_own(error.__traceback__)
            raise BackendError(self.name, last_line(graph_module), what) from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Backend):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        given = [f"mode={self.mode!r}"] if self.mode is not None else []
        given += [f"{name}={value!r}" for name, value in self.options]
        return f"<backend {self.name}{' ' if given else ''}{', '.join(given)}>"


def _end_frames(error: BaseException) -> None:
    """Have the frames of an exception drop what they hold: an inference mode that the graph has entered ends with the
    object that began it, and puts back how torch dispatched then, the compiler's own ways included."""
    found: BaseException | None = error
    while found is not None:
        traceback.clear_frames(found.__traceback__)
        found = found.__cause__ or found.__context__


def _dispatch_keys() -> tuple[torch._C.DispatchKeySet, torch._C.DispatchKeySet]:
    """What operators are dispatched to in this thread, whatever they are given, and what they are not."""
    return torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()


def _put_back(included: torch._C.DispatchKeySet, excluded: torch._C.DispatchKeySet) -> None:
    now_included, now_excluded = _dispatch_keys()
    for key in torch._C.DispatchKey.__members__.values():
        if now_included.has(key) != included.has(key):
            torch._C._dispatch_tls_set_dispatch_key_included(key, included.has(key))
        if now_excluded.has(key) != excluded.has(key):
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, excluded.has(key))


@dataclass(frozen=True, slots=True)
class Registered:
    """One line of the table. The compiler may be given as "module:name", to be imported when first asked for."""

    name: str
    compiler: CompilerFunction | str | importlib.metadata.EntryPoint
    tags: tuple[str, ...] = ()

    def load(self) -> CompilerFunction:
        if isinstance(self.compiler, importlib.metadata.EntryPoint):
            return self.compiler.load()
        if isinstance(self.compiler, str):
            module, _, attribute = self.compiler.partition(":")
            with raising_no_warnings():
                return getattr(importlib.import_module(module), attribute)
        return self.compiler


BUILTIN = (
    Registered("eager", "framelift.backends.eager:eager", ("debug",)),
    Registered("aot_eager", "framelift.backends.aot_eager:aot_eager", ("debug",)),
    Registered("inductor", "framelift.backends.inductor:inductor"),
)


@dataclass(slots=True)
class Registry:
    """The backends known by name."""

    table: dict[str, Registered] = field(default_factory=lambda: {line.name: line for line in BUILTIN})
    _discovered: bool = False

    def add(self, line: Registered) -> None:
        known = self.table.get(line.name)
        if known is not None and known.compiler is not line.compiler:
            raise ValueError(f"a backend named {line.name!r} is registered already")
        self.table[line.name] = line

    def find(self, name: str) -> Registered:
        line = self.table.get(name)
        if line is None:
            self.discover()
            line = self.table.get(name)
        if line is not None:
            return line
        compiler = torch_registry.find(name)
        if compiler is not None:
            return Registered(name, compiler)
        known = sorted({*self.table, *torch_registry.names()})
        raise ValueError(unknown("backend", name, known) + torch_registry.hint())

    def discover(self) -> None:
        """Adds what installed packages announce. Reading their metadata takes milliseconds, so only when needed."""
        if not self._discovered:
            self._discovered = True
            for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
                self.table.setdefault(entry.name, Registered(entry.name, entry))

    def names(self, exclude_tags: Sequence[str]) -> list[str]:
        self.discover()
        excluded = set(exclude_tags)
        own = {line.name for line in self.table.values() if not excluded & set(line.tags)}
        return sorted(own.union(torch_registry.names(exclude_tags)).difference(set(self.table) - own))


_REGISTRY = Registry()


@overload
def register_backend(compiler: Function, name: str | None = ..., tags: Sequence[str] = ...) -> Function: ...
@overload
def register_backend(
    compiler: str | None = ..., name: str | None = ..., tags: Sequence[str] = ...
) -> Callable[[Function], Function]: ...
def register_backend(
    compiler: Function | str | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Function | Callable[[Function], Function]:
    """Makes a backend known by name. A decorator, with or without a name, or a plain call.

    >>> @register_backend
    ... def counting(graph_module, example_inputs):
    ...     return graph_module.forward
    >>> "counting" in list_backends()
    True
    """
    if isinstance(compiler, str):
        compiler, name = None, compiler
    if compiler is None:
        return lambda function: register_backend(function, name, tags)
    if not callable(compiler):
        raise TypeError(f"a backend is a callable (graph module, example inputs), got {short(compiler)}")
    _REGISTRY.add(Registered(name or name_of(compiler), compiler, tuple(tags)))
    return compiler


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The names of the known backends, without those meant for debugging unless asked for.

    >>> "inductor" in list_backends(), "eager" in list_backends(), "eager" in list_backends(exclude_tags=())
    (True, False, True)
    """
    return _REGISTRY.names(exclude_tags or ())


def lookup(
    backend: str | CompilerFunction, mode: str | None = None, options: Mapping[str, Any] | OptionPairs | None = None
) -> Backend:
    """The backend for a name or a callable; unknown names and options are refused here, not at the first call.

    >>> lookup("eager").name
    'eager'
    """
    if isinstance(backend, Backend):
        return backend if mode is None and not options else lookup(backend.function, mode, options)
    if isinstance(backend, str):
        name, function = backend, _REGISTRY.find(backend).load()
    elif callable(backend):
        name, function = name_of(backend), backend
    else:
        raise TypeError(f"backend is {short(backend)}: a name or a callable is needed")
    pairs = tuple(sorted(options.items() if isinstance(options, Mapping) else options or ()))
    # A compiler that knows which modes and options it takes says so here.
    check = getattr(function, "check_options", None)
    if check is not None:
        check(mode, dict(pairs))
    return Backend(name, function, mode, pairs)


def takes_no_options(function: Function) -> Function:
    """Marks a compiler that has nothing to tune: a mode means nothing to it, options of its own are a mistake."""

    def check_options(mode: str | None, options: Mapping[str, Any]) -> None:
        if options:
            raise ValueError(f"backend {name_of(function)!r} takes no options, got {', '.join(map(repr, options))}")

    function.check_options = check_options  # type: ignore[attr-defined]
    return function


def frozen(value: Any) -> Any:
    """A hashable stand-in for lists, dicts and sets among option values."""
    if isinstance(value, Mapping):
        return tuple((key, frozen(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    if isinstance(value, set | frozenset):
        return frozenset(value)
    return value


def _without_own(way: TracebackType | None) -> TracebackType | None:
    """The way of an error, from the backend's own function on."""
    while way is not None and way.tb_frame.f_globals is globals():
        way = way.tb_next
    return way


def name_of(function: CompilerFunction) -> str:
    """How a backend is called in events and errors."""
    return getattr(function, "__name__", None) or type(function).__name__


def first_trace(graph_module: object) -> str:
    """The stack trace of the first operation in a graph that has one."""
    return _trace_among(getattr(getattr(graph_module, "graph", None), "nodes", ()))


def last_trace(graph_module: object) -> str:
    """The stack trace of the last operation in a graph that has one."""
    return _trace_among(reversed(getattr(getattr(graph_module, "graph", None), "nodes", ())))


def last_line(graph_module: object) -> str:
    """The user's line of the last operation in a graph."""
    return line_of(last_trace(graph_module))


def _trace_among(nodes: Iterable[Any]) -> str:
    traces = (node.meta.get("stack_trace") for node in nodes if node.op not in ("placeholder", "output"))
    return str(next(filter(None, traces), ""))


def line_of(trace: str) -> str:
    """The innermost line of a stack trace that is not torch's, as "file.py:12"."""
    found = "an unknown line"
    for line in reversed(trace.splitlines()):
        words = line.strip().split(", ")
        if len(words) >= 2 and words[0].startswith("File ") and words[1].startswith("line "):
            file = words[0][5:].strip(chr(34))
            if not file.startswith(_TORCH):
                return f"{file}:{words[1][5:]}"
            if found == "an unknown line":
                found = f"{file}:{words[1][5:]}"
    return found


def short_text(error: BaseException) -> str:
    """The first line of what an error says."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "(no message)"
