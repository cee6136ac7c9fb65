"""What values need from the capture they run in: the `Tracer`, of which `capture.lift.Lift` is the one implementation.

Values know the protocols of this file, and nothing above them. A value of the program is `Any` here, as on the stack
of the interpreter: a plain constant or a `Value`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any, NoReturn, Protocol

from framelift.effects.journal import Journal
from framelift.effects.modes import TorchModes
from framelift.graph import GraphBuilder, NumberRef, TensorRef
from framelift.guards.guardset import GuardSet
from framelift.guards.quantity import Calculated, Quantity
from framelift.guards.source import Source, Sources
from framelift.shapes.history import Policy

Arguments = tuple[Any, ...]
# A class, by its identity, and the name of an attribute.
Lookup = tuple[int, str]
# The modules that are being called: the way to each, its name, its class.
Labels = tuple[tuple[str, str, str], ...]
# How a function behaves that is not traced: called with the tracer, the arguments and the keywords.
Model = Callable[["Tracer", list[Any], dict[str, Any]], Any]


class TracedFrame(Protocol):
    """One activation of a Python function of the program."""

    locals: list[Any]
    stack: list[Any]
    pc: int
    names: Any
    yielded: bool

    @property
    def program(self) -> Any:
        """What it runs: the steps of its code."""

    @property
    def function(self) -> Any:
        """The function that was called."""

    @property
    def globals(self) -> Any:
        """The variables of its module."""

    @property
    def caller(self) -> Any:
        """The frame that called it; None for the outermost."""

    @property
    def protected(self) -> bool:
        """Whether the current step stands in a `try` or `with` of the user's."""

    @property
    def delegates(self) -> bool:
        """Whether the frame stopped in a `yield from`."""

    def enter(self, caller: Any) -> None:
        """Be called, or gone on with, by the current step of another frame."""

    def run(self) -> Any:
        """Run until the function returns or yields."""

    def throw(self, exception: Any) -> Any:
        """Go on, with `exception` raised where the frame stopped: at a `yield`, in place of whose result None lies."""

    def holds(self) -> list[Any]:
        """What the frame keeps alive."""

    def snapshot(self) -> Any:
        """Where it stands and what its variables hold, for `restore`."""

    def restore(self, snapshot: Any) -> None:
        """Go back to what `snapshot` gave."""


class InputTable(Protocol):
    """The objects of the user's that a capture came across."""

    @property
    def keyed(self) -> dict[int, Any]:
        """Those used as keys, by their identity."""

    @property
    def tensors(self) -> dict[int, Any]:
        """Tensors that are inputs of the graph, by the identity of their refs."""

    def avoid(self, obj: Any) -> None:
        """Have the program stop where it comes across an object."""

    def value_of(self, obj: Any) -> Any:
        """The value of an object that the program came across; None: it did not."""

    def lasting(self) -> Iterator[Any]:
        """Inputs that nothing the program does can drop: namespaces of modules, classes, what their functions know."""

    def symbolic_number(self, lift: Tracer, quantity: Quantity, number: Any) -> Any:
        """A number of an input as a symbol, if the policy wants it to be one."""

    def item_number(self, lift: Tracer, quantity: Quantity, number: float) -> Any:
        """The number in a tensor of the host as a symbol; None if it cannot be one."""

    def calculated_number(self, lift: Tracer, calculated: Calculated, number: Any) -> Any:
        """A number that is calculated from others, before the graph runs; None if it cannot be a symbol."""

    @property
    def calculations(self) -> list[Calculated]:
        """The numbers that are calculated, each after those it is calculated from."""

    def source(self, ref: TensorRef | NumberRef) -> Source:
        """Where a tensor that is an input of the graph is found."""

    def add_tensor(self, lift: Tracer, value: Any) -> TensorRef:
        """Make a tensor an input of the graph."""


class NewClasses(Protocol):
    """The classes that the program makes, and attributes that it assigns to others."""

    active: bool

    @property
    def names(self) -> set[str]:
        """Names of attributes that the program assigned to classes it did not make."""

    def add(self, made: Any) -> None:
        """Note a class that the program made."""

    def assign(self, name: str) -> None:
        """Note that the program assigns an attribute of a class it did not make."""

    def of(self, template: Any) -> Any:
        """The class a template belongs to."""

    def assigned(self, tracer: Tracer, cls: type, name: str) -> Any:
        """What the program assigned to a class, as if it were found there."""

    def value_of(self, tracer: Tracer, raw: Any) -> Any:
        """The value behind something found in a template."""

    def stand_in(self, value: Any, name: str = "") -> Any:
        """What represents a value in a template, as its attribute `name`."""

    def represent(self, raw: Any, value: Any) -> None:
        """Note which value an object in a template stands for."""


