"""What is measured: models and functions, each with its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

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


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def chain() -> tuple[Any, tuple[torch.Tensor, ...]]:
    return Chain(100).eval(), (torch.randn(4, 16),)


def residual() -> tuple[Any, tuple[torch.Tensor, ...]]:
    return ResidualNet(16).eval(), (torch.randn(2, 3, 8, 8),)


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
