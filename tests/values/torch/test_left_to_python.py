"""Programs about training that are not one graph: Python does what is not captured, and all comes out the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import graph
from torch.nn.utils import prune
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence, unpack_sequence

from tests.helpers import check

X = torch.arange(12.0).reshape(3, 4) / 5 - 1


def tensor() -> tuple[Any, ...]:
    return (X.clone().requires_grad_(),)


def recurrent(kind: Any, **options: Any) -> Any:
    def make() -> tuple[Any, ...]:
        torch.manual_seed(0)
        model = kind(2, 3, **options)
        model._flat_weight_refs = []  # weak references, which are equal to nothing
        return model, torch.arange(16.0).reshape(4, 2, 2) / 8, torch.tensor([4, 2])

    return make


def packed() -> tuple[Any, ...]:
    model, x, lengths = recurrent(nn.LSTM)()
    return model, pack_padded_sequence(x, lengths)


def padded(model: Any, x: Any, lengths: Any) -> Any:
    output, state = model(pack_padded_sequence(x * 2, lengths))
    return *pad_packed_sequence(output, total_length=5), state


def unsorted(model: Any, x: Any, lengths: Any) -> Any:
    output, state = model(pack_padded_sequence(x * 2, lengths.flip(0), enforce_sorted=False))
    return pad_packed_sequence(output)[0], state


def given_packed(model: Any, sequence: Any) -> Any:
    doubled = sequence._replace(data=sequence.data * 2)
    output, state = model(doubled)
    return output.data, state, sequence.batch_sizes


def packs(model: Any, x: Any, lengths: Any) -> Any:
    sequence = pack_sequence([x[:, 0] + 1, x[:2, 1]])
    return sequence.data, unpack_sequence(sequence)


@pytest.mark.parametrize(
    ("program", "inputs"),
    [
        (padded, recurrent(nn.LSTM)),
        (padded, recurrent(nn.GRU, bidirectional=True, num_layers=2, dropout=0.5)),
        (padded, recurrent(nn.RNN)),
        (unsorted, recurrent(nn.LSTM)),
        (given_packed, packed),
        (packs, recurrent(nn.LSTM)),
    ],
)
def test_packed_sequences(program: Any, inputs: Any) -> None:
    check(program, inputs=inputs, expect_breaks=None, deterministic=False, expect_hit=False)


def saved_hooks(x: Any) -> Any:
    sizes = []

    def pack(saved: Any) -> Any:
        sizes.append(saved.numel())
        return saved

    y = x * 2
    with graph.saved_tensors_hooks(pack, lambda saved: saved):
        y = (y * y).sin()
    return y, sizes


def saved_on_cpu(x: Any) -> Any:
    with graph.save_on_cpu():
        return (x * x).sin()


def hooks_disabled(x: Any) -> Any:
    with graph.disable_saved_tensors_hooks("no"):
        return (x * x).sin()


def versions(x: Any) -> Any:
    y = x * 2
    before = y._version
    y.add_(1)
    graph.increment_version(y)
    return y, y._version - before


def nodes(x: Any) -> Any:
    y = (x * 2).sin()
    name = y.grad_fn.name()
    return y, name, isinstance(y.grad_fn, graph.Node)


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


class Sparing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return sum(gradient * 5 for gradient in (first, second) if gradient is not None)


class Telling(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        TOLD.append(1)
        return gradient * 3


TOLD: list[int] = []


def dirty(x: Any) -> Any:
    y = x * 2
    z = Dirty.apply(y)
    return y, z, z is y


def sparing(x: Any) -> Any:
    return Sparing.apply(x * 2)[0]


def telling(x: Any) -> Any:
    return Telling.apply(x * 2) + 1


def made_in_the_function(x: Any) -> Any:
    class Local(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 5

    return Local.apply(x * 2)


def default_device(x: Any) -> Any:
    torch.set_default_device("meta")
    y = torch.ones(4)
    torch.set_default_device(None)
    return y.device, x + torch.ones(4)


@pytest.mark.parametrize(
    "program",
    [
        *(saved_hooks, saved_on_cpu, hooks_disabled, versions, nodes),
        *(dirty, sparing, telling, made_in_the_function, default_device),
    ],
    ids=lambda program: program.__name__,
)
def test_gradients_and_modes(program: Any) -> None:
    check(program, inputs=tensor, expect_breaks=None, expect_ops=0, deterministic=False, expect_hit=False)


def linear() -> tuple[Any, ...]:
    torch.manual_seed(0)
    return nn.Linear(4, 4), X.clone().requires_grad_()


def pruned(model: Any, x: Any) -> Any:
    y = model(x * 2)
    prune.l1_unstructured(model, "weight", amount=0.3)
    z = model(x)
    prune.remove(model, "weight")
    return y, z, model.weight


def filled(model: Any, x: Any) -> Any:
    torch.nn.utils.vector_to_parameters(torch.arange(20.0), model.parameters())
    return model(x * 2)


def lazy(model: Any, x: Any) -> Any:
    made = nn.LazyLinear(3)
    return made(model(x * 2)), made.weight.shape


def replaced(model: Any, x: Any) -> Any:
    return model.double()(x.double() * 2), model.weight.dtype


@pytest.mark.parametrize("program", [pruned, filled, lazy, replaced], ids=lambda program: program.__name__)
def test_modules(program: Any) -> None:
    check(program, inputs=linear, expect_breaks=None, expect_ops=0, deterministic=False, expect_hit=False)