class StepCount(Protocol):
    """How far a program has come that can be left between any two instructions."""

    @property
    def count(self) -> int:
        """The number of the current instruction."""

    @property
    def owns_arguments(self) -> bool:
        """Whether nobody else is known to hold the arguments."""

    @property
    def are_waiting(self) -> bool:
        """Whether frames wait for the outermost one that is being traced."""


class Programs(Protocol):
    """Code objects, lowered once for all captures."""

    def of(self, code: CodeType) -> Any:
        """The steps of a code object."""


class CompilingAnswers(Protocol):
    """What the program heard when it asked whether it is compiled."""

    # How often it was told otherwise in another attempt.
    reconsidered: int
    # What first led the program astray, in words.
    why: str

    def doubt(self, why: str = "") -> None:
        """The program goes astray: capture again, if an answer may be why."""


class Tracer(Protocol):
    """One capture, as values see it: graph, guards and journal under construction, and the program being traced."""

    journal: Journal
    handled: Any
    modules: Labels
    has_changed_filters: bool

    @property
    def graph(self) -> GraphBuilder:
        """The graph under construction."""

    @property
    def guards(self) -> GuardSet:
        """The facts noted so far."""

    @property
    def sources(self) -> Sources:
        """The ways to objects, each made once."""

    @property
    def policy(self) -> Policy:
        """Which sizes and numbers are symbolic."""

    @property
    def modes(self) -> TorchModes:
        """The modes of torch that the program has set."""

    @property
    def inputs(self) -> InputTable:
        """The objects of the user's that were reached."""

    @property
    def frame(self) -> TracedFrame | None:
        """The innermost frame; None where nothing is being run."""

    @property
    def made(self) -> NewClasses:
        """The classes that the program makes."""

    @property
    def contexts(self) -> Any:
        """The context variables that the program has set."""

    @property
    def steps(self) -> StepCount:
        """How far the outermost frame has come."""

    @property
    def programs(self) -> Programs:
        """Code objects, lowered."""

    @property
    def answers(self) -> CompilingAnswers:
        """What the program heard of being compiled."""

    @property
    def watched(self) -> list[Any]:
        """What the program has made weak references to."""

    @property
    def has_residual(self) -> bool:
        """Whether anything of the program runs besides the graph."""

    @property
    def listeners(self) -> dict[int, Any]:
        """Who heard records and warnings of the program, by the identity of the value."""

    @property
    def lookups(self) -> dict[Lookup, Any]:
        """Class attributes looked up so far: (id of the class, name) -> what was found and noted."""

    @property
    def noted_bases(self) -> dict[int, int]:
        """How many classes of an MRO were noted, by the identity of the class."""

    @property
    def kept(self) -> list[Any]:
        """Objects that nobody else may hold, for the entry to keep: guards hold theirs weakly."""

    @property
    def suspended(self) -> list[Any]:
        """The generators that the program has made."""

    @property
    def builtins(self) -> Any:
        """The variables of the module `builtins`."""

    def guard(self, source: Source, check: str, argument: Any) -> None:
        """Note a fact about an input, with the user's line that needs it."""

    def require(self, source: Source) -> None:
        """Note that a source must be there, whatever it holds."""

    def wrap(self, obj: Any, source: Source) -> Any:
        """The value of an input object, or of one that the program made and that is reached like an input."""

    def known_object(self, obj: Any) -> Any:
        """The value of an object whose identity is no assumption: a class found as a type, a builtin."""

    def module_namespace(self, module: ModuleType) -> Any:
        """The variables of a module."""

    def answer_compiling(self) -> bool:
        """Whether the program is compiled, as far as it hears. Most ask through a function that asks for others."""

    def constant(self, value: Any) -> Any:
        """The plain Python object a value is, guarded as such."""

    def size(self, items: list[Any]) -> Any:
        """A `torch.Size`: plain where all its items are."""

    def as_index(self, value: Any) -> int:
        """An integer, as `operator.index` gives it."""

    def type_of(self, value: Any) -> type:
        """The type of a value, guarded."""

    def text(self, value: Any, conversion: str) -> str:
        """`str(value)` or `repr(value)`."""

    def format_by_percent(self, template: Any, arguments: Any) -> Any:
        """`template % arguments` for a str or bytes."""

    def format_by_method(self, template: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`template.format(*args, **kwargs)`, or `format_map`."""

    def has_attribute(self, value: Any, name: str) -> bool:
        """`hasattr(value, name)`."""

    def handled_exception(self) -> Any:
        """The exception that is being handled, or None."""

    def handled_outside(self) -> Any:
        """The exception that is handled where the program was called, or None."""

    def model_of(self, target: Any) -> Model | None:
        """How a function or class behaves, where that is not its Python code."""

    def forget_models(self) -> None:
        """Code of the user's has run: it may have promised something of what is called next."""

    def promised_model(self, value: Any) -> Model | None:
        """The model of an object that can be called, of which the program promised something."""

    def call_as_it_is(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call something of which the program promised what does not hold for these arguments."""

    def inline(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call a Python function by tracing it, or what stands for it."""

    def bound_arguments(self, function: Any, args: list[Any]) -> list[Any]:
        """The arguments of a function, with the defaults of those that are not given."""

    def refuse_operation(self, value: Any, operation: str) -> NoReturn:
        """Say what Python says where the type of `value` has no such operation; else break."""

    def refuse_comparison(self, symbol: str, left: type, right: type) -> NoReturn:
        """Say what Python says of two objects that have no order."""

    def refuse_operands(self, symbol: str, left: type, right: type) -> NoReturn:
        """Say what Python says of two objects that have no such operation."""

    def spend(self, amount: int, what: str) -> None:
        """Account for work: a program that would be traced for minutes is left to Python."""

    def run_in_namespace(self, body: Any, names: Any) -> Any:
        """Run the body of a class statement, or code made of text: its variables are items of `names`."""

    def run_frame(self, frame: Any, run: Callable[[], Any] | None = None) -> Any:
        """Call a frame, or go on with one by `run`."""

    def graph_argument(self, value: Any) -> Any:
        """What the graph gets when this is passed to a tensor operation."""

    def call_torch(self, target: Callable[..., Any], args: Arguments, kwargs: dict[str, Any]) -> Any:
        """A call of a torch function as a node of the graph."""

    def call_opaque(self, target: Callable[..., Any], args: Arguments, kwargs: dict[str, Any]) -> Any:
        """A call of a function of which nothing is known as a node of the graph."""

    def call_tensor_method(self, name: str, args: Arguments, kwargs: dict[str, Any]) -> Any:
        """A call of a tensor's method as a node of the graph."""

    def call_on_bodies(self, target: Callable[..., Any], args: Arguments, raises: bool) -> Any:
        """An operation on values of the graph and on bodies, as a node of the graph."""

    def call_on_numbers(self, target: Callable[..., Any], args: Arguments) -> Any:
        """An operation that takes or gives symbolic numbers, as a node of the graph; NotImplemented: it cannot be."""

    def calculate(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function of numbers gives, where some of them are symbolic; None: they must be specialised."""

    def with_leaf(self, make: Callable[[dict[str, Any]], Any], kwargs: dict[str, Any]) -> Any:
        """The result of a function of torch's, which is a leaf if `requires_grad=True` is among its arguments."""

    def makes_leaves(self) -> bool:
        """Whether residual code may make tensors for the part of the program that is being traced."""

    def presume(self, ref: NumberRef, is_said: bool = False) -> None:
        """Go on as if a condition on symbolic numbers were true; checked when the graph runs, or guarded.

        `is_said`: the program says so itself, or raises.
        """

    def is_so_now(self, ref: NumberRef) -> bool | None:
        """Whether a condition on numbers that depend on data is true in the call that is captured, if that is known."""

    def specialise(self, ref: NumberRef) -> Any:
        """The number a symbolic one is now; guarded from here on."""

    def stands_for(self, ref: TensorRef, value: Any) -> None:
        """From here on operations that give this tensor of the graph give the value."""

    def from_graph(self, result: Any) -> Any:
        """A result of the graph as a value of the program."""

    def program_point(self) -> Any:
        """What is being run; None once all of it is captured."""
