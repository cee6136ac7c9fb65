"""One operation of the program, as recorded during capture, and the values it takes and gives.

A :class:`Record` becomes an FX node when the graph is finished. A :class:`TensorRef` stands for one tensor of the
program under capture, a :class:`Storage` for the memory behind it. The fake tensor is made only when somebody needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch.fx import Node

from framelift.graph.metadata import Descriptor, Expression
from framelift.graph.state import TorchState
from framelift.shapes.bindings import Bindings
from framelift.shapes.symbols import Layout

Operation = Literal["call_function", "call_method"]


@runtime_checkable
class Location(Protocol):
    """Where in the user's program an operation stands. Asked only when the graph is finished."""

    def stack_trace(self) -> str:
        """The user's frames, innermost last, in the form of a Python traceback."""

    def module_stack(self) -> dict[str, tuple[str, str]]:
        """The modules being called: path in the program -> (name in the model, qualified name of the class)."""


class Record:
    """One recorded operation."""

    __slots__ = (
        "op",
        "target",
        "args",
        "kwargs",
        "uses",
        "location",
        "state",
        "state_number",
        "index",
        "result",
        "outputs",
        "writes",
        "changed",
        "is_effect",
        "is_random",
        "asks_data",
        "must_run",
        "is_early",
        "is_cut",
        "bindings",
        "reads_data",
    )

    def __init__(
        self,
        op: Operation,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        uses: list[Ref],
        location: Location | str | None,
        state: tuple[TorchState, int],
    ) -> None:
        self.op: Operation = op
        self.target = target
        self.args = args
        self.kwargs = kwargs
        # The values among its arguments.
        self.uses = uses
        self.location = location
        # torch's modes when it ran, so that it can be run again the same way.
        self.state, self.state_number = state
        self.index = -1
        # Its result, with values in place of tensors, and those values (some may be arguments returned as they are).
        self.result: Any = None
        self.outputs: list[Ref] = []
        # The storages it writes to, and all in which it changes something: these, and those whose tensors get
        # other metadata (requires_grad_).
        self.writes: tuple[Storage, ...] = ()
        self.changed: tuple[Storage, ...] = ()
        # Does something besides computing its result and writing to tensors: switches a mode, checks, synchronises.
        self.is_effect = False
        self.is_random = False
        # Whether it looks at data, and may raise for what it finds.
        self.asks_data = False
        # Stays in the graph although nobody uses its result: it may raise.
        self.must_run = False
        # A check that is to come before anything is written to.
        self.is_early = False
        # Belongs to a body: what it computes cannot be used outside of that.
        self.is_cut = False
        # Symbols for what depends on data that came with its result, and where in it they are found.
        self.bindings: Bindings = {}
        # What its result is like depends on data, though it may be known by what is presumed in this capture.
        self.reads_data = False

    @property
    def tensors(self) -> list[TensorRef]:
        """The tensors among its arguments."""
        return [ref for ref in self.uses if isinstance(ref, TensorRef)]

    @property
    def name(self) -> str:
        """The operation's name as a user would say it."""
        return operation_name(self.target)


class Storage:
    """The memory behind one or several tensors of the program."""

    __slots__ = ("refs", "changes", "untyped", "whole", "converter")

    def __init__(self) -> None:
        # Every tensor known to live here, oldest first.
        self.refs: list[TensorRef] = []
        # The records that wrote to it or changed the metadata of a tensor in it, oldest first.
        self.changes: list[Record] = []
        # The fake storage, once some tensor in it has a fake.
        self.untyped: torch.UntypedStorage | None = None
        # Where it has a symbolic size: a tensor without data that fills it.
        self.whole: torch.Tensor | None = None
        # What makes fakes from the real tensors in it, once there is a need.
        self.converter: Any = None

    @property
    def is_written(self) -> bool:
        return any(self in record.writes for record in self.changes)

    def changed_after(self, record: Record | None) -> bool:
        """Whether it was changed after a record; after the start, for None."""
        return bool(self.changes) and (record is None or self.changes[-1].index > record.index)

    def forget_fakes(self) -> None:
        self.untyped = None
        self.whole = None
        self.converter = None
        for ref in self.refs:
            ref.known_fake = None


