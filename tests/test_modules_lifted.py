"""Modules: containers, hooks, buffers, modes, replaced parts; values, gradients, mutation and guards against eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import framelift
from tests.helpers import check
from tests.helpers.record import Record

X = torch.arange(24.0).reshape(2, 3, 4) / 7 + 0.5
ROWS = torch.arange(12.0).reshape(3, 4) / 5 - 1
IMAGE = torch.arange(2 * 3 * 8 * 8.0).reshape(2, 3, 8, 8).sin()
TOKENS = torch.tensor([[1, 2, 0], [3, 1, 2]])


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.last = nn.Linear(8, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.first(x))
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.last(x)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv2(F.relu(self.norm(self.conv1(x))))


class ResidualCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.blocks = nn.Sequential(*[Block(4) for _ in range(2)])
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.blocks(self.stem(x)))
        return self.head(x.flatten(1))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class TransformerBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, 2)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.position = nn.Parameter(torch.zeros(8, 4))
        self.blocks = nn.ModuleList([TransformerBlock(4) for _ in range(2)])
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.position[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()})
        self.weights = nn.ParameterList([torch.ones(4), torch.arange(4.0)])
        self.named = nn.ParameterDict({"scale": torch.tensor(2.0), "shift": torch.tensor(1.0)})
        self.steps = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Tanh(), nn.Identity()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name, module in self.table.items():
            x = module(x)
        for weight in self.weights:
            x = x * weight
        x = x * self.named["scale"] + self.named["shift"]
        x = self.steps(x)
        return x + self.steps[0](x) + self.weights[1] + len(self.weights) + len(self.steps) + ("a" in self.table)


class Buffered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("last", torch.zeros(4), persistent=False)
        self.register_buffer("missing", None)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.detach().mean((0, 1)))
        self.last = x.detach()[0, 0] * 2
        self.calls += 1
        return x + self.total + self.last + (0 if self.missing is None else self.missing)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.history: list[int] = []

    @property
    def scale(self) -> int:
        return self.linear.in_features * 2

    def __getattr__(self, name: str) -> Any:
        if name == "computed":
            return 3
        return super().__getattr__(name)

    def helper(self, x: torch.Tensor, *, factor: float = 1.0) -> torch.Tensor:
        return self.linear(x) * factor

    def forward(self, x: torch.Tensor, *args: Any, bias: float = 0.0, **kwargs: Any) -> dict[str, torch.Tensor]:
        self.history.append(x.shape[0])
        y = self.helper(x, factor=self.scale) + self.computed + bias
        for extra in args:
            y = y + extra
        return {"y": y, "kinds": sorted(kwargs), "direct": self.linear.forward(x)}


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = self.one
        self.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x)) + F.linear(x, self.weight)


class Modal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.drop(self.linear(x)))
        if self.training:
            x = x * 2
        with torch.no_grad():
            scale = x.mean() * 2
        return x * scale


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "mlp": (MLP, (ROWS,)),
    "cnn": (ResidualCNN, (IMAGE,)),
    "transformer": (Transformer, (TOKENS,)),
    "containers": (Containers, (X,)),
    "counting": (Counting, (X,)),
    "shared": (Shared, (X,)),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, training: bool) -> None:
    make, args = MODELS[name]
    torch.manual_seed(1)
    changed = [args] if name == "transformer" else None
    check(make().train(training), *args, fullgraph=True, expect_hit=name != "counting" and None, changed=changed)


@pytest.mark.parametrize("backend", ["aot_eager"])
@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer", "shared"])
def test_models_with_other_backends(name: str, backend: str) -> None:
    make, args = MODELS[name]
    torch.manual_seed(1)
    changed = [args] if name == "transformer" else None
    check(make(), *args, fullgraph=True, backend=backend, changed=changed)


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "Linear": (lambda: nn.Linear(4, 2), (X,)),
    "Bilinear": (lambda: nn.Bilinear(4, 4, 2), (X, X)),
    "Embedding": (lambda: nn.Embedding(5, 3, padding_idx=0), (TOKENS,)),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(5, 3), (TOKENS,)),
    "LayerNorm": (lambda: nn.LayerNorm([3, 4]), (X,)),
    "RMSNorm": (lambda: nn.RMSNorm(4), (X,)),
    "GroupNorm": (lambda: nn.GroupNorm(3, 3), (IMAGE,)),
    "InstanceNorm": (lambda: nn.InstanceNorm2d(3, affine=True), (IMAGE,)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), (X,)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3, momentum=None), (IMAGE,)),
    "BatchNorm no stats": (lambda: nn.BatchNorm2d(3, track_running_stats=False), (IMAGE,)),
    "Conv1d": (lambda: nn.Conv1d(3, 2, 2, padding="same"), (X,)),
    "Conv2d": (lambda: nn.Conv2d(3, 2, 3, stride=2, padding=1, padding_mode="reflect"), (IMAGE,)),
    "Conv3d": (lambda: nn.Conv3d(3, 2, 1), (IMAGE[:, :, None],)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 2, 2, stride=2), (IMAGE,)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2, return_indices=True), (IMAGE,)),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), (IMAGE,)),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d((2, None)), (IMAGE,)),
    "Dropout": (lambda: nn.Dropout(0.3), (X,)),
    "Dropout2d": (lambda: nn.Dropout2d(0.3), (IMAGE,)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (IMAGE,)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (IMAGE[:, :1].expand(2, 4, 8, 8).clone(),)),
    "Flatten": (
        lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (3, 4)), nn.Softmax(-1), nn.ReLU(inplace=True)),
        (X,),
    ),
    "activations": (
        lambda: nn.Sequential(nn.GELU(), nn.SiLU(), nn.ELU(), nn.PReLU(), nn.Hardswish(), nn.Mish(), nn.LeakyReLU()),
        (X,),
    ),
    "more activations": (
        lambda: nn.Sequential(nn.Sigmoid(), nn.Tanh(), nn.Softplus(), nn.ReLU6(), nn.LogSoftmax(dim=-1), nn.Hardtanh()),
        (X,),
    ),
    "Padding": (lambda: nn.Sequential(nn.ZeroPad2d(1), nn.ReflectionPad2d(1), nn.ConstantPad2d(1, 2.0)), (IMAGE,)),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2, batch_first=True), (X, X, X)),
    "MultiheadAttention dropout": (lambda: nn.MultiheadAttention(4, 2, dropout=0.2), (X, X, X)),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (X,)),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2),
        (X,),
    ),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(4, 2, 8, batch_first=True), (X, X)),
    "RNN": (lambda: nn.RNN(4, 3, batch_first=True), (X,)),
    "LSTM": (lambda: nn.LSTM(4, 3, num_layers=2, bidirectional=True), (X,)),
    "GRU": (lambda: nn.GRU(4, 3), (X,)),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), (ROWS,)),
    "CosineSimilarity": (lambda: nn.CosineSimilarity(dim=-1), (X, X + 1)),
    "MSELoss": (lambda: nn.MSELoss(), (X, X + 1)),
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(), (ROWS, torch.tensor([0, 1, 2]))),
    "BCEWithLogitsLoss": (lambda: nn.BCEWithLogitsLoss(), (ROWS, ROWS.sigmoid())),
    "SmoothL1Loss": (lambda: nn.SmoothL1Loss(beta=0.5), (X, X * 1.1)),
    "NLLLoss": (lambda: nn.NLLLoss(), (ROWS.log_softmax(-1), torch.tensor([0, 1, 2]))),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), (ROWS.log_softmax(-1), ROWS.softmax(-1))),
    "Unfold": (lambda: nn.Unfold(2), (IMAGE,)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)), (X,)),
    "old weight norm": (lambda: _old_weight_norm(), (X,)),
}


# What reads its tensors in Python, or computes parameters outside of the graph.
NOT_WHOLE = ("BatchNorm2d", "old weight norm", "weight norm")


def _old_weight_norm() -> nn.Module:
    with pytest.warns(FutureWarning):
        return nn.utils.weight_norm(nn.Linear(4, 2))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, training: bool) -> None:
    make, args = LAYERS[name]
    torch.manual_seed(1)
    changed = [args] if any(not arg.is_floating_point() for arg in args) or "Loss" in name else None
    module = make().train(training)
    inputs = None
    if name == "old weight norm":
        inputs = lambda: args  # noqa: E731
        pytest.skip("deepcopy of weight_norm's hook needs leaf tensors")
    check(module, *args, changed=changed, expect_breaks=None, expect_ops=0, inputs=inputs)


def breaks_of(module: nn.Module, *args: Any) -> list[str]:
    record = Record()
    framelift.reset()
    with record.listening():
        framelift.compile(module, backend="eager")(*args)
    return [event.reason for event in record.breaks]


@pytest.mark.parametrize("name", [n for n in LAYERS if n not in NOT_WHOLE])
def test_layers_in_one_graph(name: str) -> None:
    make, args = LAYERS[name]
    assert breaks_of(make(), *args) == []


def test_buffers_are_written() -> None:
    module = Buffered()
    eager, lifted = copy.deepcopy(module), copy.deepcopy(module)
    compiled = framelift.compile(lifted, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(eager(X), compiled(X))
    assert torch.equal(eager.total, lifted.total) and torch.equal(eager.last, lifted.last)
    assert (eager.calls, list(eager.state_dict())) == (lifted.calls, list(lifted.state_dict()))


def test_train_and_eval_are_two_entries() -> None:
    torch.manual_seed(0)
    module = Modal()
    eager, lifted = copy.deepcopy(module), copy.deepcopy(module)
    compiled = framelift.compile(lifted, backend="eager", fullgraph=True)
    for mode in (True, False, True, False):
        eager.train(mode), lifted.train(mode)
        torch.manual_seed(3)
        expected = eager(ROWS)
        torch.manual_seed(3)
        assert torch.equal(expected, compiled(ROWS))
    assert torch.equal(eager.norm.running_mean, lifted.norm.running_mean)
    assert eager.norm.num_batches_tracked == lifted.norm.num_batches_tracked == 2


class Sliced(torch.nn.Module):
    """Slicing a list of modules makes a module while the forward method runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:2]:
            x = layer(x)
        return x


def test_modules_made_while_torch_compile_keeps_its_books() -> None:
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    check(Sliced(), torch.randn(2, 3), fullgraph=True)
