"""What nodes do besides computing their result, and who shares memory with whom.

What a call does is told by its name, its schema and a few tables; what nobody can tell is *opaque*: it may write to
whatever it is given. Memory is told by the storages of the fake tensors on the nodes. :class:`Effects` answers the
questions of the rules: is this memory written between here and there, is it written later, does it leave the graph.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.fx import Graph, Node
from torch.nn import functional

from framelift.graph.propagation.fake import address_of
from framelift.graph.purity import CHECKS, MODE_SWITCHES
from framelift.passes.analysis import modules
from framelift.passes.facts import tensors_in, value

# Where torch keeps functions that do what their name says: nothing to fear but a trailing underscore.
TORCH_MODULES = frozenset(
    """torch torch.functional torch.nn.functional torch._C._nn torch._C._linalg torch._C._special torch._C._fft
    torch._C._sparse torch.linalg torch.special torch.fft math _operator""".split()
)
IN_PLACE_OPERATORS = frozenset(
    {getattr(operator, name) for name in dir(operator) if name.startswith("i") and hasattr(operator, f"__{name}__")}
    - {operator.inv, operator.invert, operator.index, operator.is_}
    | {operator.setitem, operator.delitem}
)
IN_PLACE_METHODS = frozenset({"__setitem__", "__delitem__", "resize_as_", "set_"})
# Operators of these do what their schema says.
TRUSTED = frozenset({"aten", "prims", "framelift"})
# Methods that reach outside of what the graph shows.
OPAQUE_METHODS = frozenset({"backward", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "numpy"})
# Random whatever the table of operators says, because their name is not an operator's.
RANDOM_NAMES = frozenset({"gumbel_softmax", "multi_head_attention_forward", "fractional_max_pool2d_with_indices"})
OFF_SWITCHES = ("training", "train", "p", "dropout_p", "dropout")
# The switches of random functions that have no signature: name, place, and what they are if not given.
SWITCHES: dict[Any, tuple[tuple[str, int, Any], ...]] = {
    functional.scaled_dot_product_attention: (("dropout_p", 4, 0.0),),
    torch.dropout: (("p", 1, None), ("train", 2, None)),
}
# Functions that write to an argument under a condition: name -> (flag, written arguments).
STATISTICS: dict[Any, tuple[str, tuple[str, ...]]] = {
    functional.batch_norm: ("training", ("running_mean", "running_var")),
    functional.instance_norm: ("use_input_stats", ("running_mean", "running_var")),
    functional.embedding: ("max_norm", ("weight",)),
    functional.embedding_bag: ("max_norm", ("weight",)),
}
# Functions whose meaning depends on how their argument lies in memory, or that fail on some layouts.
LAYOUT_OBSERVERS = frozenset(
    "view as_strided stride is_contiguous data_ptr storage_offset storage untyped_storage numpy resize_ set_".split()
)
# In-place operations that change more than contents: metadata of what they touch holds in a part of the graph only.
RESHAPING = frozenset(
    """t_ transpose_ swapaxes_ swapdims_ squeeze_ unsqueeze_ resize_ resize_as_ set_ as_strided_ detach_ requires_grad_
    rename_ __setstate__""".split()
)


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a call from its target alone."""

    writes_first: bool = False
    is_random: bool = False
    is_mode: bool = False  # changes the meaning of later nodes: grad mode, autocast
    is_check: bool = False  # must run although nobody uses its result
    is_opaque: bool = False
    observes_layout: bool = False
    signature: inspect.Signature | None = None


PURE = Traits()
OPAQUE = Traits(is_opaque=True, observes_layout=True)


def traits_of(kind: str, target: Any) -> Traits:
    """The traits of a call: "call_method" and a name, or "call_function" and a function."""
    # A function of the program's is not remembered: that would keep it, and what it holds, alive.
    is_lasting = type(target) is not FunctionType or _is_of_torch(target)
    return _remembered_traits(kind, target) if is_lasting else _traits(kind, target)


