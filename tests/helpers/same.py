"""Structural equality that a test can believe: exact types, bits of floats, order of dicts, identity and aliasing.

`assert_same(a, b)` walks two object graphs in step. Objects with an identity (lists, tensors, user objects) must
correspond one to one: if eager returned its own argument, so must the lifted function; if two outputs are one list,
they must be one list on both sides. No method of a user object is called on the way.
"""

from __future__ import annotations

import decimal
import enum
import math
import struct
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import torch

from framelift.native import _core
from tests.tolerances import EXACT, Tolerance

try:
    import numpy
except ImportError:  # numpy is optional for torch
    numpy = None  # type: ignore[assignment]

Tolerances = Callable[[torch.dtype | None], Tolerance]


def _fact(tensor: torch.Tensor, name: str) -> Any:
    """An attribute of a tensor, or what torch says instead: of a view whose base was written to in another mode."""
    try:
        return getattr(tensor, name)
    except RuntimeError as error:
        return str(error)


class Difference(AssertionError):
    """Two things that should be the same are not; says where and how."""


def assert_same(expected: object, actual: object, tolerances: Tolerances = lambda dtype: EXACT) -> None:
    """Raise Difference unless the two object graphs are the same."""
    Comparison(tolerances).compare(expected, actual, "value")


class Comparison:
    """One walk over two object graphs; keep it for several calls to compare identity across them."""

    def __init__(self, tolerances: Tolerances = lambda dtype: EXACT) -> None:
        self.tolerances = tolerances
        self._partner: dict[int, int] = {}
        self._reverse: dict[int, int] = {}
        self._storages: dict[int, int] = {}
        self._reverse_storages: dict[int, int] = {}
        self._keep: list[object] = []  # ids stay valid while the walk lasts

    def compare(self, expected: Any, actual: Any, path: str) -> None:
        if type(expected) is not type(actual):
            raise Difference(f"{path}: type {_name(type(expected))} became {_name(type(actual))}")
        if self._is_atom(expected, actual, path):
            return
        if not self._first_meeting(expected, actual, path):
            return
        for kind, walk in _WALKS:
            if isinstance(expected, kind):
                walk(self, expected, actual, path)
                break
        self._attributes(expected, actual, path)

    def _is_atom(self, expected: Any, actual: Any, path: str) -> bool:
        """Compare things that have no identity of their own, or whose identity is all they have."""
        kind = type(expected)
        if kind in _CONSTANTS:
            if expected != actual:
                raise Difference(f"{path}: {expected!r} became {actual!r}")
        elif kind is float:
            if _bits(expected) != _bits(actual) and not (math.isnan(expected) and math.isnan(actual)):
                limit = self.tolerances(torch.float64)
                if limit.exact or not math.isclose(expected, actual, rel_tol=limit.rtol, abs_tol=limit.atol):
                    raise Difference(f"{path}: {expected!r} became {actual!r}")
        elif kind is complex:
            self.compare(expected.real, actual.real, f"{path}.real")
            self.compare(expected.imag, actual.imag, f"{path}.imag")
        elif kind is slice:
            for part in ("start", "stop", "step"):
                self.compare(getattr(expected, part), getattr(actual, part), f"{path}.{part}")
        elif isinstance(expected, _BY_IDENTITY):
            if expected is not actual:
                raise Difference(f"{path}: {expected!r} became {actual!r}")
        else:
            return False
        return True

    def _first_meeting(self, expected: object, actual: object, path: str) -> bool:
        """False where the pair was compared before; Difference where one of them already has another partner."""
        if type(expected) in (tuple, frozenset, torch.Size, types.MethodType):
            return True  # immutable: whether two equal ones are one object is the interpreter's business
        mine, theirs = id(expected), id(actual)
        if mine in self._partner or theirs in self._reverse:
            if self._partner.get(mine) != theirs or self._reverse.get(theirs) != mine:
                where = "eager" if mine in self._partner else "the lifted program"
                raise Difference(
                    f"{path}: this is an object met before in {where}, and a different one on the other side"
                )
            return False
        self._partner[mine], self._reverse[theirs] = theirs, mine
        self._keep += [expected, actual]
        return True

    def _attributes(self, expected: object, actual: object, path: str) -> None:
        """The instance dict and the slots, read without running code of the class."""
        mine, theirs = _instance_dict(expected), _instance_dict(actual)
        if isinstance(expected, torch.Tensor) and expected.layout is torch.jagged:
            return  # sizes that are of each its own, and what was worked out when it was needed
        if mine is not None and theirs is not None:
            self.dicts(_without_hints(mine), _without_hints(theirs), f"{path}.__dict__")
        for name, member in _slots(type(expected)):
            a, b = _slot_value(member, expected), _slot_value(member, actual)
            if (a is _EMPTY) != (b is _EMPTY):
                raise Difference(f"{path}.{name}: set on one side only")
            if a is not _EMPTY:
                self.compare(a, b, f"{path}.{name}")

    # The walks: one per family of objects with contents.

    def sequences(self, expected: Any, actual: Any, path: str) -> None:
        if _length(expected) != _length(actual):
            raise Difference(f"{path}: length {_length(expected)} became {_length(actual)}")
        for index, (a, b) in enumerate(zip(_items(expected), _items(actual), strict=True)):
            self.compare(a, b, f"{path}[{index}]")

    def texts(self, expected: Any, actual: Any, path: str) -> None:
        """Of objects whose text says all about them."""
        if repr(expected) != repr(actual):
            raise Difference(f"{path}: {expected!r} became {actual!r}")

    def dicts(self, expected: Any, actual: Any, path: str) -> None:
        mine, theirs = _keys(expected), _keys(actual)
        if len(mine) != len(theirs):
            raise Difference(f"{path}: keys {mine!r} became {theirs!r}")
        for a, b in zip(mine, theirs, strict=True):
            self.compare(a, b, f"{path} key {a!r}" if type(a) is str else f"{path} key")
        for a, b in zip(mine, theirs, strict=True):
            mine_value, their_value = dict.__getitem__(expected, a), dict.__getitem__(actual, b)
            self.compare(mine_value, their_value, f"{path}[{a!r}]" if type(a) in (str, int) else f"{path}[...]")
        if isinstance(expected, defaultdict):
            self.compare(expected.default_factory, actual.default_factory, f"{path}.default_factory")

    def sets(self, expected: Any, actual: Any, path: str) -> None:
        mine, theirs = list(_base_of(expected).__iter__(expected)), list(_base_of(actual).__iter__(actual))
        if len(mine) != len(theirs):
            raise Difference(f"{path}: {len(mine)} elements became {len(theirs)}")
        for a in mine:
            for index, b in enumerate(theirs):
                if self._would_match(a, b):
                    self.compare(a, b, f"{path} element")
                    del theirs[index]
                    break
            else:
                raise Difference(f"{path}: element {a!r} is missing")

    def _would_match(self, a: object, b: object) -> bool:
        try:
            Comparison(self.tolerances).compare(a, b, "")
        except Difference:
            return False
        return id(a) not in self._partner or self._partner[id(a)] == id(b)

    def functions(self, expected: Any, actual: Any, path: str) -> None:
        if expected.__code__ is not actual.__code__ and expected.__code__ != actual.__code__:
            raise Difference(f"{path}: function {expected.__qualname__} became {actual.__qualname__}")
        self.compare(expected.__defaults__, actual.__defaults__, f"{path}.__defaults__")
        self.compare(expected.__kwdefaults__, actual.__kwdefaults__, f"{path}.__kwdefaults__")
        for name, a, b in zip(
            expected.__code__.co_freevars, expected.__closure__ or (), actual.__closure__ or (), strict=True
        ):
            self.compare(a, b, f"{path} closure {name}")

    def cells(self, expected: Any, actual: Any, path: str) -> None:
        a, b = cell_value(expected), cell_value(actual)
        if (a is EMPTY_CELL) != (b is EMPTY_CELL):
            raise Difference(f"{path}: filled on one side only")
        if a is not EMPTY_CELL:
            self.compare(a, b, path)

    def methods(self, expected: Any, actual: Any, path: str) -> None:
        self.compare(expected.__func__, actual.__func__, f"{path}.__func__")
        self.compare(expected.__self__, actual.__self__, f"{path}.__self__")

    def exceptions(self, expected: Any, actual: Any, path: str) -> None:
        self.compare(expected.args, actual.args, f"{path}.args")
        self.compare(expected.__cause__, actual.__cause__, f"{path}.__cause__")

    def tensors(self, expected: Any, actual: Any, path: str) -> None:
        limit = self.tolerances(expected.dtype)
        facts = [("dtype", "dtype"), ("device", "device"), ("layout", "layout")]
        facts += [("requires_grad", "requires_grad"), ("is_leaf", "is_leaf")]
        for what, name in facts:
            a, b = _fact(expected, name), _fact(actual, name)
            if a != b:
                raise Difference(f"{path}: {what} {a} became {b}")
        if torch.nn.parameter.is_lazy(expected):
            return
        if expected.layout is torch.jagged:
            self.compare(_without_ragged(expected.shape), _without_ragged(actual.shape), f"{path}: shape")
            self.compare(expected.values(), actual.values(), f"{path}: values")
            self.compare(expected.offsets(), actual.offsets(), f"{path}: offsets")
            return
        if expected.is_nested and expected.layout is torch.strided:
            self.compare(expected.unbind(), actual.unbind(), path)
            return
        if expected.shape != actual.shape:
            raise Difference(f"{path}: shape {expected.shape} became {actual.shape}")
        strided = expected.layout is torch.strided and expected.device.type != "meta"
        if strided and limit.strides and expected.stride() != actual.stride() and expected.numel() > 1:
            raise Difference(f"{path}: stride {expected.stride()} became {actual.stride()}")
        if strided and limit.sharing:
            self._sharing(expected, actual, path)
        if expected.device.type != "meta":
            self._values(expected, actual, path, limit)
        with torch.no_grad():
            if expected.is_leaf and (expected.grad is not None or actual.grad is not None):
                self.compare(expected.grad, actual.grad, f"{path}.grad")

    def arrays(self, expected: Any, actual: Any, path: str) -> None:
        """Arrays and scalars of NumPy's, with the memory they share among each other and with tensors."""
        for name in ("dtype", "shape"):
            if getattr(expected, name) != getattr(actual, name):
                raise Difference(f"{path}: {name} {getattr(expected, name)} became {getattr(actual, name)}")
        if isinstance(expected, numpy.ndarray) and expected.flags.writeable != actual.flags.writeable:
            raise Difference(f"{path}: writeable became {actual.flags.writeable}")
        if expected.dtype.kind not in "bufi":
            if not numpy.array_equal(expected, actual):
                raise Difference(f"{path}: array values differ")
            return
        if isinstance(expected, numpy.ndarray):
            self._lying_alike(expected, actual, path)
        one, two = [torch.tensor(numpy.array(array, order="C")) for array in (expected, actual)]
        self._values(one, two, path, self.tolerances(one.dtype))

    def _lying_alike(self, expected: Any, actual: Any, path: str) -> None:
        """Arrays with the same strides, where those matter, that share memory with the same arrays and tensors."""
        for size, one, two in zip(expected.shape, expected.strides, actual.strides, strict=True):
            if size > 1 and one != two and expected.size > 1:
                raise Difference(f"{path}: strides {expected.strides} became {actual.strides}")
        if expected.flags.writeable and expected.size and min(expected.strides, default=0) >= 0:
            self._sharing(torch.from_numpy(expected), torch.from_numpy(actual), path)

    def _sharing(self, expected: Any, actual: Any, path: str) -> None:
        """Tensors that share memory in eager must share it in the lifted program, and no others."""
        if type(expected) not in (torch.Tensor, torch.nn.Parameter) or expected.numel() == 0:
            return
        if expected._is_zerotensor() or actual._is_zerotensor():  # autograd's zeros, which no memory holds
            return
        mine, theirs = expected.untyped_storage().data_ptr(), actual.untyped_storage().data_ptr()
        if self._storages.setdefault(mine, theirs) != theirs:
            raise Difference(f"{path}: shares memory with another tensor in eager, not here")
        if self._reverse_storages.setdefault(theirs, mine) != mine:
            raise Difference(f"{path}: shares memory with another tensor here, not in eager")
        if expected.storage_offset() != actual.storage_offset():
            raise Difference(f"{path}: storage offset {expected.storage_offset()} became {actual.storage_offset()}")

    def _values(self, expected: Any, actual: Any, path: str, limit: Tolerance) -> None:
        with torch.no_grad():
            a, b = expected.detach(), actual.detach()
            if type(a) is torch.Tensor and a.layout is torch.strided and not a.is_quantized and torch.equal(a, b):
                return  # most are; what follows is slow
            try:
                torch.testing.assert_close(
                    b, a, rtol=limit.rtol, atol=limit.atol, equal_nan=True, check_stride=False, check_layout=True
                )
            except AssertionError as problem:
                raise Difference(f"{path}: tensor values differ: {problem}") from None


