"""The rules that hold for every rewrite, so that no pass has to remember them.

Before anything is made (:func:`check_nodes`): the nodes of a match have no effects of their own, mean the same at one
place, and nothing they read or make is written while they run.

When the new nodes are there (:func:`settle`): each stands for a value of the same shape, dtype and device. It may share
memory the old one did not share only if nobody writes to it later and it does not leave the graph; it may lie
otherwise in memory only where nobody can see that. A copy repairs both where the pass allows one. And what is saved for
backward stays within reach of those who could write to it before (:mod:`~framelift.passes.analysis.saved`).
"""

from __future__ import annotations

import torch
from torch.fx import Node

from framelift.graph.propagation.fake import address_of
from framelift.passes import facts, ops
from framelift.passes.analysis.effects import is_pure, traits, written_by
from framelift.passes.analysis.rounding import keeps_bits
from framelift.passes.analysis.saved import Backward
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Rewrite, Work
from framelift.passes.facts import Reject


class PassError(Exception):
    """A pass did what it must not: a fault of the pass, which is taken back."""


def check_nodes(match: Match, work: Work) -> None:
    """Effects: the nodes of the match could run together, at the place of the last."""
    effects = work.effects
    first, last = min(match.nodes), max(match.nodes)
    region = effects.region(first)
    if effects.region(last) != region:
        raise Reject("a mode of torch changes in between")
    if work.modes.is_foreign(region):
        raise Reject("inside autocast or inference mode")
    for node in match.nodes:
        if node.op not in ("get_attr", "placeholder") and not is_pure(node):
            raise Reject("a node has effects")
    touched = touched_by(match, work)
    if touched & effects.unstable:
        raise Reject("an operand changes its shape in place")
    if effects.is_written_between(touched, first, last):
        raise Reject("an operand is written in between")


def touched_by(match: Match, work: Work) -> frozenset[int]:
    """The memory that the nodes of a match read or make."""
    found: set[int] = set()
    for node in match.nodes:
        found |= work.memory.of(node)
        for operand in node.all_input_nodes:
            found |= work.memory.of(operand)
    return frozenset(found)


def settle(rule: Rewrite, match: Match, replacements: dict[Node, Node], build: Builder, work: Work) -> None:
    """Checks the new values against the old; replaces a new one by a copy of it where that is needed and allowed."""
    for old, new in replacements.items():
        _check_value(rule, old, new)
    outside = _outside(match, replacements, work)
    backward = Backward(match, replacements, build, work, rule.exactness == "exact")
    for old, new in list(replacements.items()):
        if _must_be_copied(match, old, replacements, outside, build, work) or backward.needs_copy(old, new):
            if not rule.may_copy:
                raise Reject("a copy would be needed to keep memory apart")
            replacements[old] = new = build.copied(new)
        if not _may_lie_so(rule, old, new, work):
            if not rule.may_copy or not _is_dense(facts.tensor(old)):
                raise Reject("the result would lie otherwise in memory")
            if _is_seen_as_view(match, old, outside, work):
                raise Reject("returned or written later: the result must stay a view")
            replacements[old] = new = build.copied(new)
        if new not in build.made and not getattr(match, "is_same_object", False):
            _check_identity(old, new, work)
            _check_silent_view(old, new, work)
    backward.check()


def _check_value(rule: Rewrite, old: Node, new: Node) -> None:
    before, after = facts.tensor(old), facts.tensor(new)
    if not facts.same_numbers(before.shape, after.shape):
        raise PassError(
            f"{rule.name} would replace {old.name} of shape {tuple(before.shape)} by one of {tuple(after.shape)}"
        )
    if not facts.same_kind(before, after):
        raise Reject(f"the result would be {after.dtype} on {after.device}, not {before.dtype} on {before.device}")
    if before.requires_grad != after.requires_grad:
        raise Reject("the result would differ in requires_grad")


def _check_identity(old: Node, new: Node, work: Work) -> None:
    """Where a value that was there stands for a returned one, the caller must not get one object for two."""
    if _is_returned(old, work) and _is_known(new, old, work):
        raise Reject("returned: it must be another object")


def _check_silent_view(old: Node, new: Node, work: Work) -> None:
    """Autograd forbids to write to a view that was made without gradients where they are recorded: in such a write
    others may bring them in. So the caller must get such a view for one."""
    if _is_silent_view(old, work) and not _is_silent_view(new, work) and reaches_output(old, work):
        raise Reject("returned: it must be a view that was made where no gradients are recorded")


