"""Groups of nodes that could run side by side: equal keys, and none depends on another, through data or effects."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from torch.fx import Graph, Node

from framelift.passes import facts
from framelift.passes.analysis import order
from framelift.passes.analysis.effects import Memory, is_pure
from framelift.passes.declare import Fusion, Work
from framelift.passes.facts import NoMatch, Reject


def groups(rule: Fusion, work: Work, smallest: int) -> Iterator[list[Node]]:
    """Groups of at least `smallest` members, in the order of their first members."""
    buckets: dict[Hashable, list[Node]] = {}
    for node in work.nodes(rule.roots):
        key = _key(rule, node, work)
        if key is not None:
            buckets.setdefault(key, []).append(node)
    large = [bucket for bucket in buckets.values() if _is_worth_a_look(rule, bucket, work, smallest)]
    if not large:
        return
    ancestors = work.ancestors
    for bucket in large:
        for group in _independent(bucket, ancestors, work.options.max_fuse_set_size):
            if len(group) >= smallest:
                yield group


def _is_worth_a_look(rule: Fusion, bucket: list[Node], work: Work, smallest: int) -> bool:
    if not may_be_independent(bucket, smallest):
        return False
    if work.options.ignore_profit or rule.may_pay(bucket, work):
        return True
    work.record.rejected["does not pay"] += 1
    return False


def _key(rule: Fusion, node: Node, work: Work) -> Hashable | None:
    """The pass's key, and what must agree in any case."""
    try:
        own = rule.key(node, work)
        if own is None:
            return None
        tensor = facts.tensor(node)
    except NoMatch:
        return None
    except Reject as rejection:
        work.record.rejected[rejection.reason] += 1
        return None
    if not is_pure(node):
        work.record.rejected["a node has effects"] += 1
        return None
    read = {address for operand in node.all_input_nodes for address in work.memory.of(operand)}
    writers = sum(writer < node for address in read for writer in work.effects.writers.get(address, ()))
    return (own, tensor.dtype, tensor.device, tensor.requires_grad, work.effects.region(node), writers)


def ancestors_of(graph: Graph, memory: Memory) -> dict[Node, int]:
    """For each node, the set of nodes that must run before it, as bits."""
    found: dict[Node, int] = {}
    for index, (node, before) in enumerate(order.dependencies(graph, memory).items()):
        bits = 1 << index
        for other in before:
            bits |= found[other]
        found[node] = bits
    return found


def may_be_independent(bucket: list[Node], smallest: int) -> bool:
    """Whether enough nodes (given in order) are independent as far as operands go. To look at effects too takes much
    longer, and most buckets are the same step of one layer after the other."""
    if len(bucket) < smallest:
        return False
    bits = {node: 1 << index for index, node in enumerate(bucket)}
    before: dict[Node, int] = {}
    node, last = bucket[0], bucket[-1]
    while True:
        found = bits.get(node, 0)
        for operand in node._input_nodes:
            found |= before.get(operand, 0)
        before[node] = found
        if node is last:
            break
        node = node.next
    count = len(bucket)
    dependent = sum(before[node].bit_count() - 1 for node in bucket)
    if count * (count - 1) // 2 - dependent < smallest * (smallest - 1) // 2:
        return False
    return any(len(group) >= smallest for group in _independent(bucket, before, count))


def _independent(bucket: list[Node], ancestors: dict[Node, int], largest: int) -> list[list[Node]]:
    """The bucket in groups none of whose members needs another."""
    found: list[tuple[list[Node], int]] = []
    own_bit = {node: ancestors[node].bit_length() - 1 for node in bucket}
    for node in bucket:
        for position, (group, members) in enumerate(found):
            if len(group) < largest and not ancestors[node] & members:
                group.append(node)
                found[position] = (group, members | 1 << own_bit[node])
                break
        else:
            found.append(([node], 1 << own_bit[node]))
    return [group for group, _ in found]
