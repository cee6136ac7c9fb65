"""What passes must know of operations that work on one element at a time."""

from __future__ import annotations

from torch.fx import Node

from framelift.passes import facts, ops
from framelift.passes.analysis.rounding import is_same_everywhere
from framelift.passes.declare import Work
from framelift.passes.facts import NoMatch, Reject
from framelift.passes.ops import Bound

# Operations with a number, element by element.
WITH_NUMBER = frozenset({"add", "sub", "mul", "div"})


def unary(node: Node) -> Bound:
    """A node that computes each element of its result from one element of its first operand; else no match."""
    call = ops.bind(node)
    if call is None or call.op not in ops.UNARY | WITH_NUMBER or call.arguments.get("inplace"):
        raise NoMatch("not pointwise")
    if any(isinstance(given, Node) for name, given in call.arguments.items() if name != "input"):
        raise NoMatch("another operand is computed by the graph")
    facts.tensor(call["input"])
    return call


def check_layout(call: Bound, work: Work) -> None:
    """Rejects an operation that might round differently on another layout, where the same bits are wanted."""
    if is_same_everywhere(call) or work.options.approximate:
        return
    if not facts.contiguity(facts.tensor(call["input"])):
        raise Reject(f"{call.op} may round differently on another layout")


def check_place(call: Bound, work: Work) -> None:
    """Rejects an operation that might round differently elsewhere in memory, where the same bits are wanted."""
    if not is_same_everywhere(call) and not work.options.approximate:
        raise Reject(f"{call.op} may round differently elsewhere in memory")


def applied(call: Bound) -> dict[str, object]:
    """The arguments besides the tensor, as keywords."""
    return {name: given for name, given in call.operation.without_defaults(call.arguments).items() if name != "input"}
