"""Copies of the memory that tensors lie in, to put it back whatever was written there, through whichever view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.parameter import Parameter

from framelift.graph.propagation.fake import storage_of


class Memory:
    """The memory of some tensors as it is now.

    >>> base = torch.zeros(4)
    >>> memory = Memory.of([base[:2]], most=1000)
    >>> _ = base.add_(1)
    >>> memory.put_back(), base.tolist()
    (True, [0.0, 0.0, 0.0, 0.0])
    """

    __slots__ = ("_tensors", "_facts", "_copies")

    def __init__(self, tensors: Sequence[torch.Tensor], storages: Sequence[torch.UntypedStorage]) -> None:
        self._tensors = tensors
        self._facts = [*map(_facts, tensors)]
        self._copies = [(storage, storage.clone()) for storage in storages]

    @classmethod
    def of(cls, tensors: Sequence[torch.Tensor], most: int) -> Memory | None:
        """None where it is more than so many bytes, or cannot be told apart."""
        if not all(type(tensor) is torch.Tensor or type(tensor) is Parameter for tensor in tensors):
            return None
        storages: dict[int, torch.UntypedStorage] = {}
        for tensor in tensors:
            storage = storage_of(tensor)
            if storage is None or storage.device.type == "meta":
                return None
            storages[storage._cdata] = storage
        if sum(storage.nbytes() for storage in storages.values()) > most:
            return None
        return cls(tensors, [*storages.values()])

    def put_back(self) -> bool:
        """Whether all is as it was: not if a tensor has other sizes now, lies elsewhere or has another history."""
        if [*map(_facts, self._tensors)] != self._facts:
            return False
        for storage, copy in self._copies:
            storage.copy_(copy, False)
        return True


def _facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    storage = tensor.untyped_storage()
    where = storage._cdata, storage.nbytes(), tensor.storage_offset(), tensor.shape, tensor.stride()
    return *where, tensor.requires_grad, tensor.grad_fn
