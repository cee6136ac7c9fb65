"""The two sides of a differential test: each has its own copy of function, closure, globals and arguments."""

from __future__ import annotations

import copy
import decimal
import hashlib
import random
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from framelift.native import _core
from tests.helpers.same import EMPTY_CELL, cell_value

try:
    import numpy
except ImportError:  # numpy is optional for torch
    numpy = None  # type: ignore[assignment]


class Gone:
    """The value of a global that was deleted."""


GONE = Gone()


class Side:
    """One side: a callable with copied closure and globals of its own. Calls on it keep what they changed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.memo: dict[int, Any] = {}
        self.target = copy_callable(function, self.memo)
        self.function = self.target  # what is called; the lifted side puts the lifted callable here
        self._dict, names = _globals_read(function)
        self.globals = {name: _copied_or_shared(self._dict[name], self.memo) for name in names}
        self.decimals = decimal.getcontext().copy()

    def copied(self, value: Any) -> Any:
        """A deep copy for one call: arguments that are also in the closure or the globals stay the same objects."""
        return _copied(value, dict(self.memo))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """This side's globals stand in the module for a while, and its decimals are computed in its own context.

        Afterwards module and context are as they were.
        """
        saved, context = dict(self._dict), decimal.getcontext()
        decimal.setcontext(self.decimals)
        _make_equal(self._dict, {**saved, **self.globals})
        try:
            yield
        finally:
            self.decimals = decimal.getcontext()
            decimal.setcontext(context)
            after = dict(self._dict)
            _make_equal(self._dict, saved)
            touched = [name for name in {**saved, **after} if after.get(name, GONE) is not saved.get(name, GONE)]
            # The warnings module keeps its own notes in the globals of whoever warns.
            self.globals |= {name: after.get(name, GONE) for name in touched if name != "__warningregistry__"}


def copy_callable(function: Any, memo: dict[int, Any]) -> Any:
    """A copy of a function (with new cells), a bound method, a module or another callable object."""
    if isinstance(function, types.FunctionType):
        return _copy_function(function, memo)
    if isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType):
        return types.MethodType(_copy_function(function.__func__, memo), copy.deepcopy(function.__self__, memo))
    return copy.deepcopy(function, memo)


def _make_equal(target: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Change as little as possible: every write to a module's dict costs its guards a re-check."""
    for name, value in wanted.items():
        if value is not GONE and target.get(name, GONE) is not value:
            target[name] = value
    for name in [name for name in target if wanted.get(name, GONE) is GONE]:
        del target[name]


def _copied_or_shared(value: Any, memo: dict[int, Any]) -> Any:
    """A global that cannot be copied (a lock, a non-leaf tensor) is shared by both sides."""
    try:
        return _copied(value, memo)
    except (TypeError, RuntimeError, copy.Error):
        return value


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    return copy_callable(value, memo) if isinstance(value, types.FunctionType) else copy.deepcopy(value, memo)


def _copy_function(function: types.FunctionType, memo: dict[int, Any]) -> types.FunctionType:
    if id(function) in memo:
        return memo[id(function)]
    if function.__closure__ is None and not function.__defaults__ and not function.__kwdefaults__:
        return function
    cells = tuple(_copy_cell(cell, memo) for cell in function.__closure__ or ())
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, None, cells)
    memo[id(function)] = made
    made.__qualname__ = function.__qualname__
    made.__module__ = function.__module__
    made.__doc__ = function.__doc__
    made.__dict__.update(function.__dict__)
    made.__defaults__ = copy.deepcopy(function.__defaults__, memo)
    made.__kwdefaults__ = copy.deepcopy(function.__kwdefaults__, memo)
    for new, old in zip(cells, function.__closure__ or (), strict=True):
        if cell_value(new) is EMPTY_CELL and cell_value(old) is not EMPTY_CELL:
            new.cell_contents = _copied(old.cell_contents, memo)
    return made


def _copy_cell(cell: types.CellType, memo: dict[int, Any]) -> types.CellType:
    # Filled after the function exists, so that a function in its own closure finds itself.
    return memo.setdefault(id(cell), types.CellType())


def _globals_read(function: Any) -> tuple[dict[str, Any], list[str]]:
    """The globals a function and the functions of its module that it names may read or write, data only."""
    inner = function.__func__ if isinstance(function, types.MethodType) else function
    if not isinstance(inner, types.FunctionType):
        return {}, []
    names: list[str] = []
    pending: list[types.FunctionType | types.CodeType] = [inner]
    seen: set[int] = set()
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        code = item.__code__ if isinstance(item, types.FunctionType) else item
        pending += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        for name in code.co_names:
            value = inner.__globals__.get(name, GONE)
            if isinstance(value, types.FunctionType) and value.__globals__ is inner.__globals__:
                pending.append(value)
            elif value is not GONE and not isinstance(value, _NOT_DATA) and name not in names:
                names.append(name)
    return inner.__globals__, names


_NOT_DATA = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, _core.Lifted)


def seed(number: int) -> None:
    """The same start for every random generator a test may use."""
    torch.default_generator.manual_seed(number)  # torch.manual_seed also notes down stacks, for devices not in use
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
    random.seed(number)
    if numpy is not None:
        numpy.random.seed(number)


def random_state() -> dict[str, Any]:
    """Where the generators stand: equal after eager and lifted code, or the lifted code drew other numbers."""
    state: dict[str, Any] = {"torch": torch.get_rng_state(), "random": _digest(repr(random.getstate()).encode())}
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        state["numpy"] = _digest(keys.tobytes() + repr((kind, rest)).encode())
    return state


def _digest(state: bytes) -> str:
    return hashlib.blake2b(state, digest_size=8).hexdigest()


def changed_in_value(args: Any) -> Any:
    """The default for `changed`: a deep copy in which every tensor holds other numbers, all metadata kept."""
    copied = copy.deepcopy(args)
    storages: set[int] = set()
    with torch.no_grad():
        for tensor in tensors_in(copied):
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
                continue
            storage = tensor.untyped_storage()
            if tensor.device.type == "meta" or tensor.is_quantized or storage.data_ptr() in storages:
                continue
            storages.add(storage.data_ptr())
            # The whole storage once: views that overlap, and expanded tensors, stay consistent.
            flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage)
            if tensor.dtype is torch.bool:
                flat.logical_not_()
            else:
                flat.add_(1)
    return copied


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested builtin containers and in modules."""
    pending, seen = [value], set()
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, torch.Tensor):
            yield item
        elif numpy is not None and type(item) is numpy.ndarray:
            if item.flags.writeable and item.dtype.kind in "bif" and min(item.strides, default=0) >= 0:
                yield torch.from_numpy(item)
        elif isinstance(item, torch.nn.Module):
            pending += [*item.parameters(), *item.buffers()]
        elif isinstance(item, dict):
            pending += list(dict.values(item))
        elif isinstance(item, list | tuple | set | frozenset):
            pending += list(item)
