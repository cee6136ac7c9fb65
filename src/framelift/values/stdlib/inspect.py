"""`inspect.signature` of functions, methods and partials: what their code, defaults and arguments say."""

from __future__ import annotations

import abc
import builtins
import dataclasses
import enum
import inspect
import types
import typing
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0102_OPERAND, GraphBreak
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.lookup import bind, class_lookup, special_method
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.functions.functions import BoundMethodValue, FunctionLike
from framelift.values.objects.classes import ClassValue
from framelift.values.objects.instances import UserObjectValue
from framelift.values.objects.unions import GenericAliasValue, UnionValue
from framelift.values.stdlib.functools.partial import PartialValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_VARARGS, _VARKEYWORDS = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS
_KEYWORD_ONLY, _VAR_POSITIONAL = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, _KEYWORD_ONLY)


class SignatureValue(Value):
    """The signature of a function: `parameters` by name."""

    __slots__ = ("function", "parameters", "plain")

    def __init__(self, function: Any, parameters: dict[str, Any], plain: FunctionLike) -> None:
        super().__init__()
        self.function = function
        # The function that says what the parameters are: of a method, the one behind it.
        self.plain = plain
        self.parameters = ParametersValue(self, parameters)

    def python_type(self) -> type:
        return inspect.Signature

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "parameters":
            return self.parameters
        if name == "__class__":
            return tracer.known_object(inspect.Signature)
        if name == "empty":
            return tracer.known_object(inspect.Signature.empty)
        if name == "return_annotation":
            return self.annotation(tracer, "return")
        if name in _BINDING:
            found = class_lookup(tracer, inspect.Signature, name)
            assert found is not None
            return bind(tracer, found, self, inspect.Signature)
        return super().attribute(tracer, name)

    def annotation(self, tracer: Tracer, name: str) -> Any:
        """What the function says about a parameter, or about what it returns."""
        annotations = py.attribute(tracer, self.plain, "__annotations__")
        if not isinstance(annotations, DictValue):
            self.refuse("an annotation")
        found = annotations.get_key(tracer, name)
        return tracer.known_object(inspect.Signature.empty) if found is MISSING else found

    def text(self, tracer: Tracer, conversion: str) -> str:
        if conversion != "str":
            self.refuse("repr()")
        # Looked up only here: most programs count parameters, and none of their calls should depend on annotations.
        annotations = py.attribute(tracer, self.plain, "__annotations__")
        given = annotations.entries(tracer) if isinstance(annotations, DictValue) else {}
        real = [parameter.real(tracer, given) for parameter in self.parameters.entries(tracer).values()]
        return str(inspect.Signature(real, return_annotation=_annotation(tracer, given.get("return", MISSING))))

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        self.refuse(Operation.COMPARISON, operator=operator)

    def parts(self) -> list[Any]:
        return [self.function]

    def made_by(self) -> Call:
        return inspect.signature, [self.function]


class ParametersValue(DictValue):
    """The parameters of a signature, in order: a view that cannot be changed."""

    __slots__ = ("signature",)
    kind = types.MappingProxyType

    def __init__(self, signature: SignatureValue, parameters: dict[str, Any]) -> None:
        super().__init__(parameters)
        self.signature = signature

    def make(self, entries: dict[Any, Any]) -> DictValue:
        return DictValue(entries)

    def set_key(self, tracer: Tracer, key: Any, value: Any) -> None:
        self.refuse("item assignment")

    def delete_key(self, tracer: Tracer, key: Any) -> None:
        self.refuse("item deletion")

    def rebuild(self, emit: Emitter) -> None:
        emit.value(self.signature)
        emit.load_attribute("parameters")


class ParameterValue(Value):
    """One parameter."""

    __slots__ = ("signature", "name", "kind", "default")

    def __init__(self, name: str, kind: Any, default: Any) -> None:
        super().__init__()
        self.signature: SignatureValue | None = None
        self.name = name
        self.kind = kind
        self.default = default

    def python_type(self) -> type:
        return inspect.Parameter

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "name":
            return self.name
        if name == "kind":
            return tracer.known_object(self.kind)
        if name == "default":
            return tracer.known_object(inspect.Parameter.empty) if self.default is MISSING else self.default
        if name == "annotation":
            assert self.signature is not None
            return self.signature.annotation(tracer, self.name)
        if name in _CLASS_ATTRIBUTES:
            return tracer.known_object(getattr(inspect.Parameter, name))
        return super().attribute(tracer, name)

    def real(self, tracer: Tracer, annotations: dict[Any, Any]) -> inspect.Parameter:
        """A parameter that looks the same."""
        default = inspect.Parameter.empty if self.default is MISSING else _Shown(tracer.text(self.default, "repr"))
        annotation = _annotation(tracer, annotations.get(self.name, MISSING))
        return inspect.Parameter(self.name, self.kind, default=default, annotation=annotation)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        self.refuse(Operation.COMPARISON, operator=operator)

    def parts(self) -> list[Any]:
        return [self.signature]

    def rebuild(self, emit: Emitter) -> None:
        assert self.signature is not None
        emit.value(self.signature.parameters)
        emit.value(self.name)
        emit.builder.binary_subscr()


