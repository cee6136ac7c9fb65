"""Gives values of a graph their fake tensors, as late as possible and as cheaply as possible.

A value needs a fake only when an operation has to be run on it. There are three ways to one, cheapest first:

* from the descriptor alone, for a tensor that shares its storage with no older one,
* from the real tensor, for an input that is a view or a subclass,
* by running the record that made it again: a view is the view of its base's fake.

Fakes have state: a write can change what requires grad, an ``unsqueeze_`` changes a shape. When operations are taken
back, fakes they changed are forgotten, and made again from the start of their history, in order, on tensors that are
in the state they were in then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from framelift.graph.bodies import Body
from framelift.graph.errors import MetadataFailure, first_line
from framelift.graph.nest import map_refs, pairs
from framelift.graph.operations.derivatives import DIFFERENTIATES
from framelift.graph.propagation.fake import (
    UNSUPPORTED,
    Describer,
    Fakes,
    Observed,
    address_of,
    can_sketch,
    describe,
    failure_kind,
    storage_of,
)
from framelift.graph.record import Record, Storage, TensorRef
from framelift.graph.state import StateReader, entered


class Materialiser:
    """Makes the fakes of one graph and runs its operations on them."""

    def __init__(self, fakes: Fakes, descriptors: Describer, states: StateReader) -> None:
        self._fakes = fakes
        self._descriptors = descriptors
        self._states = states

    def fake_of(self, ref: TensorRef) -> torch.Tensor:
        self.materialise([ref])
        return known_fake(ref)

    def materialise(self, refs: Iterable[TensorRef]) -> None:
        """Gives values their fakes, in their present state."""
        missing = [ref for ref in refs if ref.known_fake is None]
        if not missing:
            return
        plan = _Plan()
        for ref in missing:
            plan.need(ref)
        try:
            self._carry_out(plan)
        except MetadataFailure:
            self.forget([ref.storage for ref in plan.made])
            raise

    def _carry_out(self, plan: _Plan) -> None:
        for ref in plan.sources:
            if ref.known_fake is None:
                bind_fake(ref, self._from_source(ref))
        for index in sorted(plan.records):
            self._replay(plan.records[index])
        for ref in plan.made:
            now = self._descriptors.of(known_fake(ref))
            if not now.agrees(ref.descriptor):
                difference = now.difference(ref.descriptor)
                raise MetadataFailure("unsupported", repr(ref), f"its history cannot be repeated: {difference}")

    def sketch_missing(self, refs: Iterable[TensorRef]) -> None:
        """Gives values fakes to look at. What they lack of autograd's tracking of views does not show."""
        missing = [ref for ref in refs if ref.known_fake is None and can_sketch(ref.descriptor)]
        fakes = self._fakes.sketch_all([(ref.descriptor, ref.storage) for ref in missing])
        for ref, fake in zip(missing, fakes, strict=True):
            ref.known_fake = fake

    def run(self, record: Record, is_trial: bool = False) -> tuple[Any, Observed]:
        """Runs an operation on the fakes of its arguments, which must be there.

        Fakes that it wrote to before it raised are made again when they are needed. After a trial they stay: whoever
        tries sees to it that they still show what is recorded."""
        args = map_refs(record.args, _argument)
        kwargs = map_refs(record.kwargs, _argument)
        try:
            if record.op == "call_method":
                return self._fakes.run(getattr(args[0], record.target), args[1:], kwargs)
            return self._fakes.run(record.target, args, kwargs)
        except Exception as error:  # whatever the operation raises is the program's, and is passed on as the cause
            if not is_trial:
                self.forget(written_storages(record, self._fakes.mode.seen))
            self._fakes.symbols.shape_env.pending_fresh_unbacked_symbols.clear()
            raise MetadataFailure(failure_kind(error), record.name, first_line(error)) from error

    def forget(self, storages: Iterable[Storage]) -> None:
        """Drops fakes that no longer show what is recorded; they are made again when needed."""
        for storage in storages:
            storage.forget_fakes()

    def _from_source(self, ref: TensorRef) -> torch.Tensor:
        if ref.record is not None:
            return self._fakes.sketch_view(ref.descriptor, ref.storage)
        if ref.example is None or _is_alone(ref):
            return self._fakes.sketch(ref.descriptor, ref.storage)
        if ref.layout is not None:
            return self._fakes.with_layout(ref.example, ref.layout)
        try:
            return self._fakes.from_example(ref.example, ref.storage)
        except UNSUPPORTED as error:
            raise MetadataFailure("unsupported", repr(ref), first_line(error)) from error

    def _replay(self, record: Record) -> None:
        if record.bindings:
            raise MetadataFailure("data-dependent", record.name, "its sizes would be other symbols now")
        with entered(record.state, self._states.read()[0]):
            result, _ = self.run(record)
        for ref, fake in pairs(record.result, result):
            if ref.known_fake is None:
                bind_fake(ref, fake)
        # Looking at a stale view makes autograd renew it, so they are looked at here when they were the first time.
        for storage in record.changed:
            for ref in storage.refs:
                if ref.known_fake is not None:
                    describe(ref.known_fake)


