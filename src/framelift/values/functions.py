"""Python functions and methods: inlined when called."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from framelift.guards.source import Source
from framelift.values import protocol as py
from framelift.values.base import NULL, Value
from framelift.values.cells import CellValue
from framelift.values.dicts import MISSING, DictValue
from framelift.values.exceptions import raise_error

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class FunctionLike(Value):
    """Anything that runs a Python code object when called."""

    __slots__ = ()
    code: types.CodeType

    def globals(self, lift: Lift) -> DictValue:
        raise NotImplementedError

    def cells(self, lift: Lift) -> list[CellValue]:
        raise NotImplementedError

    def defaults(self, lift: Lift) -> list[Any]:
        raise NotImplementedError

    def keyword_defaults(self, lift: Lift) -> dict[str, Any]:
        raise NotImplementedError

    def python_type(self) -> type:
        return types.FunctionType

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return lift.call_function(self, args, kwargs)

    def bind(self, lift: Lift, instance: Any, owner: Any) -> Any:
        """The descriptor protocol of functions."""
        return self if instance is None else BoundMethodValue(self, instance)


class FunctionValue(FunctionLike, models=types.FunctionType):
    """A function that existed before the frame: its code is guarded, the rest is read where it is used."""

    __slots__ = ("namespace",)

    def __init__(self, source: Source, concrete: types.FunctionType) -> None:
        super().__init__(source, concrete)
        self.namespace: DictValue | None = None

    @property
    def code(self) -> types.CodeType:  # type: ignore[override]
        return self.concrete.__code__

    def note_facts(self, lift: Lift) -> None:
        assert self.source is not None
        lift.guard(self.source, "TYPE", types.FunctionType)

    def note_identity(self, lift: Lift) -> None:
        """Guard the very object, for functions whose meaning is not their code."""
        lift.guard(self.source, "IS", self.concrete)

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        model = lift.model_of(self.concrete)
        if model is not None:
            self.note_identity(lift)
            return model(lift, args, kwargs)
        assert self.source is not None
        lift.guard(self.source.child("FUNC_CODE"), "IS", self.code)
        return lift.call_function(self, args, kwargs)

    def globals(self, lift: Lift) -> DictValue:
        assert self.source is not None
        return lift.namespace_of_globals(self.concrete.__globals__, self.source.child("FUNC_GLOBALS"))

    def cells(self, lift: Lift) -> list[CellValue]:
        assert self.source is not None
        closure = self.source.child("FUNC_CLOSURE")
        return [
            lift.wrap(cell, closure.child("TUPLE_ITEM", index))
            for index, cell in enumerate(self.concrete.__closure__ or ())
        ]

    def defaults(self, lift: Lift) -> list[Any]:
        assert self.source is not None
        values = lift.wrap(self.concrete.__defaults__, self.source.child("FUNC_DEFAULTS"))
        if self.concrete.__defaults__ is None:
            py.same(lift, values, None)
            return []
        return py.items(lift, values)

    def keyword_defaults(self, lift: Lift) -> dict[str, Any]:
        assert self.source is not None
        values = lift.wrap(self.concrete.__kwdefaults__, self.source.child("FUNC_KWDEFAULTS"))
        if self.concrete.__kwdefaults__ is None:
            py.same(lift, values, None)
            return {}
        values.note(lift)
        return dict(values.entries(lift))

    def attribute(self, lift: Lift, name: str) -> Any:
        assert self.source is not None
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return lift.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name))
        if name == "__code__":
            lift.guard(self.source.child("FUNC_CODE"), "IS", self.code)
            return self.code
        if name == "__get__":
            return lift.builtin_method(self, name, lambda instance, owner=None: self.bind(lift, instance, owner))
        if name == "__globals__":
            return self.globals(lift)
        if name == "__defaults__":
            return lift.wrap(self.concrete.__defaults__, self.source.child("FUNC_DEFAULTS"))
        if name == "__call__":
            return self
        if name == "__class__":
            return lift.known_object(types.FunctionType)
        found = self.dictionary(lift).get_key(lift, name)
        if found is not MISSING:
            return found
        raise_error(AttributeError, f"'function' object has no attribute '{name}'")

    def dictionary(self, lift: Lift) -> DictValue:
        if self.namespace is None:
            assert self.source is not None
            self.namespace = lift.wrap(self.concrete.__dict__, self.source.child("INSTANCE_DICT"))
        assert self.namespace is not None
        return self.namespace

    def set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        if name.startswith("__"):
            self.refuse(f"assignment of {name}")
        self.dictionary(lift).set_key(lift, name, value)

    def describe(self) -> str:
        return f"function {self.concrete.__qualname__}"


class ClosureValue(FunctionLike):
    """A function defined while tracing."""

    __slots__ = ("code", "_globals", "_cells", "_defaults", "_keyword_defaults", "annotations", "names", "extra")

    def __init__(self, code: types.CodeType, globals: DictValue) -> None:
        super().__init__()
        self.code = code
        self._globals = globals
        self._cells: list[CellValue] = []
        self._defaults: list[Any] = []
        self._keyword_defaults: dict[str, Any] = {}
        self.annotations: Any = None
        self.names: dict[str, Any] = {"__name__": code.co_name, "__qualname__": code.co_qualname}
        self.extra: dict[str, Any] = {}

    def globals(self, lift: Lift) -> DictValue:
        return self._globals

    def cells(self, lift: Lift) -> list[CellValue]:
        return self._cells

    def defaults(self, lift: Lift) -> list[Any]:
        return self._defaults

    def keyword_defaults(self, lift: Lift) -> dict[str, Any]:
        return self._keyword_defaults

    def set_part(self, flag: int, part: Any, lift: Lift) -> None:
        """MAKE_FUNCTION's flags: 1 defaults, 2 keyword defaults, 4 annotations, 8 closure."""
        if flag == 1:
            self._defaults = py.items(lift, part)
        elif flag == 2:
            self._keyword_defaults = dict(part.entries(lift))
        elif flag == 4:
            self.annotations = part
        elif flag == 8:
            self._cells = py.items(lift, part)

    def attribute(self, lift: Lift, name: str) -> Any:
        if name in self.extra:
            return self.extra[name]
        if name in self.names:
            return self.names[name]
        if name == "__code__":
            return self.code
        if name == "__doc__":
            constants = self.code.co_consts
            return constants[0] if constants and isinstance(constants[0], str) else None
        if name == "__module__":
            return self._globals.get_key(lift, "__name__")
        if name == "__dict__":
            return DictValue(dict(self.extra))
        if name == "__get__":
            return lift.builtin_method(self, name, lambda instance, owner=None: self.bind(lift, instance, owner))
        if name in _FUNCTION_ATTRIBUTES:
            self.refuse(f"attribute {name!r}")
        raise_error(AttributeError, f"'function' object has no attribute '{name}'")

    def set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        if name in _FUNCTION_ATTRIBUTES and name not in ("__name__", "__qualname__", "__doc__", "__module__"):
            self.refuse(f"assignment of {name}")
        lift.journal.touch(self)
        self.extra[name] = value

    def state(self) -> Any:
        return dict(self.extra)

    def restore(self, state: Any) -> None:
        self.extra = state

    def describe(self) -> str:
        return f"function {self.code.co_qualname}"

    def parts(self) -> list[Any]:
        return [*self._cells, *self._defaults, *self._keyword_defaults.values(), *self.extra.values()]

    def rebuild(self, generate: Generator) -> None:
        generate.callable(types.FunctionType)
        generate.constant(self.code)
        generate.value(self._globals)
        generate.constant(self.code.co_name)
        for default in self._defaults:
            generate.value(default)
        if self._defaults:
            generate.build_tuple(len(self._defaults))
        else:
            generate.constant(None)
        for cell in self._cells:
            generate.value(cell)
        if self._cells:
            generate.build_tuple(len(self._cells))
        else:
            generate.constant(None)
        generate.call(5)
        generate.remember(self)
        if self._keyword_defaults:
            generate.copy_top()
            generate.value(DictValue(dict(self._keyword_defaults)))
            generate.swap()
            generate.store_attribute("__kwdefaults__")
        if self.annotations is not None:
            generate.copy_top()
            generate.annotations(self.annotations)
            generate.swap()
            generate.store_attribute("__annotations__")
        for name, value in self.extra.items():
            generate.copy_top()
            generate.value(value)
            generate.swap()
            generate.store_attribute(name)


