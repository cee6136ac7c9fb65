"""Python functions and methods: inlined when called."""

from __future__ import annotations

import sys
import types
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.guards.equality import has_type
from framelift.guards.source import Source
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.containers.namespaces import NamespaceValue
from framelift.values.core import protocol as py
from framelift.values.core.base import NULL, Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.methods import Bound, ModelMethodValue, key_of_method, method_of
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_no_attribute
from framelift.values.functions.cells import CellValue
from framelift.values.functions.untraceable import refuse_untraceable

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class FunctionLike(Value):
    """Anything that runs a Python code object when called."""

    __slots__ = ()
    code: types.CodeType

    @abstractmethod
    def globals(self, tracer: Tracer) -> DictValue:
        """The namespace of the module it was made in."""

    @abstractmethod
    def cells(self, tracer: Tracer) -> list[CellValue]:
        """The variables it shares with the functions around it, in the order of `co_freevars`."""

    @abstractmethod
    def defaults(self, tracer: Tracer) -> list[Any]:
        """The defaults of its last positional parameters."""

    @abstractmethod
    def keyword_defaults(self, tracer: Tracer) -> dict[str, Any]:
        """The defaults of its keyword-only parameters."""

    def qualified_name(self, tracer: Tracer) -> str:
        """The name by which errors call it."""
        name: str = tracer.constant(self.attribute(tracer, "__qualname__"))
        return name

    def python_type(self) -> type:
        return types.FunctionType

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        refuse_untraceable(tracer, self)
        return tracer.inline(self, args, kwargs)

    def bind(self, tracer: Tracer, instance: Any, owner: Any) -> Any:
        """The descriptor protocol of functions."""
        return self if instance is None else BoundMethodValue(self, instance)


def has_plain_globals(function: types.FunctionType) -> bool:
    """Whether its global variables are what the dict says: a subclass may answer otherwise."""
    return type(function.__globals__) is dict