class _Plan:
    """What has to be made and run again so that some values get their fakes."""

    def __init__(self) -> None:
        self.sources: list[TensorRef] = []  # to be made from the example or from the descriptor
        self.records: dict[int, Record] = {}  # to be run again
        self.made: list[TensorRef] = []
        self._rebuilt: set[int] = set()

    def need(self, ref: TensorRef) -> None:
        # A work list, not recursion: histories can be long.
        pending: list[TensorRef | Record | Storage] = [ref]
        while pending:
            item = pending.pop()
            if isinstance(item, Storage):
                pending += self._rebuild(item)
            elif isinstance(item, Record):
                pending += self._run_again(item)
            elif item.known_fake is None:
                pending += self._make(item)

    def _make(self, ref: TensorRef) -> list[TensorRef | Record | Storage]:
        if ref.storage.changed_after(ref.record) or _came_late(ref):
            return [ref.storage]
        self.made.append(ref)
        if ref.record is None or _is_source(ref) or _is_fresh(ref):
            self.sources.append(ref)
            return []
        return [ref.record]

    def _rebuild(self, storage: Storage) -> list[TensorRef | Record | Storage]:
        """Brings a storage to its present state from the beginning."""
        if id(storage) in self._rebuilt:
            return []
        self._rebuilt.add(id(storage))
        storage.forget_fakes()
        self.made += storage.refs
        self.sources += filter(_is_source, storage.refs)
        return [*[ref.record for ref in storage.refs if ref.record is not None], *storage.changes]

    def _run_again(self, record: Record) -> list[TensorRef | Record | Storage]:
        if record.index in self.records or record.target in DIFFERENTIATES:
            return []
        self.records[record.index] = record
        needed: list[TensorRef | Record | Storage] = list(record.changed)
        for ref in record.tensors:
            # An argument that has changed since is needed as it was then.
            needed.append(ref.storage if ref.storage.changed_after(record) else ref)
        return needed


def _argument(value: TensorRef | Body) -> Any:
    """What an operation is given when it runs on fakes."""
    return value.module if isinstance(value, Body) else known_fake(value)


def known_fake(ref: TensorRef) -> torch.Tensor:
    """The fake tensor of a value that must have one by now."""
    assert ref.known_fake is not None, f"{ref} has no fake yet"
    return ref.known_fake


def written_storages(record: Record, seen: Observed) -> tuple[Storage, ...]:
    """The storages of a record's arguments that were written to."""
    if not seen.written:
        return ()
    written: dict[int, Storage] = {}
    for ref in record.tensors:
        if address_of(known_fake(ref)) in seen.written:
            written[id(ref.storage)] = ref.storage
    return tuple(written.values())


def _is_source(ref: TensorRef) -> bool:
    """Whether a value is not made by running an operation on fakes without a history."""
    return ref.record is None or ref.record.target in DIFFERENTIATES


def _is_fresh(ref: TensorRef) -> bool:
    """Whether all there is to know about a value is in its descriptor."""
    return can_sketch(ref.descriptor) and not ref.descriptor.is_view and not ref.aliases


def _is_alone(ref: TensorRef) -> bool:
    """Whether an input can be made without regard to others: no other input is known to live in its storage."""
    storage = ref.storage
    return _is_fresh(ref) and not storage.changes and all(one is ref or not one.is_input for one in storage.refs)


def _came_late(ref: TensorRef) -> bool:
    """Whether an input was added when the fake of another tensor of its storage had been made from a descriptor.

    Fakes made from real tensors would live in another fake storage than that one, so all of them are made again.
    """
    storage = ref.storage
    return ref.example is not None and storage.untyped is not None and storage.converter is None


def bind_fake(ref: TensorRef, fake: torch.Tensor) -> None:
    """Give a value its fake tensor, and its storage the real one below it."""
    ref.known_fake = fake
    if ref.storage.untyped is None:
        ref.storage.untyped = storage_of(fake)
