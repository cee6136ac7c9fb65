"""Device contexts inside lifted code and around it: what is made in them is made where eager makes it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.utils._device

import framelift
from tests.helpers import check

X = torch.arange(3.0)
META = torch.device("meta")

MAKERS: dict[str, Callable[[Any], Any]] = {
    "ones": lambda x: torch.ones(3),
    "zeros": lambda x: torch.zeros((2, 3), dtype=torch.int64),
    "randn": lambda x: torch.randn(3),
    "rand": lambda x: torch.rand(3, requires_grad=True),
    "randint": lambda x: torch.randint(0, 5, (2,)),
    "randperm": lambda x: torch.randperm(4),
    "tensor": lambda x: torch.tensor([1.0, 2]),
    "tensor of a number": lambda x: torch.tensor(x.shape[0]),
    "as_tensor": lambda x: torch.as_tensor([1, 2]),
    "of a tensor": lambda x: torch.as_tensor(x),
    "arange": lambda x: torch.arange(3),
    "empty": lambda x: torch.empty(2, 2),
    "empty_strided": lambda x: torch.empty_strided((2, 2), (1, 2)),
    "full": lambda x: torch.full((2,), 3.0),
    "eye": lambda x: torch.eye(3),
    "linspace": lambda x: torch.linspace(0, 1, 4),
    "window": lambda x: torch.hann_window(4),
    "indices": lambda x: torch.triu_indices(3, 3),
    "frequencies": lambda x: torch.fft.fftfreq(4),
    "scalar": lambda x: torch.scalar_tensor(2.0),
    "named": lambda x: torch.ones(3, device="cpu"),
    "named none": lambda x: torch.ones(3, device=None),
    "alike": lambda x: (torch.ones_like(x), x.new_ones(2), x * 2, torch.zeros_like(torch.ones(2))),
    "computed": lambda x: torch.ones(3) * 2 + torch.arange(3),
    "parameter": lambda x: torch.nn.Parameter(torch.ones(2)),
    "linear": lambda x: torch.nn.Linear(3, 2),
    "network": lambda x: torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2)),
    "default": lambda x: (torch.get_default_device(), torch.ones(1).device),
    "numpy": lambda x: torch.from_numpy(__import__("numpy").ones(2)),
    "new thing": lambda x: torch.Tensor([1.0, 2.0]),
}


def fields(result: Any) -> Any:
    """A module as its tensors."""
    return dict(result.state_dict(keep_vars=True)) if isinstance(result, torch.nn.Module) else result


@pytest.fixture(autouse=True)
def no_context_is_left() -> Iterator[None]:
    yield
    assert torch._C._len_torch_function_stack() == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", MAKERS)
def test_inside(name: str, backend: str) -> None:
    make = MAKERS[name]

    def function(x: Any) -> Any:
        before = torch.ones(1)
        with torch.device("meta"):
            made = fields(make(x))
        return before, made, torch.ones(1), x + 1

    def changing() -> Iterator[tuple[Any, ...]]:
        yield (X + 1,)
        with torch.device("cpu"):
            yield (X,)

    check(function, X, changed=changing(), backend=backend, expect_breaks=None)


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_range_hears_of_no_context(backend: str) -> None:
    """torch lists it among those that do, and does not ask the contexts."""

    def function(x: Any) -> Any:
        with torch.device("meta"):
            return torch.range(0, 2), torch.ones(1), x + 1

    expected, found = function(X), framelift.compile(function, backend=backend)(X)
    assert [each.device for each in found] == [each.device for each in expected]
    assert torch.equal(found[0], expected[0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", MAKERS)
def test_around(name: str, backend: str) -> None:
    """The default device changes between calls."""
    make = MAKERS[name]
    lifted = framelift.compile(lambda x: fields(make(x)), backend=backend)
    for device in (None, META, None, torch.device("cpu"), META):
        with contextlib.nullcontext() if device is None else device:
            expected, found = fields(make(X)), lifted(X)
        devices = [
            str(torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.device, r)) for r in (expected, found)
        ]
        assert devices[0] == devices[1]


def nested(x: Any) -> Any:
    with torch.device("meta"):
        with torch.device("cpu"):
            inner = torch.ones(2)
        return inner, torch.ones(2)


def not_left_by_hand(x: Any) -> Any:
    META.__enter__()
    try:
        return torch.ones(2)
    finally:
        META.__exit__(None, None, None)


def left_by_an_exception(x: Any) -> Any:
    try:
        with torch.device("meta"):
            a = torch.ones(2)
            raise ValueError(x.shape[0])
    except ValueError:
        return a, torch.ones(2)


def leaves_by_an_exception(x: Any) -> Any:
    with torch.device("meta"):
        torch.ones(2)
        raise ValueError(x.shape[0])


def the_device_itself(x: Any) -> Any:
    with torch.device("meta") as device:
        return device, torch.ones(2, device=device)


def broken(x: Any) -> Any:
    with torch.device("meta"):
        a = torch.ones(2)
        framelift.graph_break()
        b = torch.ones(2), x * 2
    return a, b, torch.ones(2)


def broken_twice(x: Any) -> Any:
    with torch.device("meta"):
        with torch.device("cpu"):
            framelift.graph_break()
            a = torch.ones(2)
        b = torch.ones(2)
        framelift.graph_break()
        c = torch.ones(2) + 1
    framelift.graph_break()
    return a, b, c, torch.ones(2)


def branching(x: Any) -> Any:
    with torch.device("meta"):
        if x.sum() > 0:
            y = torch.ones(2)
        else:
            y = torch.zeros(3)
    return y, torch.zeros(3)


def stacked(x: Any) -> Any:
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.device("meta"))
        a = torch.ones(2)
    return a, torch.ones(2)


def generating(x: Any) -> Any:
    def parts() -> Iterator[Any]:
        with torch.device("meta"):
            yield torch.ones(2)
            yield torch.zeros(2)

    steps = parts()
    return next(steps), torch.ones(2), next(steps), [*steps], torch.ones(2)


def managed(x: Any) -> Any:
    @contextlib.contextmanager
    def on_meta() -> Iterator[None]:
        with torch.device("meta"):
            yield

    with on_meta():
        a = torch.ones(2)
    return a, torch.ones(2)


def decorated(x: Any) -> Any:
    return made_on_meta(), torch.ones(2)


def made_on_meta() -> Any:
    return torch.ones(3)


made_on_meta = torch.utils._device.set_device("meta")(made_on_meta)


def by_default(x: Any) -> Any:
    torch.set_default_device("meta")
    a = torch.ones(2)
    torch.set_default_device(None)
    return a, torch.ones(2)


def by_class(x: Any) -> Any:
    with torch.utils._device.DeviceContext(torch.device("meta")):
        a = torch.ones(2)
    return a, torch.ones(2)


def in_a_call(x: Any) -> Any:
    def inner() -> Any:
        return torch.ones(2)

    with torch.device("meta"):
        return inner(), [inner() for _ in range(2)], *map(lambda n: torch.zeros(n), (1, 2))


def with_modes(x: Any) -> Any:
    with torch.no_grad(), torch.device("meta"), torch.autocast("cpu", dtype=torch.bfloat16):
        a = torch.ones(2, 2) @ torch.ones(2, 2)
    return a, torch.ones(2), x @ x


def with_drawn(x: Any) -> Any:
    with torch.device("meta"):
        a = torch.rand(3)
    return a, torch.rand(3) + x


SHAPES = [
    *(nested, not_left_by_hand, left_by_an_exception, leaves_by_an_exception, the_device_itself, broken, broken_twice),
    *(branching, stacked, generating, managed, decorated, by_default, by_class, in_a_call, with_modes, with_drawn),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", SHAPES)
def test_shapes(function: Any, backend: str) -> None:
    check(function, X, backend=backend, expect_ops=0, expect_breaks=None)


@pytest.mark.parametrize("function", [nested, the_device_itself, stacked, managed, in_a_call, with_drawn])
def test_one_graph(function: Any) -> None:
    check(function, X, fullgraph=True)


@pytest.mark.parametrize("function", SHAPES)
def test_shapes_in_a_context(function: Any) -> None:
    if function is by_default:
        pytest.skip("it leaves another default than it found")
    lifted = framelift.compile(function, backend="eager")
    for _ in range(2):
        found = []
        for call in (function, lifted):
            with META, contextlib.suppress(ValueError, RuntimeError):
                found.append(str(torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.device, call(X))))
        assert found[:1] == found[1:]
