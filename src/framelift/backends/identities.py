"""Identities such as `x * 1` and `x + 0` among the operations that Inductor is given.

Some versions (2.15) put the operand itself in the place of one whose other operand is a number, and give the caller an
input, or one tensor twice, where the program has made another. A copy is what such an operation is: Inductor knows when
a copy may go.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.fx_passes.joint_graph import remove_no_ops
from torch.fx import Graph, GraphModule, Node

from framelift.torch_names import is_absent

_aten = torch.ops.aten
# The operators, and with which number on the right they are identities; on the left as well if they commute.
_NEUTRAL = {_aten.add.Tensor: 0, _aten.sub.Tensor: 0, _aten.mul.Tensor: 1, _aten.div.Tensor: 1}
_COMMUTES = (_aten.add.Tensor, _aten.mul.Tensor)


class IdentitiesAreCopies(CustomGraphPass):
    """A pass before those of Inductor over the graph that AOTAutograd traced."""

    def __call__(self, graph: Graph) -> None:
        for target in _NEUTRAL:
            for node in graph.find_nodes(op="call_function", target=target):
                kept = _kept(node)
                if kept is not None and _is_alike(node, kept):
                    node.target, node.args, node.kwargs = _aten.clone.default, (kept,), {}

    def uuid(self) -> Any:
        return get_hash_for_files((__file__,))


def _kept(node: Node) -> Node | None:
    """The operand whose values an operation gives, if the other one is its neutral number."""
    places = ((0, 1), (1, 0)) if node.target in _COMMUTES else ((0, 1),)
    for kept, other in places:
        number, operand = node.args[other], node.args[kept]
        if type(number) in (int, float) and number == _NEUTRAL[node.target] and isinstance(operand, Node):
            return operand
    return None


def _is_alike(node: Node, operand: Node) -> bool:
    made, given = node.meta["val"], operand.meta["val"]
    return isinstance(given, torch.Tensor) and str((made.shape, made.dtype)) == str((given.shape, given.dtype))


@functools.cache
def forgets_copies() -> bool:
    """Whether this Inductor takes `x * 1` for x, as far as it can be asked."""
    if is_absent(remove_no_ops):
        return True
    graph = Graph()
    x = graph.placeholder("x")
    product = graph.call_function(_aten.mul.Tensor, (x, 1))
    graph.output((product,))
    x.meta["val"] = product.meta["val"] = torch.empty(1, device="cpu")
    remove_no_ops(GraphModule({}, graph), {}, {})
    return not graph.find_nodes(op="call_function", target=_aten.mul.Tensor)