_FUNCTION_ATTRIBUTES = frozenset(dir(types.FunctionType))


class BoundMethodValue(Value, models=types.MethodType):
    """A function with its first argument."""

    __slots__ = ("_function", "_instance")

    def __init__(
        self, function: Any, instance: Any, source: Source | None = None, concrete: Any = None
    ) -> None:
        super().__init__(source, concrete)
        self._function = function
        self._instance = instance

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(NULL, NULL, source, obj)

    def python_type(self) -> type:
        return types.MethodType

    def function(self, lift: Lift) -> Any:
        if self._function is NULL:
            assert self.source is not None
            self.note(lift)
            self._function = lift.wrap(self.concrete.__func__, self.source.child("METHOD_FUNC"))
        return self._function

    def instance(self, lift: Lift) -> Any:
        if self._instance is NULL:
            assert self.source is not None
            self.note(lift)
            self._instance = lift.wrap(self.concrete.__self__, self.source.child("METHOD_SELF"))
        return self._instance

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return py.call(lift, self.function(lift), [self.instance(lift), *args], kwargs)

    def attribute(self, lift: Lift, name: str) -> Any:
        if name == "__self__":
            return self.instance(lift)
        if name == "__func__":
            return self.function(lift)
        if name == "__call__":
            return self
        return py.attribute(lift, self.function(lift), name)

    def is_same(self, lift: Lift, other: Value) -> bool:
        return False

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        if not isinstance(other, BoundMethodValue) or operator not in ("==", "!="):
            return NotImplemented
        equal = py.same(lift, self.function(lift), other.function(lift)) and py.same(
            lift, self.instance(lift), other.instance(lift)
        )
        return equal == (operator == "==")

    def parts(self) -> list[Any]:
        return [part for part in (self._function, self._instance) if part is not NULL]

    def rebuild(self, generate: Generator) -> None:
        generate.callable(types.MethodType)
        generate.value(self._function)
        generate.value(self._instance)
        generate.call(2)
