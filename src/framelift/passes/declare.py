"""How a pass is declared, and the registry of passes by name.

A pass says what to look for, when it is right, when it pays, and what to put there:

    @register
    class TwiceNegated(Rewrite):
        '''-(-x) is x.'''

        name = "twice_negated"
        roots = ("neg",)

        def match(self, root, work):
            inner = bound(bound(root, "neg")["input"], "neg")
            return Match(root, inner.node, x=inner["input"])

        def rewrite(self, match, build):
            return {match.root: match.x}

    pre_grad_passes(gm, inputs, add_passes="twice_negated")

`match` looks at a node of one of the `roots` operations and returns the :class:`Match` (every node that takes part,
root first, and whatever the rewrite needs), None if this is nothing for the pass, or raises :class:`~.facts.Reject`
with a reason. `condition` may name a reason why the match is not legal, `profit` says whether it pays. `rewrite` makes
new nodes with `build` (:mod:`framelift.passes.build`) and says which old values they stand for.

The driver (:mod:`framelift.passes.driver`), which is the :class:`Work` of a pass, does all else: it refuses a match
whose operands are written in between or whose nodes have effects; it refuses or repairs (by a copy) what would share
memory it did not share, or lie otherwise in memory than somebody can see; it checks shapes and dtypes, moves metadata,
redirects uses, removes what is dead.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from torch.fx import Graph, Node

from framelift.passes.analysis.effects import Effects, Memory
from framelift.passes.analysis.modes import RegionModes
from framelift.passes.build import Builder, Site
from framelift.passes.options import PassOptions

# exact: the same bits. approx: the same up to the rounding of floating point. semantic: other results, on request only.
Exactness = Literal["exact", "approx", "semantic"]


class Match:
    """What a pass found: the node it started from, all nodes that take part, and what it noted about them."""

    def __init__(self, root: Node, *others: Node, **found: Any) -> None:
        self.root = root
        self.nodes: tuple[Node, ...] = tuple(dict.fromkeys((root, *others)))
        self.__dict__.update(found)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class SavedForBackward(Protocol):
    """What calls save for backward (:class:`framelift.passes.analysis.saved.Saved`)."""

    def anywhere(self, addresses: frozenset[int]) -> bool:
        """Whether any call saves something that lives there."""

    def writers(self, addresses: frozenset[int], after: Node, besides: Iterable[Node] = ()) -> frozenset[Node]:
        """Who may write to memory between a node and backward."""

    def by(self, node: Node) -> frozenset[int]:
        """The memory, of its operands and its result, in which a call saves something."""


class Work(Site, Protocol):
    """A graph under the passes: what a pass may ask of it, and have done to it."""

    @property
    def options(self) -> PassOptions: ...

    @property
    def memory(self) -> Memory: ...

    @property
    def saved(self) -> SavedForBackward: ...

    @property
    def version(self) -> int: ...

    @property
    def effects(self) -> Effects: ...

    @property
    def modes(self) -> RegionModes: ...

    @property
    def ancestors(self) -> dict[Node, int]: ...

    @property
    def inputs(self) -> list[Node]: ...

    def nodes(self, names: Iterable[str]) -> list[Node]:
        """The nodes that call one of these operations, in order."""

    def count(self, names: Iterable[str]) -> int:
        """How many nodes call one of these operations."""

    def may_fuse(self, names: Iterable[str], smallest: int) -> bool:
        """Whether so many nodes that call one of these operations might run side by side."""

    def calls(self) -> Iterator[Node]:
        """All nodes that compute something, in order."""

    def read(self, reader: Callable[[Node], Any], node: Node) -> Any:
        """What `reader(node)` says, asked once until the graph changes."""

    def has_later_write(self, node: Node) -> bool:
        """Whether the memory of a value is written after it was computed."""

    def may_be_written(self, node: Node) -> bool:
        """Whether a value is written after it was computed, or may be by the caller where autograd watches."""

    def check_unwritten(self, node: Node) -> None:
        """Rejects a result that is written later."""

    def evaluate(self, node: Node, found: dict[Node, Any]) -> Any:
        """What a node computes if some of its operands are other than their metadata says; None if it fails."""

    def takes(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call also works with its arguments given in this way."""

    def rewrite_all(self, rule: Rewrite) -> None:
        """Tries every root, from the last to the first, until nothing is left to do."""

    def try_at(self, rule: Rewrite, root: Node) -> bool:
        """Tries one root; whether it was rewritten."""

    def fuse_all(self, rule: Fusion) -> None:
        """Fuses one group of independent nodes after the other."""

    def respell_all(self, rule: Respelling) -> None:
        """Writes calls in another way."""

    def respell(self, node: Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Lets a node call something else that computes the same value. A name is a method's."""

    def hand_over(self, change: Callable[[Graph], object]) -> None:
        """Lets a function change the graph as it likes."""

    def merge(self, kept: Node, dropped: Node) -> None:
        """Lets one of two nodes that compute the very same value stand for both."""


class Pass:
    """A named step. `run` changes the graph through `work` only, which counts, checks and can take it back."""

    name: str
    group: ClassVar[str] = ""  # selected together by "@group"
    exactness: Exactness = "exact"
    repeats: ClassVar[bool] = True  # whether it runs again where other passes changed the graph since

    def applies(self, work: Work) -> bool:
        """Whether the graph has the kinds of operations the pass starts from: asked first, because it costs nothing."""
        return True

    def run(self, work: Work) -> None:
        raise NotImplementedError

    @property
    def uuid(self) -> str:
        """Changes when the files do that the pass is written in: for keys of compile caches."""
        return _identity(self.name, [each.__module__ for each in type(self).__mro__[:-1]])


def _identity(name: str, modules: Iterable[str]) -> str:
    """Changes with the name and with the files of the modules."""
    found = map(sys.modules.get, modules)
    # (What is written at the prompt is in no file.)
    files = {file for module in found if (file := getattr(module, "__file__", None)) is not None}
    sources = [Path(file).read_bytes() for file in sorted(files)]
    return hashlib.sha256(b"\n".join([name.encode(), *sources])).hexdigest()[:16]


class Custom(Pass):
    """A function of the user's that changes the whole graph as it likes, with all that surrounds a pass."""

    repeats = False

    def __init__(self, change: Callable[[Graph], object]) -> None:
        self.change = change
        self.name = getattr(change, "__qualname__", None) or type(change).__qualname__
        self.exactness = getattr(change, "exactness", "exact")

    def run(self, work: Work) -> None:
        work.hand_over(self.change)

    @property
    def uuid(self) -> str:
        given = getattr(self.change, "uuid", None)
        return str(given()) if callable(given) else _identity(self.name, [self.change.__module__])


class Respelling(Pass):
    """A pass that writes calls in another way and changes nothing else.

    `respell` gets a node and returns what it should call, `(function, args, kwargs)`, or None to leave it.
    """

    def respell(self, node: Node, work: Work) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
        raise NotImplementedError

    def run(self, work: Work) -> None:
        work.respell_all(self)


class Rewrite(Pass):
    """A pass that replaces matched nodes by others; see the module's docstring for an example."""

    roots: ClassVar[tuple[str, ...]] = ()  # operations to start from; nodes are visited from the last to the first
    may_copy: ClassVar[bool] = True  # whether the driver may add a clone to keep memory apart

    def applies(self, work: Work) -> bool:
        return not self.roots or work.count(self.roots) > 0

    def match(self, root: Node, work: Work) -> Match | None:
        raise NotImplementedError

    def condition(self, match: Match, work: Work) -> str | None:
        """Why the match must not be rewritten, beyond the rules that hold for all passes; None if it may."""
        return None

    def profit(self, match: Match, work: Work) -> bool:
        return True

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        raise NotImplementedError

    def run(self, work: Work) -> None:
        work.rewrite_all(self)


class Fusion(Rewrite):
    """A pass that replaces many independent nodes with equal keys by one computation.

    `key` says which nodes belong together (None: not for this pass); the driver adds what must always agree (mode
    region, dtype, device) and forms groups in which no node depends on another. `match` is called with the group.
    """

    min_size: ClassVar[int | None] = None  # None: the option min_fuse_set_size

    def key(self, node: Node, work: Work) -> Hashable | None:
        raise NotImplementedError

    def applies(self, work: Work) -> bool:
        return work.may_fuse(self.roots, self.smallest(work))

    def smallest(self, work: Work) -> int:
        """How many nodes are worth a fusion."""
        return self.min_size or work.options.min_fuse_set_size

    def may_pay(self, bucket: list[Node], work: Work) -> bool:
        """Whether a fusion of some of these nodes, which have equal keys, might pay: asked before it is worked out, at
        some cost, which of them are independent."""
        return True

    def gather(self, group: list[Node], work: Work) -> Match | None:
        return Match(group[0], *group[1:])

    def run(self, work: Work) -> None:
        work.fuse_all(self)


class Several(Pass):
    """A pass that is a sequence of others."""

    def steps(self, work: Work) -> list[Pass]:
        raise NotImplementedError

    def applies(self, work: Work) -> bool:
        return any(step.applies(work) for step in self.steps(work))

    def run(self, work: Work) -> None:
        for step in self.steps(work):
            if step.applies(work):
                step.run(work)


REGISTRY: dict[str, Pass] = {}
PassClass = TypeVar("PassClass", bound=type[Pass])


def register(cls: PassClass) -> PassClass:
    """Makes a pass known by its name; a second one of the same name takes the place of the first."""
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise TypeError(f"{cls.__name__} needs a name that is an identifier, not {name!r}")
    REGISTRY[name] = cls()
    return cls
