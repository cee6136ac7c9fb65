"""Writes by way of `.data`, which autograd does not count: a backward that needs what was there uses what is there now.

What AOTAutograd makes of a graph writes to inputs when it has run, and such a write counts: the backward raises. The
counts of inputs that are written to in no other way are put back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from framelift.graph.record import Record, Storage, TensorRef


def written_uncounted(inputs: Sequence[Any]) -> list[int]:
    """The places of the inputs whose changes are all made by way of `.data`."""
    return [
        place
        for place, ref in enumerate(inputs)
        if isinstance(ref, TensorRef)
        and not ref.descriptor.is_inference
        and any(map(_is_data, (one.record for one in ref.storage.refs)))
        and ref.storage.is_written
        and all(_is_uncounted(record, ref.storage) for record in ref.storage.changes if ref.storage in record.writes)
    ]


def uncounting(compiled: Callable[..., Any], places: Collection[int]) -> Callable[..., Any]:
    """What was compiled, with writes to the inputs at these places that do not count."""

    def run(*args: Any) -> Any:
        with _unsafe_preserve_version_counter(tuple([args[place] for place in places])):
            return compiled(*args)

    return run


def _is_uncounted(record: Record, storage: Storage) -> bool:
    written = [ref for ref in record.tensors if ref is record.result] or record.tensors
    return all(_descends_from_data(ref) for ref in written if ref.storage is storage)


def _descends_from_data(ref: TensorRef) -> bool:
    """Whether a tensor is `.data` of another one in its memory, or a view of such a one."""
    record = ref.record
    if record is None or _is_data(record):
        return record is not None
    return all(_descends_from_data(one) for one in record.tensors if one.storage is ref.storage and one is not ref)


def _is_data(record: Record | None) -> bool:
    return record is not None and record.target is getattr and record.args[1:] == ("data",)
