"""What autograd saves of a graph's values for backward, and who may have written to it by then.

Between a graph and its backward the program may write to whatever it has: to inputs and parameters, to results, and to
all that shares memory with them. What was saved is then another value, or an error in backward; a tensor of the
graph's own, that nobody else has, stays as it was. Both must come out as they do without the passes: where a tensor is
saved, the memory it lives in is open to the same writers as before. Which operands an operation saves, torch tells.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.fx import Node

from framelift.graph.propagation.fake import address_of
from framelift.passes import facts, ops
from framelift.passes.analysis.effects import traits, written_by
from framelift.passes.analysis.metadata import CALLS
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Work
from framelift.passes.facts import Reject

SAVED = "saved for backward, in memory that others may write"
# Operations whose derivatives need no tensor, only sizes and places: torch need not be asked.
NOTHING_SAVED = (
    ops.SHAPES
    | ops.SPLITS
    | ops.AXES
    | {"unbind", "narrow", "select", "expand", "cat", "stack", "contiguous", "clone", "repeat", "detach"}
)

Addresses = frozenset[int]
Writers = frozenset[Node]


class Saved:
    """What calls save for backward: told by torch, which runs each on fake tensors, and remembered."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._known: dict[tuple[Node, ...], frozenset[Node]] = {}
        self._held: dict[int, list[Node]] = {}
        self._version = -1

    def anywhere(self, addresses: Addresses) -> bool:
        """Whether any call saves something that lives there."""
        return any(self.by(node) & addresses for node in self._work.calls())

    def writers(self, addresses: Addresses, after: Node, besides: Iterable[Node] = ()) -> Writers:
        """Who may write to memory between a node and backward: the program, through what it gave or gets, and calls."""
        work = self._work
        held = {node for each in addresses for node in self._holders(each)}.difference(besides)
        outside = {node for node in held if not work.can_fold([node])}  # frozen weights nobody writes
        calls = {call for each in addresses for call in work.effects.writers.get(each, ()) if after < call}
        return frozenset(outside | calls)

    def _holders(self, address: int) -> Iterable[Node]:
        """The inputs and results of the graph that live in some memory."""
        work = self._work
        if self._version != work.version:
            self._version, self._held = work.version, {}
            for node in (*work.inputs, *work.graph.output_node().all_input_nodes):
                for each in work.memory.of(node):
                    self._held.setdefault(each, []).append(node)
        return self._held.get(address, ())

    def by(self, node: Node) -> Addresses:
        """The memory, of its operands and its result, in which a call saves something."""
        if node.op not in CALLS or ops.op(node) in NOTHING_SAVED or ops.index_of(node) is not None:
            return frozenset()
        known = traits(node)
        if known.is_mode or known.is_check or not self._is_differentiated(node):
            return frozenset()
        key = (node, *node.all_input_nodes)
        if key not in self._known:
            self._known[key] = frozenset(key if known.is_opaque else self._asked(node))
        return frozenset(address for each in self._known[key] for address in self._work.memory.of(each))

    def _is_differentiated(self, node: Node) -> bool:
        """Whether gradients may flow through a call. (That of a write flows through what it wrote to.)"""
        values = map(facts.value, (node, *written_by(node)))
        return any(tensor.requires_grad for found in values for tensor in facts.tensors_in(found))

    def _asked(self, node: Node) -> Iterable[Node]:
        """The operands that a call saves, and the call itself if it saves its result."""
        work = self._work
        given = {each: facts.value(each) for each in node.all_input_nodes}
        if not torch._C._autograd._saved_tensors_hooks_is_enabled():  # the program does not want any: it may be all
            return (node, *given)
        # A write is tried on copies.
        given |= {each: work.metadata.copied(given[each]) for each in written_by(node)}
        kept: list[torch.Tensor] = []
        with saved_tensors_hooks(kept.append, _never_needed):
            result = work.evaluate(node, given)
        if result is None:
            return (node, *given)
        addresses = set(map(address_of, kept))
        return [each for each, found in {**given, node: result}.items() if not addresses.isdisjoint(_addresses(found))]


def _addresses(found: Any) -> Iterator[int]:
    return map(address_of, facts.tensors_in(found))


def _never_needed(packed: object) -> torch.Tensor:
    raise AssertionError("there is no backward of fake tensors")


