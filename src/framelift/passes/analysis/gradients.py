"""Exact passes keep the very bits of gradients too, for which the order of sums matters.

Every use of a value adds to its gradient, in the order in which backward comes to the uses. One sum of two numbers is
the same either way round; of three it is not. So where a rewrite moves uses from one value to another, or to another
place, a value must not have more than two of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from torch.fx import Node
from torch.fx.node import map_arg

from framelift.passes import facts
from framelift.passes.analysis.pieces import slice_of
from framelift.passes.build import Builder
from framelift.passes.declare import Match
from framelift.passes.facts import Reject

REORDERED = "gradients would be added up in another order"


def check_gradients(match: Match, replacements: dict[Node, Node], build: Builder) -> None:
    """Rejects a rewrite, whose new nodes are there already, if it might change how gradients are rounded."""
    if not any(_needs_gradient(old) for old in replacements):
        return
    made = set(build.made)
    for old, new in replacements.items():
        if new not in made and _needs_gradient(new):
            _check_move(old, new, match, made)
    inside = set(match.nodes)
    living = {node for node in inside - replacements.keys() if not inside.issuperset(set(node.users) - made)}
    # Of what lives on, a use may have gone to where it came from.
    for node in living:
        if inside & node.users.keys() - living and _uses(node, set(node.users) - made) > 2:
            raise Reject(REORDERED)
    operands = {operand for node in match.nodes for operand in node.all_input_nodes} - inside
    for operand in filter(_needs_gradient, operands):
        others = [user for user in operand.users if user not in inside and user not in made]
        most = max(_uses(operand, inside), _uses(operand, made | living))
        if most + _uses(operand, others) > 2:
            raise Reject(REORDERED)


def _check_move(old: Node, new: Node, match: Match, made: set[Node]) -> None:
    """The uses of one value become uses of another that was there before."""
    own = [user for user in new.users if user not in match.nodes and user not in made]
    moved = list(old.users)
    if own and _uses(new, own) + _uses(old, moved) > 2:
        raise Reject(REORDERED)


def _needs_gradient(node: Node) -> bool:
    return any(tensor.requires_grad for tensor in facts.tensors_in(facts.value(node)))


def _uses(node: Node, users: Iterable[Node]) -> int:
    """How many gradients of a value some of its users make. Parts that lie side by side make one together: what they
    add to each other's places is zero."""
    count = 0
    cuts: list[tuple[int, int, int]] = []
    for user in users:
        if user not in node.users or (user.op != "output" and not _needs_gradient(user)):
            continue
        cut = slice_of(user)
        if cut is not None and cut[0] is node:
            cuts.append(cut[1:4])
        else:
            count += _occurrences(node, user)
    cuts.sort()
    apart = all(one[0] == other[0] and one[2] <= other[1] for one, other in pairwise(cuts))
    return count + (min(len(cuts), 1) if apart else len(cuts))


def _occurrences(node: Node, user: Node) -> int:
    found = 0

    def look(each: Node) -> Node:
        nonlocal found
        found += each is node
        return each

    map_arg((user.args, user.kwargs), look)
    return found
