"""What every symbolic value is, and the exceptions by which a traced program leaves the straight path.

On the interpreter's stack an immutable constant of the program (`3`, `"sum"`, `torch.float32`, `(1, 2)`) is the plain
Python object. Everything else is a `Value`: it answers Python's own protocol, one method per operation, for one family
of objects. What a family does not answer is one generic graph break with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import repeat
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NoReturn

from framelift.breaks import FL0107, FL0201, GraphBreak
from framelift.guards.source import Source
from framelift.values.core.refusals import Operation

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


_copied = methodcaller("copy")

# What makes an object again: a function, and its arguments, which are constants or values.
Call = tuple[Callable[..., Any], Sequence[Any]]


class Raised(Exception):
    """The traced program raised: `value` is the exception, as a value of the program."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


class Exhausted(Exception):
    """The traced iterator has no more items; `raised` is how the program itself said so, if it did."""

    def __init__(self, *args: Any, raised: Raised | None = None) -> None:
        super().__init__(*args)
        self.raised = raised


# By the identity of the type: hashing a class may run its metaclass.
MODELS: dict[int, type[Value]] = {}
# Values that are made below the family they belong to, by what they stand for.
ROLES: dict[str, Callable[..., Any]] = {}


class Value:
    """One symbolic Python object.

    `source` says how the object is reached from the inputs (None: the program made it). `concrete` is the real object
    behind an input, never to be touched in a way that could run the user's code.
    """

    __slots__ = ("source", "concrete", "noted")

    # Whether the model answers every operator its type has, so that NotImplemented means TypeError.
    answers_operators = True
    # Whether another input may be the same object without a guard that says so.
    has_twins = True
    # Whether two uses of a rebuilt value must give one object: a program could tell with `is`, or change it.
    shared = True
    # Whether C functions that take any iterable are given its items.
    is_read_by_items = False
    # Whether what it refers to lives at least as long as it does.
    keeps_parts = True
    # Whether others may see the object die: by a weak reference, a finalizer, a file that is closed.
    death_shows = False
    # Whether it is a tensor that can be one of the graph.
    is_tensor = False
    # Whether its changes are marks, which may be made twice.
    marks_only = False
    # What its `__class__` says, which `isinstance` believes; None: its type.
    claimed_class: type | None = None
    # The C type below its class, whose methods act on the storage inside of it.
    base: type | None = None
    # What the program can change about it: attributes that are assigned, and those with containers changed in place.
    assigns: tuple[str, ...] = ()
    mutates: tuple[str, ...] = ()

    def __init_subclass__(cls, models: type | tuple[type, ...] = (), role: str | None = None) -> None:
        """`class ListValue(Value, models=list)`: inputs of exactly that type are wrapped in this class."""
        super().__init_subclass__()
        if role is not None:
            ROLES[role] = cls
        for kind in models if isinstance(models, tuple) else (models,):
            MODELS[id(kind)] = cls

    def __init__(self, source: Source | None = None, concrete: Any = None) -> None:
        self.source = source
        self.concrete = concrete
        self.noted = source is None

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(source, obj)

    # -- what it is -----------------------------------------------------------------------------------------------

    def python_type(self) -> type:
        return type(self.concrete)

    def guarded_type(self, tracer: Tracer) -> type:
        """The type, with the guard that makes it so."""
        self.note(tracer)
        return self.python_type()

    def is_exactly(self, cls: type) -> bool:
        """Whether looking a method up finds that of the C type `cls`, and none of the user's."""
        return self.python_type() is cls

    def note(self, tracer: Tracer) -> None:
        """Note the guard that makes this model valid; called before any operation looks at the value."""
        if not self.noted:
            self.noted = True
            self.note_facts(tracer)

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        tracer.guard(self.source, "TYPE", type(self.concrete))

    def describe(self) -> str:
        return self.python_type().__name__

    # -- the protocol: each method answers one operation of CPython's type slots -----------------------------------

    def refuse(self, operation: str, **facts: Any) -> NoReturn:
        """The graph ends before the operation: it is not modelled."""
        raise GraphBreak(FL0201, operation=operation.format(**facts) if facts else operation, type=self.describe())

    def truth(self, tracer: Tracer) -> bool:
        return True

    def length(self, tracer: Tracer) -> Any:
        tracer.refuse_operation(self, "len()")

    def item(self, tracer: Tracer, key: Any) -> Any:
        tracer.refuse_operation(self, "indexing")

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        tracer.refuse_operation(self, "item assignment")

    def delete_item(self, tracer: Tracer, key: Any) -> None:
        tracer.refuse_operation(self, "item deletion")

    def iterate(self, tracer: Tracer) -> Any:
        tracer.refuse_operation(self, "iteration")

    def next(self, tracer: Tracer) -> Any:
        """The next item of an iterator; raises Exhausted at its end."""
        tracer.refuse_operation(self, "next()")

    def length_hint(self, tracer: Tracer) -> Any:
        """How many items an iterator has left, where its type says so."""
        self.refuse("__length_hint__()")

    def drop(self) -> None:
        """Let go of the real object: the capture is over."""
        self.concrete = None

    def ask_length(self, tracer: Tracer) -> None:
        """Have the program's own methods say how many items there are; nobody needs to know."""

    def contains(self, tracer: Tracer, item: Any) -> Any:
        tracer.refuse_operation(self, "'in'")

    def is_among(self, tracer: Tracer, keys: Callable[[Tracer], Collection[Any]]) -> bool | None:
        """Whether it is one of some keys, where that is told without it being known; None: elsewhere."""
        return None

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        tracer.refuse_operation(self, "calling")

    def attribute(self, tracer: Tracer, name: str) -> Any:
        self.refuse(Operation.ATTRIBUTE, name=name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        self.refuse(Operation.SET_ATTRIBUTE, name=name)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        self.refuse(Operation.DELETE_ATTRIBUTE, name=name)

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any:
        """What C code keeps in the object, by the descriptor that reads it."""
        self.refuse(Operation.ATTRIBUTE, name=descriptor.__name__)

    def get_computed(self, tracer: Tracer, descriptor: Any) -> Any:
        """What C code computes for an attribute; NotImplemented where nothing is known of that."""
        return NotImplemented

    def unary(self, tracer: Tracer, operator: str) -> Any:
        tracer.refuse_operation(self, f"unary {operator}")

    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        """What a function that asks for a number slot gets, such as `int()` for `__int__`.

        NotImplemented: the same as of the plain constant that this value is.
        """
        return NotImplemented

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        """`self <operator> other`, or NotImplemented."""
        return NotImplemented

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        """`other <operator> self`, or NotImplemented."""
        return NotImplemented

    def goes_first(self, operator: str, other: type) -> bool:
        """Whether the operand on the right, of a subclass of `other`, has a reflected operator of its own."""
        return True

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        """`self <operator> other`, or NotImplemented. The default is identity, as for `object`."""
        if operator in ("==", "!="):
            return NotImplemented
        self.refuse(Operation.COMPARISON, operator=operator)

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        """`self is other`, where the two are different values of one program."""
        mine, theirs = self.source, other.source
        if mine is not None and theirs is not None and not (mine.is_new or theirs.is_new):
            tracer.guards.relate("DISTINCT", (mine, theirs))
        return False

    def is_constant_object(self, tracer: Tracer, constant: Any) -> bool:
        """`self is constant` for a plain constant such as None."""
        if self.source is not None and not self.noted:
            tracer.guard(self.source, "NOT_IS", constant)
        return False

    def key(self, tracer: Tracer) -> Any:
        """What stands for this value as a key of a modelled dict or set: its identity, unless equality says more."""
        if self.source is not None and not self.source.is_new:
            tracer.inputs.keyed[id(self)] = self
        return Identity(self)

    def pin(self, tracer: Tracer) -> bool:
        """Note which object this is, if it is an input that is equal to itself only, for every class of its kind."""
        return False

    def stored_keys(self, tracer: Tracer) -> list[Any] | None:
        """The members or keys of a hash table, in order, as `py.key_of` makes them; None for what is no such table."""
        return None

    def constant(self, tracer: Tracer) -> Any:
        """The plain Python constant this value is, with the guards that make it so."""
        self.refuse("use as a constant")

    def as_index(self, tracer: Tracer) -> Any:
        """What `operator.index` gives: something that is an int, or else no index."""
        return self

    def has_index(self, tracer: Tracer) -> bool:
        """Whether it is an object of a class written in Python that can be used as an integer."""
        return False

    def subscript(self, tracer: Tracer) -> Any:
        """What a constant sequence is indexed by when it is indexed by this, which has no `__index__`."""
        return tracer.constant(self)

    def storage_of(self, tracer: Tracer, kind: type) -> Any:
        """What C code of the container `kind` reads of an instance of a subclass; None: this is none."""
        return None

    def mergeable(self, tracer: Tracer) -> Any:
        """What `dict.update` reads when given this."""
        return self

    def torch_rules(self, tracer: Tracer) -> type | None:
        """The class whose `__torch_function__` torch asks of operations on it, as things stand; None: it asks none."""
        return None

    def refuse_own(self, name: str) -> None:
        """For a tensor: break where `name` is about this very one, and the graph has another in its place."""

    # Whether it is a tensor of which the dispatcher asks its class.
    is_wrapper = False

    def dispatch(
        self, tracer: Tracer, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """For such a tensor: what becomes of an operation on it."""
        raise NotImplementedError

    def without_class(self, tracer: Tracer) -> Any:
        """For a tensor of a class of its own the plain one in its memory; else itself."""
        return self

    def graph_argument(self, tracer: Tracer) -> Any:
        """What the graph gets when this value is passed to a tensor operation."""
        self.refuse(Operation.GRAPH_ARGUMENT)

    def text(self, tracer: Tracer, conversion: str) -> str:
        """`str()` or `repr()` of the value."""
        self.refuse(f"{conversion}()")

    def text_again(self) -> str | None:
        """What stands for the value in its own text; None where it cannot be in there."""
        return None

    def format(self, tracer: Tracer, spec: Any) -> str:
        """`format(self, spec)`: without a specification that is `str(self)`."""
        if tracer.constant(spec):
            self.refuse("format() with a specification")
        return tracer.text(self, "str")

    # -- change -----------------------------------------------------------------------------------------------------

    def state(self) -> Any:
        """A copy of everything the program can change about this value, for undoing."""
        return (
            *map(getattr, repeat(self), self.assigns),
            *map(_copied, map(getattr, repeat(self), self.mutates)),
        )

    def restore(self, state: Any) -> None:
        """Go back to what `state()` returned."""
        for name, value in zip((*self.assigns, *self.mutates), state, strict=True):
            setattr(self, name, value)

    def is_as_it_was(self, state: Any) -> bool:
        """Whether nobody could tell the present state from what `state()` returned; False where that is not known."""
        return False

    def replay(self, emit: Emitter) -> None:
        """Emit code that brings the real object behind this input to its final state."""

    def put_back(self, emit: Emitter) -> None:
        """Emit code that takes back what was done to the real object before the graph ran, which has raised."""

    # -- the way back -----------------------------------------------------------------------------------------------

    def made_by(self) -> Call | None:
        """The call that makes this object again, where that is all there is to it."""
        return None

    def rebuild(self, emit: Emitter) -> None:
        """Emit code that leaves this object on the stack, for values the program made."""
        call = self.made_by()
        if call is None:
            raise GraphBreak(FL0107, what=self.describe())
        function, args = call
        emit.callable(function)
        for argument in args:
            emit.value(argument)
        emit.call(len(args))

    def parts(self) -> list[Any]:
        """The values this one refers to and that `rebuild` needs."""
        return []

    # -- nobody uses a value's concrete state by accident -----------------------------------------------------------

    def _raise(self, *_: Any) -> NoReturn:
        raise TypeError(
            f"Python operator applied to a symbolic {type(self).__name__}: ask framelift.values.core.protocol"
        )

    __bool__ = __len__ = __iter__ = __int__ = __float__ = __index__ = __getitem__ = __contains__ = __call__ = _raise
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _raise
    __hash__ = _raise

    def __repr__(self) -> str:
        origin = f" {self.source.name}" if self.source is not None else ""
        return f"<{type(self).__name__}{origin}>"


class KnownObject(Value):
    """An object that is guarded by identity: whether it is another one needs no further guard."""

    __slots__ = ()

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        tracer.guard(self.source, "IS", self.concrete)

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        self.note(tracer)
        other.note(tracer)
        return self.concrete is other.concrete

    def is_constant_object(self, tracer: Tracer, constant: Any) -> bool:
        self.note(tracer)
        return False


class Identity:
    """A hashable stand-in for a value that is equal to itself only."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class PlacedIdentity(Identity):
    """One of an object that was there before: hash tables have it in the same place."""

    __slots__ = ()

    def __hash__(self) -> int:
        return object.__hash__(self.value.concrete)


class Null:
    """CPython's NULL on the evaluation stack."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NULL"


NULL = Null()
