"""The driver: the only hand that changes a graph. Passes propose, it checks, counts, commits, and can take back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from framelift.passes import facts, ops, rules
from framelift.passes.analysis import order
from framelift.passes.analysis.effects import Effects, Memory, is_pure
from framelift.passes.analysis.gradients import check_gradients
from framelift.passes.analysis.groups import ancestors_of, groups, may_be_independent
from framelift.passes.analysis.metadata import CALLS, FOLDED, Metadata
from framelift.passes.analysis.modes import RegionModes
from framelift.passes.analysis.saved import Saved
from framelift.passes.build import Builder
from framelift.passes.checking.interface import Interface
from framelift.passes.checking.snapshot import Snapshot
from framelift.passes.checking.verify import verify
from framelift.passes.declare import Fusion, Match, Respelling, Rewrite
from framelift.passes.facts import NoMatch, Reject
from framelift.passes.options import PassOptions
from framelift.passes.report import PassRecord
from framelift.passes.rules import PassError

MAX_ROUNDS = 100
# What a new node takes over from the node it stands for.
INHERITED = ("stack_trace", "nn_module_stack", "source_fn_stack", "input_source", "input_kind")


class Driver:
    """A graph under the passes: their `Work`."""

    def __init__(self, module: GraphModule, metadata: Metadata, options: PassOptions) -> None:
        self.module = module
        self.metadata = metadata
        self.base_options = options
        self.options = options
        self.record = PassRecord(0, "")
        self.left = options.max_rewrites
        self.snapshot: Snapshot | None = None  # the graph before the pass under way, once that has changed something
        self._is_restructured = False  # whether it changed more than spellings
        self.folded: list[str] = []  # attributes made by the pass under way
        self.memory = Memory()
        self.saved = Saved(self)
        self._memory_before = self.memory.state()
        self._promised: Interface | None = None
        self.version = 0  # counts changes: a pass that found nothing need not look again at the same version
        self._forget()

    def _forget(self) -> None:
        """The graph is another one."""
        self._effects: Effects | None = None
        self._modes: RegionModes | None = None
        self._changed()

    def _changed(self) -> None:
        """Forgets what was worked out about the graph as it was."""
        self.version += 1
        self._index: dict[str, list[Node]] | None = None
        self._ancestors: dict[Node, int] | None = None
        self._read: dict[tuple[Any, Node], Any] = {}
        self._may_fuse: dict[tuple[Any, ...], bool] = {}

    # What is dear to work out is worked out when somebody asks: where nothing matches, nobody does.

    @property
    def effects(self) -> Effects:
        if self._effects is None:
            self._effects = Effects(self.graph, self.memory)
        return self._effects

    @property
    def modes(self) -> RegionModes:
        if self._modes is None:
            self._modes = RegionModes(self.graph)
        return self._modes

    @property
    def ancestors(self) -> dict[Node, int]:
        """For each node, what must run before it, as bits."""
        if self._ancestors is None:
            self._ancestors = ancestors_of(self.graph, self.memory)
        return self._ancestors

    @property
    def graph(self) -> Graph:
        return self.module.graph

    # -- what passes ask -------------------------------------------------------------------------------------------

    def nodes(self, names: Iterable[str]) -> list[Node]:
        """The nodes that call one of these operations, in order."""
        index = self._by_operation()
        return sorted(node for name in names for node in index.get(name, ()))

    def count(self, names: Iterable[str]) -> int:
        """How many nodes call one of these operations."""
        index = self._by_operation()
        return sum(len(index.get(name, ())) for name in names)

    def may_fuse(self, names: Iterable[str], smallest: int) -> bool:
        """Whether so many nodes that call one of these operations might run side by side."""
        key = (*names, smallest)
        if key not in self._may_fuse:
            self._may_fuse[key] = self.count(names) >= smallest and may_be_independent(self.nodes(names), smallest)
        return self._may_fuse[key]

    def read(self, reader: Callable[[Node], Any], node: Node) -> Any:
        """What `reader(node)` says, which several passes want to know: it is asked once, until the graph changes."""
        known = self._read.get((reader, node))
        if known is None:
            try:
                known = reader(node)
            except Reject as rejection:
                known = rejection
            self._read[reader, node] = known
        if isinstance(known, Reject):
            raise known
        return known

    @property
    def inputs(self) -> list[Node]:
        """The nodes whose memory belongs to the caller or to the module."""
        return [*self.graph.find_nodes(op="placeholder"), *self.graph.find_nodes(op="get_attr")]

    def _by_operation(self) -> dict[str, list[Node]]:
        if self._index is None:
            self._index = {}
            for node in self.graph.nodes:
                operation = ops.operation_of(node)
                if operation is not None:
                    self._index.setdefault(operation.name, []).append(node)
        return self._index

    def calls(self) -> Iterator[Node]:
        """All nodes that compute something, in order."""
        return (node for node in list(self.graph.nodes) if node.op in CALLS)

    def has_later_write(self, node: Node) -> bool:
        """Whether the memory of a value is written after it was computed."""
        return self.effects.is_written_after(self.memory.of(node), node)

    def may_be_written(self, node: Node) -> bool:
        """Whether a value is written after it was computed, or may be by the caller where autograd watches."""
        found = facts.value(node)
        is_watched = any(tensor.requires_grad for tensor in facts.tensors_in(found))
        return self.has_later_write(node) or (is_watched and rules.reaches_output(node, self))

    def check_unwritten(self, node: Node) -> None:
        """Rejects a result that is written later: a part of a larger one cannot be, where autograd watches."""
        if self.has_later_write(node):
            raise Reject("the result is written later")

    def evaluate(self, node: Node, found: dict[Node, Any]) -> Any:
        """What a node computes if some of its operands are other than their metadata says; None if it fails."""
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: found.get(n, facts.value(n)))
        is_differentiable = self.modes.is_differentiable(self.effects.region(node))
        return self.metadata.evaluate(node, args, kwargs, is_differentiable)

    def takes(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call also works with its arguments given in this way."""
        args, kwargs = map_arg((args, kwargs), facts.value)
        return self.metadata.evaluate(node, args, kwargs, False) is not None

    # -- one pass --------------------------------------------------------------------------------------------------

    def begin(self, record: PassRecord) -> None:
        self.record = record
        self.options = self.base_options.of(record.name)
        self.snapshot = None
        self._is_restructured = False
        self.folded = []
        self._memory_before = self.memory.state()

    def will_change(self, restructures: bool = True) -> None:
        """Called before every change of the graph; `restructures`: it is more than another spelling."""
        if self.snapshot is None:
            self.snapshot = Snapshot(self.graph)
        if restructures and not self._is_restructured:
            self._is_restructured = True
            if self._promised is None:
                self._promised = self._interface()

    def revert(self) -> None:
        """The graph as it was before the pass."""
        if self.snapshot is not None:
            self.module.graph = self.snapshot.graph()
            self.snapshot = None
            self.memory.restore(self._memory_before)
            self._forget()
        for name in self.folded:
            delattr(self.module, name)

    def finish(self, exactness: str) -> None:
        """Order, dead nodes, form and promises, after a pass that changed more than spellings; what the graph computes,
        if that is asked for."""
        if self._is_restructured:
            order.sort(self.graph, self.memory)
            order.remove_dead(self.graph, self.memory)
            self.graph.lint()
            if self.options.verify != "off":
                assert self._promised is not None
                self._promised.check(self._interface())
            self._changed()
        if self.options.verify == "numeric" and self.snapshot is not None:
            # Where rounding is free, exact passes use that too.
            promised = "approx" if exactness == "exact" and self.options.approximate else exactness
            examples, is_frozen = self.metadata.example_inputs, self.options.freeze_weights
            verify(self.module, self.snapshot.graph(), promised, examples, is_frozen=is_frozen)

    def _interface(self) -> Interface:
        return Interface(self.graph, self.memory, strides=self.options.layout == "strict")

    def refresh(self) -> None:
        """Gives nodes behind rewritten values the fake tensors they would have had if captured so."""
        for node in self.calls():
            if any(self.memory.is_stale(tensor) for tensor in facts.tensors_in(facts.value(node))):
                found = self.evaluate(node, {})
                if found is not None:
                    self.memory.keep_alive(node)
                    self.metadata.describe(node, found)

    def erase(self, node: Node) -> None:
        """Erases a new node that nobody uses, and what was folded for it."""
        self.memory.keep_alive(node)
        self.graph.erase_node(node)
        if node.op == "get_attr" and node.target in self.folded:
            self.folded.remove(str(node.target))
            delattr(self.module, str(node.target))

    # -- frozen weights --------------------------------------------------------------------------------------------

    def can_fold(self, weights: Sequence[Node]) -> bool:
        """Whether weights may be put together ahead of time: held by the module, and never changed, says the user."""
        return self.options.freeze_weights and all(node.op == "get_attr" for node in weights)

    def fold(self, weights: Sequence[Node], steps: Sequence[tuple[Any, ...]], at: Node) -> Node:
        """A node for something computed from frozen weights here and now, kept as a buffer of the module."""
        name = f"{FOLDED}{sum(each.startswith(FOLDED) for each in dir(self.module))}"
        folded: Any = [self.metadata.attribute(str(node.target)) for node in weights]
        with torch.no_grad():
            for function, *args in steps:
                folded = function(folded, *args)
        self.module.register_buffer(name, folded.contiguous(), persistent=False)
        self.folded.append(name)
        with self.graph.inserting_before(at):
            node = self.graph.get_attr(name)
        self.metadata.describe_attribute(node)
        return node

    # -- rewrites --------------------------------------------------------------------------------------------------

    def rewrite_all(self, rule: Rewrite) -> None:
        """Tries every root, from the last to the first, until nothing is left to do."""
        others = self.record.rejected.copy()
        for _ in range(MAX_ROUNDS):
            # What is rejected in the last round is what is left; earlier rounds saw the same candidates.
            self.record.rejected = others.copy()
            before = self.record.rewrites
            for root in reversed(self.nodes(rule.roots)):
                self.try_at(rule, root)
            if self.record.rewrites == before:
                return
        raise PassError(f"{rule.name} does not come to an end")

    def try_at(self, rule: Rewrite, root: Node) -> bool:
        if root._erased:
            return False
        try:
            match = rule.match(root, self)
        except NoMatch:
            return False
        except Reject as rejection:
            self.record.rejected[rejection.reason] += 1
            return False
        return match is not None and self.attempt(rule, match)

    def fuse_all(self, rule: Fusion) -> None:
        """Fuses one group of independent nodes after the other; a fusion changes who depends on whom."""
        smallest = rule.smallest(self)
        tried: set[tuple[Node, ...]] = set()
        fused = True
        while fused:
            fused = False
            for group in groups(rule, self, smallest):
                if tuple(group) in tried:
                    continue
                tried.add(tuple(group))
                match = rule.gather(group, self)
                if match is not None and self.attempt(rule, match):
                    fused = True
                    break

    def attempt(self, rule: Rewrite, match: Match) -> bool:
        """Rewrites a match if the rules, the pass's condition and its profit allow it."""
        if self.left == 0:
            return False
        self.record.matches += 1
        try:
            # Asked first: it is the quickest to answer.
            if not self.options.ignore_profit and not rule.profit(match, self):
                raise Reject("does not pay")
            rules.check_nodes(match, self)
            reason = rule.condition(match, self)
            if reason is not None:
                raise Reject(reason)
            self.will_change()
            self._rewrite(rule, match)
        except Reject as rejection:
            self.record.rejected[rejection.reason] += 1
            return False
        self.count_rewrite()
        return True

    def count_rewrite(self) -> None:
        self.record.rewrites += 1
        if self.left is not None:
            self.left -= 1

    def _rewrite(self, rule: Rewrite, match: Match) -> None:
        place = getattr(match, "place", None) or max(match.nodes)
        is_differentiable = self.modes.is_differentiable(self.effects.region(match.root))
        build = Builder(self, place, is_differentiable, match.nodes)
        try:
            replacements = dict(rule.rewrite(match, build))
            rules.settle(rule, match, replacements, build, self)
            if rule.exactness == "exact" and not self.options.approximate:
                check_gradients(match, replacements, build)
        except Reject:
            build.undo()
            raise
        self._commit(match, replacements, build)

    def _commit(self, match: Match, replacements: dict[Node, Node], build: Builder) -> None:
        made = set(build.made)
        for old, new in replacements.items():
            later = rules.propagate({old: facts.tensor(new)}, self) if _lies_otherwise(old, new) else None
            self.effects.move_in(old, new)
            old.replace_all_uses_with(new, delete_user_cb=lambda user: user not in made)
            if new in made:
                new.meta.update({key: old.meta[key] for key in INHERITED if key in old.meta})
            for node, found in (later or {}).items():
                if node is not old:
                    self.metadata.describe(node, found)
        last = max(match.nodes)
        for node in build.made:
            for key in INHERITED[:2]:
                if key in last.meta:
                    node.meta.setdefault(key, last.meta[key])
        if any(user < new for new in replacements.values() for user in new.users):
            order.sort(self.graph, self.memory)
        order.remove_dead(self.graph, self.memory, [*match.nodes, *build.made])
        self._changed()

    # -- other spellings -------------------------------------------------------------------------------------------

    def respell_all(self, rule: Respelling) -> None:
        """Writes calls in another way; their values, metadata and places stay."""
        for node in self.calls():
            if self.left == 0:
                return
            try:
                spelled = rule.respell(node, self)
            except Reject as rejection:
                self.record.rejected[rejection.reason] += 1
                continue
            if spelled is not None:
                self.respell(node, *spelled)

    def respell(self, node: Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Lets a node call something else that computes the same value. A name is a method's."""
        self.will_change(restructures=False)
        _spell(node, "call_method" if isinstance(target, str) else "call_function", target, args, kwargs)
        self._changed()
        self.count_rewrite()

    # -- changes by somebody else ----------------------------------------------------------------------------------

    def hand_over(self, change: Callable[[Graph], object]) -> None:
        """Lets a function change the graph as it likes; what it leaves is described anew from where it differs."""
        self.will_change()
        assert self.snapshot is not None
        for node in self.calls():
            self.memory.keep_alive(node)
        change(self.graph)
        changed = self.snapshot.changed(self.graph)
        if changed is None:
            return
        self._forget()
        for node in self.graph.nodes:
            if node.op == "get_attr" and node in changed:
                self.metadata.describe_attribute(node)
            elif node.op in CALLS and (node in changed or not changed.isdisjoint(node.all_input_nodes)):
                changed.add(node)
                self.metadata.describe_call(node, self.modes.is_differentiable(self.effects.region(node)))
        self._forget()
        self.count_rewrite()

    def merge(self, kept: Node, dropped: Node) -> None:
        """Lets one of two nodes that compute the very same value stand for both."""
        assert is_pure(dropped)
        self.will_change()
        dropped.replace_all_uses_with(kept)
        order.remove_dead(self.graph, self.memory, [dropped])
        self._changed()
        self.count_rewrite()


def _lies_otherwise(old: Node, new: Node) -> bool:
    before, after = facts.tensor(old), facts.tensor(new)
    return not facts.same_numbers(before.stride(), after.stride())


def _spell(node: Node, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if node.op != kind:
        node.op = kind
    if node.target is not target:
        node.target = target
    node._update_args_kwargs(args, kwargs)
