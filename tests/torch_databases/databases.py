"""Cases made of the databases in `torch.testing._internal`: what is called, on which arguments, in which form."""

from __future__ import annotations

import itertools
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.testing._internal.custom_op_db import custom_op_db
from torch.testing._internal.hop_db import hop_db

from tests.helpers.world import seed, tensors_in

DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bfloat16, torch.bool)


@dataclass
class Call:
    """A function and what it is called with. `state` is what else a call may change; `leaves` get gradients."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: list[torch.Tensor] = field(default_factory=list)
    state: Any = None


@dataclass(frozen=True)
class Case:
    """An entry of a database in one form and dtype. `calls` makes its calls anew, the same ones each time."""

    database: str
    name: str
    form: str
    dtype: torch.dtype
    calls: Callable[[], Iterator[Call]]
    uninitialised: bool = False  # what it gives is whatever the memory held

    @property
    def id(self) -> str:
        return f"{self.database}/{self.name}/{self.form}/{str(self.dtype).removeprefix('torch.')}"


def seeded(calls: Callable[[], Iterator[Call]]) -> Callable[[], Iterator[Call]]:
    """The same calls whatever is drawn between them."""

    def each() -> Iterator[Call]:
        seed(0)
        made = calls()
        for number in itertools.count():
            seed(number)
            try:
                call = next(made)
            except StopIteration:
                return
            except RuntimeError:  # the database does not know how to make these (a mask times truth values)
                return
            yield call

    return each


def leaves_of(*values: Any) -> list[torch.Tensor]:
    return [tensor for tensor in tensors_in(list(values)) if tensor.is_leaf and tensor.requires_grad]


# -- operations ------------------------------------------------------------------------------------------------------


def _operations(database: str, entries: list[Any]) -> Iterator[Case]:
    _draw_directly()
    for entry in entries:
        name = f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else entry.name
        for dtype in DTYPES:
            if entry.supports_dtype(dtype, "cpu"):
                for form, makes in FORMS.items():
                    if makes.applies(entry):
                        calls = seeded(lambda entry=entry, dtype=dtype, makes=makes: makes.calls(entry, dtype))
                        yield Case(database, name, form, dtype, calls, "empty" in entry.name)


def _draw_directly() -> None:
    """The databases set seeds around operations that draw numbers; here the caller does, and the state is compared."""
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.testing._internal") and hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = lambda operation, *args, **kwargs: operation(*args, **kwargs)


def _samples(entry: Any, dtype: torch.dtype, gradients: bool = True) -> Iterator[Any]:
    gradients = gradients and entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu")
    return iter(entry.sample_inputs("cpu", dtype, requires_grad=gradients))


class Form:
    """How an operation is called."""

    def applies(self, entry: Any) -> bool:
        return True

    def calls(self, entry: Any, dtype: torch.dtype) -> Iterator[Call]:
        for sample in _samples(entry, dtype):
            yield self._call(self._function(entry), sample.input, *sample.args, **sample.kwargs)

    def _function(self, entry: Any) -> Callable[..., Any]:
        return entry.op

    def _call(self, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
        def function(*args: Any, **kwargs: Any) -> Any:
            return operation(*args, **kwargs)

        return Call(function, args, kwargs, leaves_of(args, kwargs))


class Method(Form):
    def applies(self, entry: Any) -> bool:
        return entry.method_variant is not None

    def _function(self, entry: Any) -> Callable[..., Any]:
        return entry.method_variant


class Writing(Form):
    """On a tensor that is no leaf, where gradients are wanted: torch refuses to write to leaves."""

    def applies(self, entry: Any) -> bool:
        return entry.inplace_variant is not None

    def _function(self, entry: Any) -> Callable[..., Any]:
        return entry.inplace_variant

    def _call(self, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
        call = super()._call(operation, *args, **kwargs)
        call.args = (_no_leaf(args[0]), *args[1:])
        return call


class Out(Form):
    """Into tensors of the right sizes that hold something else."""

    def applies(self, entry: Any) -> bool:
        return entry.supports_out

    def calls(self, entry: Any, dtype: torch.dtype) -> Iterator[Call]:
        for number, sample in enumerate(_samples(entry, dtype, gradients=False)):
            args = (sample.input, *sample.args)
            seed(number)
            result = entry.op(*args, **sample.kwargs)
            outs = [self._out(tensor) for tensor in tensors_in([result])][::-1]
            if "out" not in sample.kwargs and outs:
                out = outs[0] if isinstance(result, torch.Tensor) else tuple(outs)
                yield self._call(entry.op, *args, **sample.kwargs, out=out)

    def _out(self, like: torch.Tensor) -> torch.Tensor:
        return torch.ones_like(like)


class EmptyOut(Out):
    """Into empty tensors, which torch makes as large as the result."""

    def _out(self, like: torch.Tensor) -> torch.Tensor:
        return torch.empty(0, dtype=like.dtype)


FORMS: dict[str, Form] = {
    "call": Form(),
    "method": Method(),
    "in-place": Writing(),
    "out": Out(),
    "empty-out": EmptyOut(),
}


def _no_leaf(given: Any) -> Any:
    if isinstance(given, (list, tuple)):
        return type(given)(_no_leaf(one) for one in given)
    return given.clone() if isinstance(given, torch.Tensor) and given.requires_grad else given


# -- modules ---------------------------------------------------------------------------------------------------------


def _modules() -> Iterator[Case]:
    _draw_directly()
    for info in module_db:
        for dtype in (torch.float32, torch.bfloat16):
            if dtype not in info.supported_dtypes("cpu"):
                continue
            for mode in ("train", "eval"):
                calls = seeded(lambda info=info, dtype=dtype, mode=mode: _module_calls(info, dtype, mode == "train"))
                yield Case("module_db", info.name, mode, dtype, calls)


def _module_calls(info: Any, dtype: torch.dtype, training: bool) -> Iterator[Call]:
    for given in info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training):
        module = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs).to(dtype)
        module.train(training)
        args, kwargs = given.forward_input.args, given.forward_input.kwargs
        state = [dict(module.named_parameters()), dict(module.named_buffers())]
        yield Call(module, args, kwargs, leaves_of(module, args, kwargs), state)


# -- optimizers ------------------------------------------------------------------------------------------------------

# How an optimizer may go about its step: with loops, with operations on lists, ...
WAYS_TO_STEP: dict[str, dict[str, bool]] = {
    "single": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "differentiable": {"differentiable": True},
}


def _optimizers(
    database: str, make: Callable[[Any, dict[str, Any]], Iterator[Call]], forms: Iterable[str]
) -> Iterator[Case]:
    for info in optim_db:
        for given in info.optim_inputs_func("cpu"):
            for form in forms:
                if _has_way(info, given.kwargs, form):
                    no_choice = form == "single" and "foreach" not in info.supported_impls
                    kwargs = {**given.kwargs, **({} if no_choice else WAYS_TO_STEP[form])}
                    calls = seeded(lambda info=info, kwargs=kwargs: make(info, kwargs))
                    yield Case(database, f"{info.optim_cls.__name__} {given.desc}", form, torch.float32, calls)


def _has_way(info: Any, kwargs: dict[str, Any], form: str) -> bool:
    if form == "fused":
        return "cpu" in info.supports_fused_on and form in info.supported_impls
    takes_lists = not isinstance(kwargs.get("lr"), torch.Tensor)  # lists want a rate that is a number
    return form == "single" or (form in info.supported_impls and (form != "foreach" or takes_lists))


def _optimizer(info: Any, parameters: list[torch.Tensor], kwargs: dict[str, Any]) -> Any:
    made = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in kwargs.items()}
    return info.optim_cls(parameters, **made)


def _steps(info: Any, kwargs: dict[str, Any]) -> Iterator[Call]:
    """One call: a step of an optimizer that made none yet. What it steps on is the state, and gets gradients."""
    shapes = [(3, 4), (5, 2)] if info.optim_cls is torch.optim.Muon else [(3, 4), (5,), ()]
    parameters = [torch.randn(shape, requires_grad=True) for shape in shapes]
    parameters = parameters[:2] if info.only_supports_sparse_grads else parameters
    if kwargs.get("differentiable"):
        parameters = [parameter.clone() for parameter in parameters]  # leaves are not written to then
    optimizer = _optimizer(info, parameters, kwargs)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        found = torch.stack([parameter.square().sum() for parameter in parameters]).sum()
        found.backward()
        return found

    def step(optimizer: Any) -> Any:
        return optimizer.step(loss) if info.step_requires_closure else optimizer.step()

    def give_gradients(number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        for parameter in parameters:
            gradient = torch.randn(parameter.shape, generator=generator)
            is_sparse = info.only_supports_sparse_grads and parameter.dim()
            parameter.grad = gradient.to_sparse() if is_sparse else gradient

    yield Call(step, (optimizer,), {}, [], {"parameters": parameters, "prepare": give_gradients})


def _training(info: Any, kwargs: dict[str, Any]) -> Iterator[Call]:
    """One call: a step of a small model, from clearing its gradients to that of the optimizer."""
    sparse, bias = info.only_supports_sparse_grads, info.optim_cls is not torch.optim.Muon
    first: torch.nn.Module = torch.nn.Embedding(4, 3, sparse=True) if sparse else torch.nn.Linear(4, 3, bias)
    last = torch.nn.Identity() if sparse else torch.nn.Linear(3, 2, bias)
    model = torch.nn.Sequential(first, torch.nn.Tanh(), last)
    optimizer = _optimizer(info, list(model.parameters()), kwargs)
    x, y = torch.zeros((5,) if sparse else (5, 4), dtype=torch.int64 if sparse else None), torch.zeros(5).long()

    def step(model: torch.nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            found = torch.nn.functional.cross_entropy(model(x), y)
            found.backward()
            if not sparse:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            return found

        if info.step_requires_closure:
            return optimizer.step(loss)
        found = loss()
        optimizer.step()
        return found

    def new_batch(number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        x.copy_(torch.randint(4, x.shape, generator=generator) if sparse else torch.randn(x.shape, generator=generator))
        y.copy_(torch.randint(2, y.shape, generator=generator))

    state = {"parameters": list(model.parameters()), "prepare": new_batch}
    yield Call(step, (model, optimizer, x, y), {}, [], state)


# -- all of them -----------------------------------------------------------------------------------------------------

DATABASES: dict[str, Callable[[], Iterator[Case]]] = {
    "op_db": lambda: _operations("op_db", op_db),
    "custom_op_db": lambda: _operations("custom_op_db", custom_op_db),
    "autograd_function_db": lambda: _operations("autograd_function_db", autograd_function_db),
    "hop_db": lambda: _operations("hop_db", hop_db),
    "module_db": _modules,
    "optim_db": lambda: _optimizers("optim_db", _steps, WAYS_TO_STEP),
    # Leaves, which a differentiable step does not write to.
    "training_steps": lambda: _optimizers("training_steps", _training, ("single", "foreach", "fused")),
}


@lru_cache(maxsize=1)
def all_cases() -> dict[str, Case]:
    """Every case by its id, in the order of the databases."""
    cases: dict[str, Case] = {}
    for database in DATABASES.values():
        for case in database():
            cases.setdefault(case.id, case)
    return cases


def some_cases(number: int) -> list[Case]:
    """A choice that looks random and is the same each time. (Results that inputs must grow for are never whole.)"""
    cases = [case for case in all_cases().values() if case.form != "empty-out"]
    return sorted(cases, key=lambda case: zlib.crc32(case.id.encode()))[:number]