def _traits(kind: str, target: Any) -> Traits:
    if kind == "call_method":
        return _method_traits(target)
    if isinstance(target, OpOverload):
        return _schema_traits([target])
    if isinstance(target, OpOverloadPacket):
        return _schema_traits([getattr(target, name) for name in target.overloads()])
    if isinstance(target, HigherOrderOperator):
        return OPAQUE
    if target in MODE_SWITCHES:
        return Traits(is_mode=True)
    if target in CHECKS:
        return Traits(is_check=True)
    if target in IN_PLACE_OPERATORS:
        return Traits(writes_first=True)
    if target is builtins.getattr:
        return PURE
    return _function_traits(target)


_remembered_traits = functools.lru_cache(maxsize=4096)(_traits)


def _method_traits(name: str) -> Traits:
    if name in OPAQUE_METHODS or not hasattr(torch.Tensor, name):
        return OPAQUE
    in_place = name in IN_PLACE_METHODS or (name.startswith("__i") and hasattr(operator, name))
    return Traits(
        writes_first=in_place or _is_in_place_name(name),
        is_random=_is_random_name(name),
        observes_layout=name in LAYOUT_OBSERVERS,
    )


def _function_traits(function: Callable[..., Any]) -> Traits:
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__objclass__", None)
    if owner is not None and issubclass(torch.Tensor, owner):
        return _method_traits(name)
    if not _is_of_torch(function):
        return OPAQUE
    return Traits(
        writes_first=_is_in_place_name(name),
        is_random=_is_random_name(name) or function.__module__ == "torch.nn.init",
        observes_layout=name in LAYOUT_OBSERVERS,
        signature=_signature(function),
    )


def _is_of_torch(function: Callable[..., Any]) -> bool:
    module = getattr(function, "__module__", None)
    return module in TORCH_MODULES or module == "torch.nn.init"


def _schema_traits(overloads: list[OpOverload]) -> Traits:
    if any(overload.namespace not in TRUSTED for overload in overloads):
        return OPAQUE
    return Traits(
        writes_first=any(overload._schema.is_mutable for overload in overloads),
        is_random=any(torch.Tag.nondeterministic_seeded in overload.tags for overload in overloads),
        observes_layout=any(overload._opname in LAYOUT_OBSERVERS for overload in overloads),
    )


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None


def _is_in_place_name(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _is_random_name(name: str) -> bool:
    name = name.rstrip("_")
    if name in RANDOM_NAMES or "dropout" in name:
        return True
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, OpOverloadPacket):
        return False
    return any(torch.Tag.nondeterministic_seeded in getattr(packet, each).tags for each in packet.overloads())


def argument(node: Node, name: str, traits: Traits) -> Any:
    """An argument by name, in calls of functions with a signature; None if it is not given."""
    if name in node.kwargs:
        return node.kwargs[name]
    if traits.signature is not None:
        for index, parameter in enumerate(traits.signature.parameters.values()):
            if parameter.name == name:
                if index < len(node.args):
                    return node.args[index]
                return None if parameter.default is parameter.empty else parameter.default
    return None


def traits(node: Node) -> Traits:
    """The traits of a node's target; of modules that are more than a function, that nothing is known."""
    if node.op in ("call_function", "call_method"):
        return traits_of(node.op, node.target)
    if node.op == "call_module":
        return PURE if modules.is_plain(modules.module_at(node)) else OPAQUE
    return PURE


