"""One operation of the program, as recorded during capture; becomes an FX node when the graph is finished."""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

from framelift.graph.metadata import Ref, Storage, TensorRef
from framelift.graph.state import TorchState
from framelift.shapes.unbacked import Bindings

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
        "must_run",
        "is_cut",
        "bindings",
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
        # Stays in the graph although nobody uses its result: it may raise.
        self.must_run = False
        # Belongs to a body: what it computes cannot be used outside of that.
        self.is_cut = False
        # Symbols for what depends on data that came with its result, and where in it they are found.
        self.bindings: Bindings = {}

    @property
    def tensors(self) -> list[TensorRef]:
        """The tensors among its arguments."""
        return [ref for ref in self.uses if isinstance(ref, TensorRef)]

    @property
    def name(self) -> str:
        """The operation's name as a user would say it."""
        return operation_name(self.target)


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
