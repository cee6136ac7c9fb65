"""Bodies: parts of a program that are graphs of their own, run by an operation of the graph around them.

>>> from framelift.graph.builder import GraphBuilder
>>> builder = GraphBuilder()
>>> x = builder.add_input("x", torch.ones(3))
>>> mark = builder.mark()
>>> y = builder.call_function(torch.sin, (x,))
>>> part = builder.cut(mark)
>>> part.free([y]), len(builder.records)
([TensorRef(x: <torch.float32 (3,) stride (1,) on cpu is_leaf>)], 0)
>>> body = builder.body("part", part, [x], [y])
>>> torch.equal(body.module(torch.ones(3))[0], torch.ones(3).sin())
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.fx import GraphModule, Node

from framelift.graph.purity import MODE_SWITCHES
from framelift.graph.record import Record, Ref, Storage, TensorRef

# What the module of a body says of itself: passes take it as it is.
FINAL = "is_final"


class Body:
    """A graph that is an argument of an operation. It takes tensors and returns a tuple of tensors."""

    __slots__ = ("name", "module", "node")

    def __init__(self, name: str, module: GraphModule) -> None:
        self.name = name
        self.module = module
        # Set when the graph around it is emitted.
        self.node: Node | None = None


class Part:
    """Records that were cut out of a graph. What they compute can be used by a body made of them, nowhere else."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self._made = {id(record) for record in records}

    def computes(self, ref: Ref) -> bool:
        return id(ref.record) in self._made

    def free(self, outputs: Sequence[TensorRef]) -> list[Any]:
        """The tensors and numbers from outside that it uses or that are among its outputs, in the order of use."""
        found: dict[int, Ref] = {}
        for ref in [*[ref for record in self.records for ref in record.uses], *outputs]:
            if not self.computes(ref):
                found.setdefault(id(ref), ref)
        return list(found.values())

    def may_raise(self) -> bool:
        return any(record.must_run for record in self.records)

    def is_random(self) -> bool:
        return any(record.is_random for record in self.records)

    def switches_modes(self) -> bool:
        return any(record.target in MODE_SWITCHES for record in self.records if record.is_effect)

    def changes_outside(self) -> bool:
        """Whether it changes a tensor that was there before it."""
        return any(self._is_outside(storage) for record in self.records for storage in record.changed)

    def _is_outside(self, storage: Storage) -> bool:
        return any(not self.computes(ref) for ref in storage.refs)
