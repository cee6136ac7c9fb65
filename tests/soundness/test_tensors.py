"""Changes of tensors are seen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.soundness.scenario import ANY, HIT, MISS, Scenarios, Steps, X, play

scenario = Scenarios()


def double(x: Any) -> Any:
    return x * 2 + x.sum()


@scenario
def dtype_device_rank_and_size() -> Steps:
    yield double, (X,)
    yield MISS, (X.double(),)
    yield MISS, (X[:3].clone(),)
    yield MISS, (X.reshape(2, 2),)
    yield MISS, (X.to("meta"),)
    yield HIT, (torch.ones(4),)


@scenario
def strides() -> Steps:
    def f(x: Any) -> Any:
        return x.reshape(-1), x.is_contiguous(), x.stride()

    square = torch.arange(4.0).reshape(2, 2)
    yield f, (square,)
    yield MISS, (square.t(),)
    yield HIT, (square.t().contiguous(),)
    yield MISS, (torch.arange(4.0).expand(2, 4)[:, :2],)


@scenario
def requires_grad() -> Steps:
    def f(x: Any) -> Any:
        y = x * 2
        return y.detach(), y.requires_grad

    x = X.clone()
    yield f, (x,)
    x.requires_grad_(True)
    yield MISS
    x.requires_grad_(False)
    yield HIT


@scenario
def conjugate_and_negative_bits() -> Steps:
    x = torch.tensor([1 + 2j, 3 - 1j])
    yield (lambda x: (x * 2).resolve_conj()), (x,)
    yield MISS, (x.conj(),)
    yield MISS, (torch._neg_view(x),)


@scenario
def subclass_and_parameter() -> Steps:
    yield (lambda x: (type(x).__name__, (x * 2).detach())), (X.clone(),)
    yield MISS, (nn.Parameter(X.clone()),)


@scenario
def same_tensor_twice() -> Steps:
    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return a + b

    yield f, lambda: (torch.ones(2), torch.ones(2))

    def twice() -> Any:
        one = torch.ones(2)
        return one, one

    yield MISS, twice
    yield HIT, lambda: (torch.ones(2), torch.ones(2))


@scenario
def same_parameter_twice() -> Steps:
    """Row j."""

    def f(a: Any, b: Any) -> Any:
        return (a * b + a).detach() if a is not b else a.detach() * 10

    one, two = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    yield f, (one, two)
    yield MISS, (one, one)


@scenario
def overlapping_views_with_writes() -> Steps:
    """Row h."""

    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        b.add_(1)
        return a * 1, b * 1

    yield f, lambda: (torch.ones(2), torch.ones(2))

    def overlapping() -> Any:
        base = torch.ones(3)
        return base[:2], base[1:]

    def disjoint() -> Any:
        base = torch.ones(4)
        return base[:2], base[2:]

    yield MISS, overlapping
    yield ANY, disjoint
    yield HIT, lambda: (torch.ones(2), torch.ones(2))


@scenario
def overlap_with_a_tensor_that_is_only_read() -> Steps:
    def f(a: Any, b: Any) -> Any:
        c = b * 2
        a.mul_(3)
        return c + b

    yield f, lambda: (torch.ones(2), torch.ones(2))

    def overlapping() -> Any:
        base = torch.ones(3)
        return base[:2], base[1:]

    yield MISS, overlapping


@scenario
def python_attribute_of_a_tensor() -> Steps:
    x = X.clone()
    x.scale = 2
    yield (lambda x: x * x.scale), (x,)
    x.scale = 3
    yield ANY


@scenario(breaks=True)
def parametrization_added() -> Steps:
    class Doubles(nn.Module):
        def forward(self, weight: Any) -> Any:
            return weight * 2

    lin = nn.Linear(4, 4)
    yield (lambda net, x: net(x).detach()), (lin, X)
    nn.utils.parametrize.register_parametrization(lin, "weight", Doubles())
    yield MISS
    nn.utils.parametrize.remove_parametrizations(lin, "weight")
    yield ANY


@scenario
def parameter_of_a_closure() -> Steps:
    weight = nn.Parameter(torch.ones(4))
    yield (lambda x: (x * weight).detach()), (X,)
    with torch.no_grad():
        weight.fill_(5)
    yield HIT
    weight = nn.Parameter(torch.ones(1))
    yield MISS


@scenario
def tensor_in_a_container_replaced() -> Steps:
    state = {"w": torch.ones(4), "more": [torch.ones(4)]}
    yield (lambda d, x: x * d["w"] + d["more"][0]), (state, X)
    state["w"] = torch.zeros(4)
    yield HIT
    state["more"][0] = torch.zeros(4, dtype=torch.float64)
    yield MISS
    state["w"] = None
    yield ANY


@scenario
def argument_that_is_the_parameter() -> Steps:
    def f(net: Any, x: Any) -> Any:
        with torch.no_grad():
            x.add_(1)
            return net.bias * 2

    def apart() -> Any:
        torch.manual_seed(0)
        return nn.Linear(4, 4), torch.ones(4)

    def same() -> Any:
        torch.manual_seed(0)
        net = nn.Linear(4, 4)
        return net, net.bias

    yield f, apart
    yield MISS, same
    yield HIT, apart


@scenario
def view_of_the_parameter() -> Steps:
    def f(net: Any, x: Any) -> Any:
        with torch.no_grad():
            x.add_(1)
            return net.bias * 2

    def apart() -> Any:
        torch.manual_seed(0)
        return nn.Linear(4, 4), torch.ones(2)

    def view() -> Any:
        torch.manual_seed(0)
        net = nn.Linear(4, 4)
        return net, net.bias.detach()[:2]

    yield f, apart
    yield MISS, view


@scenario
def result_is_the_argument() -> Steps:
    def f(x: Any) -> Any:
        y = x + 1
        return x, x.view(2, 2), y

    lifted_is_same = torch.arange(4.0)
    yield f, (lifted_is_same,)


@scenario
def shape_decides() -> Steps:
    def f(x: Any) -> Any:
        return x * 2 if x.shape[0] > 3 else x * 3

    yield f, (torch.ones(4),)
    yield ANY, (torch.ones(5),)
    yield ANY, (torch.ones(2),)
    yield ANY, (torch.ones(3, 2),)
    yield ANY, (torch.ones(0),)
    yield ANY, (torch.ones(1),)


@scenario(breaks=True)
def value_decides() -> Steps:
    def f(x: Any) -> Any:
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    yield f, (torch.ones(4),)
    yield ANY, (-torch.ones(4),)
    yield ANY, (torch.ones(4),)


@scenario(breaks=True)
def item_is_read() -> Steps:
    yield (lambda x: (x * 2) * int(x[0].item())), (torch.ones(4),)
    yield ANY, (torch.full((4,), 3.0),)


@scenario
def batch_norm_statistics() -> Steps:
    def f(net: Any, x: Any) -> Any:
        return net(x).detach(), net.running_mean.clone(), net.num_batches_tracked.clone()

    def made() -> Any:
        return nn.BatchNorm1d(4), torch.arange(8.0).reshape(2, 4)

    yield f, made

    def evaluating() -> Any:
        net, x = made()
        return net.eval(), x

    yield MISS, evaluating

    def other_momentum() -> Any:
        net, x = made()
        net.momentum = 0.9
        return net, x

    yield MISS, other_momentum
    yield HIT, made


@scenario
def grad_of_an_argument() -> Steps:
    def f(x: Any) -> Any:
        return x.detach() * 2 if x.grad is None else x.detach() + x.grad

    x = torch.ones(2, requires_grad=True)
    yield f, (x,)
    x.grad = torch.ones(2)
    yield ANY
    x.grad = None
    yield ANY


@scenario
def tensor_hook_added() -> Steps:
    x = torch.ones(2, requires_grad=True)
    yield (lambda x: (x * 2).sum().detach()), (x,)
    x.register_hook(lambda grad: grad * 10)
    yield ANY


@scenario
def full_backward_hook() -> Steps:
    net = nn.Linear(4, 4)
    yield (lambda net, x: net(x).detach()), (net, X)
    seen: list[int] = []
    handle = net.register_full_backward_hook(lambda module, grad_in, grad_out: seen.append(1))
    yield ANY
    handle.remove()
    yield ANY


@scenario
def tensor_made_contiguous_or_pinned_elsewhere() -> Steps:
    x = torch.ones(2, 3)
    yield (lambda x: x.flatten() * 2), (x,)
    x.t_()
    yield MISS
    x.t_()
    yield HIT
    x.resize_(3, 3).fill_(1)
    yield MISS


@scenario
def set_data_of_an_argument() -> Steps:
    x = torch.ones(2)
    yield (lambda x: x * 2), (x,)
    x.data = torch.ones(3, dtype=torch.float64)
    yield MISS


@scenario
def sparse_and_nested_layouts() -> Steps:
    yield (lambda x: x * 2), (torch.eye(3),)
    yield ANY, (torch.eye(3).to_sparse(),)
    yield ANY, (torch.eye(3),)


@scenario
def zero_dimensional_and_empty() -> Steps:
    yield (lambda x: x * 2 + 1), (torch.tensor(3.0),)
    yield MISS, (torch.tensor([]),)
    yield MISS, (torch.tensor(3),)
    yield HIT, (torch.tensor(5.0),)


@scenario
def attribute_added_to_the_class_of_tensors() -> Steps:
    def f(x: Any) -> Any:
        return x.scaled() if hasattr(x, "scaled") else x * 2

    tensor: Any = torch.Tensor
    yield f, (X,)
    try:
        tensor.scaled = lambda x: x * 3
        yield MISS
        yield MISS, (nn.Parameter(X),)
        tensor.scaled = lambda x: x * 4
        yield MISS
    finally:
        del tensor.scaled
    yield HIT, (X,)


@scenario
def method_of_tensors_replaced() -> Steps:
    def f(x: Any) -> Any:
        return x.sigmoid() + x.flipped

    tensor: Any = torch.Tensor
    tensor.flipped = property(lambda x: x.flip(0))
    try:
        yield f, (X,)
        tensor.sigmoid = lambda x: x * 0 + 100
        yield MISS
        del tensor.sigmoid
        yield HIT
    finally:
        del tensor.flipped


@scenario
def overlapping_in_another_way() -> Steps:
    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        b.mul_(2)
        return a * b

    def views(first: slice, second: slice) -> Any:
        def make() -> Any:
            base = torch.arange(10.0)
            return base[first], base[second]

        return make

    yield f, views(slice(0, 5), slice(2, 7))
    yield ANY, views(slice(0, 5), slice(0, 5))
    yield ANY, views(slice(1, 6), slice(3, 8))
    yield ANY, views(slice(2, 7), slice(0, 5))
    yield ANY, views(slice(0, 5), slice(2, 7))
    yield ANY, views(slice(0, 5), slice(5, 10))


@scenario
def place_in_memory() -> Steps:
    base = torch.arange(8.0)
    yield (lambda x: (x + 1, x.storage_offset(), x[1:].storage_offset(), x.clone()[1:].storage_offset())), (base[:4],)
    yield MISS, (base[2:6],)
    yield MISS, (base[4:],)
    yield HIT, (base[:4],)


@scenario.parametrize()
def test_change_is_seen(steps: Any, breaks: bool) -> None:
    play(steps, breaks)


@pytest.mark.parametrize(
    "steps", [overlapping_views_with_writes, overlapping_in_another_way, same_tensor_twice, same_parameter_twice]
)
def test_change_is_seen_with_aot_eager(steps: Any) -> None:
    play(steps, backend="aot_eager")
