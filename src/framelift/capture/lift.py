"""The state of one capture, and what values and instructions ask of it."""

from __future__ import annotations

import builtins
import operator
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import framelift.values.families  # noqa: F401  (registers what nothing names)
from framelift import config
from framelift.breaks import (
    FL0106,
    FL0108,
    FL0201,
    GraphBreak,
)
from framelift.capture.inputs import Inputs
from framelift.capture.interpreter.arguments import bind_arguments
from framelift.capture.interpreter.frame import Frame
from framelift.capture.interpreter.headroom import Headroom
from framelift.capture.interpreter.location import ProgramPoint
from framelift.capture.interpreter.program import Programs
from framelift.capture.interpreter.stepping import SteppingFrame
from framelift.capture.interpreter.steps import Steps
from framelift.capture.is_compiling import Answers, is_misled
from framelift.capture.operations import Operations
from framelift.effects.journal import Journal
from framelift.effects.modes import TorchModes
from framelift.graph import GraphBuilder, NumberRef, TensorRef
from framelift.guards.equality import has_type
from framelift.guards.guardset import GuardSet
from framelift.guards.source import Source, Sources
from framelift.interrupts import let_signals_in
from framelift.residual.segments import Fragments
from framelift.shapes.history import History, Policy
from framelift.values.builtins.calculated import calculate
from framelift.values.builtins.formatting import shown, shown_arguments
from framelift.values.classes.new_classes import MadeClasses
from framelift.values.containers.dicts import DictValue
from framelift.values.containers.sequences import TupleValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Raised, Value
from framelift.values.core.constants import plain_text
from framelift.values.core.exceptions import is_raised, raise_error
from framelift.values.core.lookup import (
    Found,
)
from framelift.values.core.primitives import Model, primitive_of
from framelift.values.functions.coroutines import kind_of_generator
from framelift.values.functions.functions import FunctionLike
from framelift.values.functions.generators import GeneratorValue
from framelift.values.functions.modelled import model_of_inner, python_model
from framelift.values.functions.reloaded import twin_of
from framelift.values.objects.missing_operations import refuse_comparison, refuse_operands, refuse_operation
from framelift.values.stdlib.contextvars import Contexts
from framelift.values.subclasses.tuples import tuple_class_model
from framelift.values.tensors.deferred import percent, shows_tensor
from framelift.values.tensors.leaves import with_leaf
from framelift.values.tensors.overrides import ask_first
from framelift.values.tensors.sizes import make_size
from framelift.values.tensors.torch_functions import asks_first, torch_model
from framelift.values.torch.compiler import error_on_graph_break, promised_model, torch_control

# Guards hold objects of the user's weakly, which these do not allow.
_NEVER_KNOWN = (dict, list)
_WRITTEN_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType)


