"""Builds the graph of a program while it is captured.

Operations are recorded as they come, with the metadata of their results; FX nodes are made once, in
:meth:`GraphBuilder.finish`. So taking operations back is dropping records, and dead ones cost nothing.

    >>> builder = GraphBuilder()
    >>> x = builder.add_input("x", torch.ones(2, 3), "L['x']")
    >>> y = builder.call_method("sum", (x, 1), {})
    >>> y.shape, y.dtype
    (torch.Size([2]), torch.float32)
    >>> module = builder.finish([y])
    >>> module(torch.ones(2, 3))
    (tensor([3., 3.]),)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import sympy
import torch
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils._sympy.printers import PythonPrinter

from framelift.graph.analysis.early_checks import can_come_first, first_write, in_order
from framelift.graph.analysis.shared_memory import InputStorages
from framelift.graph.analysis.writes import can_be_put_back
from framelift.graph.bodies import FINAL, Body, Part
from framelift.graph.emission.emit import GraphWriter, alive
from framelift.graph.emission.pruning import prune_dead_arguments
from framelift.graph.emission.runtime_asserts import insert_deferred_runtime_asserts
from framelift.graph.errors import MemoMismatch, MetadataFailure
from framelift.graph.metadata import Interner
from framelift.graph.names import input_base
from framelift.graph.nest import NotAConstant, scan
from framelift.graph.operations.derivatives import DIFFERENTIATES, PREPARATIONS
from framelift.graph.propagation.evidence import Evidence
from framelift.graph.propagation.fake import Describer, Fakes, opaque_kind, problem_with, storage_of
from framelift.graph.propagation.history import History
from framelift.graph.propagation.materialise import Materialiser, bind_fake
from framelift.graph.propagation.memo import MetadataMemo, Template
from framelift.graph.propagation.propagate import Propagation
from framelift.graph.propagation.shortcuts import template_of
from framelift.graph.purity import CHECKS, LAYOUT_QUESTIONS, MODE_SWITCHES, UNANSWERABLE
from framelift.graph.record import (
    Location,
    NumberRef,
    Operation,
    Record,
    Ref,
    Storage,
    TensorRef,
    TokenRef,
    operation_name,
)
from framelift.graph.state import StateReader
from framelift.graph.torch_caches import release_source
from framelift.shapes.bindings import Unlikely
from framelift.shapes.symbols import SYMBOLIC, Layout, Symbols
from framelift.torch_names import is_absent

# Generates its code when it is first called or printed.
LazyGraphModule = GraphModule if is_absent(_LazyGraphModule) else _LazyGraphModule
_SIZE = torch.ops.aten.sym_size.int


@dataclass(frozen=True, slots=True)
class Mark:
    """A point in the building of a graph to come back to."""

    records: int
    changes: int


class GraphBuilder:
    """The graph of one capture, under construction. ``checks_memo`` runs what the memo knows again and compares."""

    def __init__(self, memo: MetadataMemo | None = None, checks_memo: bool = False) -> None:
        self.fakes = Fakes()
        self._memo = memo
        self._checks_memo = checks_memo
        self._memo_for_symbols = None if memo is None else memo.for_symbols()
        self.inputs: list[TensorRef] = []
        # Numbers among the inputs: those that differ from call to call.
        self.numbers: list[NumberRef] = []
        # After finish(): the inputs the graph takes, in the order it takes them.
        self.live_inputs: list[TensorRef | NumberRef] = []
        self.records: list[Record] = []
        self._descriptors = Describer(memo.interner if memo is not None else Interner())
        self._states = memo.states if memo is not None else StateReader()
        self._materialiser = Materialiser(self.fakes, self._descriptors, self._states)
        self._input_by_example: dict[int, TensorRef] = {}
        self._storages = InputStorages()
        materialiser, check_apart = self._materialiser, self._storages.check_apart
        # What operations give in the call that is captured.
        self.evidence = Evidence(self.records, self._states)
        self.propagation = Propagation(self.fakes, self._descriptors, materialiser, check_apart, self.evidence)
        # What autograd knows of it, where the program asks for derivatives.
        self.history = History(self.records, self.fakes, self._descriptors, self._states, materialiser)
        self._finished = False
        self._has_bodies = False
        # How often the program asked how a tensor lies in memory.
        self.layout_questions = 0
        # How often an operation gave its argument because that lies in memory as was asked for.
        self.layout_decisions = 0
        # How often it asked what autograd knows of a tensor.
        self.history_questions = 0

    @property
    def fake_mode(self) -> Any:
        return self.fakes.mode

    @property
    def symbols(self) -> Symbols:
        """The symbolic sizes and numbers of the inputs, and what was assumed about them."""
        return self.fakes.symbols

    @property
    def shape_env(self) -> Any:
        return self.symbols.shape_env

    @property
    def mutated(self) -> set[TensorRef]:
        """The inputs whose memory the graph writes to; not those that are made for it."""
        return {ref for ref in self.inputs if ref.storage.is_written and not ref.is_new}

    @property
    def can_be_undone(self) -> bool:
        """Whether copies of the inputs it writes to are enough to take back everything the graph did to them."""
        mutated = self.mutated
        return not any(ref in mutated for ref, _ in self.propagation.changes) and can_be_put_back(mutated)

    @property
    def may_raise_after_writing(self) -> bool:
        """Whether an operation that may raise comes after one that writes to an input."""
        place = first_write(self.records, self._given_storages)
        return place is not None and any(
            record.must_run and not record.is_early for record in self.records[place + 1 :]
        )

    def can_come_first(self, ref: TensorRef) -> bool:
        """Whether a tensor can be computed before the graph writes to an input."""
        place = first_write(self.records, self._given_storages)
        return place is not None and can_come_first(ref, self.records[place])

    @property
    def _given_storages(self) -> set[Storage]:
        return {ref.storage for ref in self.inputs if not ref.is_new}

    @property
    def may_raise_uncounted(self) -> bool:
        """Whether an operation may raise, and an input that is written to does not count its changes."""
        uncounted = any(ref.descriptor.is_inference for ref in self.mutated)
        return uncounted and any(record.must_run for record in self.records)

    @property
    def raises_too_late(self) -> bool:
        """Whether what is presumed since the last operation is checked after something was written for good."""
        return self.propagation.is_checked and not self.can_be_undone

    @property
    def uses_rng(self) -> bool:
        """Whether the graph draws random numbers."""
        return any(record.is_random for record in self.records)

    @property
    def prepares_backward(self) -> bool:
        """Whether it tells autograd what to do besides computing gradients."""
        return any(record.target in PREPARATIONS for record in self.records)

    def prepared(self, target: Callable[..., Any]) -> list[TensorRef]:
        """Computed tensors with which backward is to do something: to retain their gradients, to tell somebody."""
        found = [record.args[0] for record in self.records if record.target is target]
        return list({id(ref): ref for ref in found}.values())

    @property
    def differentiates(self) -> bool:
        """Whether an operation asks autograd for derivatives."""
        return any(record.target in DIFFERENTIATES for record in self.records)

    def has_switched(self, setter: Any) -> bool:
        """Whether a mode or flag is set in the graph."""
        return any(record.target is setter for record in self.records)

    # Inputs

    def add_input(
        self,
        name: str | None,
        example: torch.Tensor,
        source_name: str | None = None,
        kind: str | None = None,
        layout: Layout | None = None,
    ) -> TensorRef:
        """An input of the graph. The same tensor object added twice is one input.

        ``kind`` is for whoever reads the graph ("parameter", "buffer", "static" or "argument"; "new": made for each
        call); ``layout`` gives sizes and strides of which some are symbolic.
        """
        self._check_open()
        known = self._input_by_example.get(id(example))
        if known is not None:
            return known
        opaque = opaque_kind(example)
        problem = problem_with(example) or (f"it is a {opaque} tensor" if opaque else None)
        if problem is not None:
            raise MetadataFailure("unsupported", source_name or name or "an input", problem)
        storage = self._storages.of(example, source_name, layout is not None)
        fake = None if layout is None else self.fakes.with_layout(example, layout)
        descriptor = self._descriptors.of(example if fake is None else fake)
        ref = TensorRef(descriptor, storage, None, (), self._materialiser.fake_of)
        ref.example = example
        ref.layout = layout
        if fake is not None:
            bind_fake(ref, fake)
        ref.input_name = input_base(name or source_name or "input")
        ref.source_name = source_name
        ref.kind = kind
        self.inputs.append(ref)
        self._input_by_example[id(example)] = ref
        return ref

    def add_number(self, symbolic: Any, example: int | float, source_name: str) -> NumberRef:
        """An int or float as an input of the graph, with the symbol that stands for it."""
        self._check_open()
        ref = NumberRef(None, (), symbolic)
        ref.example = example
        ref.input_name = input_base(source_name)
        ref.source_name = source_name
        self.numbers.append(ref)
        return ref

    def release(self) -> None:
        """Let go of the real tensors, which cycles among the values would keep until the collector comes by."""
        self.evidence.release()
        for ref in self.inputs:
            ref.example = None

    # Operations

    def call_function(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        location: Location | str | None = None,
        must_run: bool = False,
    ) -> Any:
        """Records a call of a function; gives its result with values in place of tensors.

        ``must_run`` keeps it in the graph even if nobody uses the result, because it may raise.
        """
        if target in MODE_SWITCHES or target in CHECKS or target in PREPARATIONS:
            return self.call_effect(target, args, kwargs, location)
        if target is getattr and len(args) > 1 and args[1] in UNANSWERABLE:
            raise MetadataFailure("unsupported", f"Tensor.{args[1]}", "a fake tensor cannot answer it")
        result = self._call("call_function", target, args, kwargs or {}, location, must_run)
        if args and result is args[0]:
            self._note_format(result, target, args, kwargs)
        return result

    def call_method(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        location: Location | str | None = None,
        must_run: bool = False,
    ) -> Any:
        """Records a call of a tensor's method; ``args[0]`` is the tensor."""
        if name in LAYOUT_QUESTIONS:
            self.layout_questions += 1
        if name in UNANSWERABLE:
            raise MetadataFailure("unsupported", f"Tensor.{name}", "a fake tensor cannot answer it")
        result = self._call("call_method", name, args, kwargs or {}, location, must_run)
        if args and result is args[0]:
            self._note_format(result, name, args, kwargs)
        return result

    def _note_format(self, result: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        """An operation gave its first argument: it may have done so because that lies as was asked for."""
        if type(result) is TensorRef:
            asked = any(type(argument) is torch.memory_format for argument in (*args, *(kwargs or {}).values()))
            self.layout_decisions += asked or "contiguous" in operation_name(target)

    def call_effect(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        location: Location | str | None = None,
    ) -> TokenRef:
        """Records a call that is made for its effect, without running it now: a mode switch, a runtime check.

        The result can be passed to other effects (``_exit_autocast`` takes what ``_enter_autocast`` returned).
        """
        record = self._record("call_function", target, args, kwargs or {}, location, [])
        record.is_effect = True
        record.must_run = target in CHECKS
        token = TokenRef(record, ())
        record.result = token
        record.outputs = [token]
        self._commit(record)
        return token

    def _record(
        self,
        op: Operation,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        location: Location | str | None,
        parts: list[Any],
    ) -> Record:
        if self._finished:
            self._check_open()
        uses: list[Ref] = []
        try:
            scan(args, uses, parts)
            if kwargs:
                scan(kwargs, uses, parts)
        except NotAConstant as error:
            reason = f"{error} cannot be an argument in a graph"
            raise MetadataFailure("argument", operation_name(target), reason) from None
        if self._has_bodies and any(ref.record is not None and ref.record.is_cut for ref in uses):
            raise MetadataFailure("argument", operation_name(target), "a tensor left the function it belongs to")
        return Record(op, target, args, kwargs, uses, location, self._states.read())

    def _commit(self, record: Record) -> None:
        record.index = len(self.records)
        self.records.append(record)

    def _call(
        self,
        op: Operation,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        location: Location | str | None,
        must_run: bool,
    ) -> Any:
        parts: list[Any] = []
        record = self._record(op, target, args, kwargs, location, parts)
        record.must_run = must_run
        self.propagation.is_checked = False
        if self.propagation.changes:
            self.propagation.check_history(record)
        if target is _SIZE and type(args[0]) is TensorRef:
            return self._size(record, args[0].descriptor.shape[args[1]])
        tensors: list[TensorRef] = record.uses  # type: ignore[assignment]
        memo = self._memo
        if memo is None:
            return self._run(record)
        key = memo.key(record, parts, tensors)
        if key is None and self.symbols and self._memo_for_symbols is not None:
            memo = self._memo_for_symbols
            key = memo.key(record, parts, tensors)
            tensors = record.tensors
        if key is None:
            memo.bypassed += 1
            return self._run(record)
        template = memo.get(key)
        if template is None:
            template = template_of(record, tensors, memo.interner) if memo is self._memo else None
            if template is None:
                result = self._run(record)
                memo.put(key, record, tensors)
                return result
            memo.keep(key, template)
        if self._checks_memo:
            return self._checked(template, record, tensors)
        template.fill(record, tensors, self._materialiser.fake_of)
        if template.is_new or record.is_random:
            self._commit(record)
        return record.result

    def _checked(self, template: Template, record: Record, tensors: list[TensorRef]) -> Any:
        """Runs an operation the memo knows and compares what it does with what the memo says."""
        result = self._run(record)
        if record.changed:
            raise MemoMismatch(f"{record.name}: remembered as writing nothing, but it writes")
        difference = template.difference(Template.of(record, tensors))
        if difference is not None:
            raise MemoMismatch(f"{record.name}: {difference}")
        return result

    def _run(self, record: Record) -> Any:
        """Runs an operation on fake tensors and records it, unless it has no effect and computes no tensor."""
        run = self.history.differentiate if record.target in DIFFERENTIATES else self.propagation.run
        run(record)
        is_new = any(ref.record is record for ref in record.outputs)
        if is_new or record.changed or record.is_random:
            self._commit(record)
            for storage in record.changed:
                storage.changes.append(record)
        return record.result

    @property
    def depends_on_data(self) -> bool:
        """Whether sizes or numbers of the graph, or what its operations do, are known only when it runs."""
        if self.propagation.bound or self.symbols.unbacked:
            return True
        return any(record.asks_data for record in self.records)

    def origin_of(self, ref: NumberRef) -> str:
        """Where a number that depends on data comes from, for a user: `n.item() > 3` is `u0 > 3, u0 being item`."""
        expression = ref.known_fake.node.expr
        origins = {
            symbol: f"what {record.name} gives" for symbol, record in self.propagation.bound.items()
        } | self.symbols.unbacked
        symbols = sorted(expression.free_symbols & origins.keys(), key=str)
        where = [f"{symbol} is {origins[symbol]}" for symbol in symbols]
        return f"{PythonPrinter().doprint(expression)}, where {' and '.join(where)}" if where else str(expression)

    def presume(self, condition: NumberRef, is_said: bool) -> None:
        """Go on as if a condition were true: it is guarded if it can be, and else checked when the graph runs."""
        try:
            self.shape_env.presume(condition.known_fake, "the program goes on as if it were so", is_said)
        except Unlikely as error:
            raise MetadataFailure("data-dependent", "a check", str(error)) from error

    def size_question(self, condition: NumberRef) -> bool | None:
        """Whether a condition on sizes that depend on data is true in this call, which is presumed from here on."""
        env, expression = self.shape_env, condition.known_fake.node.expr
        if not (expression.free_symbols <= env.size_like and env.may_presume):
            return None
        truth: bool | None = env.truth_of(expression)
        if truth is not None:
            env.presume(expression if truth else sympy.Not(expression), "the program goes on as if it were so")
        return truth

    def _size(self, record: Record, size: Any) -> Any:
        """The size of a tensor, which its metadata tell."""
        record.result = self.propagation.number(size, record, ()) if isinstance(size, SYMBOLIC) else size
        if record.outputs:
            self._commit(record)
        return record.result

    # Taking back

    def mark(self) -> Mark:
        return Mark(len(self.records), len(self.propagation.changes))

    def rollback(self, mark: Mark) -> None:
        """Takes back every operation since the mark. Inputs stay: those without a use are not in the graph."""
        self._check_open()
        dropped = self.records[mark.records :]
        del self.records[mark.records :]
        self.history.forget_beyond(mark.records)
        self.evidence.forget(dropped)
        self.propagation.restore(mark.changes)
        changed: dict[int, Storage] = {}
        for record in reversed(dropped):
            for output in record.outputs:
                if isinstance(output, TensorRef) and output.record is record:
                    output.storage.refs.remove(output)
            self.propagation.unbind(record)
            for storage in record.changed:
                del storage.changes[-1]
                changed[id(storage)] = storage
        if changed:
            self._materialiser.forget(changed.values())

    # Bodies

    def placeholder(self, like: TensorRef, shape: Sequence[Any], requires_grad: bool = False) -> TensorRef:
        """A tensor that will be given to a body: contiguous, of the dtype and on the device of another."""
        fake = self.fakes.fresh(like.descriptor, shape, requires_grad)
        ref = TensorRef(self._descriptors.of(fake), Storage(), None, (), self._materialiser.fake_of)
        ref.known_fake = fake
        ref.storage.untyped = storage_of(fake)
        return ref

    def cut(self, mark: Mark) -> Part:
        """Takes the operations since the mark out of the graph, to make a body of them."""
        self._check_open()
        part = Part(self.records[mark.records :])
        if any(record.bindings or record.is_early for record in part.records):
            raise MetadataFailure("data-dependent", "a function", "sizes or errors within it depend on data")
        if part.changes_outside():
            raise MetadataFailure("unsupported", "a function", "it changes tensors from outside of it")
        del self.records[mark.records :]
        self.history.forget_beyond(mark.records)
        self._materialiser.sketch_missing([ref for record in part.records for ref in record.outputs if _is_tensor(ref)])
        for record in part.records:
            for output in record.outputs:
                if isinstance(output, TensorRef) and output.record is record:
                    output.storage.refs.remove(output)
        return part

    def body(
        self,
        name: str,
        part: Part,
        inputs: Sequence[TensorRef],
        outputs: Sequence[TensorRef],
        is_bare: bool = False,
        is_final: bool = False,
    ) -> Body:
        """A part as a graph of its own, which takes the inputs and returns the outputs as a tuple; a bare one: its
        only output. A final one is not rewritten by passes: its inputs stand for others than they are like.
        """
        self._has_bodies = True
        for record in part.records:
            record.is_cut = True
        kept, live = alive(part.records, list(outputs))
        writer = GraphWriter()
        graph = writer.emit(inputs, kept, live, outputs)
        if is_bare:
            (node,) = graph.find_nodes(op="output")
            node.args = node.args[0]
        graph.lint()
        module = LazyGraphModule(writer.bodies, graph)
        module.meta[FINAL] = is_final
        return Body(name, module)

    # The end

    def finish(self, outputs: Sequence[Any], export: bool = False) -> GraphModule:
        """The graph as a module that takes ``live_inputs`` and returns the tuple of outputs.

        With ``export`` it checks what is guarded elsewhere.
        """
        self._check_open()
        returned: list[TensorRef] = []
        scan(tuple(outputs), returned, [])
        kept, live = alive(self.records, returned)
        kept = in_order(kept, self._given_storages)
        inputs: list[TensorRef | NumberRef] = [*self.numbers, *self.inputs]
        self.live_inputs = [ref for ref in inputs if ref in live]
        if self.numbers:
            self.live_inputs = _in_order_of_use(self.live_inputs, kept)
        shown: dict[int, Ref] = {id(ref): ref for ref in self.live_inputs}
        shown.update((id(ref), ref) for record in kept for ref in record.outputs)
        self._materialiser.sketch_missing([ref for ref in shown.values() if isinstance(ref, TensorRef)])
        writer = GraphWriter()
        graph = writer.emit(self.live_inputs, kept, live, returned)
        self._finished = True
        self.propagation.finish()
        graph.lint()
        # Code is generated when somebody first calls or prints the module: many backends never do.
        module = LazyGraphModule(writer.bodies, graph)
        module.shape_env = self.shape_env
        release_source(module)
        if self.symbols or self.depends_on_data:
            insert_deferred_runtime_asserts(module, self.shape_env, "capture", export)
            places = prune_dead_arguments(graph, writer.without_effect().__contains__)
            self.live_inputs = [self.live_inputs[place] for place in places]
        return module

    @property
    def example_inputs(self) -> list[torch.Tensor | int | float]:
        """After finish(): the real tensors and numbers the graph's inputs were captured with."""
        return [ref.example for ref in self.live_inputs if ref.example is not None]

    def _check_open(self) -> None:
        if self._finished:
            raise RuntimeError("this graph is finished")


def _in_order_of_use(inputs: list[TensorRef | NumberRef], records: Sequence[Record]) -> list[TensorRef | NumberRef]:
    """Inputs in the order in which the graph uses them, as backends know it; those that are only returned come last."""
    used = dict.fromkeys(ref for record in records for ref in record.uses if ref.record is None)
    places = {ref: place for place, ref in enumerate(used)}
    return sorted(inputs, key=lambda ref: places.get(ref, len(places)))


def _is_tensor(ref: Ref) -> TypeGuard[TensorRef]:
    return isinstance(ref, TensorRef)
