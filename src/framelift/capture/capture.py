"""Capturing one frame: trace it, finish the graph, generate residual code, build the guards."""

from __future__ import annotations

import builtins
import linecache
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from traceback import FrameSummary
from types import CodeType, FunctionType
from typing import Any

import torch
from torch._C import _set_grad_enabled

from framelift import config
from framelift.backends.example_inputs import Reason
from framelift.backends.registry import first_trace, last_trace
from framelift.breaks import FL0102, FL0105, FL0106, FL0107, FL0108, FL0305, FL0306, FL0401, GraphBreak
from framelift.bytecode.decode import argument_names, decode
from framelift.bytecode.verify import verify_bytecode
from framelift.capture import (  # noqa: F401  (register their handlers)
    opcodes,
    opcodes_class,
    opcodes_containers,
    opcodes_flow,
    opcodes_match,
)
from framelift.capture.graph_break import all_in_python, go_on_at, step_at
from framelift.capture.headroom import room_to_work
from framelift.capture.is_compiling import Answers, NotCompiling
from framelift.capture.lift import Lift
from framelift.capture.location import ProgramPoint
from framelift.capture.numbers import note_symbols, remember
from framelift.capture.program import Programs
from framelift.capture.stepping import Left, Restart, SteppingFrame, Steps
from framelift.capture.subclass_gradients import is_subclass_in_sight
from framelift.errors import BackendError, FullGraphError
from framelift.graph import GraphBuilder, NeedsNumbers, NumberRef, TensorRef
from framelift.graph.purity import MODE_SWITCHES
from framelift.graph.reach import only_reached
from framelift.graph.record import Record
from framelift.graph.runtime_asserts import CannotCheck
from framelift.graph.shared_memory import as_captured, gives_views_of, share_history, where_inputs_lie_alike
from framelift.graph.sparse_gradients import has_sparse_gradients
from framelift.graph.torch_caches import forget_environments
from framelift.guards.guardset import GuardSet
from framelift.guards.source import Source
from framelift.native import _core
from framelift.options import Options
from framelift.passes.captured import deduplicate, improve
from framelift.report import events, stream
from framelift.residual.codegen import (
    Activation,
    Direct,
    Ending,
    GraphCall,
    Rest,
    Return,
    collect_needs,
    direct_call,
    generate,
    whole_frame,
)
from framelift.residual.failures import GraphJudge
from framelift.residual.resume import CannotResume
from framelift.residual.rollback import Precautions
from framelift.residual.segments import Fragments
from framelift.residual.waiting_frames import Part, handled_by, split
from framelift.shapes.check_history import Trust
from framelift.shapes.history import History, Policy, Wish
from framelift.silence import heard_when_done, unheard_warnings
from framelift.values.core.base import KnownObject, Value
from framelift.values.functions.functions import FunctionValue, has_plain_globals
from framelift.values.tensors.tensors import TensorValue

# Deep recursion and long loops are left to Python for good: lifting them again would take quadratic time.
_LEFT_FOR_GOOD = (FL0106, FL0108)
# What a backend raises that computes with numbers only: symbols have no hash, no format and no `shape`.
_NOT_FOR_SYMBOLS = (TypeError, AttributeError)
# What it raises whatever is open in the graph.
_NO_ROOM = (MemoryError, torch.OutOfMemoryError)


@dataclass(frozen=True, slots=True)
class Captured:
    """What a capture gives: guards as a native tree, and the residual function to run under them."""

    tree: Any
    residual: FunctionType
    # What the residual function does, where that is a call of the graph and nothing else.
    direct: Direct | None
    guards: GuardSet
    graph_module: Any


@dataclass(frozen=True, slots=True)
class Request:
    """What to capture: a call of `function` with these argument slots."""

    function: FunctionType
    slots: tuple[Any, ...]
    options: Options
    # Lifts what comes after a break, and the frames that Python's part of a function calls.
    context: Any
    fragments: Fragments = field(default_factory=Fragments)
    make_graph: Callable[[], GraphBuilder] = GraphBuilder
    # What earlier captures of the function saw: what changed since is symbolic.
    history: History = field(default_factory=History)
    # What the user said about single inputs.
    wishes: Mapping[str, Wish] = field(default_factory=dict)

    def policy(self) -> Policy:
        """Which sizes and numbers are symbolic."""
        options = self.options
        dynamic = options.dynamic if isinstance(options.dynamic, bool) else None
        return Policy(self.history, dynamic, self.wishes)


