"""Checks that come before the first write to an input: where one fails, memory is as it was.

    position = start + torch.arange(n)               position = start + torch.arange(n)
    start.add_(n)                        becomes     _assert_async(position is in range)
    cache.index_copy_(2, position, x)                start.add_(n)
                                                     cache.index_copy_(2, position, x)

What a check needs is computed earlier with it. That is possible if nothing of it is an effect of its own, torch's modes
mean the same for it, and nothing it reads has been written to in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framelift.graph.record import Record, Storage, TensorRef


def first_write(records: Sequence[Record], storages: set[Storage]) -> int | None:
    """The place of the first record that writes to one of these storages."""
    for place, record in enumerate(records):
        if not storages.isdisjoint(record.writes):
            return place
    return None


def can_come_first(ref: TensorRef, begin: Record) -> bool:
    """Whether a tensor, with what is in it now, can be computed and read before a record that comes before it."""
    if any(change.index >= begin.index for change in ref.storage.changes):
        return False
    return all(_is_movable(record, begin) for record in _needed([ref.record], begin.index))


def in_order(records: Sequence[Record], storages: set[Storage]) -> list[Record]:
    """The records with early checks, and what these need, before the first write."""
    checks = [record for record in records if record.is_early]
    place = first_write(records, storages) if checks else None
    if place is None:
        return list(records)
    needed = {id(record) for record in _needed(checks, records[place].index)}
    early = [record for record in records[place:] if id(record) in needed]
    return [*records[:place], *early, *[record for record in records[place:] if id(record) not in needed]]


def _needed(wanted: Iterable[Record | None], begin: int) -> list[Record]:
    """The records from some place on that others are computed from, these included."""
    found: dict[int, Record] = {}
    waiting = list(wanted)
    while waiting:
        record = waiting.pop()
        if record is not None and record.index >= begin and id(record) not in found:
            found[id(record)] = record
            waiting += [ref.record for ref in record.uses]
    return list(found.values())


def _is_alike_there(record: Record, begin: Record) -> bool:
    """Whether torch's modes mean the same for it there: whether gradients are recorded is nothing to integers."""
    if record.state_number == begin.state_number:
        return True
    refs = (*record.tensors, *[ref for ref in record.outputs if isinstance(ref, TensorRef)])
    differentiable = any(ref.dtype.is_floating_point or ref.dtype.is_complex for ref in refs)
    return not differentiable and record.state._replace(grad=begin.state.grad) == begin.state


def _is_movable(record: Record, begin: Record) -> bool:
    has_own_effect = record.changed or record.is_effect or record.is_random or record.must_run or record.bindings
    if has_own_effect or record.is_cut or not _is_alike_there(record, begin):
        return False
    storages = [ref.storage for ref in record.tensors]
    changes = [change.index for storage in storages for change in storage.changes]
    return not any(begin.index <= index < record.index for index in changes)