class Lift:
    """One capture: the graph, guards and journal under construction, and the frames being traced."""

    def __init__(
        self,
        programs: Programs,
        graph: GraphBuilder,
        fragments: Fragments,
        argument_names: Sequence[str],
        policy: Policy | None = None,
    ) -> None:
        self.programs = programs
        self.fragments = fragments
        self.graph = graph
        # Which sizes and numbers are symbolic.
        self.policy = Policy(History()) if policy is None else policy
        self.operations = Operations()
        self.inputs = Inputs(self.policy, self.operations)
        self.sources = Sources(argument_names)
        self.guards = GuardSet()
        self.journal = self._own_journal = Journal()
        # Whether anything of the program runs besides the graph.
        self.has_residual = True
        self.modes = TorchModes()
        self.frame: Frame | None = None
        self.headroom = Headroom()
        self.answers = Answers()
        self.handled: Any = None
        # What the program has made weak references to.
        self.watched: list[Value] = []
        # What is handled where the program was called.
        self._outside: BaseException | None = sys.exception()
        # Whether the program asked for other warnings than those before it.
        self.has_changed_filters = False
        # Who heard records and warnings of the program: id of the value -> value.
        self.listeners: dict[int, Value] = {}
        self._left_to_spend = config.trace_limit
        self.steps = Steps()
        self.suspended: list[GeneratorValue] = []
        self.modules: tuple[tuple[str, str, str], ...] = ()
        # Class attributes looked up so far: (id of the class, name) -> what was found and noted.
        self.lookups: dict[tuple[int, str], Found | None] = {}
        # How many classes of an MRO were noted: id of the class -> count.
        self.noted_bases: dict[int, int] = {}
        # Objects that nobody else may hold, for the entry to keep: guards hold theirs weakly.
        self.kept: list[Any] = []
        # The models of functions and classes that were called, by the identity of these.
        self._models: dict[int, tuple[Any, Model | None]] = {}
        # What is called as if the program had promised nothing of it.
        self._as_it_is: Any = self
        self.made = MadeClasses()
        self.contexts = Contexts()
        # Containers whose text is being made: one of them within itself is only hinted at.
        self._shown: list[Value] = []
        self.builtins = self.module_namespace(builtins)

    # -- guards and inputs ---------------------------------------------------------------------------------------

    def guard(self, source: Source, check: str, argument: Any) -> None:
        """Note a fact about an input, with the user's line that needs it."""
        if not (self.made.active and self.made.about(source)):
            self.guards.add(source, check, argument, self.frame)

    def user_line(self) -> str | None:
        """The user's line that is being captured; None once all of them are."""
        point = self.program_point()
        if point is None:
            return None
        code, line = point.user_line()
        return f"{code.co_filename}:{line}"

    def require(self, source: Source) -> None:
        """Note that a source must be there, whatever it holds."""
        self.guard(source, "PRESENT", None)

    def wrap(self, obj: Any, source: Source) -> Any:
        """The value of an input object, or of one that the program made and that is reached like an input."""
        if self.made.active and self.made.about(source):
            return self.made.value_of(self, obj)
        return self.inputs.wrap(self, obj, source)

    def known_object(self, obj: Any) -> Any:
        """The value of an object whose identity is no assumption: a class found as a type, a builtin."""
        if has_type(obj, _NEVER_KNOWN):
            raise GraphBreak(FL0201, operation="use without a way that leads there", type=type(obj).__name__)
        value = self.wrap(obj, self.sources.known(obj))
        if type(value) is TupleValue and type(obj) is tuple:
            value.know_items(self)
        return value

    def module_namespace(self, module: types.ModuleType) -> DictValue:
        """The variables of a module."""
        namespace: DictValue = self.wrap(module.__dict__, self.sources.known(module).child("MODULE_DICT"))
        namespace.noted = True
        return namespace

    def answer_compiling(self) -> bool:
        """Whether the program is compiled, as far as it hears. Most ask through a function that asks for others."""
        point = self.program_point()
        assert point is not None, "a program asks while it runs"
        return not is_misled(point.line.code) and self.answers.to(point.innermost(2))

    # -- constants and the plain containers ------------------------------------------------------------------------

    def constant(self, value: Any) -> Any:
        """The plain Python object a value is, guarded as such."""
        if not isinstance(value, Value):
            return value
        value.note(self)
        return value.constant(self)

    def size(self, items: list[Any]) -> Any:
        """A `torch.Size`: plain where all its items are."""
        return make_size(self, items)

    def as_index(self, value: Any) -> int:
        """An integer, as `operator.index` gives it."""
        plain = self.constant(value.as_index(self)) if isinstance(value, Value) else value
        if not isinstance(plain, int):
            raise_error(TypeError, f"'{type(plain).__name__}' object cannot be interpreted as an integer")
        return plain

    def type_of(self, value: Any) -> type:
        """The type of a value, guarded."""
        return value.guarded_type(self) if isinstance(value, Value) else type(value)

    def text(self, value: Any, conversion: str) -> str:
        if not isinstance(value, Value):
            return plain_text(value, conversion)
        value.note(self)
        again = value.text_again()
        if again is None:
            return value.text(self, conversion)
        if any(shown is value for shown in self._shown):
            return again
        self._shown.append(value)
        try:
            return value.text(self, conversion)
        finally:
            self._shown.pop()

    def format_by_percent(self, template: Any, arguments: Any) -> Any:
        """`template % arguments` for a str or bytes."""
        if shows_tensor(self, arguments):
            return percent(self, template, arguments)
        if py.type_of(template) is bytes:
            return py.fold(self, operator.mod, self.constant(template), self.constant(arguments))
        return py.fold(self, operator.mod, self.constant(template), shown_arguments(self, arguments))

    def format_by_method(self, template: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`template.format(*args, **kwargs)`, or `format_map`."""
        plain = [shown_arguments(self, arg) if name == "format_map" else shown(self, arg) for arg in args]
        named = {key: shown(self, arg) for key, arg in kwargs.items()}
        return py.fold(self, getattr(template, name), *plain, **named)

    # -- attributes ------------------------------------------------------------------------------------------------

    def has_attribute(self, value: Any, name: str) -> bool:
        try:
            py.attribute(self, value, name)
        except Raised as raised:
            if is_raised(raised, AttributeError):
                return False
            raise
        return True

    def handled_exception(self) -> Any:
        """The exception that is being handled, or None."""
        return self.handled_outside() if self.handled is None else self.handled

    def handled_outside(self) -> Any:
        """The exception that is handled where the program was called, or None."""
        source = self.sources.known(sys.exception).child("RESULT")
        if self._outside is None:
            self.guard(source, "IS", None)
            return None
        return self.wrap(self._outside, source)

    # -- calls -----------------------------------------------------------------------------------------------------

    def model_of(self, target: Any) -> Model | None:
        """How a function or class behaves, where that is not its Python code."""
        if target is self._as_it_is:
            return self._own_model(target)
        known = self._models.get(id(target))
        if known is None:
            known = self._models[id(target)] = target, promised_model(target) or self._own_model(target)
        return known[1]

    def forget_models(self) -> None:
        """Code of the user's has run: it may have promised something of what is called next."""
        self._models.clear()

    def _own_model(self, target: Any) -> Model | None:
        """The same as if the program had promised nothing."""
        model = (
            primitive_of(target)
            or torch_model(target)
            or python_model(target)
            or tuple_class_model(target)
            or torch_control(target)
            or self._model_of_twin(target)
        )
        if model is not None and self.modes.has_overrides and asks_first(target):
            return ask_first(target, model)
        return model

    def _promised_model(self, target: Any) -> Model | None:
        return None if target is self._as_it_is else promised_model(target)

    def promised_model(self, value: Value) -> Model | None:
        """The model of an object that can be called, of which the program promised something."""
        model = None if value.source is None else self._promised_model(value.concrete)
        if model is not None:
            assert value.source is not None
            self.guard(value.source, "IS", value.concrete)
        return model

    def call_as_it_is(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call something of which the program promised what does not hold for these arguments."""
        if type(target) is types.FunctionType:
            return self.inline(self.known_object(target), args, kwargs)
        before, self._as_it_is = self._as_it_is, target
        try:
            return py.call(self, self.known_object(target), args, kwargs)
        finally:
            self._as_it_is = before

    def _model_of_twin(self, target: Any) -> Model | None:
        twin = twin_of(target)
        return None if twin is None else self.model_of(twin)

    def inline(self, function: FunctionLike, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call a Python function by tracing it, or what stands for it."""
        model = model_of_inner(self, function)
        if model is not None:
            return model(self, args, kwargs)
        frame = self.make_frame(function, bind_arguments(self, function, args, kwargs))
        return self.make_generator(frame) if frame.program.is_generator else self.run_frame(frame)

    def bound_arguments(self, function: FunctionLike, args: list[Any]) -> list[Any]:
        """The arguments of a function, with the defaults of those that are not given."""
        return bind_arguments(self, function, args, {})

    def make_generator(self, frame: Frame) -> Value:
        generator = kind_of_generator(frame.program.canonical.code)(frame, self.steps.count)
        self.suspended.append(generator)
        return generator

    def make_frame(self, function: FunctionLike, slots: list[Any]) -> Frame:
        program = self.programs.of(function.code)
        stepping = self.steps.depth and not program.is_generator and self._is_stepped_into(function)
        kind = SteppingFrame if stepping else Frame
        return kind(self, program, function, function.globals(self), slots)

    def _is_stepped_into(self, function: FunctionLike) -> bool:
        """Whether a call of `function` is all that the current instruction does, and is to be stepped through."""
        frame = self.frame
        return isinstance(frame, SteppingFrame) and frame.level < self.steps.depth and frame.calls(function)

    def refuse_operation(self, value: Value, operation: str) -> NoReturn:
        """Say what Python says where the type of `value` has no such operation; else break."""
        refuse_operation(value, operation)

    def refuse_comparison(self, symbol: str, left: type, right: type) -> NoReturn:
        """Say what Python says of two objects that have no order."""
        refuse_comparison(symbol, left, right)

    def refuse_operands(self, symbol: str, left: type, right: type) -> NoReturn:
        """Say what Python says of two objects that have no such operation."""
        refuse_operands(symbol, left, right)

    def spend(self, amount: int, what: str) -> None:
        """Account for work: a program that would be traced for minutes is left to Python."""
        let_signals_in()
        self._left_to_spend -= amount
        if self._left_to_spend < 0:
            raise GraphBreak(FL0108, what=what)

    def run_in_namespace(self, body: FunctionLike, names: Value) -> Any:
        """Run the body of a class statement, or code made of text: its variables are items of `names`."""
        frame = self.make_frame(body, bind_arguments(self, body, [], {}))
        frame.names = names
        return self.run_frame(frame)

    def run_frame(self, frame: Frame, run: Callable[[], Any] | None = None) -> Any:
        self.spend(1, "too many calls")
        used = self.headroom.enter(Lift.run_frame.__code__)
        if used is None:
            if self.frame is not None:
                raise GraphBreak(FL0106)
            used = 0
        frame.enter(self.frame)
        self.frame = frame
        try:
            return frame.run() if run is None else run()
        except GraphBreak as reason:
            self.locate(reason)
            if isinstance(frame.caller, SteppingFrame) and frame.caller.calls(frame.function):
                reason.within_call = True
            raise
        finally:
            self.headroom.leave(used)
            self.frame = frame.caller

    def release(self) -> None:
        """Let go of what was captured: the frame of a generator knows the lift, and would keep all of it in a cycle."""
        self.frame = self.handled = self._outside = None
        self.journal = self._own_journal = Journal()
        self.inputs.release()
        self.inputs = Inputs(self.policy, self.operations)
        # What guards are about would live on, as weak references to it could tell.
        self.guards = GuardSet()
        self.sources.release()
        self.lookups.clear()
        self.forget_models()
        self.suspended.clear()
        self._shown.clear()
        self.watched.clear()

    def locate(self, reason: GraphBreak) -> None:
        """Note where the program breaks; the innermost frame comes first."""
        if reason.point is None:
            reason.point = self.program_point()
            reason.is_error = error_on_graph_break(self)

    # -- tensors ---------------------------------------------------------------------------------------------------

    def graph_argument(self, value: Any) -> Any:
        if not isinstance(value, Value):
            return value
        value.note(self)
        return value.graph_argument(self)

    def call_torch(self, target: Callable[..., Any], args: builtins.tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a torch function as a node of the graph."""
        return self.operations.on_values(self, self.graph.call_function, target, args, kwargs)

    def call_opaque(self, target: Callable[..., Any], args: builtins.tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function of which nothing is known as a node of the graph."""
        return self.operations.on_values(self, self.graph.call_function, target, args, kwargs, raises=True)

    def call_tensor_method(self, name: str, args: builtins.tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a tensor's method as a node of the graph."""
        return self.operations.on_values(self, self.graph.call_method, name, args, kwargs)

    def call_on_bodies(self, target: Callable[..., Any], args: builtins.tuple[Any, ...], raises: bool) -> Any:
        """An operation on values of the graph and on bodies, as a node of the graph."""
        return self.operations.on_bodies(self, target, args, raises)

    def call_on_numbers(self, target: Callable[..., Any], args: builtins.tuple[Any, ...]) -> Any:
        """An operation that takes or gives symbolic numbers, as a node of the graph; NotImplemented: it cannot be."""
        return self.operations.on_numbers(self, target, args)

    def calculate(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function of numbers gives, where some of them are symbolic; None: they must be specialised."""
        return calculate(self, function, *args)

    def with_leaf(self, make: Callable[[dict[str, Any]], Any], kwargs: dict[str, Any]) -> Any:
        """The result of a function of torch's, which is a leaf if `requires_grad=True` is among its arguments."""
        return with_leaf(self, make, kwargs) if "requires_grad" in kwargs else make(kwargs)

    def makes_leaves(self) -> bool:
        """Whether residual code may make tensors for the part of the program that is being traced."""
        self.made.active = True
        return self.has_residual and self.journal is self._own_journal

    def presume(self, ref: NumberRef, is_said: bool = False) -> None:
        """Go on as if a condition on symbolic numbers were true; checked when the graph runs, or guarded."""
        self.operations.presume(self, ref, is_said)

    def is_so_now(self, ref: NumberRef) -> bool | None:
        """Whether a condition on numbers that depend on data is true in the call that is captured, if that is known."""
        known: bool | None = self.graph.shape_env.truth_of(ref.known_fake.node.expr)
        return known

    def specialise(self, ref: NumberRef) -> Any:
        """The number a symbolic one is now; guarded from here on."""
        return self.operations.specialise(self, ref)

    def stands_for(self, ref: TensorRef, value: Value) -> None:
        """From here on operations that give this tensor of the graph give the value."""
        self.operations.remember(ref, value)

    def from_graph(self, result: Any) -> Any:
        """A result of the graph as a value of the program."""
        return self.operations.value_of(self, result)

    def program_point(self) -> ProgramPoint | None:
        """What is being run; None once all of it is captured."""
        return None if self.frame is None else ProgramPoint(self.frame.here(), self.modules)
