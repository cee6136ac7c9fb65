"""What a graph looks like, what does not get into one, and what happens at its edges."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import framelift
from tests.helpers import check
from tests.helpers.record import Record

X = torch.arange(12.0).reshape(3, 4) / 5 + 0.5


def record_of(function: Callable[..., Any], *args: Any, **options: Any) -> Record:
    record = Record()
    framelift.reset()
    with record.listening():
        framelift.compile(function, backend="eager", **options)(*args)
    return record


def targets(function: Callable[..., Any], *args: Any) -> list[Any]:
    (graph,) = record_of(function, *args).graphs
    return [node.target for node in graph.graph.nodes if node.op.startswith("call")]


def test_methods_and_functions_stay_what_they_were() -> None:
    found = targets(lambda x: torch.sin(x).add(1).sum() * F.relu(x), X)
    assert found == [torch.sin, "add", "sum", F.relu, __import__("operator").mul]


def test_unbound_methods_are_method_nodes() -> None:
    assert targets(lambda x: torch.Tensor.add(x, 1), X) == ["add"]


def test_dead_code_is_left_out() -> None:
    def function(x: Any) -> Any:
        unused = x * 100  # noqa: F841
        return x + 1

    assert len(targets(function, X)) == 1


def test_shapes_are_constants() -> None:
    (graph,) = record_of(lambda x: x.view(x.shape[0] * x.shape[1]) * x.size(0), X).graphs
    view = next(node for node in graph.graph.nodes if node.target == "view")
    assert view.args[1] == 12


def test_every_node_is_described() -> None:
    def inner(y: Any) -> Any:
        return torch.max(y, 0).values

    def function(x: Any) -> Any:
        y = x * 2
        return inner(y) + y

    (graph,) = record_of(function, X).graphs
    for node in graph.graph.nodes:
        if node.op == "output":
            continue
        assert "example_value" in node.meta, node
        if node.op != "placeholder":
            assert "test_graphs.py" in node.meta["stack_trace"], node
            assert node.meta["source_fn_stack"][-1][0] == node.name
    peak = next(node for node in graph.graph.nodes if node.target is torch.max)
    assert "in inner" in peak.meta["stack_trace"] and "in function" in peak.meta["stack_trace"]
    assert "return torch.max(y, 0).values" in peak.meta["stack_trace"]
    assert [tuple(v.shape) for v in peak.meta["example_value"]] == [(4,), (4,)]


def test_graph_survives_dead_code_elimination() -> None:
    def function(x: Any) -> Any:
        x.add_(1)
        F.relu_(x)
        torch.rand(2)
        return x.sum()

    (graph,) = record_of(function, X.clone()).graphs
    before = len(graph.graph.nodes)
    graph.graph.eliminate_dead_code()
    assert len(graph.graph.nodes) == before


def test_constants_are_not_tensors() -> None:
    assert targets(lambda x: x + x.new_tensor([1.0]).shape[0], X) == [__import__("operator").add]


NOT_TRACED: dict[str, Callable[[Any], Any]] = {
    "repr method": lambda x: (x * 2).__repr__(),
    "format method": lambda x: (x * 2).sum().__format__(".1f"),
    "str method": lambda x: (x * 2).__str__(),
    "dir": lambda x: (x * 2, "sum" in dir(x)),
    "reduce": lambda x: len((x * 2).__reduce_ex__(2)),
    "apply_": lambda x: (x * 2).apply_(lambda v: v + 1),
    "map_": lambda x: (x * 2).map_(x, lambda a, b: a + b),
    "numpy": lambda x: (x * 2).numpy(),
    "array": lambda x: (x * 2).__array__(),
    "storage": lambda x: len((x * 2).untyped_storage()),
    "data_ptr": lambda x: (x * 2).data_ptr() > 0,
    "is_pinned": lambda x: (x * 2).is_pinned(),
    "share_memory_": lambda x: (x * 2).share_memory_().is_shared(),
    "version": lambda x: (x * 2)._version,
    "base": lambda x: (x * 2).view(-1)._base is None,
    "grad_fn": lambda x: (x * 2).grad_fn is None,
    "user attribute": lambda x: setattr(x * 2, "note", 3),
    "set data": lambda x: setattr(x * 1, "data", torch.zeros(3, 4)),
    "from_numpy": lambda x: torch.from_numpy((x * 2).numpy()),
    "unbound repr": lambda x: torch.Tensor.__repr__(x * 2),
    "cond": lambda x: torch.cond(x.shape[0] == 3, lambda y: y + 1, lambda y: y - 1, (x * 2,)),
    "vmap": lambda x: torch.vmap(lambda row: row * 2)(x * 2),
    "func grad": lambda x: torch.func.grad(lambda y: (y * y).sum())(x * 2),
    "save": lambda x: torch.nn.utils.parameters_to_vector([x * 2]),
    "deepcopy": lambda x: __import__("copy").deepcopy(x.detach() * 1),
    "sparse": lambda x: (x * 2).to_sparse().values(),
    "quantize": lambda x: torch.quantize_per_tensor(x * 2, 0.1, 0, torch.qint8).dequantize(),
    "named": lambda x: (x * 2).rename("a", "b").names,
    "rng state": lambda x: (x * 2, torch.get_rng_state().shape),
    "manual seed": lambda x: (x * 2, torch.manual_seed(3), torch.rand(2))[::2],
    "generator": lambda x: x * 2 + torch.rand(4, generator=torch.Generator().manual_seed(1)),
    "print": lambda x: print((x * 2).shape, (x * 2).dtype),
    "default dtype": lambda x: (
        torch.set_default_dtype(torch.float64),
        torch.ones(1) * x,
        torch.set_default_dtype(torch.float32),
    )[1],
    "warns": lambda x: (x * 2, warnings.warn("careful", stacklevel=1))[0],
    "compiled inner": lambda x: framelift.compile(lambda y: y + 1, backend="eager")(x * 2),
    "stack of scalars": lambda x: torch.tensor([x.sum(), x.mean()]),
    "tensor from tensor": lambda x: torch.as_tensor(x * 2) + torch.asarray(x),
    "typed constructor": lambda x: torch.FloatTensor(2).fill_(1) + x[0, 0],
    "Size of list": lambda x: torch.zeros(torch.Size([3, 4])) + x,
    "is_storage": lambda x: (x * 2, torch.is_storage(x)),
    "no such attribute": lambda x: (x * 2).nonsense,
    "no such function": lambda x: torch.nonsense(x * 2),
    "wrong arguments": lambda x: (x * 2).sum(1, 2, 3, 4, 5),
    "wrong keyword": lambda x: torch.sum(x * 2, nonsense=3),
    "too many indices": lambda x: (x * 2)[0, 0, 0],
    "not callable": lambda x: (x * 2)(3),
    "bad operand": lambda x: (x * 2) + "a",
    "bad operand reflected": lambda x: "a" - (x * 2),
    "none operand": lambda x: (x * 2) + None,
    "list operand": lambda x: (x * 2) + [1, 2, 3, 4],
    "compare none": lambda x: ((x * 2) == None, (x * 2) != None),  # noqa: E711
    "compare string": lambda x: (x * 2) == "a",
    "tuple operand": lambda x: (x * 2) * (1, 2),
    "iterate scalar": lambda x: list((x * 2).sum()),
    "len scalar": lambda x: len((x * 2).sum()),
    "unpack wrong": lambda x: (lambda a, b: a)(*(x * 2)),
    "numpy operand": lambda x: (x * 2) + __import__("numpy").ones(4, dtype="float32"),
}


@pytest.mark.parametrize("name", NOT_TRACED)
def test_what_is_not_traced_is_right(name: str) -> None:
    options = {"changed": []} if name == "generator" else {}
    check(NOT_TRACED[name], X, expect_breaks=None, expect_ops=0, **options)


def hooked(x: Any) -> Any:
    x.foo = 3
    return x * x.foo


def reads_attribute(x: Any) -> Any:
    return x * getattr(x, "foo", 1)


def test_attributes_on_tensors() -> None:
    check(hooked, X, expect_breaks=None, expect_ops=0)
    lifted = framelift.compile(reads_attribute, backend="eager")
    x = X.clone()
    assert torch.equal(lifted(x), x)
    x.foo = 3
    assert torch.equal(lifted(x), x * 3)
    x.foo = 4
    assert torch.equal(lifted(x), x * 4)
    del x.foo
    assert torch.equal(lifted(x), x)


def test_warnings_of_operations_come_once_per_run() -> None:
    def function(x: Any) -> Any:
        return torch.meshgrid(x[0], x[1])

    check(function, X)


def test_compiling_is_seen() -> None:
    def function(x: Any) -> Any:
        if torch.compiler.is_compiling() and framelift.is_compiling() and torch.compiler.is_dynamo_compiling():
            return x * 2
        return x * 3

    assert torch.equal(framelift.compile(function, backend="eager")(X), X * 2)
    assert torch.equal(function(X), X * 3)


def test_breaks_on_request() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        framelift.graph_break("for the test")
        return y + 1

    assert [event.id for event in record_of(function, X).breaks] == ["FL0103"]
    framelift.reset()
    check(function, X, expect_breaks=None)


def test_disabled_functions_break() -> None:
    @torch.compiler.disable
    def inner(x: Any) -> Any:
        return x + 1

    def function(x: Any) -> Any:
        return inner(x * 2) * 2

    record = record_of(function, X)
    assert record.breaks and torch.equal(framelift.compile(function, backend="eager")(X), (X * 2 + 1) * 2)


def test_dynamo_controls_mean_the_same() -> None:
    import torch._dynamo

    def function(x: Any) -> Any:
        y = x * (2 if torch._dynamo.is_compiling() else 3)
        torch._dynamo.graph_break()
        return y + 1

    record = record_of(function, X)
    assert [event.id for event in record.breaks][:1] == ["FL0103"]
    assert torch.equal(framelift.compile(function, backend="eager")(X), X * 2 + 1)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool, torch.complex64]
)
def test_dtypes(dtype: torch.dtype) -> None:
    check(lambda x: (x + x, x * 2, x.sum(), x.reshape(-1)[::2]), X.to(dtype), changed=[(X.to(dtype) * 1,)])


SHAPES = [(), (0,), (1,), (3, 0), (2, 1, 3), (1, 1, 1, 1, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...]) -> None:
    check(lambda x: (x * 2 + 1, x.sum(), x.flatten(), x.unsqueeze(0), len(x.shape)), torch.ones(shape))


LAYOUTS = {
    "transposed": lambda: X.t(),
    "sliced": lambda: X[:, ::2],
    "expanded": lambda: X[:1].expand(3, 4),
    "offset": lambda: X[1:],
    "channels last": lambda: torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    check(lambda x: (x * 2, x.contiguous() + 1, x.reshape(-1), x.is_contiguous(), x.stride()), LAYOUTS[name]())


def test_metadata_changes_are_seen() -> None:
    def function(x: Any) -> Any:
        return x * x.shape[0] + x.stride(0) + x.dim()

    inputs = [(X,), (X.t(),), (X[1:],), (X.double(),), (X.clone().requires_grad_(),), (X[None],), (X,)]
    check(function, X, changed=inputs)