def _classes_of(*modules: types.ModuleType) -> frozenset[int]:
    """The classes that modules publish, by identity: anybody's may be called like them."""
    return frozenset(id(found) for module in modules for found in vars(module).values() if isinstance(found, type))


_OF_TYPING = _classes_of(typing)
_OF_THE_LIBRARY = _OF_TYPING | _classes_of(builtins, dataclasses, types, abc, enum)


def _is_of_the_library(cls: type) -> bool:
    """Whether the text of an annotation of this type runs nothing of the user's."""
    return id(cls) in _OF_THE_LIBRARY


class _Shown:
    """Has the text of something else."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _annotation(tracer: Tracer, value: Any) -> Any:
    """What a signature shows for an annotation: classes and constants."""
    if value is MISSING:
        return inspect.Signature.empty
    if isinstance(value, ClassValue) and _is_of_the_library(type(value.concrete)):
        value.note(tracer)
        return value.concrete
    if isinstance(value, ClassValue):  # its metaclass may have a say in what it is called
        module, name = [tracer.constant(py.attribute(tracer, value, part)) for part in ("__module__", "__qualname__")]
        return _Shown(name if module == "builtins" else f"{module}.{name}")
    if isinstance(value, (GenericAliasValue, UnionValue)):
        return _Shown(tracer.text(value, "repr"))
    if isinstance(value, Value) and value.source is not None and _is_of_the_library(type(value.concrete)):
        tracer.guard(value.source, "IS", value.concrete)
        return value.concrete
    if isinstance(value, UserObjectValue) and _is_of_the_library(value.cls) and id(value.cls) not in _OF_TYPING:
        return _Shown(tracer.text(value, "repr"))
    return tracer.constant(value)


# What is written in Python over the parameters.
_BINDING = frozenset({"bind", "bind_partial", "_bind", "_bound_arguments_cls"})
_CLASS_ATTRIBUTES = frozenset(
    {"empty", "POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "VAR_POSITIONAL", "KEYWORD_ONLY", "VAR_KEYWORD"}
)


def parameters_of(tracer: Tracer, function: FunctionLike) -> list[ParameterValue]:
    """The parameters of a plain function, in order."""
    code = tracer.constant(py.attribute(tracer, function, "__code__"))
    defaults = function.defaults(tracer)
    keyword_defaults = function.keyword_defaults(tracer)
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    found = []
    for index, name in enumerate(names[:count]):
        by_place = index < code.co_posonlyargcount
        kind = inspect.Parameter.POSITIONAL_ONLY if by_place else inspect.Parameter.POSITIONAL_OR_KEYWORD
        first = count - len(defaults)
        found.append(ParameterValue(name, kind, defaults[index - first] if index >= first else MISSING))
    if code.co_flags & _VARARGS:
        found.append(ParameterValue(names[count + only], inspect.Parameter.VAR_POSITIONAL, MISSING))
    for name in names[count : count + only]:
        found.append(ParameterValue(name, inspect.Parameter.KEYWORD_ONLY, keyword_defaults.get(name, MISSING)))
    if code.co_flags & _VARKEYWORDS:
        last = names[count + only + bool(code.co_flags & _VARARGS)]
        found.append(ParameterValue(last, inspect.Parameter.VAR_KEYWORD, MISSING))
    return found


# Attributes by which a function has another signature than its code, or an object than its `__call__`.
_SAY_OTHERWISE = ("__signature__", "__text_signature__", "_partialmethod", "__partialmethod__")
# So many functions may be wrapped around one another.
_MOST_WRAPPERS = 100


@primitive(inspect.signature)
def _signature(tracer: Tracer, function: Any, /) -> Any:
    parameters, plain = _read(tracer, function)
    signature = SignatureValue(function, {parameter.name: parameter for parameter in parameters}, plain)
    for parameter in parameters:
        parameter.signature = signature
    return signature


def _read(tracer: Tracer, function: Any) -> tuple[list[ParameterValue], FunctionLike]:
    """The parameters of what is called so, and the function of Python that says what they are."""
    if isinstance(function, Value):
        function.note(tracer)
    method = _method_called(tracer, function)
    if method is not function:
        parameters, plain = _read(tracer, method)
        return _without_first(parameters), plain
    behind = _unwrapped(tracer, function)
    if behind is not function:
        return _read(tracer, behind)
    if isinstance(function, PartialValue) and not _says_otherwise(tracer, function):
        parameters, plain = _read(tracer, function.part(tracer, "func"))
        return _without_given(tracer, parameters, function), plain
    if not isinstance(function, FunctionLike):
        raise GraphBreak(FL0102_OPERAND, what="inspect.signature", operand=py.describe(function))
    parameters = parameters_of(tracer, function)
    if _says_otherwise(tracer, function) or any(not parameter.name.isidentifier() for parameter in parameters):
        raise GraphBreak(FL0102, what=f"inspect.signature of {py.describe(function)}, which has a signature of its own")
    return parameters, function


def _without_first(parameters: list[ParameterValue]) -> list[ParameterValue]:
    """What is left to say when a method is called."""
    if not parameters or parameters[0].kind in (_KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise GraphBreak(FL0102, what="inspect.signature of a method without arguments")
    return parameters if parameters[0].kind is _VAR_POSITIONAL else parameters[1:]


def _without_given(tracer: Tracer, parameters: list[ParameterValue], partial: PartialValue) -> list[ParameterValue]:
    """What is left to say when a partial is called: from the first that it names on, all are given by name."""
    first, named = partial.first(tracer)
    by_place = [parameter for parameter in parameters if parameter.kind in _BY_PLACE]
    placed, open_places = by_place[: len(first)], by_place[len(first) :]
    by_name = {parameter.name for parameter in parameters if parameter.kind in _BY_NAME}
    twice = {parameter.name for parameter in placed if parameter.kind in _BY_NAME}
    wrongly_named = {parameter.name for parameter in open_places if parameter.kind not in _BY_NAME}
    kinds = {parameter.kind for parameter in parameters}
    if (
        (len(first) > len(by_place) and _VAR_POSITIONAL not in kinds)
        or not (named.keys() <= by_name or inspect.Parameter.VAR_KEYWORD in kinds)
        or named.keys() & (twice | wrongly_named)
    ):
        raise GraphBreak(FL0102, what="inspect.signature of a partial whose arguments do not fit")
    left: list[ParameterValue] = []
    pushed: list[ParameterValue] = []
    for parameter in parameters:
        name, kind = parameter.name, parameter.kind
        if any(parameter is each for each in placed):
            continue
        default = named[name] if name in named and kind in _BY_NAME else parameter.default
        pushes = bool(pushed) or (kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and name in named)
        if pushes and kind is _VAR_POSITIONAL:
            continue
        kind = _KEYWORD_ONLY if pushes and kind in _BY_PLACE else kind
        (pushed if pushes else left).append(ParameterValue(name, kind, default))
    return left + pushed


def _method_called(tracer: Tracer, called: Any) -> Any:
    """The function that a call comes to, which then has one argument more; a function itself."""
    if isinstance(called, BoundMethodValue):
        return called.function(tracer)
    if isinstance(called, ClassValue):
        return _initialiser(tracer, called)
    if not isinstance(called, UserObjectValue) or isinstance(called, (FunctionLike, PartialValue)):
        return called
    bound = special_method(tracer, called, called.cls, "__call__")
    own = _says_otherwise(tracer, called) or tracer.has_attribute(called, "__wrapped__")
    return called if own or not isinstance(bound, BoundMethodValue) else bound.function(tracer)


def _says_otherwise(tracer: Tracer, value: Any) -> bool:
    return any(tracer.has_attribute(value, name) for name in _SAY_OTHERWISE)


def _unwrapped(tracer: Tracer, function: Any) -> Any:
    """The function behind those that `functools.wraps` made look like it."""
    for _ in range(_MOST_WRAPPERS):
        if not isinstance(function, (FunctionLike, PartialValue)) or not tracer.has_attribute(function, "__wrapped__"):
            return function
        if _says_otherwise(tracer, function):
            break
        function = py.attribute(tracer, function, "__wrapped__")
    raise GraphBreak(FL0102, what=f"inspect.signature of {py.describe(function)}, which wraps others")


def _initialiser(tracer: Tracer, cls: ClassValue) -> Any:
    """The method that says how a class is called: `__init__`, where neither the metaclass nor `__new__` does."""
    new = class_lookup(tracer, cls.concrete, "__new__")
    own = tracer.has_attribute(cls, "__signature__") or tracer.has_attribute(cls, "__wrapped__")
    if own or type(cls.concrete) is not type or new is None or new.raw is not object.__new__:
        raise GraphBreak(FL0102_OPERAND, what="inspect.signature", operand=cls.describe())
    new.note_identity(tracer)
    return py.attribute(tracer, cls, "__init__")
