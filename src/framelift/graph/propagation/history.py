"""What autograd knows of a graph: its operations once more, on fake tensors that autograd follows.

The fakes of a capture are made from metadata as they are needed, and remember nothing of where they come from. Where
the program asks for derivatives, the graph so far is run again, in order, so that autograd itself says which leaves
they reach, what they look like, and what it refuses: a second backward, a tensor that was written to in between.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.graph.bodies import Body
from framelift.graph.errors import MetadataFailure, first_line
from framelift.graph.nest import NotAConstant, map_refs, map_result, pairs
from framelift.graph.operations.derivatives import PREPARATIONS, uncounted
from framelift.graph.propagation.fake import Describer, Fakes, Observed, address_of, failure_kind
from framelift.graph.propagation.materialise import Materialiser
from framelift.graph.record import Record, Ref, Storage, TensorRef, TokenRef
from framelift.graph.state import StateReader, entered

# How autograd says that what a node has saved is gone.
_SPENT = "Trying to backward through the graph a second time"


class History:
    """The history of one graph, up to the last record that somebody asked about."""

    def __init__(
        self, records: list[Record], fakes: Fakes, descriptors: Describer, states: StateReader, ordinary: Materialiser
    ) -> None:
        self._records = records
        self._fakes = fakes
        self._descriptors = descriptors
        self._states = states
        self._ordinary = ordinary
        self.forget()

    def forget(self) -> None:
        """Begin anew: what was followed has been taken back."""
        self._followed = 0
        self._tensors: dict[int, torch.Tensor] = {}
        # The handles of hooks.
        self._tokens: dict[int, Any] = {}
        # Values by the fakes that stand for them here, and the memory these lie in.
        self._refs: dict[int, TensorRef] = {}
        self._storages: dict[int, Storage] = {}
        # Inputs in common memory have fakes in common memory.
        self._memory: dict[int, Storage] = {}

    def forget_beyond(self, length: int) -> None:
        """So many records are left."""
        if length < self._followed:
            self.forget()

    # -- asking --------------------------------------------------------------------------------------------------

    def leaves(self, outputs: Sequence[TensorRef]) -> list[TensorRef]:
        """The leaves that backward would come to from some tensors.

        Raises MetadataFailure where it would leave the graph: through an input that was computed elsewhere.
        """
        self._follow(len(self._records))
        found = {id(ref): ref for ref in map(self._leaf, self._leaves_behind(outputs))}
        return list(found.values())

    def _leaf(self, tensor: torch.Tensor) -> TensorRef:
        ref = self._refs.get(id(tensor))
        if ref is None:
            raise MetadataFailure("unsupported", "backward", "it reaches tensors that were computed before")
        return ref

    def _leaves_behind(self, outputs: Sequence[TensorRef]) -> list[torch.Tensor]:
        """The leaves behind some tensors, as autograd has them."""
        found = (getattr(node, "variable", None) for node in self._nodes(outputs))
        return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]

    def _nodes(self, outputs: Sequence[TensorRef]) -> dict[Any, None]:
        """What backward goes through, in a fixed order."""
        asked = [self._tensor(ref) for ref in outputs]
        queue = [torch.autograd.graph.get_gradient_edge(tensor).node for tensor in asked if tensor.requires_grad]
        seen = dict.fromkeys(queue)
        while queue:
            for behind, _ in queue.pop().next_functions:
                if behind is not None and behind not in seen:
                    seen[behind] = None
                    queue.append(behind)
        return seen

    def reached(self, outputs: Sequence[TensorRef], candidates: Sequence[TensorRef]) -> list[TensorRef]:
        """Those of some computed tensors to which backward comes."""
        self._follow(len(self._records))
        nodes = self._nodes(outputs)
        return [ref for ref in candidates if self._tensor(ref).grad_fn in nodes]

    def order(
        self, outputs: Sequence[TensorRef], arriving: Sequence[TensorRef | None], leaves: Sequence[TensorRef]
    ) -> list[TensorRef]:
        """Leaves in the order in which backward comes to them."""
        self._follow(len(self._records))
        found: list[TensorRef] = []
        handles = []
        for ref in leaves:
            with uncounted():
                handles.append(self._tensor(ref).register_hook(functools.partial(_note_arrival, found, ref)))
        tensors = map(self._tensor, outputs), map(self._tensor, leaves)
        given = [None if ref is None else self._tensor(ref) for ref in arriving]
        try:
            self._fakes.run(torch.autograd.grad, (*map(list, tensors), given, True, False), {"allow_unused": True})
        except RuntimeError as error:
            raise MetadataFailure("error", "backward", first_line(error)) from error
        finally:
            for handle in handles:
                handle.remove()
        return found

    def spent(self, ref: TensorRef) -> tuple[str, list[TensorRef]] | None:
        """What autograd says where it is asked for any derivative of a value once more, and the leaves behind it; None
        if it has some to give."""
        self._follow(len(self._records))
        tensor, words = self._tensor(ref), ""
        reached = self._leaves_behind([ref])
        leaves = [self._refs[id(leaf)] for leaf in reached if id(leaf) in self._refs]
        if not leaves or len(leaves) < len(reached):
            return None
        for leaf in reached:
            try:
                self._fakes.run(torch.autograd.grad, ([tensor], [leaf], [torch.ones_like(tensor)], True), {})
                return None
            except RuntimeError as error:
                words = str(error)
            if _SPENT not in words:
                return None
        return words, leaves

    # -- following -----------------------------------------------------------------------------------------------

    def differentiate(self, record: Record) -> None:
        """Ask autograd for the derivatives that a new record is about: the record learns what it gives and writes."""
        self._follow(len(self._records))
        result, seen = self._run(record)
        given = {id(ref.storage): ref.storage for ref in record.tensors}
        written = [self._storages.get(address) for address in seen.written]
        record.writes = record.changed = tuple([s for s in written if s is not None and id(s) in given])
        record.is_random = seen.is_random
        try:
            record.result = map_result(result, lambda tensor, path: self._value(tensor, record, path))
        except NotAConstant as problem:
            raise MetadataFailure("result", record.name, f"{problem} cannot be a result in a graph") from None
        self._followed += 1

    def _value(self, tensor: torch.Tensor, record: Record, path: tuple[int | str, ...]) -> TensorRef:
        """A result as a value of the graph: a new one, unless it is one that was there."""
        ref = self._refs.get(id(tensor))
        if ref is None:
            storage = self._storages.get(address_of(tensor)) or Storage()
            ref = TensorRef(self._descriptors.of(tensor), storage, record, path, self._ordinary.fake_of)
            if not ref.descriptor.is_complete:
                storage.refs.remove(ref)
                raise MetadataFailure("opaque", record.name, "sparse")
            self._note(ref, tensor)
        if not any(ref is other for other in record.outputs):  # one gradient may be that of several tensors
            record.outputs.append(ref)
        return ref

    def _follow(self, length: int) -> None:
        while self._followed < length:
            record = self._records[self._followed]
            if not record.is_effect or record.changed or record.target in PREPARATIONS:
                self._follow_one(record)
            self._followed += 1

    def _follow_one(self, record: Record) -> None:
        computes = any(isinstance(ref, TensorRef) for ref in record.outputs)
        if not computes and not record.changed and not record.is_effect:
            return  # a number that depends on data, for one: what is computed with it has its symbol
        if record.bindings:
            raise MetadataFailure("data-dependent", "backward", f"sizes of {record.name} depend on data")
        with entered(record.state, self._states.read()[0]):
            result, _ = self._run(record)
        if isinstance(record.result, TokenRef):
            self._tokens[id(record.result)] = result
        for ref, tensor in pairs(record.result, result):
            self._note(ref, tensor)

    def _run(self, record: Record) -> tuple[Any, Observed]:
        args, kwargs = map_refs(record.args, self._argument), map_refs(record.kwargs, self._argument)
        try:
            if record.op == "call_method":
                return self._fakes.run(getattr(args[0], record.target), args[1:], kwargs)
            with torch.autograd.set_detect_anomaly(False):  # it would search fakes for NaN
                return self._fakes.run(record.target, args, kwargs)
        except Exception as error:  # whatever autograd or the operation raises is the program's, and is passed on
            self.forget()
            raise MetadataFailure(failure_kind(error), record.name, first_line(error)) from error

    def _argument(self, value: Ref | Body) -> Any:
        if isinstance(value, Body):
            return value.module
        if isinstance(value, TokenRef):
            return self._tokens[id(value)]
        return self._tensor(value) if isinstance(value, TensorRef) else value.fake  # type: ignore[attr-defined]

    def _tensor(self, ref: TensorRef) -> torch.Tensor:
        found = self._tensors.get(id(ref))
        if found is None:
            found = self._begin(ref)
            self._note(ref, found)
        return found

    def _begin(self, ref: TensorRef) -> torch.Tensor:
        """The fake of an input."""
        if ref.record is not None or ref.example is None:
            raise MetadataFailure("unsupported", "backward", "a tensor of a function's inside")
        if ref.layout is not None:
            return self._fakes.with_layout(ref.example, ref.layout)
        return self._fakes.from_example(ref.example, self._memory.setdefault(id(ref.storage), Storage()))

    def _note(self, ref: TensorRef, tensor: torch.Tensor) -> None:
        assert isinstance(tensor, FakeTensor)
        self._tensors[id(ref)] = tensor
        self._refs.setdefault(id(tensor), ref)
        self._storages.setdefault(address_of(tensor), ref.storage)


def _note_arrival(found: list[TensorRef], ref: TensorRef, gradient: torch.Tensor | None) -> None:
    if gradient is not None:
        found.append(ref)
