"""What is measured: models and functions, each with its inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Case = Callable[[], tuple[Any, tuple[torch.Tensor, ...]]]


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(x + self.norm2(self.conv2(y)))


class ResidualNet(nn.Module):
    def __init__(self, blocks: int, channels: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList([Residual(channels) for _ in range(blocks)])
        self.head = nn.Linear(channels, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class Chain(nn.Module):
    def __init__(self, layers: int, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class UNet(nn.Module):
    """Down and up again, with what was seen on the way down put beside what comes up."""

    def __init__(self, channels: int = 8, depth: int = 3) -> None:
        super().__init__()
        widths = [channels * 2**level for level in range(depth + 1)]
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.ModuleList([double_conv(a, b) for a, b in itertools.pairwise(widths)])
        self.up = nn.ModuleList([double_conv(a + b, a) for a, b in itertools.pairwise(widths)])
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Conv2d(channels, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        skipped = []
        for block in self.down:
            skipped.append(x)
            x = block(self.pool(x))
        for block, skip in zip(reversed(self.up), reversed(skipped), strict=True):
            x = block(torch.cat((functional.interpolate(x, scale_factor=2.0), skip), 1))
        return self.head(x)


def double_conv(before: int, after: int) -> nn.Sequential:
    convolutions = (nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1))
    layers = [layer for conv in convolutions for layer in (conv, nn.BatchNorm2d(after), nn.ReLU(inplace=True))]
    return nn.Sequential(*layers)


class Recommender(nn.Module):
    """DLRM's shape: embeddings of categories and a perceptron's view of numbers, multiplied with one another."""

    def __init__(self, tables: int = 8, rows: int = 100, width: int = 16) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList([nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)])
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())
        row, column = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("row", row)
        self.register_buffer("column", column)

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        dense = self.bottom(numbers)
        sparse = [embed(categories[:, i]) for i, embed in enumerate(self.embeddings)]
        features = torch.stack([dense, *sparse], 1)
        products = features @ features.transpose(1, 2)
        return self.top(torch.cat((dense, products[:, self.row, self.column]), 1))


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def chain() -> tuple[Any, tuple[torch.Tensor, ...]]:
    return Chain(100).eval(), (torch.randn(4, 16),)


def residual() -> tuple[Any, tuple[torch.Tensor, ...]]:
    return ResidualNet(16).eval(), (torch.randn(2, 3, 8, 8),)


def u_net() -> tuple[Any, tuple[torch.Tensor, ...]]:
    return UNet().eval(), (torch.randn(2, 3, 32, 32),)


def recommender() -> tuple[Any, tuple[torch.Tensor, ...]]:
    return Recommender().eval(), (torch.randn(32, 13), torch.randint(100, (32, 8, 4)))


def one_op() -> tuple[Any, tuple[torch.Tensor, ...]]:
    return add_one, (torch.randn(4, 16),)


# -- models of the transformers package, narrow, with random weights -------------------------------------------------

NARROW = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}


class EncoderDecoder(nn.Module):
    """Calls a model that wants a text for its encoder and one for its decoder with the same text for both."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.model(input_ids=tokens, decoder_input_ids=tokens)


def pretrained(name: str, layers: int) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """A model of the package with so many layers, and its input."""
    import transformers  # noqa: PLC0415  (an optional dependency: the other cases run without it)

    transformers.logging.set_verbosity_error()
    tokens = torch.randint(3, 200, (2, 16))
    text = {**NARROW, "num_hidden_layers": layers, "vocab_size": 256, "max_position_embeddings": 128}
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "Llama": ("Llama", {**text, "num_key_value_heads": 4}),
        "BERT": ("Bert", text),
        "ViT": ("ViT", {**NARROW, "num_hidden_layers": layers, "image_size": 32, "patch_size": 8}),
        "T5": ("T5", {"d_model": 64, "d_ff": 128, "d_kv": 16, "num_heads": 4, "num_layers": layers, "vocab_size": 256}),
        "GPT-2": ("GPT2", {"n_embd": 64, "n_head": 4, "n_layer": layers, "n_positions": 128, "vocab_size": 256}),
        "Qwen3": ("Qwen3", {**text, "num_key_value_heads": 2, "head_dim": 16}),
        "Gemma3": ("Gemma3Text", {**text, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8}),
        "Mixtral": ("Mixtral", {**text, "num_key_value_heads": 4, "num_local_experts": 4, "num_experts_per_tok": 2}),
    }
    family, sizes = kinds[name]
    config = getattr(transformers, f"{family}Config")(**sizes)
    model = getattr(transformers, f"{family}Model")(config).eval()
    if name == "ViT":
        return model, (torch.randn(1, 3, 32, 32),)
    return (EncoderDecoder(model) if name == "T5" else model), (tokens,)


def case_of(name: str, layers: int) -> Case:
    return lambda: pretrained(name, layers)


CASES: dict[str, Case] = {
    "MLP-100": chain,
    "CNN-16": residual,
    "x+1": one_op,
    "Llama-8": case_of("Llama", 8),
    "BERT-12": case_of("BERT", 12),
    "ViT-12": case_of("ViT", 12),
    "T5-6": case_of("T5", 6),
    "Mixtral-4": case_of("Mixtral", 4),
    # How the cost of a capture grows with the number of layers.
    "Llama-2": case_of("Llama", 2),
    "Llama-32": case_of("Llama", 32),
}
GROWTH = ("Llama-2", "Llama-8", "Llama-32")

# What Inductor compiles in seconds. The chain and the network of convolutions are those above, with fewer layers.
COMPILED: dict[str, Case] = {
    "MLP-10": lambda: (Chain(10, 64).eval(), (torch.randn(32, 64),)),
    "CNN-4": lambda: (ResidualNet(4, 16).eval(), (torch.randn(2, 3, 16, 16),)),
    "U-Net": u_net,
    "DLRM": recommender,
    "Llama-2": case_of("Llama", 2),
    "BERT-2": case_of("BERT", 2),
    "ViT-2": case_of("ViT", 2),
    "T5-2": case_of("T5", 2),
    "GPT-2-2": case_of("GPT-2", 2),
    "Mixtral-2": case_of("Mixtral", 2),
}
