"""Models whose sizes depend on what is in tensors, as people write them: no more than their ways with data is theirs.

>>> model, inputs_of = MODELS["filter"]
>>> model()(*inputs_of(0))
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

IMAGE = 99  # the token that stands for one piece of an image


class Attention(nn.Module):
    """Attention over a cache that is written at the position that a tensor says."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("keys", torch.zeros(1, length, width))
        self.register_buffer("values", torch.zeros(1, length, width))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(x).chunk(3, -1)
        self.keys[:, position : position + 1] = key
        self.values[:, position : position + 1] = value
        end = position + 1
        mixed = functional.scaled_dot_product_attention(query, self.keys[:, :end], self.values[:, :end])
        return x + self.out(mixed)


class Decoder(nn.Module):
    """Four layers of it; one token a call."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention(128, 256) for _ in range(4))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, position)
        return x


class Experts(nn.Module):
    """Each row goes through the expert that its scores choose."""

    def __init__(self) -> None:
        super().__init__()
        self.choose = nn.Linear(64, 4)
        self.experts = nn.ModuleList(_expert() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = self.choose(x).argmax(-1)
        result = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows = (chosen == index).nonzero().squeeze(1)
            result = result.index_add(0, rows, expert(x[rows]))
        return result + x


class Filter(nn.Module):
    """The rows with a good score are normalised and classified."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.classify = nn.Linear(32, 1), nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept = x[self.score(x).squeeze(1).sigmoid() > 0.5]
        return self.classify(kept * 2 + 1).softmax(-1), kept.mean(0)


class VisionLanguage(nn.Module):
    """Pieces of two images, merged four to one, take the places of image tokens in the text."""

    def __init__(self) -> None:
        super().__init__()
        self.see, self.merge = nn.Linear(48, 64), nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 64))
        self.words = nn.Embedding(100, 64)
        self.layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)

    def forward(self, tokens: torch.Tensor, pixels: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        pieces = self.see(pixels)
        seen = []
        for image, (height, width) in zip(pieces.split(grid.prod(-1).tolist()), grid.tolist(), strict=True):
            blocks = image.view(height // 2, 2, width // 2, 2, -1).permute(0, 2, 1, 3, 4)
            seen.append(self.merge(blocks.reshape(-1, 256)))
        features = torch.cat(seen)
        text = self.words(tokens)
        is_image = tokens == IMAGE
        torch._check(
            text[is_image].shape[0] == features.shape[0],
            lambda: f"{features.shape[0]} pieces of images for {is_image.sum()} image tokens",
        )
        merged = text.masked_scatter(is_image.unsqueeze(-1).expand_as(text), features)
        return self.layer(merged)


class RoutedExperts(nn.Module):
    """Two of eight experts for each token, found by `one_hot` and `where`, added up by `index_add_`."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 8, bias=False)
        self.experts = nn.ModuleList(_expert() for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = self.gate(tokens).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        result = torch.zeros_like(tokens)
        mask = functional.one_hot(chosen, num_classes=8).permute(2, 1, 0)
        for index, expert in enumerate(self.experts):
            which, rows = torch.where(mask[index])
            found = expert(tokens[None, rows].reshape(-1, tokens.shape[-1])) * weights[rows, which, None]
            result.index_add_(0, rows, found)
        return result.view_as(x)


class SortedExperts(nn.Module):
    """Tokens sorted by expert, then split where `bincount` says; some experts get one token, or none."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 6)
        self.experts = nn.ModuleList(_expert() for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = self.gate(x).argmax(-1)
        order = chosen.argsort(stable=True)
        counts = torch.bincount(chosen, minlength=6)
        parts = x[order].split(counts.tolist())
        found = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        return torch.empty_like(x).index_copy_(0, order, found)


class PackedAttention(nn.Module):
    """Four sequences in one row; attention within each."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(x).view(-1, 3, 4, 16).unbind(1)
        bounds = ends.tolist()
        mixed = []
        for start, stop in itertools.pairwise(bounds):
            parts = [one[start:stop].transpose(0, 1)[None] for one in (query, key, value)]
            mixed.append(functional.scaled_dot_product_attention(*parts)[0].transpose(0, 1))
        return x + self.out(torch.cat(mixed).reshape(-1, 64))


class StaticCache(nn.Module):
    """A cache of one size, written at positions in a tensor: a prompt of any length, then token after token."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.project, self.out = nn.Embedding(100, 64), nn.Linear(64, 192), nn.Linear(64, 100)
        self.register_buffer("keys", torch.zeros(1, 4, 64, 16))
        self.register_buffer("values", torch.zeros(1, 4, 64, 16))

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        batch, length = tokens.shape
        query, key, value = (
            part.view(batch, length, 4, 16).transpose(1, 2) for part in self.project(self.words(tokens)).chunk(3, -1)
        )
        self.keys.index_copy_(2, position, key)
        self.values.index_copy_(2, position, value)
        visible = torch.arange(64)[None] <= position[:, None]
        mixed = functional.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=visible)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, 64)[:, -1]).argmax(-1, keepdim=True)