class Ref:
    """A value computed by the graph."""

    __slots__ = ("node", "record", "path")

    def __init__(self, record: Record | None, path: tuple[int | str, ...]) -> None:
        # The record that computes it (None: an input of the graph) and where in that record's result it stands.
        self.record = record
        self.path = path
        # Set when the graph is emitted.
        self.node: Node | None = None


class TensorRef(Ref):
    """A tensor of the program under capture."""

    __slots__ = (
        "descriptor",
        "storage",
        "aliases",
        "known_fake",
        "known_value",
        "example",
        "input_name",
        "source_name",
        "kind",
        "layout",
        "_make_fake",
        "__weakref__",
    )

    def __init__(
        self,
        descriptor: Descriptor,
        storage: Storage,
        record: Record | None,
        path: tuple[int | str, ...],
        make_fake: Callable[[TensorRef], torch.Tensor],
    ) -> None:
        super().__init__(record, path)
        self.descriptor = descriptor
        self.storage = storage
        # Shares its storage with an older tensor.
        self.aliases = bool(storage.refs)
        self.known_fake: torch.Tensor | None = None
        # Of a constant: its value when it was made, in words.
        self.known_value: str | None = None
        # Of an input: the real tensor it was captured with, its name in the graph, where it comes from.
        self.example: torch.Tensor | None = None
        self.input_name: str | None = None
        self.source_name: str | None = None
        self.kind: str | None = None
        # Of an input with symbolic sizes: its sizes and strides at entry.
        self.layout: Layout | None = None
        self._make_fake = make_fake
        storage.refs.append(self)

    @property
    def fake(self) -> torch.Tensor:
        """The FakeTensor that stands for it, made on first use."""
        if self.known_fake is None:
            return self._make_fake(self)
        return self.known_fake

    @property
    def is_input(self) -> bool:
        return self.record is None

    @property
    def is_new(self) -> bool:
        """Whether it is an input that is made for each call."""
        return self.kind == "new"

    @property
    def shape(self) -> torch.Size:
        return self.descriptor.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.descriptor.dtype

    @property
    def is_written_as_view(self) -> bool:
        """Whether autograd may go on from it, the graph has made it, and writes to it by way of a view."""
        storage = self.storage
        if not storage.changes or not self.requires_grad or self.descriptor.is_view:
            return False
        if any(ref.is_input for ref in storage.refs):
            return False
        return any(self not in record.tensors for record in storage.changes if storage in record.writes)

    @property
    def device(self) -> torch.device:
        return self.descriptor.device

    @property
    def requires_grad(self) -> bool:
        return self.descriptor.requires_grad

    def stride(self) -> tuple[int, ...]:
        return self.descriptor.stride

    def __repr__(self) -> str:
        origin = self.input_name if self.record is None else f"{self.record.name}{list(self.path) or ''}"
        return f"TensorRef({origin}: {self.descriptor})"


class NumberRef(Ref):
    """An int, float or bool that differs from call to call: `known_fake` is torch's symbolic number."""

    __slots__ = ("known_fake", "example", "input_name", "source_name")

    kind = "number"

    def __init__(self, record: Record | None, path: tuple[int | str, ...], symbolic: Any) -> None:
        super().__init__(record, path)
        self.known_fake = symbolic
        # Of an input: the number it was captured with, its name in the graph, where it comes from.
        self.example: int | float | None = None
        self.input_name: str | None = None
        self.source_name: str | None = None

    @property
    def fake(self) -> Any:
        return self.known_fake

    @property
    def descriptor(self) -> Expression:
        return Expression(type(self.known_fake), self.known_fake.node._expr)

    def __repr__(self) -> str:
        return f"NumberRef({self.known_fake})"


class TokenRef(Ref):
    """A value only other operations of the graph can use, such as the handle of an entered autocast region."""

    __slots__ = ()


def operation_name(target: Any) -> str:
    """A short readable name for a graph target.

    >>> import operator, torch
    >>> operation_name(operator.add), operation_name(torch.ops.aten.add.Tensor), operation_name("view")
    ('add', 'add', 'view')
    """
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", None) or type(target).__name__
    packet = getattr(target, "overloadpacket", None)
    return str(name if packet is None else packet.__name__)