def capture(request: Request, programs: Programs, number: int) -> Captured:
    """Capture one call. Raises FullGraphError or BackendError; anything else it raises is a failure of framelift."""
    code = request.function.__code__
    break_before: Restart | None = None
    depth: int | None = None
    answers = Answers()
    policy = request.policy()
    while True:
        with room_to_work():
            graph = request.make_graph()
            graph.shape_env.takes_data = config.data_dependent and request.history.trust.is_given
            lift = Lift(programs, graph, request.fragments, request.fragments.argument_names(code), policy)
            lift.answers = answers
            is_fragment = request.fragments.is_fragment(code)
            lift.steps = Steps(break_before=break_before, depth=depth or 0, owns_arguments=is_fragment)
            answers.begin()
            try:
                return _Capture(request, lift, number, depth).run()
            except NotCompiling:
                answers.reconsider()
                break_before = None
            except NeedsNumbers as needs:
                policy.insist_on_numbers(needs.names)
                break_before = None
            except (BackendError, CannotCheck) as error:
                if not _make_easier(request, graph, policy, error):
                    raise
                break_before = None
            except Again as again:
                depth = again.depth
                break_before = None
            except Restart as restart:
                # Always earlier than the last time, so that it comes to an end: with nothing captured.
                count = restart.count if break_before is None or restart.count < break_before.count else 1
                break_before = Restart(count, restart.reason)
            finally:
                for given in (lift.steps.break_before, break_before):
                    if given is not None:
                        given.forget_frames()
                lift.modes.leave()
                lift.graph.release()
                lift.made.release()
                lift.release()


def _make_easier(request: Request, graph: GraphBuilder, policy: Policy, error: Exception) -> bool:
    """Whether a graph that was rejected can be captured again with less that is open in it."""
    if isinstance(error.__cause__, _NO_ROOM):
        return False
    names = _names_of(ref for ref in graph.live_inputs if type(ref.example) is float)
    if not names and isinstance(error.__cause__, _NOT_FOR_SYMBOLS):
        names = _names_of(ref for ref in graph.live_inputs if isinstance(ref, NumberRef) or ref.layout is not None)
    if names:
        policy.insist_on_numbers(names)
        request.history.refused_numbers.update(names)
        return True
    if graph.depends_on_data and not (request.options.fullgraph and isinstance(error, BackendError)):
        request.history.trust.withdraw()
        return True
    return False


def _names_of(inputs: Iterable[TensorRef | NumberRef]) -> tuple[str, ...]:
    return tuple(ref.source_name for ref in inputs if ref.source_name)


def trace_whole(request: Request, programs: Programs, number: int) -> tuple[Lift, Any]:
    """Trace a call that must not break: the finished trace and the value it returns."""
    answers = Answers()
    policy = request.policy()
    while True:
        with room_to_work():
            graph = request.make_graph()
            graph.shape_env.takes_data = config.data_dependent
            lift = Lift(programs, graph, request.fragments, argument_names(request.function.__code__), policy)
            lift.answers = answers
            lift.has_residual = False
            answers.begin()
            try:
                ending = _Capture(request, lift, number, 0)._trace()
            except NotCompiling:
                answers.reconsider()
                continue
            except NeedsNumbers as needs:
                policy.insist_on_numbers(needs.names)
                continue
            finally:
                lift.modes.leave()
        assert isinstance(ending, Return), "a break raises FullGraphError"
        return lift, ending.value


class Again(Exception):
    """Capture again, and step through calls so deep."""

    def __init__(self, depth: int) -> None:
        super().__init__(depth)
        self.depth = depth


