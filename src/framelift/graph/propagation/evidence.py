"""What a number that depends on data is in the call that is captured: computed from the call's own tensors.

Only the operations that the number needs are run, on copies of the inputs they write to, unheard, without derivatives.
What may be run is decided operator by operator while it runs: torch's own, but none that talks to other processes, has
effects, or writes to memory that is not ours. Random numbers are drawn as the graph will draw them, and torch's random
state is put back. The number is a hint: whatever is decided by it is checked when the graph runs.

    >>> from framelift.graph import GraphBuilder
    >>> builder = GraphBuilder()
    >>> builder.shape_env.takes_data = True
    >>> x = builder.add_input("x", torch.tensor([0, 3, 5]), "L['x']")
    >>> rows = builder.call_method("nonzero", (x,))
    >>> builder.evidence.of_result(rows.record).tolist()
    [[1], [2]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.utils._python_dispatch import TorchDispatchMode

from framelift.graph.bodies import Body
from framelift.graph.nest import map_refs
from framelift.graph.propagation.fake import address_of, traits_of, unobserved
from framelift.graph.record import Record, Ref, TensorRef, TokenRef
from framelift.graph.state import StateReader, entered

# Operators of torch's own; what others do when they run is not known.
_NAMESPACES = frozenset({"aten", "prims", "prim"})
_MODULES = ("torch", "operator", "_operator", "math", "builtins")
# Inputs larger than this are not copied to find out a number.
_LARGEST_COPY = 1 << 28


class NoEvidence(Exception):
    """What would have to be run must not be run, or raises."""


class Evidence:
    """The real results of operations of one graph, in the call that is captured. `records` grows as it is built."""

    def __init__(self, records: Sequence[Record], states: StateReader) -> None:
        self._records = records
        self._states = states
        self._run = _Run()
        # What was found not to be known.
        self._unknown: set[Record] = set()

    def of_result(self, record: Record) -> Any:
        """What a record gives in this call; None if that cannot be told."""
        if record not in self._run.results and record not in self._unknown:
            try:
                self._compute(record)
            except NoEvidence:
                self._unknown.add(record)
        return self._run.results.get(record)

    def forget(self, records: Iterable[Record]) -> None:
        """These were taken back: what was run of them has not happened."""
        if not self._run.results.keys().isdisjoint(records):
            self._run = _Run()

    def release(self) -> None:
        """Let go of all tensors."""
        self._run = _Run()

    def _compute(self, record: Record) -> None:
        needed = self._needed(record)
        missing = {each for each in needed if each not in self._run.results}
        if not self._run.can_go_on(missing):
            missing = {*needed, *self._run.results}
            self._run = _Run()
        try:
            self._run.go_on(sorted(missing, key=_place), self._states)
        except NoEvidence:
            self._run = _Run()
            raise

    def _needed(self, record: Record) -> set[Record]:
        """What has to be run for a record to run, itself included."""
        needed: set[Record] = set()
        pending = [record]
        while pending:
            each = pending.pop()
            if each in needed:
                continue
            if each in self._unknown or not _may_run(each):
                raise NoEvidence(each.name)
            needed.add(each)
            for ref in each.uses:
                if ref.record is not None:
                    pending.append(ref.record)
                if isinstance(ref, TensorRef):
                    pending += [change for change in ref.storage.changes if _place(change) < _place(each)]
            if each.is_random:  # it goes on where the one before it stopped
                pending += [other for other in self._records if other.is_random and _place(other) < _place(each)]
        return needed


class _Run:
    """Operations that were run on real tensors, in the order of the graph."""

    def __init__(self) -> None:
        self.results: dict[Record, Any] = {}
        self._inputs: dict[Ref, Any] = {}
        self._copied: dict[int, torch.UntypedStorage] = {}
        # The memory of the program's that is read.
        self._theirs: set[int] = set()
        self._is_random = False

    def can_go_on(self, records: Iterable[Record]) -> bool:
        """Whether nothing was run so far that these should have come before."""
        if self._is_random or any(record.is_random for record in records):
            return not self.results
        if not self._theirs.isdisjoint(_inputs_written(records)):
            return False
        first = min(map(_place, records))
        return not any(record.changed or record.writes for record in self.results if _place(record) > first)

    def go_on(self, records: Sequence[Record], states: StateReader) -> None:
        self._is_random = any(record.is_random for record in records)
        written = _inputs_written(records)
        now = states.read()[0]._replace(grad=False)
        sandbox = _Sandbox(self._theirs, self._is_random)
        with unobserved(), torch.no_grad(), _random_state_kept(self._is_random), sandbox:
            for record in records:
                with entered(record.state._replace(grad=False, inference=False), now):
                    self._run_one(record, written)

    def _run_one(self, record: Record, written: set[int]) -> None:
        def real(ref: Ref | Body) -> Any:
            if isinstance(ref, Body):
                raise NoEvidence(record.name)
            return self._input(ref, written) if ref.record is None else _part(self.results[ref.record], ref.path)

        args, kwargs = map_refs(record.args, real), map_refs(record.kwargs, real)
        try:
            if record.op == "call_method":
                self.results[record] = getattr(args[0], record.target)(*args[1:], **kwargs)
            else:
                self.results[record] = record.target(*args, **kwargs)
        except Exception as error:  # the program's own: it will raise or handle it when the call is run
            raise NoEvidence(record.name) from error

    def _input(self, ref: Ref, written: set[int]) -> Any:
        if ref not in self._inputs:
            self._inputs[ref] = self._take(ref, written)
        return self._inputs[ref]

    def _take(self, ref: Any, written: set[int]) -> Any:
        """An input of the graph, a copy where it is written to."""
        example = ref.example
        if example is None or ref.kind == "new":
            raise NoEvidence("an input")
        if not isinstance(example, torch.Tensor):
            return example
        address = address_of(example)
        if address not in written:
            self._theirs.add(address)
            return example.detach()
        memory = self._copied.get(address)
        if memory is None:
            if example.untyped_storage().nbytes() > _LARGEST_COPY:
                raise NoEvidence("an input")
            memory = self._copied[address] = example.untyped_storage().clone()
        copy = torch.empty(0, dtype=example.dtype, device=example.device)
        return copy.set_(memory, example.storage_offset(), example.size(), example.stride())


class _Sandbox(TorchDispatchMode):
    """Lets those operators run that do nothing but compute, and write to what was made here."""

    def __init__(self, theirs: set[int], may_draw: bool) -> None:
        super().__init__()
        self._theirs = theirs
        self._may_draw = may_draw

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace not in _NAMESPACES:
            raise NoEvidence(str(func))
        traits = traits_of(func)
        if traits.draws(args, kwargs) and (not self._may_draw or _has_generator(args, kwargs)):
            raise NoEvidence(str(func))
        if not self._theirs.isdisjoint(map(address_of, traits.written(args, kwargs))):
            raise NoEvidence(str(func))
        return func(*args, **kwargs)


@contextmanager
def _random_state_kept(is_drawn: bool) -> Iterator[None]:
    devices = range(torch.cuda.device_count()) if is_drawn and torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices, enabled=is_drawn):
        yield


def _may_run(record: Record) -> bool:
    """Whether an operation is torch's own and has no effect beside its result and what it writes."""
    if any(isinstance(ref, TokenRef) for ref in (*record.uses, *record.outputs)):
        return False
    target = record.target
    if isinstance(target, OpOverloadPacket):
        return target._qualified_op_name.partition("::")[0] in _NAMESPACES
    if isinstance(target, OpOverload):
        return target.namespace in _NAMESPACES
    module = getattr(target, "__module__", None) or "torch"  # methods of tensors, by name, and functions in C
    is_own = module.partition(".")[0] in _MODULES and not module.startswith("torch.distributed")
    return is_own and not isinstance(target, HigherOrderOperator)


def _inputs_written(records: Iterable[Record]) -> set[int]:
    """The memory of inputs that these write to."""
    refs = [ref for record in records for storage in (*record.writes, *record.changed) for ref in storage.refs]
    return {address_of(ref.example) for ref in refs if ref.example is not None}


def _has_generator(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(isinstance(argument, torch.Generator) for argument in (*args, *kwargs.values()))


def _place(record: Record) -> float:
    """Where it stands in the graph; what is being put there comes last."""
    return record.index if record.index >= 0 else float("inf")


def _part(result: Any, path: tuple[int | str, ...]) -> Any:
    for key in path:
        result = result[key]
    return result