class Backward:
    """What a rewrite, whose new nodes are there already, changes in what is saved."""

    def __init__(
        self, match: Match, replacements: dict[Node, Node], build: Builder, work: Work, is_exact: bool
    ) -> None:
        self._match = match
        self._replacements = replacements  # may still change: copies are added
        self._made = build.made
        self._work = work
        self._is_exact = is_exact
        self._first = min(match.nodes)
        # (What is made where no gradients are recorded may be saved where they are.)
        self._is_recorded = work.modes.records_gradients

    def needs_copy(self, old: Node, new: Node) -> bool:
        """Whether a value would share memory with what is saved, or be saved itself, so that others may write there
        who could not, and a copy would do; where it would not, that is a Reject."""
        memory = self._work.memory
        if not self._is_recorded or memory.of(old) == memory.of(new):
            return False
        before, there, after = self._writers(memory.of(old)), self._writers(memory.of(new)), self._writers_after(new)
        if self._differ(before, after) and self._is_saved_later(old):
            if self._differ(before, self._moved([old])):
                raise Reject(SAVED)
            return True
        if self._differ(there, after):
            if any(self._saves(node, new) for node in self._work.calls() if node not in self._made):
                return True
            removed = self._of(self._removed)
            return after not in removed and any(self._saves(node, new) for node in self._made)
        return False

    def check(self) -> None:
        """Rejects a rewrite whose new nodes save what the old ones did not; an exact one also what they no longer do.

        (What rounds otherwise may save copies of weights that are packed: a later write to these goes unseen.)"""
        if not self._is_recorded:
            return
        before = self._of(self._removed)
        after = {self._writers_after(node, address) for node in self._made for address in self._work.saved.by(node)}
        after.discard(frozenset())
        if not after <= before or (self._is_exact and before != after):
            raise Reject(SAVED)

    def _differ(self, before: Writers, after: Writers) -> bool:
        return before != after if self._is_exact else not after <= before

    def _writers(self, addresses: Addresses) -> Writers:
        return self._work.saved.writers(addresses, self._first, besides=self._made)

    def _writers_after(self, new: Node, address: int | None = None) -> Writers:
        """Who may write to the memory of a new value, or to an address, when new values stand for old ones."""
        memory = self._work.memory
        own = memory.of(new) if address is None else frozenset({address})
        return self._writers(own) | self._moved(o for o, n in self._replacements.items() if memory.of(n) & own)

    def _moved(self, replaced: Iterable[Node]) -> Writers:
        """Who writes to the memory of replaced values through what is made of these."""
        outcome = self._work.graph.output_node()
        found: set[Node] = set()
        for old in replaced:
            for node in followers(old, self._work):
                found.update(call for call in node.users if node in written_by(call))
                found.update([node] if outcome in node.users else ())
        return frozenset(found)

    def _is_saved_later(self, old: Node) -> bool:
        """Whether a call outside of the match saves a value, or a view of it."""
        users = {user for node in followers(old, self._work) for user in node.users}
        return any(self._saves(user, old) for user in users.difference(self._match.nodes, self._made))

    def _saves(self, node: Node, what: Node) -> bool:
        return node not in self._removed and bool(self._work.saved.by(node) & self._work.memory.of(what))

    def _of(self, nodes: Iterable[Node]) -> set[Writers]:
        """Who may write to what nodes save, as far as there is anybody."""
        found: set[Writers] = set()
        for node in nodes:
            touched = (self._work.memory.of(each) for each in (node, *node.all_input_nodes))
            if self._writers(frozenset().union(*touched)):  # else torch need not be asked
                found |= {self._writers(frozenset({address})) for address in self._work.saved.by(node)}
        return found - {frozenset()}

    @functools.cached_property
    def _removed(self) -> set[Node]:
        """The nodes of the match that are needed no more."""
        kept = set(self._replacements.values())
        gone: set[Node] = set()
        for node in sorted(self._match.nodes, reverse=True):
            others = node.users.keys() - gone
            if node in self._replacements:
                others &= set(self._made)
            if not others and node not in kept:
                gone.add(node)
        return gone


def followers(node: Node, work: Work) -> set[Node]:
    """A value and what shares its memory of all that is made of it."""
    own = work.memory.of(node)
    found = {node}
    queue = [node]
    while queue:
        for user in queue.pop().users:
            if user not in found and work.memory.of(user) & own:
                found.add(user)
                queue.append(user)
    return found