def _without_ragged(shape: torch.Size) -> list[Any]:
    """The sizes of a jagged tensor, but for that which differs between its parts."""
    return [size if type(size) is int else "ragged" for size in shape]


EMPTY_CELL = object()
_EMPTY = object()
_CONSTANTS = {int, bool, str, bytes, type(None), type(...), type(NotImplemented), range, date, timedelta}
_CONSTANTS |= {torch.dtype, torch.device, torch.layout, torch.memory_format}
_BY_IDENTITY = (_core.Lifted, type, types.ModuleType, types.BuiltinFunctionType, enum.Enum, types.CodeType, weakref.ref)

_WALKS: list[tuple[Any, Callable[..., None]]] = [
    (torch.Tensor, Comparison.tensors),
    (() if numpy is None else (numpy.ndarray, numpy.generic), Comparison.arrays),
    ((list, tuple, deque), Comparison.sequences),
    ((dict, OrderedDict, defaultdict, Counter), Comparison.dicts),
    ((set, frozenset), Comparison.sets),
    (types.FunctionType, Comparison.functions),
    (types.MethodType, Comparison.methods),
    (types.CellType, Comparison.cells),
    (BaseException, Comparison.exceptions),
    ((decimal.Decimal, decimal.Context), Comparison.texts),
]