class _Capture:
    """One attempt."""

    def __init__(self, request: Request, lift: Lift, number: int, depth: int | None) -> None:
        self.request = request
        self.lift = lift
        self.number = number
        # How deep calls are stepped through, if that was decided.
        self.depth = depth
        self.code: CodeType = request.function.__code__
        self.phases: dict[str, float] = {}
        self.started = time.perf_counter()
        self.broke = False
        # Whether it did so where autograd does not let the program write.
        self.is_write_refused = False
        # Why the graph ends where it does.
        self.reason = Reason("return_value", [], graph_break=False)
        self.eager = False
        # Whether it ends at a tensor with rules of its own.
        self.meets_subclass = False
        self.whole = whole_frame(self.code)
        _core.never_lift(self.whole.code)
        self.slots: list[Any] = []
        self.state = _core.torch_state()
        # What operations warn of is heard when the graph runs.
        self.unheard = unheard_warnings()

    def run(self) -> Captured:
        code = self.code
        again = self.depth is not None or self.lift.steps.break_before is not None
        if not again and not self.lift.answers.reconsidered and not self.lift.policy.reconsidered:
            self._announce()
        ending = self._trace()
        self._lap("interpretation")
        captured = self._finish(ending, self.state)
        if self.broke and captured.graph_module is not None:
            for part in self._parts():
                self.request.fragments.of(part.code).segments.computes = True
        outcome: events.Outcome = "eager" if self.eager else "partial" if self.broke else "captured"
        ops = 0 if captured.graph_module is None else _count_ops(captured.graph_module)
        seconds = time.perf_counter() - self.started
        stream.emit(
            events.CaptureFinished(
                self.number, code.co_qualname, outcome, seconds, ops, len(captured.guards), self.phases
            )
        )
        return captured

    # -- tracing -------------------------------------------------------------------------------------------------

    def _trace(self) -> Ending:
        lift, request = self.lift, self.request
        self.slots = [lift.wrap(slot, lift.sources.argument(index)) for index, slot in enumerate(request.slots)]
        replaced = self.state.values["operators of tensors"]
        if replaced:
            return self._untraced(GraphBreak(FL0305, what=replaced))
        if lift.programs.of(self.code).is_generator:
            return self._untraced(GraphBreak(FL0105, what=self.code.co_qualname))
        if not has_plain_globals(request.function):
            return self._untraced(GraphBreak(FL0102, what=f"{self.code.co_qualname}, whose globals are no plain dict"))
        waiting = self._parts()
        try:
            while True:
                part = waiting.pop()
                lift.steps.are_waiting = bool(waiting)
                lift.handled = handled_by(request.fragments, waiting)
                frame = self._frame(part)
                if lift.steps.owns_arguments and not waiting:
                    frame.take_over()
                result = lift.run_frame(frame)
                if not waiting:
                    return self._possible(Return(result))
                waiting[-1].give(request.fragments, result)
        except Left as left:
            self.meets_subclass = left.reason.reason is FL0306
            depth = self._depth_of(left.reason)
            if self.depth is None and depth > 0:
                raise Again(depth) from left
            if self._is_error(left.reason):  # said before what must be rebuilt for Python to go on may not be
                self._report_break(left.reason, left.frame.line)
            ending = self._rest_of(left.frame, waiting, left.reason)
            self._report_break(left.reason, left.frame.line)
            return ending

    def _untraced(self, reason: GraphBreak) -> Rest:
        self._report_break(reason, self.code.co_firstlineno)
        return self._all_in_python(reason)

    def _parts(self) -> list[Part]:
        """The frames to go on with, outermost first: one, unless several were left together."""
        lift, request = self.lift, self.request
        if request.fragments.is_chain(self.code):
            return split(request.fragments, self.code, self.slots)
        function = FunctionValue(lift.sources.function, request.function)
        function.noted = True
        return [Part(self.code, function, self.slots)]

    def _frame(self, part: Part) -> SteppingFrame:
        lift = self.lift
        program = lift.programs.of(part.code)
        return SteppingFrame(lift, program, part.function, part.function.globals(lift), list(part.arguments))

    def _depth_of(self, reason: GraphBreak) -> int:
        """How deep in calls Python's part is to begin."""
        if not reason.within_call or self._is_error(reason) or self._is_left_for_good(reason):
            return 0
        depth: int = reason.point.users_depth
        return depth

    def _is_error(self, reason: GraphBreak) -> bool:
        """Whether a break must not be; without a context to lift what follows it cannot be."""
        is_leaving = reason.reason is FL0401  # the one graph ends there, and the caller is to see the exception
        return self.request.context is None or (self._wants_one_graph(reason) and not is_leaving)

    def _wants_one_graph(self, reason: GraphBreak) -> bool:
        return self.request.options.fullgraph if reason.is_error is None else reason.is_error

    def _is_left_for_good(self, reason: GraphBreak) -> bool:
        """Whether nothing that follows is lifted again."""
        return reason.reason in _LEFT_FOR_GOOD or (reason.reason is FL0401 and self._wants_one_graph(reason))

    def _rest_of(self, frame: SteppingFrame, waiting: list[Part], reason: GraphBreak) -> Ending:
        """Python runs the instruction; what comes after it is lifted again. Where that cannot be, Python runs all."""
        fragments, context = self.request.fragments, self.request.context
        try:
            if self._is_left_for_good(reason) and not waiting:
                return self._possible(Rest([go_on_at(fragments, frame)], None))
            return self._possible(step_at(fragments, waiting, frame, context))
        except CannotResume as error:
            if self.depth:
                raise Again(0) from error
            return self._all_in_python(reason)

    def _all_in_python(self, reason: GraphBreak) -> Rest:
        """Nothing was captured, or the frame cannot be entered where it broke: all of it runs in Python."""
        self.eager = True
        self.lift.journal.changed.clear()
        self.lift.modes.leave()
        parts = self._parts()
        if len(parts) > 1:
            return all_in_python(self.request.fragments, parts, self.request.context)
        context = None if self._is_left_for_good(reason) else self.request.context
        return Rest([Activation(self.whole, self.slots, (), parts[0].function)], context)

    def _possible(self, ending: Ending) -> Ending:
        """The ending, unless it needs a value that cannot be rebuilt: then the frame is left before it was made."""
        for born in self.lift.modes.without_overrides:
            raise Restart(born, GraphBreak(FL0107, what="a block without overrides"))
        try:
            going_on = collect_needs(self.lift, self.code, [], ending).generators
        except GraphBreak as reason:
            raise Restart(reason.details.get("born", 1), reason) from reason
        for generator in self.lift.suspended:
            goes_on = any(generator is other for other in going_on)
            if generator.waits_in_try() and not goes_on and not generator.closes_quietly(self.lift, going_on):
                raise Restart(generator.born, GraphBreak(FL0107, what=generator.describe()))
        return ending

    def _report_break(self, reason: GraphBreak, line: int) -> None:
        self.broke = True
        self.is_write_refused = getattr(reason.__cause__, "is_write_refused", False)
        code, line = (self.code, line) if reason.point is None else reason.point.user_line()
        text = linecache.getline(code.co_filename, line).strip()
        place = FrameSummary(code.co_filename, line, code.co_qualname, lookup_line=False)
        self.reason = Reason(f"{reason.reason.id}: {reason.words}", [place], graph_break=True)
        stream.emit(events.GraphBroke(self.number, reason.reason.id, reason.words, code.co_filename, line, text))
        if self._is_error(reason):
            where = f"{code.co_filename}:{line} in {code.co_qualname}: {text}"
            raise FullGraphError(
                f"{reason.reason.id}: {reason.words}\n  at {where}\n  {reason.reason.remedy}"
            ) from None

    # -- finishing -----------------------------------------------------------------------------------------------

    def _finish(self, ending: Ending, state: Any) -> Captured:
        lift, code = self.lift, self.code
        graph = lift.graph
        has_graph = bool(graph.records) and not self.eager
        needs = collect_needs(lift, code, [], ending)
        self._lap("codegen")
        module = call = None
        if has_graph:
            outputs = [value.ref(lift) for value in needs.outputs]
            module = graph.finish(outputs)
            module.meta["framelift_function"] = code.co_qualname
            inputs = [lift.inputs.origin(ref) for ref in graph.live_inputs]
            self._lap("graph")
            mutated = graph.mutated
            written = [lift.inputs.source(ref) for ref in graph.live_inputs if ref in mutated]
            modes = lift.modes.at_entry if _switches_modes(graph) else None
            raises = graph.may_raise_after_writing, graph.may_raise_uncounted
            precautions = Precautions(graph.uses_rng, modes, bool(written), *raises)
            self._run_passes(module)
            judge = self._judge(module)
            function = self._call_backend(module, judge.ops, outputs)
            if unheard_warnings() > self.unheard:
                function = heard_when_done(function)
            call = GraphCall(function, inputs, written, precautions, judge)
            needs = collect_needs(lift, code, inputs, ending)
        residual = generate(lift, code, needs, call, ending)
        if config.check:
            verify_bytecode(decode(residual))
        stream.emit(events.ResidualBuilt(self.number, code, residual))
        self._lap("codegen")
        self._note_aliasing()
        note_symbols(lift)
        remember(lift)
        self._report_symbols()
        if lift.graph.symbols:
            forget_environments()
        tree = lift.guards.build_tree(needs.fetched, len(self.request.slots), state)
        self._report_guards()
        self._lap("guards")
        direct = direct_call(lift, code, needs, call, ending)
        # C code that residual code calls may import modules, and asks the globals of its caller how.
        globals = {"__builtins__": vars(builtins)}
        function = FunctionType(residual, globals)
        if lift.kept:
            function.__dict__["kept"] = lift.kept
        return Captured(tree, function, direct, lift.guards, module)

    def _run_passes(self, module: Any) -> None:
        options = self.request.options
        # (Passes do not know yet which nodes bring symbols along.)
        if self.lift.graph.depends_on_data:
            return
        if options.deduplicate:
            deduplicate(module, options.backend.takes_subgraphs)
        if options.passes != ():
            with self.lift.modes.as_at_entry():
                improve(module, options.passes, options.backend.is_bitwise, options.pass_options)
            self._lap("passes")

    def _trust(self) -> Trust:
        """The graph presumes something about data, and is used as long as that comes true often enough."""
        trust = self.request.history.trust
        self.lift.guard(self.lift.sources.known(trust).attribute("is_given"), "EQUALS", True)
        return trust

    def _judge(self, module: Any) -> GraphJudge:
        """Who is told when the graph raises."""
        graph, options = self.lift.graph, self.request.options
        return GraphJudge(
            self.number,
            self.code.co_qualname,
            options.backend.name,
            _count_ops(module),
            first_trace(module),
            last_trace(module),
            options.fullgraph,
            handles_errors=self.request.fragments.is_chain(self.code) or any(map(_is_handled, graph.records)),
            trust=self._trust() if graph.depends_on_data else None,
        )

    def _call_backend(self, module: Any, ops: int, outputs: Sequence[Any]) -> Callable[..., Any]:
        """Hand the graph over."""
        graph = self.lift.graph
        names = tuple(ref.source_name or "" for ref in graph.live_inputs)
        stream.emit(events.GraphCaptured(self.number, module, ops, names))
        module.compile_subgraph_reason = self.reason
        backend, began = self.request.options.backend, time.perf_counter()
        shared = [value for value in self._written() if _shares_memory(value, list(self.lift.inputs.tensors.values()))]
        writes = backend.derives and any(record.writes for record in graph.records)
        original = as_captured(module) if shared or writes else None
        with self.lift.modes.as_at_entry():
            if backend.derives and self._is_for_autograd(module, [value.ref(self.lift) for value in shared], outputs):
                compiled = module.forward
            else:
                compiled = backend.compile(module, graph.example_inputs, original if writes else None)
                if backend.derives and torch.is_grad_enabled():
                    compiled = only_reached(compiled, graph.records, graph.live_inputs, outputs, graph.changes)
        if shared and original is not None and getattr(compiled, "__self__", None) not in (module, original):
            compiled = where_inputs_lie_alike(compiled, original.forward, graph.example_inputs)
        stream.emit(events.BackendCalled(self.number, backend.name, time.perf_counter() - began))
        self._lap("backend")
        return compiled

    def _is_for_autograd(self, module: Any, shared: Sequence[Any], outputs: Sequence[Any]) -> bool:
        """Whether a compiler would get derivatives wrong, or results that are views of `shared` inputs."""
        # Leaves that the program makes are inputs, too; of some the making was undone at a break.
        tensors = self.lift.inputs.tensors.values()
        inputs = [value.concrete for value in tensors if value.concrete is not None]
        is_trained = any(value.is_new for value in tensors) or any(value.requires_grad for value in inputs)
        if is_trained and has_sparse_gradients(module.graph):
            return True
        if is_trained and (self.meets_subclass or is_subclass_in_sight(self.request.function, self.request.slots)):
            return True
        # What is written to in Python next is as much of a view as autograd takes it for; compilers give others.
        if is_trained and (self.is_write_refused or _begins_derivatives(self.lift.graph)):
            return True
        if gives_views_of(shared, outputs):
            return True
        written = [value.concrete for value in self._written()]
        return bool(written) and share_history(written, inputs)

    def _note_aliasing(self) -> None:
        """Tensors that are different objects here must stay so; memory that is written to must overlap as it does."""
        lift = self.lift
        tensors = [value for value in lift.inputs.tensors.values() if not value.is_new]
        keys = [value for value in lift.inputs.keyed.values() if isinstance(value, TensorValue)]
        self._note_distinct([*tensors, *_without(keys, tensors)])
        self._note_memory(tensors)
        self._note_distinct_objects()

    def _written(self) -> list[TensorValue]:
        """The inputs that the graph writes to."""
        graph = self.lift.graph
        mutated = graph.mutated
        return [self.lift.inputs.tensors[id(ref)] for ref in graph.inputs if ref in mutated]

    def _note_memory(self, tensors: list[TensorValue]) -> None:
        """What the graph writes to must share memory with the other inputs as it does now: mostly with none."""
        lift = self.lift
        written = self._written()
        shared = [value for value in written if _shares_memory(value, tensors)]
        alone = _without(written, shared)
        others = _without(tensors, alone)
        if alone and len(tensors) > 1:
            lift.guards.relate_groups("DISJOINT", _sources(alone), _sources(others))
        for value in shared:
            for other in others:
                if other is not value and value.source is not None and other.source is not None:
                    overlaps = _core.tensors_overlap(value.concrete, other.concrete)
                    lift.guards.relate("OVERLAP", (value.source, other.source), overlaps)

    def _note_distinct_objects(self) -> None:
        """An object that was changed must not be any other input of its type, a key no other key of its type."""
        lift = self.lift
        changing = [*lift.journal.changed, *lift.listeners.values()]
        kinds = [value.python_type() for value in changing if value.has_twins]
        changed = {id(kind): kind for kind in kinds}
        for kind in changed.values():
            self._note_distinct(lift.inputs.of_type(kind))
        keys: dict[int, list[Value]] = {}
        for value in lift.inputs.keyed.values():
            if value.has_twins and not isinstance(value, (TensorValue, KnownObject)):
                keys.setdefault(id(value.python_type()), []).append(value)
        for kind_id, values in keys.items():
            if kind_id not in changed:
                self._note_distinct(values)

    def _note_distinct(self, values: Iterable[Value]) -> None:
        sources = _sources(values)
        if len(sources) > 1:
            self.lift.guards.relate("DISTINCT", sources)

    # -- reporting -----------------------------------------------------------------------------------------------

    def _announce(self) -> None:
        code = self.code
        stream.emit(events.CaptureStarted(self.number, code.co_qualname, code.co_filename, code.co_firstlineno))

    def _report_symbols(self) -> None:
        names = self.lift.graph.symbols.names
        changes = tuple(sorted(str(change) for change in self.lift.policy.changes.values() if change.name in names))
        if changes:
            stream.emit(events.BecameDynamic(self.number, self.code.co_qualname, changes))

    def _report_guards(self) -> None:
        if not stream.wanted(events.GuardsBuilt):
            return
        texts = [events.GuardText(guard.words, guard.source.name, guard.location) for guard in self.lift.guards.guards]
        texts += [events.GuardText(relation.words, relation.sources[0].name) for relation in self.lift.guards.relations]
        stream.emit(events.GuardsBuilt(self.number, tuple(texts)))

    def _lap(self, phase: str) -> None:
        now = time.perf_counter()
        spent = now - self.started - sum(self.phases.values())
        self.phases[phase] = self.phases.get(phase, 0.0) + spent


def _is_handled(record: Record) -> bool:
    """Whether the program handles what an operation raises."""
    return isinstance(record.location, ProgramPoint) and record.location.line.is_handled


def _sources(values: Iterable[Value]) -> list[Source]:
    return [value.source for value in values if value.source is not None]


def _without(values: list[TensorValue], left_out: list[TensorValue]) -> list[TensorValue]:
    out = set(map(id, left_out))
    return [value for value in values if id(value) not in out]


def _shares_memory(value: TensorValue, others: list[TensorValue]) -> bool:
    return any(other is not value and _core.tensors_overlap(value.concrete, other.concrete) for other in others)


def _switches_modes(graph: GraphBuilder) -> bool:
    return any(record.target in MODE_SWITCHES for record in graph.records if record.op == "call_function")


def _begins_derivatives(graph: GraphBuilder) -> bool:
    """Whether a graph that begins without derivatives has some: AOTAutograd looks at the beginning only."""
    if torch.is_grad_enabled():
        return False
    return any(record.target is _set_grad_enabled and record.args == (True,) for record in graph.records)


def _count_ops(module: Any) -> int:
    return sum([node.op in ("call_function", "call_method") for node in module.graph.nodes])
