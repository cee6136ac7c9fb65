"""What an operation makes of its arguments: it is run on fake tensors; what it gives and changes is told in metadata.

Results become values of the graph. What is changed in place, and the symbols that come with sizes and numbers that
depend on data, are noted in the order in which they came, so that they can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from framelift.graph.errors import MetadataFailure
from framelift.graph.metadata import Descriptor
from framelift.graph.names import unspellable, words_of
from framelift.graph.nest import NotAConstant, map_result
from framelift.graph.propagation.evidence import Evidence
from framelift.graph.propagation.fake import Describer, Fakes, Observed, opaque_kind, problem_with, storage_of
from framelift.graph.propagation.general_case import Case, SpecialCases, signature
from framelift.graph.propagation.materialise import Materialiser, known_fake, written_storages
from framelift.graph.propagation.out_arguments import check_given, check_written, given_results, without_them
from framelift.graph.record import NumberRef, Record, Ref, Storage, TensorRef, TokenRef
from framelift.interrupts import let_signals_in
from framelift.shapes.bindings import CannotCheck, Unlikely, bindings_of, number_at
from framelift.shapes.symbols import SYMBOLIC, specialised
from framelift.shapes.unbacked import Asked

_GIVEN_HISTORY = "it is about memory that was given a history elsewhere"


class Propagation:
    """The metadata of one graph, operation by operation. `check_apart` may refuse that some storages change."""

    def __init__(
        self,
        fakes: Fakes,
        descriptors: Describer,
        materialiser: Materialiser,
        check_apart: Callable[[Sequence[Storage]], None],
        evidence: Evidence,
    ) -> None:
        self._fakes = fakes
        self._descriptors = descriptors
        self._materialiser = materialiser
        self._check_apart = check_apart
        self._evidence = evidence
        self._env = fakes.symbols.shape_env
        self._env.evidence = self._value_of
        # Metadata an operation changed in place: (tensor, what it was before), oldest first.
        self.changes: list[tuple[TensorRef, Descriptor]] = []
        # Symbols for what depends on data, and the records whose results they came with.
        self.bound: dict[Any, Record] = {}
        # Whether the last operation brought along what is checked when the graph runs, and how many facts there are.
        self.is_checked = False
        self._facts = 0

    def run(self, record: Record) -> None:
        """Runs an operation on fake tensors: the record learns what it gives, writes and changes."""
        if any(type(ref) is TokenRef for ref in record.uses):
            raise MetadataFailure("argument", record.name, "the result of a mode switch cannot be computed with")
        word = unspellable(words_of(record.target, record.kwargs))
        if word is not None:
            raise MetadataFailure("argument", record.name, f"the code of a graph cannot have {word!r} as a name")
        let_signals_in()
        tensors = record.tensors
        storages = list({id(ref.storage): ref.storage for ref in tensors}.values())
        # All aliases too: if the operation writes, autograd must know them.
        self._materialiser.materialise([ref for storage in storages for ref in storage.refs])
        given = given_results(record)
        if given:
            self._check_given(record, given)
        if self.bound:
            self._find_out(record.uses)
        result, seen = self._materialiser.run(record)
        record.writes = written_storages(record, seen)
        record.is_random = seen.is_random
        if seen.asks_data:
            record.asks_data = record.must_run = self.is_checked = True
        record.reads_data = seen.reads_data
        before = len(self.changes)
        try:
            if given:
                check_written(record, given, pytree.tree_leaves(result), seen)
            result = self._bind(record, result, seen)
            if any(ref.is_new for storage in record.writes for ref in storage.refs):
                _check_new(record)
            if self.changes and any(map(self._is_given_history, record.writes)):
                raise MetadataFailure("unsupported", record.name, _GIVEN_HISTORY)
            self._redescribe(storages, record)
            if record.changed:
                self._check_apart(record.changed)
            record.result = self._wrap(result, record, tensors, storages)
        except MetadataFailure:
            self.restore(before)
            self._materialiser.forget(storages)
            raise
        # Where a result is given another size, torch warns: that is heard although nobody may use the result.
        record.is_effect = bool(record.writes) and any(
            tuple(map(str, ref.descriptor.shape)) != tuple(map(str, was.shape)) for ref, was in self.changes[before:]
        )

    def _check_given(self, record: Record, given: list[TensorRef]) -> None:
        """Look at what an operation makes when it is given no tensors to write its results to."""
        made, _ = self._materialiser.run(without_them(record))
        self._env.pending_fresh_unbacked_symbols.clear()
        tensors = [leaf for leaf in pytree.tree_leaves(made) if isinstance(leaf, torch.Tensor)]
        check_given(record, given, [self._descriptors.of(tensor) for tensor in tensors])

    def _bind(self, record: Record, result: Any, seen: Observed) -> Any:
        """Takes up the symbols that came with a result, for sizes and numbers that depend on data, and what the rule
        was answered about such symbols. Gives the result, which is another if the general case is not this call's."""
        asked = seen.asked
        try:
            self._take_symbols(record, result)
            if asked.questions or asked.claims or record.bindings:
                result = self._decide(record, result, asked)
            if not seen.takes_empty:
                self._beware_of_nothing(record, result)
        except Unlikely as error:
            self.unbind(record)
            raise MetadataFailure("data-dependent", record.name, str(error)) from error
        # What is presumed about a symbol is checked where it comes from: of sizes something is, of numbers nothing yet.
        if any(symbol.is_integer and not self._env.is_any_number(symbol) for symbol in record.bindings):
            record.must_run = self.is_checked = True
        if self.bound:
            self._note_checks()
        return result

    def _note_checks(self) -> None:
        facts = [fact.expr for fact in self._env.presumptions]
        for fact in facts[self._facts :]:
            for symbol in fact.free_symbols & self.bound.keys():
                record = self.bound[symbol]
                self.is_checked |= not (symbol.is_integer and record.must_run)
                record.must_run = True
        self._facts = len(facts)

    def _beware_of_nothing(self, record: Record, result: Any) -> None:
        """An operation may raise where a tensor has no elements; what compilers make of it does not."""
        is_empty = any(type(size) is int and size == 0 for ref in record.tensors for size in ref.descriptor.shape)
        sizes = self._env.may_be_zero([known_fake(ref) for ref in record.tensors]) if self.bound else []
        for size in sizes:
            if self._env.compiles:
                self._env.presume(sympy.Ge(size, 1), "something is there")
        if is_empty or sizes:
            record.must_run = record.reads_data = True

    def _decide(self, record: Record, result: Any, asked: Asked) -> Any:
        """Presume what makes a difference, as it is in this call."""
        env = self._env
        env.presume_sizes(result)
        cases = SpecialCases(env, env.still_open(asked.questions))
        decisive: dict[Any, bool] = {}
        if cases.are_many or not self._can_run_again(record):
            decisive = env.still_open(asked.questions)
        else:
            for case in cases:
                if not self._is_alike(record, result, case):
                    decisive.update(cases.decided_in(case))
        if not env.is_so(decisive, asked.claims):  # this call is a special case
            if not self._can_run_again(record):
                raise Unlikely("a guess")
            symbols = [*record.bindings]
            for symbol in symbols:
                del self.bound[symbol]
            with env.answering(env.truth_of, symbols):
                result, seen = self._materialiser.run(record)
            self._take_symbols(record, result)
            env.presume_sizes(result)
            asked, decisive = seen.asked, env.still_open(seen.asked.questions)
            if not env.is_so(decisive, ()):
                raise Unlikely("a guess")
        env.presume_all(decisive, asked.claims)
        return result

    def _is_alike(self, record: Record, result: Any, case: Case) -> bool:
        """Whether what an operation gives in the general case is what it gives in a special one."""
        with self._env.answering(case.answer, [*record.bindings]), torch.no_grad():
            try:
                special, _ = self._materialiser.run(record, is_trial=True)
            except MetadataFailure as failure:
                if not self._can_run_again(record):
                    raise Unlikely("a guess") from failure
                return isinstance(failure.__cause__, Unlikely)  # a check of the rule's, which the graph has as well
            finally:
                self._env.pending_fresh_unbacked_symbols.clear()  # they came with the general case
        arguments = [known_fake(ref) for ref in record.tensors]
        try:
            return signature(result, arguments, case) == signature(special, arguments, case)
        except ZeroDivisionError:  # some size is not defined in that case
            return False

    def _can_run_again(self, record: Record) -> bool:
        """Whether a rule can be run once more: it has changed no metadata, and draws nothing."""
        return all(
            self._descriptors.of(known_fake(ref)).agrees(ref.descriptor)
            for ref in record.tensors
            if ref.known_fake is not None
        )

    def _take_symbols(self, record: Record, result: Any) -> None:
        record.bindings = bindings_of(self._env, result, self.bound)
        self.bound.update(dict.fromkeys(record.bindings, record))

    def unbind(self, record: Record) -> None:
        """Forget the symbols that came with a result."""
        for symbol in record.bindings:
            self.bound.pop(symbol, None)
        self._env.forget(record.bindings)
        record.bindings = {}

    def _find_out(self, refs: Iterable[Ref]) -> None:
        """Have the environment know the integers that an operation may be asked about."""
        env = self._env
        for ref in refs:
            for symbol in _symbols_of(ref) & self.bound.keys():
                env.value_of(symbol)

    def find_out_all(self) -> None:
        """The same for all of the graph, before a compiler asks."""
        for symbol in self.bound:
            self._env.value_of(symbol)

    def finish(self) -> None:
        """From now on nothing more is found out."""
        del self._env.evidence

    def _value_of(self, symbol: Any) -> int | float | None:
        """What a symbol is in the call that is captured; None if that is not known."""
        record = self.bound.get(symbol)
        result = None if record is None else self._evidence.of_result(record)
        if record is None or result is None:
            return None
        try:
            number: int | float = number_at(result, record.bindings[symbol])
        except CannotCheck:
            return None
        return number

    def _wrap(self, result: Any, record: Record, tensors: list[TensorRef], storages: list[Storage]) -> Any:
        """The result with a TensorRef for each tensor: an argument's own where the operation returned it."""
        by_fake = {id(ref.known_fake): ref for ref in tensors}
        by_address = {s.untyped._cdata: s for s in storages if s.untyped is not None}
        created: list[TensorRef] = []

        def wrap(tensor: Any, path: tuple[int | str, ...]) -> Any:
            if isinstance(tensor, SYMBOLIC):
                return self.number(tensor, record, path)
            ref = by_fake.get(id(tensor))
            if ref is None:
                if problem_with(tensor) is not None:
                    raise NotAConstant(tensor)
                untyped = storage_of(tensor)
                storage = None if untyped is None else by_address.get(untyped._cdata)
                if storage is None:
                    storage = Storage()
                    storage.untyped = untyped
                    if untyped is not None:
                        by_address[untyped._cdata] = storage
                descriptor = self._descriptors.of(tensor)
                opaque = None if descriptor.is_complete else opaque_kind(tensor)
                if opaque is not None:
                    raise MetadataFailure("opaque", record.name, opaque)
                ref = TensorRef(descriptor, storage, record, path, self._materialiser.fake_of)
                ref.known_fake = tensor
                by_fake[id(tensor)] = ref
                created.append(ref)
            record.outputs.append(ref)
            return ref

        try:
            return map_result(result, wrap)
        except (NotAConstant, MetadataFailure) as error:
            for ref in created:
                ref.storage.refs.remove(ref)
            if isinstance(error, MetadataFailure):
                raise
            reason = f"{error} cannot be a result in a graph"
            raise MetadataFailure("result", record.name, reason) from None

    def number(self, symbolic: Any, record: Record, path: tuple[int | str, ...]) -> Any:
        """A symbolic number among the results of an operation; a plain one where it is known."""
        known = specialised(symbolic)
        if known is not None:
            return known
        ref = NumberRef(record, path, symbolic)
        record.outputs.append(ref)
        return ref

    def _redescribe(self, storages: list[Storage], record: Record) -> None:
        """Takes up what an operation changed in the metadata of its arguments and their aliases."""
        changed: dict[int, Storage] = {id(storage): storage for storage in record.writes}
        for storage in storages:
            for ref in storage.refs:
                fake = known_fake(ref)
                descriptor = self._descriptors.of(fake)
                if not descriptor.agrees(ref.descriptor):
                    self.changes.append((ref, ref.descriptor))
                    ref.descriptor = descriptor
                    changed[id(storage)] = storage
                    if not record.writes and (descriptor.is_view or len(storage.refs) > 1):
                        # What requires_grad_() on a view means for its base depends on who looks at them when.
                        raise MetadataFailure("unsupported", record.name, "it changes a tensor that has aliases")
                    untyped = storage_of(fake)
                    if untyped is not None and storage.untyped is not None and untyped._cdata != storage.untyped._cdata:
                        raise MetadataFailure("unsupported", record.name, "it moves a tensor to another storage")
        record.changed = tuple(changed.values())

    def check_history(self, record: Record) -> None:
        """Refuse an operation on an input of which autograd knows more than is known here."""
        if self.changes and any(map(self.is_outdated, record.tensors)):
            raise MetadataFailure("unsupported", record.name, _GIVEN_HISTORY)

    def is_outdated(self, ref: TensorRef) -> bool:
        """Whether autograd knows more of an input than is known here: another in its memory was given a history."""
        return (
            ref.is_input and self._is_given_history(ref.storage) and all(ref is not given for given, _ in self.changes)
        )

    def _is_given_history(self, storage: Storage) -> bool:
        """Whether the graph so far has given one of several inputs that share memory a history."""
        given = [ref for ref, was in self.changes if ref.descriptor.requires_grad != was.requires_grad]
        return any(ref.storage is storage for ref in given) and sum(ref.is_input for ref in storage.refs) > 1

    def restore(self, length: int) -> None:
        """Takes back changes of metadata until so many are left."""
        for ref, descriptor in reversed(self.changes[length:]):
            ref.descriptor = descriptor
        del self.changes[length:]


def _symbols_of(ref: Ref) -> set[Any]:
    """The symbols in the sizes of a tensor, or in a number."""
    if isinstance(ref, NumberRef):
        return {symbol for symbol in ref.known_fake.node.expr.free_symbols if symbol.is_integer}
    if not isinstance(ref, TensorRef) or ref.descriptor.is_plain:
        return set()
    numbers = (*ref.descriptor.shape, *ref.descriptor.stride, ref.descriptor.offset)
    return {symbol for number in numbers if type(number) is not int for symbol in number.node.expr.free_symbols}


def _check_new(record: Record) -> None:
    """Compilers do not follow a write to memory that an input shares with one made in it, as they are no views."""
    for storage in record.writes:
        inputs = [ref for ref in storage.refs if ref.is_input]
        if len(inputs) > 1 and any(ref.is_new for ref in inputs):
            raise MetadataFailure("unsupported", record.name, "it writes to memory in which a new tensor was made")
