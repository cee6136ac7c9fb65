"""Lifted callables are pickled by name, as functions are, and are lifted where they are unpickled."""

from __future__ import annotations

import concurrent.futures
import copy
import copyreg
import functools
import io
import multiprocessing
import pickle
from multiprocessing.reduction import ForkingPickler
from types import MethodType
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import framelift
from framelift.modules import LiftedModule
from framelift.native import _core

X = torch.ones(2)


@framelift.compile(backend="eager")
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def plain(x: torch.Tensor) -> torch.Tensor:
    return x + 2


assigned = framelift.compile(plain, backend="eager")
# Another object under the name of its function.
other = framelift.compile(plain, backend="eager", dynamic=True)
of_partial = framelift.compile(functools.partial(torch.add, other=4), backend="eager")
of_builtin = framelift.compile(torch.sin, backend="eager")


class Plain:
    factor = 3

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor

    @framelift.compile(backend="eager")
    def lifted_method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x * cls.factor

    @staticmethod
    @framelift.compile(backend="eager")
    def static(x: torch.Tensor) -> torch.Tensor:
        return x * 5

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 7


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)

    @framelift.compile(backend="eager")
    def lifted_method(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + 1


def my_backend(graph_module: Any, inputs: Any) -> Any:
    return graph_module.forward


def round_trips(obj: Any) -> list[Any]:
    """The object pickled with each protocol, in C and in Python, and copied."""
    results = [pickle.loads(pickle.dumps(obj, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    file = io.BytesIO()
    pickle._Pickler(file).dump(obj)  # type: ignore[attr-defined]
    return [*results, pickle.loads(file.getvalue()), copy.copy(obj), copy.deepcopy(obj)]


@pytest.mark.parametrize("lifted", [decorated, Plain.lifted_method, Plain.static], ids=lambda lifted: lifted.__name__)
def test_what_stands_under_its_name_is_itself(lifted: Any) -> None:
    assert all(found is lifted for found in round_trips(lifted))


@pytest.mark.parametrize(
    "lifted", [assigned, other, of_partial, of_builtin, framelift.compile(Plain(), backend="eager")]
)
def test_what_does_not_is_lifted_again_with_its_options(lifted: Any) -> None:
    for found in round_trips(lifted):
        assert isinstance(found, _core.Lifted)
        assert torch.equal(found(X), lifted(X))
        assert found.miss.args == lifted.miss.args  # the options
    assert framelift.counters().captures == 1 + (lifted not in (assigned, other)) * (len(round_trips(plain)) - 2)


def test_a_backend_of_the_program() -> None:
    lifted = framelift.compile(plain, backend=my_backend, fullgraph=True)
    found = pickle.loads(pickle.dumps(lifted))
    assert found.miss.args == lifted.miss.args
    assert torch.equal(found(X), X + 2)


# Bound methods, whether what they are bound to has them lifted under their name or not.
BOUND = {
    "of the class": lambda: Plain().lifted_method,
    "of an object": lambda: framelift.compile(Plain().method, backend="eager", dynamic=True),
    "with other options": lambda: framelift.compile(Plain().lifted_method, backend="eager", fullgraph=True),
    "of a class itself": lambda: framelift.compile(Plain.of_class, backend="eager"),
    "of a module": lambda: Net().lifted_method,
    "of a lifted module": lambda: framelift.compile(Net(), backend="eager", dynamic=True).lifted_method,
    "forward": lambda: framelift.compile(Net(), backend="eager", dynamic=True).forward,
}


def sent(obj: Any) -> Any:
    """As another process of `multiprocessing` receives it."""
    return pickle.loads(ForkingPickler.dumps(obj))


@pytest.mark.parametrize("name", BOUND)
def test_bound_methods(name: str) -> None:
    lifted: Any = BOUND[name]()
    found = sent(lifted)
    assert isinstance(found, MethodType) and isinstance(found.__func__, _core.Lifted)
    assert found.__func__.miss.args == lifted.__func__.miss.args  # the options
    assert found.__func__.__wrapped__ is lifted.__func__.__wrapped__
    assert type(found.__self__) is type(lifted.__self__) and torch.equal(found(X), lifted(X))
    # Elsewhere it is found by its name: the method, whether that is lifted there or not.
    for found in round_trips(lifted):
        assert type(found.__self__) is type(lifted.__self__) and torch.equal(found(X), lifted(X))


@pytest.mark.parametrize("method", [Plain().method, Plain.of_class, Net().forward, [].append, {}.get])
def test_other_bound_methods_are_pickled_as_ever(method: Any) -> None:
    assert MethodType not in copyreg.dispatch_table
    if isinstance(method, MethodType):
        assert ForkingPickler._extra_reducers[MethodType](method) == (getattr, (method.__self__, method.__name__))


def test_a_bound_method_under_another_name() -> None:
    """Python finds it by the name of its function; so it is there, or it is not found."""
    obj = Plain()
    obj.attached = MethodType(decorated, obj)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="decorated"):
        pickle.loads(pickle.dumps(obj.attached))  # type: ignore[attr-defined]


def test_attributes_of_its_own_do_not_matter() -> None:
    decorated.note = "mine"
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    del decorated.note


def test_what_has_no_name_says_so() -> None:
    for lifted in (framelift.compile(lambda x: x), framelift.compile(lambda x: x, backend="eager")):
        with pytest.raises((pickle.PicklingError, AttributeError), match="<lambda>"):
            pickle.dumps(lifted)


def test_within_other_objects() -> None:
    given = {"f": decorated, "parts": [assigned, functools.partial(decorated, X)]}
    found = pickle.loads(pickle.dumps(given))
    assert found["f"] is decorated and torch.equal(found["parts"][1](), X + 1)
    assert copy.deepcopy(given)["f"] is decorated


def test_lifted_once_more() -> None:
    """Its function has no name any more: another lifted callable took it."""
    again = framelift.compile(decorated, backend="eager", fullgraph=True)
    found = pickle.loads(pickle.dumps(again))
    assert found.__wrapped__ is decorated.__wrapped__ and found.miss.args == again.miss.args


def wrapper(function: Any) -> Any:
    return functools.wraps(function)(lambda x: function(x) + 1)


@wrapper
def hidden(x: torch.Tensor) -> torch.Tensor:
    return x


def test_a_function_whose_name_something_else_took() -> None:
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(framelift.compile(hidden.__wrapped__, backend="eager"))


def test_modules() -> None:
    net = Net()
    lifted = framelift.compile(net, backend="eager")
    for found in round_trips(lifted)[2:]:
        assert isinstance(found, LiftedModule)
        assert torch.equal(found(X), net(X)) and torch.equal(found.forward(X), net(X))


def test_torch_save() -> None:
    net = framelift.compile(Net(), backend="eager", dynamic=True)
    for saved in (net, nn.Sequential(net)):
        file = io.BytesIO()
        torch.save(saved, file)
        file.seek(0)
        found = torch.load(file, weights_only=False)
        assert torch.equal(found(X), saved(X))
        inner = found if saved is net else found[0]
        assert isinstance(inner, LiftedModule) and inner._framelift_wrap == net._framelift_wrap  # type: ignore[attr-defined]


# -- other processes -------------------------------------------------------------------------------------------------


def captures_of(call: Any, *args: Any) -> Any:
    """The result of a call here, and how many captures it took in this process."""
    torch.set_num_threads(1)
    return call(*args), framelift.counters().captures


@pytest.mark.parametrize("start", ["spawn", "forkserver", "fork"])
def test_process_pools(start: str) -> None:
    net = framelift.compile(Net().requires_grad_(False), backend="eager")
    method = framelift.compile(Plain().method, backend="eager")
    calls = [decorated, assigned, of_partial, Plain().lifted_method, Plain.static, net, net.forward, method]
    expected = [call(X) for call in calls]
    context = multiprocessing.get_context(start)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        for call, result in zip(calls, expected, strict=True):
            found, captures = pool.submit(captures_of, call, X).result()
            assert torch.equal(found, result)
        # (A child that was forked has the entries of its parent.)
        assert captures >= (1 if start == "fork" else len(calls))
        assert torch.equal(pool.submit(decorated, X).result(), X + 1)


class Numbers(Dataset[torch.Tensor]):
    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(torch.tensor([float(index)]))


@framelift.compile(backend="eager")
def collate(batch: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(batch).sum(0)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_data_loaders(method: str) -> None:
    loader = DataLoader(
        Numbers(decorated), batch_size=2, num_workers=1, collate_fn=collate, multiprocessing_context=method
    )
    assert [batch.tolist() for batch in loader] == [[3.0], [7.0]]