def cell_value(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY_CELL


def _bits(value: float) -> bytes:
    return struct.pack("<d", value)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__


def _base_of(value: object) -> Any:
    """The builtin container class of a value, whose methods are safe to call on subclasses with their own."""
    return next(kind for kind in (list, tuple, deque, dict, set, frozenset) if isinstance(value, kind))


def _length(value: object) -> int:
    return _base_of(value).__len__(value)


def _items(value: object) -> Any:
    return _base_of(value).__iter__(value)


def _keys(mapping: Any) -> list[Any]:
    """The keys in the order a program sees: an ordered dict keeps its own."""
    return list((OrderedDict if isinstance(mapping, OrderedDict) else dict).__iter__(mapping))


def _instance_dict(value: object) -> dict[str, Any] | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


# Of torch 2.11 the second: the name that marks of the user's have as well.
_HINTS = ("_dynamo_propagated_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_static_input_type")


def _without_hints(attributes: dict[str, Any]) -> dict[str, Any]:
    """AOTAutograd notes on its results which sizes were symbolic, torch.compile which tensors are parameters."""
    return {name: item for name, item in attributes.items() if name not in _HINTS}


def _slots(kind: type) -> list[tuple[str, Any]]:
    return [
        (name, member)
        for base in kind.__mro__
        if base.__module__ not in ("builtins", "torch", "torch._C", "collections")
        for name, member in vars(base).items()
        if not name.endswith("offset__")  # where C code keeps something: what is there is an address
        and type(member) is types.MemberDescriptorType
    ]


def _slot_value(member: Any, owner: object) -> object:
    try:
        return member.__get__(owner, type(owner))
    except AttributeError:
        return _EMPTY