class FunctionValue(FunctionLike, models=types.FunctionType):
    """A function that existed before the frame: its code is guarded, the rest is read where it is used."""

    __slots__ = ("namespace", "_admitted", "_model", "_globals")

    def __init__(self, source: Source, concrete: types.FunctionType) -> None:
        super().__init__(source, concrete)
        self.namespace: DictValue | None = None
        # Whether it was found that it may be called, and what was noted for that.
        self._admitted = False
        self._model: Callable[..., Any] | None = None
        self._globals: DictValue | None = None

    @property
    def code(self) -> types.CodeType:  # type: ignore[override]
        return self.concrete.__code__

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        tracer.guard(self.source, "TYPE", types.FunctionType)

    def note_identity(self, tracer: Tracer) -> None:
        """Guard the very object, for functions whose meaning is not their code."""
        assert self.source is not None
        tracer.guard(self.source, "IS", self.concrete)

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not self._admitted:
            self._admit(tracer)
        return tracer.inline(self, args, kwargs) if self._model is None else self._model(tracer, args, kwargs)

    def _admit(self, tracer: Tracer) -> None:
        self._model = tracer.model_of(self.concrete)
        if self._model is not None:
            self.note_identity(tracer)
        else:
            assert self.source is not None
            tracer.guard(self.source.child("FUNC_CODE"), "IS", self.code)
            refuse_untraceable(tracer, self)
        self._admitted = True

    def globals(self, tracer: Tracer) -> DictValue:
        if self._globals is None:
            assert self.source is not None
            real = self.concrete.__globals__
            if not has_plain_globals(self.concrete):
                raise GraphBreak(FL0102, what=f"{self.describe()}, whose globals are no plain dict")
            self._globals = _namespace_of_globals(tracer, real, self.source.child("FUNC_GLOBALS"))
        return self._globals

    def cells(self, tracer: Tracer) -> list[CellValue]:
        assert self.source is not None
        closure = self.source.child("FUNC_CLOSURE")
        return [
            tracer.wrap(cell, closure.child("TUPLE_ITEM", index))
            for index, cell in enumerate(self.concrete.__closure__ or ())
        ]

    def defaults(self, tracer: Tracer) -> list[Any]:
        assert self.source is not None
        values = tracer.wrap(self.concrete.__defaults__, self.source.child("FUNC_DEFAULTS"))
        if self.concrete.__defaults__ is None:
            py.same(tracer, values, None)
            return []
        return py.items(tracer, values)

    def keyword_defaults(self, tracer: Tracer) -> dict[str, Any]:
        assert self.source is not None
        values = tracer.wrap(self.concrete.__kwdefaults__, self.source.child("FUNC_KWDEFAULTS"))
        if self.concrete.__kwdefaults__ is None:
            py.same(tracer, values, None)
            return {}
        values.note(tracer)
        return dict(values.entries(tracer))

    def attribute(self, tracer: Tracer, name: str) -> Any:
        assert self.source is not None
        if name in _READ_AS_ATTRIBUTE:
            return tracer.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name))
        if name in _FUNCTION_PARTS:
            return tracer.wrap(getattr(self.concrete, name), self.source.child(_FUNCTION_PARTS[name]))
        if name == "__code__":
            tracer.guard(self.source.child("FUNC_CODE"), "IS", self.code)
            return self.code
        if name == "__globals__":
            return self.globals(tracer)
        if name == "__dict__":
            return self.dictionary(tracer)
        found = self.dictionary(tracer).get_key(tracer, name)
        return common_attribute(tracer, self, name) if found is MISSING else found

    def dictionary(self, tracer: Tracer) -> DictValue:
        if self.namespace is None:
            assert self.source is not None
            self.namespace = tracer.wrap(self.concrete.__dict__, self.source.child("INSTANCE_DICT"))
        assert self.namespace is not None
        return self.namespace

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        if name in _FUNCTION_ATTRIBUTES:
            if name in _TEXTS and tracer.constant(self.attribute(tracer, name)) == tracer.constant(value):
                return  # as `functools.total_ordering` does each time
            self.refuse(Operation.SET, name=name)
        self.dictionary(tracer).set_key(tracer, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if name in _FUNCTION_ATTRIBUTES:
            self.refuse(Operation.DELETE, name=name)
        delete_entry(tracer, self.dictionary(tracer), name)

    def describe(self) -> str:
        return f"function {self.concrete.__qualname__}"


def _namespace_of_globals(tracer: Tracer, real: dict[str, Any], source: Source) -> DictValue:
    """The globals of a function: a module's namespace where there is one, so that its functions share it."""
    module = sys.modules.get(real.get("__name__", ""))
    if isinstance(module, types.ModuleType) and module.__dict__ is real:
        namespace = tracer.module_namespace(module)
        assert namespace.source is not None
        tracer.guards.relate("SAME", (namespace.source, source))
        return namespace
    found: DictValue = tracer.wrap(real, source)
    return found


class ClosureValue(FunctionLike):
    """A function defined while tracing. `written` holds what was assigned to attributes like `__name__`."""

    __slots__ = ("code", "_globals", "_cells", "_defaults", "_keyword_defaults", "annotations", "written", "namespace")
    assigns = ("_defaults",)
    mutates = ("written",)

    def __init__(self, code: types.CodeType, globals: DictValue) -> None:
        super().__init__()
        self.code = code
        self._globals = globals
        self._cells: list[CellValue] = []
        self._defaults: list[Any] = []
        self._keyword_defaults: dict[str, Any] = {}
        self.annotations: DictValue | None = None
        self.written: dict[str, Any] = {}
        self.namespace = NamespaceValue(self)

    def globals(self, tracer: Tracer) -> DictValue:
        return self._globals

    def cells(self, tracer: Tracer) -> list[CellValue]:
        return self._cells

    def defaults(self, tracer: Tracer) -> list[Any]:
        return self._defaults

    def keyword_defaults(self, tracer: Tracer) -> dict[str, Any]:
        return self._keyword_defaults

    def set_part(self, flag: int, part: Any, tracer: Tracer) -> None:
        """MAKE_FUNCTION's flags: 1 defaults, 2 keyword defaults, 4 annotations, 8 closure."""
        if flag == 1:
            self._defaults = py.items(tracer, part)
        elif flag == 2:
            self._keyword_defaults = dict(part.entries(tracer))
        elif flag == 4:
            items = py.items(tracer, part)
            names = [tracer.constant(name) for name in items[::2]]
            self.annotations = DictValue(dict(zip(names, items[1::2], strict=True)))
        elif flag == 8:
            self._cells = py.items(tracer, part)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in self.written:
            return self.written[name]
        if name in _CLOSURE_ATTRIBUTES:
            return _CLOSURE_ATTRIBUTES[name](self, tracer)
        found = self.namespace.get_key(tracer, name)
        return common_attribute(tracer, self, name) if found is MISSING else found

    def doc(self) -> Any:
        constants = self.code.co_consts
        return constants[0] if constants and isinstance(constants[0], str) else None

    def annotations_dict(self) -> DictValue:
        if self.annotations is None:
            self.annotations = DictValue({})
        return self.annotations

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        if name in _ASSIGNABLE:
            tracer.journal.touch(self)
            self.written[name] = value
        elif name == "__defaults__":
            tracer.journal.touch(self)
            self._defaults = [] if value is None else py.items(tracer, value)
        elif name in _FUNCTION_ATTRIBUTES:
            self.refuse(Operation.SET, name=name)
        else:
            self.namespace.set_key(tracer, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if name in _FUNCTION_ATTRIBUTES:
            self.refuse(Operation.DELETE, name=name)
        delete_entry(tracer, self.namespace, name)

    def describe(self) -> str:
        return f"function {self.code.co_qualname}"

    def parts(self) -> list[Any]:
        inner = [*self._cells, *self._defaults, *self._keyword_defaults.values(), *self.written.values()]
        return [*inner, self._globals, self.namespace] + ([] if self.annotations is None else [self.annotations])

    def rebuild(self, emit: Emitter) -> None:
        # A cell may hold the function itself: cells are filled when the function is there.
        unfilled = [cell for cell in self._cells if cell.make_empty(emit)]
        emit.callable(types.FunctionType)
        emit.constant(self.code)
        emit.value(self._globals)
        emit.constant(self.code.co_name)
        _tuple_or_none(emit, self._defaults)
        _tuple_or_none(emit, self._cells)
        emit.call(5)
        emit.remember(self)
        for cell in unfilled:
            cell.fill(emit)
        if self._keyword_defaults:
            _store(emit, "__kwdefaults__", DictValue(dict(self._keyword_defaults)))
        if self.annotations is not None and "__annotations__" not in self.written:
            _store(emit, "__annotations__", self.annotations)
        for name, value in self.written.items():
            _store(emit, name, value)
        self.namespace.fill_real(emit)


def _tuple_or_none(emit: Emitter, items: list[Any]) -> None:
    for item in items:
        emit.value(item)
    if items:
        emit.build_tuple(len(items))
    else:
        emit.constant(None)


def _store(emit: Emitter, name: str, value: Any) -> None:
    """`function.name = value` for the function on top of the stack."""
    emit.copy_top()
    emit.value(value)
    emit.swap()
    emit.store_attribute(name)


def delete_entry(tracer: Tracer, namespace: DictValue, name: str) -> None:
    """`del namespace[name]` for an attribute that is kept there."""
    if namespace.get_key(tracer, name) is MISSING:
        raise_no_attribute(types.FunctionType, name)
    namespace.delete_key(tracer, name)


def common_attribute(tracer: Tracer, function: FunctionLike, name: str) -> Any:
    """What a function has from its type."""
    if name == "__get__":
        return ModelMethodValue(function, name, lambda instance, owner=None: function.bind(tracer, instance, owner))
    if name == "__call__":
        return function
    if name == "__class__":
        return tracer.known_object(types.FunctionType)
    if name in _FUNCTION_ATTRIBUTES:
        function.refuse(Operation.ATTRIBUTE, name=name)
    raise_no_attribute(types.FunctionType, name)


_FUNCTION_ATTRIBUTES = frozenset(dir(types.FunctionType))
_TEXTS = frozenset({"__name__", "__qualname__"})
_ASSIGNABLE = frozenset({"__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__type_params__"})
_READ_AS_ATTRIBUTE = frozenset({"__name__", "__qualname__", "__module__", "__doc__", "__annotations__"})
_FUNCTION_PARTS = {
    "__defaults__": "FUNC_DEFAULTS",
    "__kwdefaults__": "FUNC_KWDEFAULTS",
    "__closure__": "FUNC_CLOSURE",
}
_CLOSURE_ATTRIBUTES: dict[str, Callable[[ClosureValue, Tracer], Any]] = {
    "__name__": lambda function, tracer: function.code.co_name,
    "__qualname__": lambda function, tracer: function.code.co_qualname,
    "__code__": lambda function, tracer: function.code,
    "__doc__": lambda function, tracer: function.doc(),
    "__module__": lambda function, tracer: function.globals(tracer).get_key(tracer, "__name__"),
    "__dict__": lambda function, tracer: function.namespace,
    "__globals__": lambda function, tracer: function.globals(tracer),
    "__annotations__": lambda function, tracer: function.annotations_dict(),
    "__closure__": lambda function, tracer: make_tuple(function.cells(tracer)) if function.code.co_freevars else None,
    "__defaults__": lambda function, tracer: (
        make_tuple(function.defaults(tracer)) if function.defaults(tracer) else None
    ),
}
if "__type_params__" in _FUNCTION_ATTRIBUTES:  # since 3.12; functions that have some are not traced when made
    _READ_AS_ATTRIBUTE |= {"__type_params__"}
    _CLOSURE_ATTRIBUTES["__type_params__"] = lambda function, tracer: make_tuple([])


# Methods that C code binds to objects in a way of its own.
_C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)


# What a method of a C type is when it is bound, by the identity of its type.
_BOUND_TYPES = {
    id(types.WrapperDescriptorType): types.MethodWrapperType,
    id(types.MethodDescriptorType): types.BuiltinFunctionType,
    id(types.ClassMethodDescriptorType): types.BuiltinFunctionType,
}
# What a method has from its type; all else it has from its function.
_OF_METHODS = frozenset(dir(types.MethodType)) - {"__doc__"}
# What is bound of these is a function of C, not a method written in Python.
_METHODS_OF_C = (types.MethodDescriptorType, types.ClassMethodDescriptorType)


class BoundMethodValue(Bound, models=types.MethodType):
    """A function with its first argument."""

    __slots__ = ("_function", "_instance")

    def __init__(self, function: Any, instance: Any, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self._function = function
        self._instance = instance

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(NULL, NULL, source, obj)

    def python_type(self) -> type:
        raw = self._function.concrete if isinstance(self._function, Value) else None
        return _BOUND_TYPES.get(id(type(raw)), types.MethodType)

    def function(self, tracer: Tracer) -> Any:
        if self._function is NULL:
            assert self.source is not None
            self.note(tracer)
            self._function = tracer.wrap(self.concrete.__func__, self.source.child("METHOD_FUNC"))
        return self._function

    def instance(self, tracer: Tracer) -> Any:
        if self._instance is NULL:
            assert self.source is not None
            self.note(tracer)
            self._instance = tracer.wrap(self.concrete.__self__, self.source.child("METHOD_SELF"))
        return self._instance

    def bound_to(self, tracer: Tracer) -> tuple[Any, str] | None:
        raw: Any = self.function(tracer).concrete if isinstance(self.function(tracer), Value) else None
        return (self.instance(tracer), raw.__name__) if type(raw) in _METHODS_OF_C else None

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return py.call(tracer, self.function(tracer), [self.instance(tracer), *args], kwargs)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__self__":
            return self.instance(tracer)
        if name == "__func__":
            return self.function(tracer)
        if name == "__call__":
            return self
        if name == "__get__" and name in _OF_METHODS:  # it stays bound as it is (not in every version)
            return ModelMethodValue(self, name, lambda instance, owner=None, /: self)
        if name in _OF_METHODS:
            return method_of(self, tracer, name)
        if name == "__module__" and type(self.function(tracer).concrete) in _METHODS_OF_C:
            return None  # of a module are functions
        return py.attribute(tracer, self.function(tracer), name)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if not isinstance(other, BoundMethodValue) or operator not in ("==", "!="):
            return super().compare(tracer, operator, other)
        equal = py.same(tracer, self.function(tracer), other.function(tracer)) and py.same(
            tracer, self.instance(tracer), other.instance(tracer)
        )
        return equal == (operator == "==")

    def key(self, tracer: Tracer) -> Any:
        return key_of_method(tracer, self)

    def parts(self) -> list[Any]:
        return [part for part in (self._function, self._instance) if part is not NULL]

    def rebuild(self, emit: Emitter) -> None:
        raw = self._function.concrete if isinstance(self._function, Value) else None
        if has_type(raw, _C_METHODS):
            emit.value(self._function)
            emit.load_method("__get__")
            if type(raw) is types.ClassMethodDescriptorType:
                emit.constant(None)
            emit.value(self._instance)
            emit.call(1 + (type(raw) is types.ClassMethodDescriptorType))
            return
        emit.callable(types.MethodType)
        emit.value(self._function)
        emit.value(self._instance)
        emit.call(2)