def written_by(node: Node) -> tuple[Node, ...]:
    """The nodes whose memory a node writes to."""
    known = traits(node)
    if known.is_opaque:
        return tuple(node.all_input_nodes)
    if node.op not in ("call_function", "call_method"):
        return ()
    written: list[Any] = []
    out = node.kwargs.get("out")
    if out is not None:
        written += out if isinstance(out, list | tuple) else [out]
    if known.writes_first or argument(node, "inplace", known) is True:
        first = node.args[0] if node.args else next(iter(node.kwargs.values()), None)
        written += first if isinstance(first, list | tuple) else [first]
    if node.target in STATISTICS:
        flag, names = STATISTICS[node.target]
        if argument(node, flag, known) not in (None, False):
            written += [argument(node, name, known) for name in names]
    return tuple(item for item in written if isinstance(item, Node))


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers."""
    known = traits(node)
    if not known.is_random:
        return False
    if node.target in SWITCHES:
        switches = (
            node.args[place] if len(node.args) > place else node.kwargs.get(name, default)
            for name, place, default in SWITCHES[node.target]
        )
    else:
        switches = (argument(node, name, known) for name in OFF_SWITCHES)
    return not any(isinstance(given, int | float) and given == 0 for given in switches)


def is_pure(node: Node) -> bool:
    """Whether a node may be dropped, moved or merged as far as its effects go: it only computes its result."""
    known = traits(node)
    if known.is_opaque or known.is_mode or known.is_check or node.op in ("placeholder", "output"):
        return False
    return not is_random(node) and not written_by(node)


class Memory:
    """Who shares memory: the storages of fake tensors by address, joined as rewrites let values move in with others.

    What follows a rewritten value keeps its own fake tensors; that their storage is now the new value's is said here.
    """

    def __init__(self) -> None:
        self._joined: dict[int, int] = {}
        self._seen: dict[Node, tuple[Any, frozenset[int]]] = {}
        # A freed storage's address may be taken by another: what was seen once stays alive.
        self._alive: list[Any] = []

    def of(self, node: Node) -> frozenset[int]:
        """The memory behind a node's value."""
        found = value(node)
        seen = self._seen.get(node)
        if seen is None or seen[0] is not found:
            seen = self._seen[node] = (found, frozenset(address_of(tensor) for tensor in tensors_in(found)))
        if not self._joined or self._joined.keys().isdisjoint(seen[1]):
            return seen[1]
        return frozenset(map(self._now, seen[1]))

    def address(self, tensor: torch.Tensor) -> int:
        return self._now(address_of(tensor))

    def _now(self, address: int) -> int:
        while address in self._joined:
            address = self._joined[address]
        return address

    def is_stale(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's storage is one that values have moved out of."""
        return address_of(tensor) in self._joined

    def join(self, old: Node, new: Node) -> tuple[int, int] | None:
        """From here on the memory of one is that of the other; returns what became what."""
        self.keep_alive(old)
        one, other = self.address(value(old)), self.address(value(new))
        if one == other:
            return None
        self._joined[one] = other
        return one, other

    def keep_alive(self, node: Node) -> None:
        """Keeps the memory of a node that is about to be erased, so that its address stays its own."""
        self._alive.append(value(node))

    def state(self) -> dict[int, int]:
        return dict(self._joined)

    def restore(self, state: dict[int, int]) -> None:
        self._joined = dict(state)


class Effects:
    """The writes and mode switches of a graph. Passes neither add nor remove any, so it is made once per graph."""

    def __init__(self, graph: Graph, memory: Memory) -> None:
        self.graph = graph
        self.memory = memory
        self.writers: dict[int, list[Node]] = {}
        self.fences: list[Node] = []
        self.unstable: set[int] = set()
        for node in graph.nodes:
            if node.op not in ("call_function", "call_method", "call_module"):
                continue
            known = traits(node)
            if known.is_mode or known.is_opaque:
                self.fences.append(node)
            for written in written_by(node):
                addresses = memory.of(written)
                if getattr(node.target, "__name__", node.target) in RESHAPING:
                    self.unstable |= addresses
                for address in addresses:
                    self.writers.setdefault(address, []).append(node)

    def move_in(self, old: Node, new: Node) -> None:
        """The value of a new node takes the place of an old one's: their memory is one."""
        joined = self.memory.join(old, new)
        if joined is not None and joined[0] in self.writers:
            one, other = joined
            writers = {*self.writers.pop(one), *self.writers.get(other, ())}
            self.writers[other] = sorted(writers)

    def region(self, node: Node) -> int:
        """The number of mode switches before a node: nodes of one region mean the same wherever they stand in it."""
        return bisect_left(self.fences, node._sort_key, key=lambda fence: fence._sort_key)

    def is_written_between(self, addresses: Iterable[int], first: Node, last: Node) -> bool:
        """Whether any of this memory is written by a node from `first` to `last`."""
        return any(
            first._sort_key <= writer._sort_key <= last._sort_key
            for address in addresses
            for writer in self.writers.get(address, ())
        )

    def is_written_after(self, addresses: Iterable[int], node: Node) -> bool:
        """Whether any of this memory is written after a node."""
        return any(
            node._sort_key < writer._sort_key for address in addresses for writer in self.writers.get(address, ())
        )