def _is_silent_view(node: Node, work: Work) -> bool:
    own = work.memory.of(node)
    shares = any(work.memory.of(operand) & own for operand in node.all_input_nodes)
    return shares and work.modes.is_silent(work.effects.region(node))


def _is_returned(node: Node, work: Work, besides: Node | None = None) -> bool:
    """Whether the caller gets the object of a value: as it is, or as what a call gives back that was given it."""
    return any(
        user.op == "output" or (_may_be(user, node, work) and _is_returned(user, work, besides))
        for user in node.users
        if user is not besides
    )


def _is_known(node: Node, besides: Node, work: Work) -> bool:
    """Whether the caller has the object of a value already: as an input, or as another result than `besides`."""
    if node.op in ("placeholder", "get_attr") or _is_returned(node, work, besides):
        return True
    return any(_may_be(node, operand, work) and _is_known(operand, besides, work) for operand in node.all_input_nodes)


def _may_be(node: Node, operand: Node, work: Work) -> bool:
    """Whether a call may give back its very operand, as `copy_` and `contiguous` do."""
    given, found = facts.value(operand), facts.value(node)
    if not isinstance(given, torch.Tensor) or not isinstance(found, torch.Tensor):
        return False
    return facts.same_geometry(given, found) and work.memory.of(operand) == work.memory.of(node)


def _must_be_copied(
    match: Match, old: Node, replacements: dict[Node, Node], outside: frozenset[int], build: Builder, work: Work
) -> bool:
    """Whether the new value shares memory the old did not, and leaves the graph so; a later write is a Reject."""
    new = replacements[old]
    before, after = work.memory.of(old), work.memory.of(new)
    if before == after:
        one, other = facts.tensor(old), facts.tensor(new)
        if address_of(one) == address_of(other) and one.storage_offset() != other.storage_offset():
            raise PassError(f"{new.name} is another part of the memory of {old.name}")
        return False
    first = min(match.nodes)
    becomes_alias = _becomes_alias(match, new, replacements, build, work)
    was_alias = bool(before & outside)
    if becomes_alias and work.effects.is_written_after(before | after, first):
        raise Reject("written later: the result must be a tensor of its own")
    if was_alias and work.effects.is_written_after(before, first):
        raise Reject("written later: the result must stay a view")
    escapes = reaches_output(old, work)
    if was_alias and escapes:
        raise Reject("returned: the result must stay a view")
    return becomes_alias and escapes and not _is_alone(old, new, replacements, work)


def _is_seen_as_view(match: Match, old: Node, outside: frozenset[int], work: Work) -> bool:
    """Whether somebody could tell that a view has become a tensor of its own."""
    own = work.memory.of(old)
    if not own & outside:
        return False
    return work.effects.is_written_after(own, min(match.nodes)) or reaches_output(old, work)


def _is_alone(old: Node, new: Node, replacements: dict[Node, Node], work: Work) -> bool:
    """Whether a returned value has all of its memory to itself, as far as the caller can see: no input lives there, no
    other result does, and nothing is kept alive that nobody needs."""
    tensor = facts.tensor(new)
    own = work.memory.of(new)
    if ops.index_of(new) is not None or tensor.numel() * tensor.element_size() != tensor.untyped_storage().nbytes():
        return False
    returned = work.graph.output_node().all_input_nodes
    replaced = [each for before, each in replacements.items() if before is not old]
    return not any(work.memory.of(node) & own for node in (*returned, *work.inputs, *replaced))


def _becomes_alias(match: Match, new: Node, replacements: dict[Node, Node], build: Builder, work: Work) -> bool:
    """Whether a new value lives in the memory of what was there, or of another new value."""
    if new not in build.made:
        return True
    memory = work.memory
    after = memory.of(new)
    if any(after & memory.of(other) for other in replacements.values() if other is not new):
        return True
    there = {operand for node in match.nodes for operand in (node, *node.all_input_nodes)}
    return any(after & memory.of(node) for node in there)


def _outside(match: Match, replacements: dict[Node, Node], work: Work) -> frozenset[int]:
    """The memory of what the match is given, and of its nodes that live on."""
    inside = set(match.nodes)
    given = {operand for node in match.nodes for operand in node.all_input_nodes if operand not in inside}
    living = {node for node in inside - replacements.keys() if not inside.issuperset(node.users)}
    return frozenset(address for node in given | living for address in work.memory.of(node))


