"""Operations of torch whose results are as large as the data says, in terms of others that graphs can hold.

Metadata propagation refuses them, or some of their forms. What stands here is traced in their place then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch._C._nn import pad_sequence as _pad_sequence

from framelift import controls

F = TypeVar("F", bound=Callable[..., Any])

# By the name of a method, and by the identity of a function.
_METHODS: dict[str, Callable[..., Any]] = {}
_FUNCTIONS: dict[int, Callable[..., Any]] = {}


def in_other_words(target: Any) -> Callable[..., Any] | None:
    """The Python function that does what an operation (a method by its name) does; None: there is none."""
    return _METHODS.get(target) if isinstance(target, str) else _FUNCTIONS.get(id(target))


def says(*targets: Any) -> Callable[[F], F]:
    def register(function: F) -> F:
        for target in targets:
            if isinstance(target, str):
                _METHODS[target] = function
            else:
                _FUNCTIONS[id(target)] = function
        return function

    return register


@says(torch.nn.functional.one_hot)
def one_hot(tensor: Any, num_classes: Any = -1) -> Any:
    """Where a class is none of them, Python says so."""
    largest = tensor.max().item()
    if num_classes == -1:
        num_classes = largest + 1
    else:
        torch._check(largest < num_classes)
    torch._check(tensor.min().item() >= 0)
    return (tensor.unsqueeze(-1) == torch.arange(num_classes, device=tensor.device)).to(torch.int64)


@says(torch.tensor_split, "tensor_split")
def tensor_split(input: Any, tensor_indices_or_sections: Any, dim: int = 0) -> Any:
    """At the numbers in a tensor with one dimension."""
    if tensor_indices_or_sections.dim() != 1:
        controls.graph_break("tensor_split into as many parts as a tensor says")
    (count,) = tensor_indices_or_sections.shape
    bounds = [0, *[tensor_indices_or_sections[index].item() for index in range(count)], input.shape[dim]]
    return tuple([input.narrow(dim, bounds[i], bounds[i + 1] - bounds[i]) for i in range(count + 1)])


@says(torch.arange)
def arange(*numbers: Any, **named: Any) -> Any:
    """Numbers in tensors as numbers."""
    plain = [number.item() if isinstance(number, torch.Tensor) else number for number in numbers]
    return torch.arange(*plain, **named)


@says(torch.nn.utils.rnn.pad_sequence, _pad_sequence)
def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    first, count = sequences[0], len(sequences)
    longest = max([sequence.shape[0] for sequence in sequences])
    sizes = (count, longest) if batch_first else (longest, count)
    padded = first.new_full((*sizes, *first.shape[1:]), padding_value)
    for index, sequence in enumerate(sequences):
        length = sequence.shape[0]
        start = longest - length if padding_side == "left" else 0
        padded.select(0 if batch_first else 1, index).narrow(0, start, length).copy_(sequence)
    return padded
