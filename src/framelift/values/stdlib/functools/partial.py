"""`functools.partial`: a callable with some of its arguments; also instances of its subclasses."""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102_OPERAND, GraphBreak
from framelift.guards.source import Source
from framelift.values.containers.dicts import DictValue, pairs
from framelift.values.core import protocol as py
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import (
    has_default,
    is_subclass,
    mro_of,
    name_in_errors,
    name_of,
    own_entries,
    qualified_name_of,
    raw_lookup,
)
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_by, raise_what
from framelift.values.functions.reloaded import twin_class
from framelift.values.objects import attributes
from framelift.values.objects.classes import ClassValue, note_instantiable
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_PARTS = ("func", "args", "keywords")


def partial_base(cls: type) -> type | None:
    """The C class that instances of `cls` are partials of; None for every other class."""
    return next((base for base in mro_of(cls) if base is functools.partial or _is_twin(base)), None)


def _is_twin(cls: type) -> bool:
    return name_of(cls) == functools.partial.__name__ and twin_class(cls) is functools.partial


class PartialValue(UserObjectValue, models=functools.partial):
    """`given` holds `func`, `args` and `keywords`, as far as they were read or given."""

    __slots__ = ("given", "base", "has_dict")
    base: type
    assigns = (*UserObjectValue.assigns, "has_dict")
    mutates = (*UserObjectValue.mutates, "given")

    def __init__(self, cls: type, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(cls, source, concrete)
        base = partial_base(cls)
        assert base is not None
        self.base = base
        self.given: dict[str, Any] = {}
        # A partial has a `__dict__` from when it is first asked for it.
        self.has_dict = False

    def describe(self) -> str:
        return name_of(self.cls)

    def default(self, name: str) -> Any:
        return raw_lookup(self.base, name)

    # -- its parts -----------------------------------------------------------------------------------------------

    def part(self, tracer: Tracer, name: str) -> Any:
        if name not in self.given:
            assert self.source is not None
            self.note(tracer)
            if not has_default(tracer, self.cls, name, raw_lookup(self.base, name)):
                self.refuse(f"reading {name!r}, which its class hides,")
            self.given[name] = tracer.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name))
        return self.given[name]

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any:
        if descriptor.__objclass__ is self.base:
            return self.part(tracer, descriptor.__name__)
        return super().get_slot(tracer, descriptor)

    def set_slot(self, tracer: Tracer, descriptor: Any, value: Any) -> None:
        if descriptor.__objclass__ is self.base:
            raise_error(AttributeError, "readonly attribute")
        super().set_slot(tracer, descriptor, value)

    def delete_slot(self, tracer: Tracer, descriptor: Any) -> None:
        if descriptor.__objclass__ is self.base:
            raise_error(AttributeError, "readonly attribute")
        super().delete_slot(tracer, descriptor)

    def get_computed(self, tracer: Tracer, descriptor: Any) -> Any:
        if descriptor.__name__ == "__dict__":
            tracer.journal.touch(self)
            self.has_dict = True
        return super().get_computed(tracer, descriptor)

    def first(self, tracer: Tracer) -> tuple[list[Any], dict[str, Any]]:
        """The arguments it has."""
        named = {tracer.constant(name): value for name, value in pairs(tracer, self.part(tracer, "keywords"))}
        return py.items(tracer, self.part(tracer, "args")), named

    # -- its methods ---------------------------------------------------------------------------------------------

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not has_default(tracer, self.cls, "__call__", raw_lookup(self.base, "__call__")):
            return super().call(tracer, args, kwargs)
        model = tracer.promised_model(self)
        if model is not None:
            return model(tracer, args, kwargs)
        return self._call_function(tracer, args, kwargs)

    def _call_function(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        first, named = self.first(tracer)
        if not all(isinstance(name, str) for name in named):
            raise_by("dict(**{0: 0})")
        return py.call(tracer, self.part(tracer, "func"), [*first, *args], named | kwargs)

    def inherited(self, tracer: Tracer, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call the method `name` of the C class."""
        if name == "__call__":
            return self._call_function(tracer, args, kwargs)
        method = _METHODS.get(name)
        if method is None or kwargs or len(args) != method[1]:
            self.refuse(Operation.ARGUMENTS, name=name)
        return method[0](tracer, self, *args)

    def text_again(self) -> str | None:
        return "..."

    def shown(self, tracer: Tracer) -> str:
        first, named = self.first(tracer)
        shown = [self.part(tracer, "func"), *first]
        parts = [tracer.text(part, "repr") for part in shown]
        parts += [f"{key}={tracer.text(value, 'repr')}" for key, value in named.items()]
        return f"{self._name()}({', '.join(parts)})"

    def _name(self) -> str:
        if self.cls is self.base:
            return name_in_errors(self.cls)
        module = own_entries(self.cls).get("__module__")
        if sys.version_info < (3, 13) or module == "builtins":
            return name_of(self.cls)
        if type(module) is not str:
            self.refuse("repr() with a module that is no name")
        return f"{module}.{qualified_name_of(self.cls)}"

    def reduced(self, tracer: Tracer) -> Any:
        func, args, keywords = (self.part(tracer, name) for name in _PARTS)
        namespace = self.namespace(tracer)
        has_names = self.has_dict or (namespace is not None and py.truth(tracer, namespace))
        state = make_tuple([func, args, keywords, namespace if has_names else None])
        return make_tuple([tracer.known_object(self.cls), make_tuple([func]), state])

    def set_state(self, tracer: Tracer, state: Any) -> None:
        parts = py.items(tracer, state) if is_subclass(tracer.type_of(state), tuple) else []
        if len(parts) != 4 or not self._fits(tracer, *parts[:3]):
            raise_what(functools.partial(len).__setstate__, None)  # type: ignore[attr-defined]
        func, args, keywords, names = parts
        if self.source is not None or not (names is None or py.has_type(names, dict)):
            self.refuse(Operation.SETSTATE)
        tracer.journal.touch(self)
        if not py.has_type(args, tuple):
            args = make_tuple(py.items(tracer, args))
        if keywords is None or not py.has_type(keywords, dict):
            keywords = DictValue({} if keywords is None else dict(pairs(tracer, keywords)))
        self.given = {"func": func, "args": args, "keywords": keywords}
        self._namespace, self.has_dict = names, names is not None

    def _fits(self, tracer: Tracer, func: Any, args: Any, keywords: Any) -> bool:
        return (
            _is_callable(tracer, func)
            and is_subclass(tracer.type_of(args), tuple)
            and (keywords is None or is_subclass(tracer.type_of(keywords), dict))
        )

    # -- change and the way back ---------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        return [*super().parts(), *self.given.values()]

    def rebuild_new(self, emit: Emitter) -> None:
        emit.known_object(self.base)
        emit.load_method("__new__")
        emit.known_object(self.cls)
        emit.known_object(len)  # any callable: the parts follow, which may have the partial among them
        emit.call(2)
        emit.remember(self)
        emit.known_object(self.base)
        emit.load_method("__setstate__")
        emit.load_remembered(self)
        for name in _PARTS:
            emit.value(self.given[name])
        emit.constant(None)
        emit.build_tuple(4)
        emit.call(2)
        emit.pop_top()

    def fills_namespace(self) -> bool:
        return self.has_dict or (self._namespace is not None and bool(self._namespace.overlay))


# Methods of the C class, and how many arguments they take.
_METHODS: types.MappingProxyType[str, Any] = types.MappingProxyType(
    {
        "__repr__": (lambda tracer, value: value.shown(tracer), 0),
        "__reduce__": (lambda tracer, value: value.reduced(tracer), 0),
        "__setstate__": (lambda tracer, value, state: value.set_state(tracer, state), 1),
        "__getattribute__": (lambda tracer, value, name: attributes.read(tracer, value, tracer.constant(name)), 1),
        "__setattr__": (
            lambda tracer, value, name, new: attributes.write(tracer, value, tracer.constant(name), new),
            2,
        ),
        "__delattr__": (lambda tracer, value, name: attributes.delete(tracer, value, tracer.constant(name)), 1),
    }
)


def _is_callable(tracer: Tracer, value: Any) -> bool:
    return py.truth(tracer, py.call(tracer, tracer.known_object(callable), [value], {}))


@primitive(functools.partial.__new__)
def _new(tracer: Tracer, cls: Any, /, *args: Any, **keywords: Any) -> Any:
    if not isinstance(cls, ClassValue) or partial_base(cls.concrete) is None:
        raise GraphBreak(FL0102_OPERAND, what="__new__", operand=py.describe(cls))
    cls.note(tracer)
    if not args:
        raise_what(functools.partial)
    function, first = args[0], list(args[1:])
    if not _is_callable(tracer, function):
        raise_what(functools.partial, None)
    if isinstance(function, PartialValue) and _is_taken_apart(tracer, function, partial_base(cls.concrete)):
        inner_first, inner = function.first(tracer)
        first, keywords = [*inner_first, *first], inner | keywords
        function = function.part(tracer, "func")
    note_instantiable(tracer, cls.concrete)
    made = PartialValue(cls.concrete)
    made.given = {"func": function, "args": make_tuple(first), "keywords": DictValue(dict(keywords))}
    return made


def _is_taken_apart(tracer: Tracer, inner: PartialValue, base: type | None) -> bool:
    """Whether a partial of this one calls its function directly: not if it has attributes."""
    if inner.base is not base:
        inner.refuse("partial() of one of another copy of its module")
    namespace = inner.namespace(tracer)
    is_bare = not inner.has_dict and (namespace is None or not py.truth(tracer, namespace))
    return is_bare and (_LOSES_CALLS or has_default(tracer, inner.cls, "__call__", raw_lookup(inner.base, "__call__")))


class _WithCall(functools.partial[Any]):
    def __call__(self) -> None: ...


# Whether the interpreter takes a partial apart whose class has a `__call__` of its own (CPython 3.13 does).
_LOSES_CALLS = not isinstance(functools.partial(_WithCall(len)).func, _WithCall)


@primitive(functools.partial)
def _partial(tracer: Tracer, *args: Any, **keywords: Any) -> Any:
    return _new(tracer, tracer.known_object(functools.partial), *args, **keywords)