def reaches_output(node: Node, work: Work) -> bool:
    """Whether a value, or a view of it, is returned."""
    own = work.memory.of(node)
    seen: set[Node] = set()
    queue = [node]
    while queue:
        for user in queue.pop().users:
            if user.op == "output":
                return True
            if user not in seen and work.memory.of(user) & own:
                seen.add(user)
                queue.append(user)
    return False


# -- layout --------------------------------------------------------------------------------------------------------


def _is_dense(tensor: torch.Tensor) -> bool:
    return facts.same_numbers(tensor.stride(), facts.dense_strides(tensor.shape))


def _may_lie_so(rule: Rewrite, old: Node, new: Node, work: Work) -> bool:
    """Whether nobody can tell that the new value has other strides than the old one."""
    before, after = facts.tensor(old), facts.tensor(new)
    if facts.same_numbers(before.stride(), after.stride()):
        return True
    # Axes of length one make no difference to any kernel.
    sides = zip(before.stride(), after.stride(), before.shape, strict=True)
    differs = any(not facts.same_number(a, b) for a, b, size in sides if not facts.same_number(size, 1))
    bitwise = differs and rule.exactness == "exact" and not work.options.approximate
    return propagate({old: after}, work, bitwise) is not None


def propagate(changed: dict[Node, torch.Tensor], work: Work, bitwise: bool = False) -> dict[Node, object] | None:
    """The metadata of all that follows if some values lie otherwise in memory; None if somebody sees the difference.

    `bitwise`: a kernel that might round differently on another layout sees it too.
    """
    found: dict[Node, object] = dict(changed)
    queue = sorted({user for node in changed for user in node.users})
    while queue:
        node = queue.pop(0)
        if node.op == "output":
            returned = [each for each in node.all_input_nodes if each in found]
            if work.options.layout == "strict" and not all(_same_layouts(found[n], facts.value(n)) for n in returned):
                return None
            continue
        if traits(node).observes_layout or traits(node).is_opaque or written_by(node):
            return None
        if traits(node).is_check:
            continue
        if bitwise and not keeps_bits(node):
            return None
        result = work.evaluate(node, found)
        if result is None:
            return None
        moved = _shares(node, result, found) != bool(_shared_before(node, work))
        if moved and not _may_share_otherwise(node, result, found, work):
            return None
        if moved or not _same_layouts(result, facts.value(node)):
            found[node] = result
            queue = sorted({*queue, *node.users})
    return found


def _shares(node: Node, result: object, found: dict[Node, object]) -> bool:
    """Whether a result computed anew lives in the memory of an operand."""
    own = {address_of(tensor) for tensor in facts.tensors_in(result)}
    operands = (found.get(operand, facts.value(operand)) for operand in node.all_input_nodes)
    return any(address_of(tensor) in own for operand in operands for tensor in facts.tensors_in(operand))


def _shared_before(node: Node, work: Work) -> frozenset[int]:
    operands = (work.memory.of(operand) for operand in node.all_input_nodes)
    return work.memory.of(node) & frozenset().union(*operands)


def _may_share_otherwise(node: Node, result: object, found: dict[Node, object], work: Work) -> bool:
    """Whether a call such as contiguous() may return its operand's memory where it made a copy, or the reverse: nobody
    writes to either, before backward if they are saved for it, and the caller cannot see it."""
    operands = (found.get(operand, facts.value(operand)) for operand in node.all_input_nodes)
    after = {work.memory.address(tensor) for tensor in facts.tensors_in(list(operands))}
    memory = work.memory.of(node).union(after, *(work.memory.of(operand) for operand in node.all_input_nodes))
    first = min(node.all_input_nodes)
    if work.effects.is_written_after(memory, first):
        return False
    if work.saved.writers(memory, first) and work.saved.anywhere(memory):
        return False
    if not reaches_output(node, work):
        return True
    others = [each for each in work.graph.output_node().all_input_nodes if each is not node]
    return not any(work.memory.of(each) & memory for each in (*work.inputs, *others))


def _same_layouts(some: object, others: object) -> bool:
    pairs = list(zip(facts.tensors_in(some), facts.tensors_in(others), strict=True))
    return all(facts.same_numbers(one.stride(), other.stride()) for one, other in pairs)