class Detector(nn.Module):
    """Boxes with a good score; of those that overlap, the best."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes, self.scores = nn.Linear(32, 4), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.scores(x).squeeze(-1).sigmoid()
        corner, size = self.boxes(x).chunk(2, -1)
        boxes = torch.cat([corner, corner + size.exp()], -1)
        good = scores > 0.5
        boxes, scores = boxes[good], scores[good]
        order = scores.argsort(descending=True)
        kept = []
        while order.numel() > 0:
            kept.append(order[0])
            rest = order[1:]
            order = rest[_overlap(boxes[order[0]], boxes[rest]) <= 0.3]
        chosen = torch.stack(kept)
        return boxes[chosen], scores[chosen]


class Speech(nn.Module):
    """Each phoneme is repeated as often as its predicted duration says; then frames are decoded."""

    def __init__(self) -> None:
        super().__init__()
        self.phonemes, self.duration = nn.Embedding(50, 32), nn.Linear(32, 1)
        self.smooth, self.decode = nn.Conv1d(32, 32, 3, padding=1), nn.Linear(32, 20)

    def forward(self, phonemes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.phonemes(phonemes)
        durations = self.duration(x).squeeze(-1).exp().round().long().clamp(min=0)
        frames = torch.repeat_interleave(x, durations, dim=0)
        length = int(durations.sum())
        position = torch.arange(length, dtype=torch.float32)[:, None] / length
        smoothed = self.smooth((frames + position).t()[None]).relu()
        return self.decode(smoothed[0].t()), durations


class Patches(nn.Module):
    """Images of any size as one row of patches, each with the position that its image's grid gives it."""

    def __init__(self) -> None:
        super().__init__()
        self.see, self.out = nn.Linear(48, 64), nn.Linear(64, 32)
        self.positions = nn.Embedding(16 * 16, 64)

    def forward(self, pixels: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        table = self.positions.weight.t().view(1, 64, 16, 16)
        places = []
        for frames, height, width in grid.tolist():
            place = functional.interpolate(table, size=(height, width), mode="bilinear", align_corners=False)
            places.append(place[0].flatten(1).t().repeat(frames, 1))
        x = self.see(pixels) + torch.cat(places)
        lengths = (grid[:, 0] * grid[:, 1] * grid[:, 2]).tolist()
        return torch.stack([self.out(image).mean(0) for image in x.split(lengths)])


def _expert() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))


def _overlap(box: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    low, high = torch.maximum(box[:2], others[:, :2]), torch.minimum(box[2:], others[:, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    return both / ((box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(-1) - both)


# -- what they are called with: the same for the same index ----------------------------------------------------------


def _random(index: int) -> random.Random:
    torch.manual_seed(index)
    return random.Random(index)


def _tokens(index: int) -> tuple[Any, ...]:
    _random(index)
    return torch.randn(1, 1, 128), torch.tensor(2 + index)


def _rows(count: int, width: int) -> Callable[[int], tuple[Any, ...]]:
    def inputs_of(index: int) -> tuple[Any, ...]:
        _random(index)
        return (torch.randn(count, width),)

    return inputs_of


def _batch(index: int) -> tuple[Any, ...]:
    length = _random(index).randrange(3, 30)
    return (torch.randn(2, length, 64),)


def _few_tokens(index: int) -> tuple[Any, ...]:
    length = _random(index).randrange(6, 40)
    return (torch.randn(length, 64),)


def _text_with_images(index: int) -> tuple[Any, ...]:
    choose = _random(index)
    grid = [[2 * choose.randrange(1, 5), 2 * choose.randrange(1, 5)] for _ in range(2)]
    tokens: list[int] = []
    for height, width in grid:
        tokens += [choose.randrange(90) for _ in range(choose.randrange(1, 8))]
        tokens += [IMAGE] * (height * width // 4)
    tokens += [1, 2]
    pieces = sum(height * width for height, width in grid)
    return torch.tensor([tokens]), torch.randn(pieces, 48), torch.tensor(grid)


def _packed(index: int) -> tuple[Any, ...]:
    choose = _random(index)
    ends = [0]
    for _ in range(4):
        ends.append(ends[-1] + choose.randrange(1, 20))
    return torch.randn(ends[-1], 64), torch.tensor(ends, dtype=torch.int32)


_PROMPTS = (7, 12, 5, 9)


def _prompt_or_token(index: int) -> tuple[Any, ...]:
    """Every other call begins anew with a prompt; the next one goes on with one token."""
    _random(index)
    turn, step = divmod(index, 2)
    prompt = _PROMPTS[turn % len(_PROMPTS)]
    if step == 0:
        return torch.randint(0, 100, (1, prompt)), torch.arange(prompt)
    return torch.randint(0, 100, (1, 1)), torch.tensor([prompt + step - 1])


def _phonemes(index: int) -> tuple[Any, ...]:
    length = _random(index).randrange(5, 25)
    return (torch.randint(0, 50, (length,)),)


def _grids(index: int) -> tuple[Any, ...]:
    choose = _random(index)
    grid = [[choose.choice((1, 1, 2)), choose.randrange(1, 9), choose.randrange(1, 9)] for _ in range(2)]
    pieces = sum(frames * height * width for frames, height, width in grid)
    return torch.randn(pieces, 48), torch.tensor(grid)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], tuple[Any, ...]]]] = {
    "decoder": (Decoder, _tokens),
    "experts": (Experts, _rows(96, 64)),
    "filter": (Filter, _rows(200, 32)),
    "vision-language": (VisionLanguage, _text_with_images),
    "routed experts": (RoutedExperts, _batch),
    "sorted experts": (SortedExperts, _few_tokens),
    "packed attention": (PackedAttention, _packed),
    "static cache": (StaticCache, _prompt_or_token),
    "detector": (Detector, _rows(60, 32)),
    "speech": (Speech, _phonemes),
    "patches": (Patches, _grids),
}
