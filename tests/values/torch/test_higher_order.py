"""Functions of torch that take functions: what they run is a body in the graph."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

import framelift
from tests.helpers import check

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5
V = torch.arange(4.0) / 3 - 0.4
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def cube(x: torch.Tensor) -> torch.Tensor:
    return (x**3).sum()


def weighted(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x.sin() * w).sum()


LAYER = nn.Linear(4, 1)


def loss_of(parameters: dict[str, Any], row: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((functional_call(LAYER, parameters, (row,)) - target) ** 2).sum()


def parameter_gradients(x: torch.Tensor) -> Any:
    parameters = {name: parameter.detach() for name, parameter in LAYER.named_parameters()}
    return grad(lambda p: functional_call(LAYER, p, (x,)).sin().sum())(parameters)


def per_sample(x: torch.Tensor, targets: torch.Tensor) -> Any:
    parameters = {name: parameter.detach() for name, parameter in LAYER.named_parameters()}
    return vmap(grad(loss_of), in_dims=(None, 0, 0))(parameters, x, targets)


def pulls_back(x: torch.Tensor) -> Any:
    output, pull, besides = vjp(lambda a: ((a * 2, a.sum()), a + 1), x, has_aux=True)
    return output, besides, pull((torch.ones_like(x), torch.tensor(2.0))), pull((x, torch.tensor(1.0)))


made_before = vmap(grad(cube))

TRANSFORMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "vmap": (lambda x: vmap(lambda row: row.sin().sum())(x), (X,)),
    "vmap with dims": (lambda x, v: vmap(lambda a, b: a * b, in_dims=(0, None), out_dims=1)(x, v), (X, V)),
    "vmap of two results": (lambda x: vmap(lambda row: (row * 2, row.sum()), in_dims=1, out_dims=(1, 0))(x), (X,)),
    "vmap with a tensor from outside": (lambda x, v: vmap(lambda row: row @ v)(x), (X, V)),
    "grad": (lambda v: grad(cube)(v), (V,)),
    "grad by several": (lambda x, v: grad(weighted, argnums=(0, 1))(x, v), (X, V)),
    "grad by the second": (lambda x, v: grad(weighted, argnums=1)(x, v) + 1, (X, V)),
    "grad and value": (lambda v: grad_and_value(cube)(v), (V,)),
    "grad under no_grad": (torch.no_grad()(lambda v: grad(cube)(v)), (V,)),
    "gradients per sample": (lambda x, v: vmap(grad(weighted), in_dims=(0, None))(x, v), (X, V)),
    "second derivative": (lambda v: grad(lambda a: grad(cube)(a).sum())(v), (V,)),
    "grad with something besides": (lambda v: grad(lambda a: (cube(a), a * 2), has_aux=True)(v), (V,)),
    "grad and value with something besides": (
        lambda v: grad_and_value(lambda a: (cube(a), {"twice": a * 2}), has_aux=True)(v),
        (V,),
    ),
    "grad with keywords": (lambda v: grad(lambda a, power: (a**power).sum())(v, power=3), (V,)),
    "grad by a dict": (lambda v: grad(lambda d: (d["a"] * d["b"].sin()).sum())({"a": v, "b": v + 1}), (V,)),
    "gradients of parameters": (parameter_gradients, (X,)),
    "gradients of parameters per sample": (per_sample, (X, V[:3])),
    "vmap over a dict": (
        lambda x: vmap(lambda d, k: d["a"] * d["b"] + k, in_dims=(0, None))({"a": x, "b": x + 1}, 2.0),
        (X,),
    ),
    "jvp": (lambda v: jvp(torch.sin, (v,), (torch.ones_like(v),)), (V,)),
    "jvp of several": (lambda x, v: jvp(lambda a, b: (a @ b, a.sum()), (x, v), (x + 1, v * 2)), (X, V)),
    "jvp with something besides": (lambda v: jvp(lambda a: (a * 2, a + 1), (v,), (v,), has_aux=True), (V,)),
    "vjp": (pulls_back, (X,)),
    "jacrev": (lambda v: jacrev(torch.sin)(v), (V,)),
    "jacrev by several": (lambda x, v: jacrev(lambda a, b: (a @ b, a.sum()), argnums=(0, 1))(x, v), (X, V)),
    "jacrev with something besides": (lambda v: jacrev(lambda a: (a**2, a * 3), has_aux=True)(v), (V,)),
    "jacfwd": (lambda v: jacfwd(torch.sin)(v), (V,)),
    "jacfwd of a dict": (lambda x, v: jacfwd(lambda a, b: {"y": a @ b}, argnums=1)(x, v), (X, V)),
    "hessian": (lambda v: hessian(cube)(v), (V,)),
    "product with a Hessian": (lambda v: jvp(grad(cube), (v,), (torch.ones_like(v),)), (V,)),
    "made before the frame": (lambda x: made_before(x) * 2, (X,)),
}


# Forward-mode differentiation warns about its own making when a process first uses it.
torch.func.jvp(torch.sin, (V,), (V,))


@BACKENDS
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str, backend: str) -> None:
    function, args = TRANSFORMS[name]
    assert len(check(function, *args, backend=backend).graphs) == 1


@BACKENDS
def test_transforms_are_differentiated(backend: str) -> None:
    function, _ = TRANSFORMS["gradients per sample"]
    check(function, X.clone().requires_grad_(), V.clone().requires_grad_(), backend=backend)


def noisy(x: torch.Tensor, randomness: str) -> torch.Tensor:
    return vmap(lambda row: row + torch.rand(4), randomness=randomness)(x)


@pytest.mark.parametrize("randomness", ["same", "different", "error"])
def test_random_numbers_in_vmap(randomness: str) -> None:
    check(noisy, X, randomness, expect_breaks=None, expect_ops=0)


SEEN: list[Any] = []


def remembers(x: torch.Tensor) -> torch.Tensor:
    def row_sum(row: torch.Tensor) -> torch.Tensor:
        SEEN.append(1)
        return row.sum()

    return vmap(row_sum)(x)


def asks_layout(x: torch.Tensor) -> torch.Tensor:
    return vmap(lambda row: row * 2 if row.is_contiguous() else row * 3, in_dims=1)(x)


def wrong_dims(x: torch.Tensor) -> torch.Tensor:
    return vmap(lambda row: row * 2, in_dims=5)(x)


def not_a_number(x: torch.Tensor) -> torch.Tensor:
    return grad(lambda a: a * 2)(x)


@pytest.mark.parametrize("function", [remembers, asks_layout, wrong_dims, not_a_number])
def test_left_to_python(function: Any) -> None:
    check(function, X, expect_breaks=None, expect_ops=0)


def says_again(x: torch.Tensor, said: Any) -> torch.Tensor:
    def row_sum(row: torch.Tensor) -> torch.Tensor:
        said["a"] = said["a"]
        return row.sum()

    return vmap(row_sum)(x)


def says_another(x: torch.Tensor, said: Any) -> torch.Tensor:
    def row_sum(row: torch.Tensor) -> torch.Tensor:
        said["a"] = 7
        return row.sum()

    return vmap(row_sum)(x)


def moves(x: torch.Tensor, said: OrderedDict[str, int]) -> torch.Tensor:
    def row_sum(row: torch.Tensor) -> torch.Tensor:
        said.move_to_end("a")
        return row.sum()

    return vmap(row_sum)(x)


def counts_in_floats(x: torch.Tensor, said: defaultdict[str, float]) -> torch.Tensor:
    def row_sum(row: torch.Tensor) -> torch.Tensor:
        said.default_factory = float
        return row.sum()

    return vmap(row_sum)(x)


PLAIN, ORDERED, COUNTING = {"a": 1, "b": 2}, OrderedDict(a=1, b=2), defaultdict(int, a=1, b=2)


@pytest.mark.parametrize("said", [PLAIN, ORDERED, COUNTING], ids=["dict", "OrderedDict", "defaultdict"])
def test_a_dict_that_is_as_it_was(said: Any) -> None:
    assert len(check(says_again, X, said).graphs) == 1


CHANGES = [
    (says_another, PLAIN),
    (says_another, ORDERED),
    (says_another, COUNTING),
    (moves, ORDERED),
    (counts_in_floats, COUNTING),
]


@pytest.mark.parametrize("function, said", CHANGES)
def test_a_dict_that_is_another(function: Any, said: Any) -> None:
    check(function, X, said, expect_breaks=None, expect_ops=0)


def choose(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a.sin() + V, lambda a: a.cos() - 1, (x,))


@BACKENDS
def test_cond_takes_either_branch(backend: str) -> None:
    lifted = framelift.compile(choose, backend=backend, fullgraph=True)
    for x in (X, X - 5, X + 5):
        wanted = x.sin() + V if x.sum() > 0 else x.cos() - 1
        assert torch.equal(lifted(x), wanted)


def choose_by_size(x: torch.Tensor) -> Any:
    return torch.cond(x.shape[0] > 2, lambda a: a + 1, lambda a: a - 1, (x,))


def test_cond_of_what_is_known() -> None:
    lifted = framelift.compile(choose_by_size, backend="eager", fullgraph=True)
    assert torch.equal(lifted(X), X + 1) and torch.equal(lifted(X[:2]), X[:2] - 1)


class Recomputed(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.dropout = dropout
        self.calls = 0

    def inner(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return nn.functional.dropout(self.second(torch.relu(self.first(x))) * scale, self.dropout)

    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint(self.inner, x, use_reentrant=False) + checkpoint(self.inner, x, 2.0, use_reentrant=False)


@BACKENDS
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_checkpoint(backend: str, dropout: float) -> None:
    torch.manual_seed(0)
    checked = check(Recomputed(dropout), X, backend=backend)
    assert len(checked.graphs) == 1 and "recomputed" in checked.graphs[0].code


def test_checkpoint_recomputes() -> None:
    """With the eager backend as without framelift, nothing that is computed inside is kept for backward."""
    torch.manual_seed(0)
    module = Recomputed()
    kept: list[torch.Size] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, nn.Parameter):
            kept.append(tensor.shape)
        return tensor

    counts = []
    for call in (module, framelift.compile(module, backend="eager", fullgraph=True)):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            call(X.clone().requires_grad_())
        counts.append(len(kept))
    assert counts[0] == counts[1]


class CountsCalls(Recomputed):
    def inner(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.calls += 1
        return super().inner(x, scale)


def test_a_checkpoint_with_effects_is_left_to_python() -> None:
    torch.manual_seed(0)
    check(CountsCalls(), X, expect_breaks=None, expect_ops=0, expect_hit=False)


def test_checkpoint_without_gradients() -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        check(Recomputed(), X)


def test_a_tensor_of_a_transform_that_has_ended_is_left_to_python():
    def function(x):
        value, pull_back = torch.func.vjp(torch.sin, x)
        return pull_back(value)[0]

    check(function, torch.randn(3), expect_breaks=None, expect_ops=0)


def keeps_the_pullback(x: torch.Tensor) -> Any:
    value, pull = vjp(torch.sin, x * 2)
    return pull(torch.ones_like(value)), [pull][0] is pull, value


def returns_the_pullback(x: torch.Tensor) -> Any:
    return vjp(torch.sin, x)[1]


def test_pullbacks_that_leave_the_frame() -> None:
    check(keeps_the_pullback, X)
    pull, expected = framelift.compile(returns_the_pullback, backend="eager")(X), returns_the_pullback(X)
    assert torch.equal(pull(X)[0], expected(X)[0])


NOT_TAKEN: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "tangents of another shape": (lambda v: jvp(torch.sin, (v,), (torch.ones(3),)), (V,)),
    "cotangents of another shape": (lambda v: vjp(torch.sin, v)[1](torch.ones(3)), (V,)),
    "a list of primals": (lambda v: jvp(torch.sin, [v], [v]), (V,)),
    "argnums out of range": (lambda v: jacrev(torch.sin, argnums=2)(v), (V,)),
    "a number as an argument": (lambda v: jacrev(torch.sin)(2.0) + v, (V,)),
    "one result where two are wanted": (lambda v: grad(cube, has_aux=True)(v), (V,)),
}


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_torch_refuses(name: str) -> None:
    function, args = NOT_TAKEN[name]
    check(function, *args, expect_breaks=None, expect_ops=0)


def test_a_function_that_changes_a_module_for_good() -> None:
    layer = nn.Linear(4, 1)

    def fn(x: torch.Tensor) -> Any:
        def loss(row: torch.Tensor) -> torch.Tensor:
            layer.seen = row.shape
            return layer(row).sum()

        return grad(loss)(x), layer.seen

    check(fn, X, expect_breaks=None, expect_ops=0)


def test_a_function_that_changes_what_the_program_made() -> None:
    def fn(x: torch.Tensor) -> Any:
        seen: list[Any] = []
        count = 0

        def block(y: torch.Tensor) -> torch.Tensor:
            nonlocal count
            count += 1
            seen.append(tuple(y.shape))
            inner = [y * 2]
            inner.append(inner[0] + 1)
            return inner[1]

        return checkpoint(block, x * 2, use_reentrant=False), len(seen), count

    check(fn, X.clone().requires_grad_(), expect_breaks=1)


class Squared(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2 * ctx.saved_tensors[0]


class Scaled(torch.autograd.Function):
    """A gradient that is not that of what it computes, and no rule for `vmap`."""

    @staticmethod
    def forward(x: torch.Tensor, factor: float) -> Any:
        return x * factor, x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, one: torch.Tensor, other: torch.Tensor) -> Any:
        return one * ctx.factor * 3 + other * ctx.saved_tensors[0], None


AUTOGRAD_FUNCTIONS = {
    "vmap": lambda x: torch.vmap(Squared.apply)(x),
    "vmap in vmap": lambda x: torch.vmap(torch.vmap(Squared.apply))(x),
    "grad": lambda x: grad(lambda y: Squared.apply(y).sum())(x),
    "grad of two results": lambda x: grad(lambda y: sum(part.sum() for part in Scaled.apply(y, 2.5)))(x),
    "grad of grad": lambda x: grad(lambda y: grad(lambda z: (Squared.apply(z) ** 2).sum())(y).sum())(x),
    "grad in vmap": lambda x: vmap(grad(lambda y: Squared.apply(y).sum()))(x),
    "vmap in grad": lambda x: grad(lambda y: vmap(Squared.apply)(y).sum())(x),
    "vjp": lambda x: vjp(Squared.apply, x)[1](x)[0],
    "jacrev": lambda x: jacrev(Squared.apply)(x[0]),
}


@BACKENDS
@pytest.mark.parametrize("name", AUTOGRAD_FUNCTIONS)
def test_an_autograd_function_inside_of_a_transform(name: str, backend: str) -> None:
    function = AUTOGRAD_FUNCTIONS[name]
    check(lambda x: function(x), X.clone().requires_grad_(), fullgraph=True, backend=backend)
    check(lambda x: function(x), X, fullgraph=True, backend=backend)


@pytest.mark.parametrize(
    "function",
    [lambda x: jvp(Squared.apply, (x,), (x,)), lambda x: vmap(lambda y: Scaled.apply(y, 2.0))(x)],
    ids=["forwards", "without a rule"],
)
def test_what_transforms_want_of_an_autograd_function(function: Any) -> None:
    check(lambda x: function(x), X.clone(), expect_breaks=None, expect_ops=0)


VMAPS = {
    "dims of a dict": lambda x: vmap(lambda d: d["a"] * d["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": x[0]}),
    "dims of tuples": lambda x: vmap(lambda p, q: p[0] + p[1] * q, in_dims=((0, 1), None))((x, x.T), x[0]),
    "dims of results": lambda x: vmap(lambda r: {"a": r, "b": (r.sum(), r * 2)}, out_dims={"a": 1, "b": (0, 1)})(x),
    "keywords": lambda x: vmap(lambda a, b=None: a * b)(x, b=x[0]),
    "chunks": lambda x: vmap(lambda a: (a.sin().sum(), a * 2), out_dims=(0, 1), chunk_size=2)(x),
    "a tuple for one result": lambda x: vmap(lambda a: a * 2, out_dims=(1,))(x),
}


@BACKENDS
@pytest.mark.parametrize("name", VMAPS)
def test_what_vmap_is_told(name: str, backend: str) -> None:
    function = VMAPS[name]
    x = X.clone().requires_grad_() if backend == "eager" else X  # compilers add gradients up in an order of their own
    check(lambda x: function(x), x, fullgraph=True, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_checkpoint_of_a_function_that_returns_constants(backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        def block(y: torch.Tensor, *, scale: torch.Tensor, name: str) -> Any:
            return {"y": [torch.nn.functional.dropout(y * scale)], "name": name, "none": None}

        return checkpoint(block, x, scale=x + 1, name="block", use_reentrant=False)

    check(fn, X.clone().requires_grad_(), fullgraph=True, backend=backend)


def test_both_kinds_of_checkpoint_without_gradients() -> None:
    def fn(x: torch.Tensor) -> Any:
        with torch.no_grad():
            return checkpoint(torch.sin, x, use_reentrant=True), checkpoint(torch.cos, x, use_reentrant=False)

    check(fn, X.clone().requires_grad_(), fullgraph=True)
    check(fn, X, expect_breaks=1, expect_ops=0)  # it warns


def test_reentrant_checkpoint_is_a_break() -> None:
    def fn(x: torch.Tensor) -> Any:
        y = checkpoint(torch.sin, x * 2, use_reentrant=True)
        with torch.no_grad():
            same = checkpoint(lambda z: z, x, use_reentrant=True)
        return y + 1, same is x

    check(fn, X.clone().requires_grad_(), expect_breaks=2)


@BACKENDS
def test_checkpoint_with_other_random_numbers_each_time(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        y = checkpoint(lambda x: torch.dropout(x.exp(), 0.5, True), x, use_reentrant=False, preserve_rng_state=False)
        y.sum().backward()
        return y.detach(), torch.rand(2)

    check(f, X.clone().requires_grad_(), backend=backend, expect_breaks=None)
