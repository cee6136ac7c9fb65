"""Capturing one frame: trace it, finish the graph, generate residual code, build the guards."""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from framelift import config
from framelift.backends.differentiated_graphs import LeftToAutograd, compile_differentiated
from framelift.backends.registry import first_trace, last_trace
from framelift.bytecode.decode import decode
from framelift.bytecode.verify import verify_bytecode
from framelift.capture.aliasing import guard_aliasing, those_that_share, written_inputs
from framelift.capture.attempt import Attempt
from framelift.capture.interpreter.location import ProgramPoint
from framelift.capture.interpreter.program import Programs
from framelift.capture.left_to_autograd import leave_to_autograd
from framelift.capture.lift import Lift
from framelift.capture.numbers import note_symbols, remember
from framelift.capture.request import Request
from framelift.capture.retry import Retries
from framelift.graph import GraphBuilder
from framelift.graph.analysis.reach import only_reached
from framelift.graph.analysis.shared_memory import (
    as_captured,
    where_inputs_lie_alike,
)
from framelift.graph.analysis.uncounted_writes import uncounting, written_uncounted
from framelift.graph.purity import MODE_SWITCHES
from framelift.graph.record import Record
from framelift.graph.torch_caches import forget_environments
from framelift.guards.guardset import GuardSet
from framelift.passes.captured import deduplicate, improve
from framelift.report import events, stream
from framelift.residual.codegen import Direct, GraphCall, ResidualCode, Return
from framelift.residual.failures import GraphJudge
from framelift.residual.rollback import Precautions
from framelift.silence import heard_when_done, unheard_warnings
from framelift.values.tensors.of_class import without_overrides


@dataclass(frozen=True, slots=True)
class Captured:
    """What a capture gives: guards as a native tree, and the residual function to run under them."""

    tree: Any
    residual: FunctionType
    # What the residual function does, where that is a call of the graph and nothing else.
    direct: Direct | None
    guards: GuardSet
    graph_module: Any


def capture(request: Request, programs: Programs, number: int) -> Captured:
    """Capture one call. Raises FullGraphError or BackendError; anything else it raises is a failure of framelift."""
    retries = Retries(request, programs)
    return retries.run(lambda lift: _Capture(Attempt(request, lift, number, retries.depth)).run(retries.is_first))


def trace_whole(request: Request, programs: Programs, number: int) -> tuple[Lift, Any]:
    """Trace a call that must not break: the finished trace and the value it returns."""

    def attempt(lift: Lift) -> tuple[Lift, Any]:
        with torch._C.DisableTorchFunctionSubclass():
            ending = Attempt(request, lift, number, 0).trace().ending
        assert isinstance(ending, Return), "a break raises FullGraphError"
        return lift, ending.value

    return Retries(request, programs, has_residual=False).run(attempt)


class _Capture:
    """What is made of one attempt: the graph, compiled, the residual code, and the guards."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.request = attempt.request
        self.lift = attempt.lift
        self.number = attempt.number
        self.code = attempt.code

    def run(self, is_first: bool) -> Captured:
        code, attempt = self.code, self.attempt
        if is_first:
            self._announce()
        with torch._C.DisableTorchFunctionSubclass():  # no class of the program's hears of what is looked at
            residual = attempt.trace()
            captured = self._finish(residual)
        if attempt.broke and captured.graph_module is not None:
            for part in attempt.parts():
                self.request.fragments.of(part.code).segments.computes = True
        outcome: events.Outcome = "eager" if attempt.eager else "partial" if attempt.broke else "captured"
        ops = 0 if captured.graph_module is None else _count_ops(captured.graph_module)
        seconds = time.perf_counter() - attempt.started
        stream.emit(
            events.CaptureFinished(
                self.number, code.co_qualname, outcome, seconds, ops, len(captured.guards), attempt.phases
            )
        )
        return captured

    # -- finishing -----------------------------------------------------------------------------------------------

    def _finish(self, residual: ResidualCode) -> Captured:
        lift, code = self.lift, self.code
        graph = lift.graph
        has_graph = bool(graph.records) and not self.attempt.eager
        self.attempt.lap("codegen")
        module = call = None
        if has_graph:
            outputs = [value.ref(lift) for value in residual.outputs]
            if self.request.options.backend.derives:
                graph.propagation.find_out_all()
            module = graph.finish(outputs)
            module.meta["framelift_function"] = code.co_qualname
            inputs = [lift.inputs.origin(ref) for ref in graph.live_inputs]
            self.attempt.lap("graph")
            mutated = graph.mutated
            written = [lift.inputs.source(ref) for ref in graph.live_inputs if ref in mutated]
            modes = lift.modes.at_entry if _switches_modes(graph) else None
            raises = graph.may_raise_after_writing, graph.may_raise_uncounted
            precautions = Precautions(graph.uses_rng, modes, bool(written), *raises)
            self._run_passes(module)
            judge = self._judge(module)
            function = self._call_backend(module, judge.ops, outputs)
            if unheard_warnings() > self.attempt.unheard:
                function = heard_when_done(function)
            call = GraphCall(function, inputs, written, precautions, judge)
        made = residual.finish(call)
        if config.check:
            verify_bytecode(decode(made))
        stream.emit(events.ResidualBuilt(self.number, code, made))
        self.attempt.lap("codegen")
        guard_aliasing(lift)
        note_symbols(lift)
        remember(lift)
        self._report_symbols()
        if lift.graph.symbols:
            forget_environments()
        tree = lift.guards.build_tree(residual.fetched, len(self.request.slots), self.attempt.state)
        self._report_guards()
        self.attempt.lap("guards")
        direct = residual.direct_call(call)
        # C code that residual code calls may import modules, and asks the globals of its caller how.
        globals = {"__builtins__": vars(builtins)}
        function = FunctionType(made, globals)
        if lift.kept:
            function.__dict__["kept"] = lift.kept
        return Captured(tree, function, direct, lift.guards, module)

    def _run_passes(self, module: Any) -> None:
        options = self.request.options
        # (Passes do not know yet which nodes bring symbols along, nor what a backward needs.)
        graph = self.lift.graph
        if graph.depends_on_data or graph.differentiates or graph.prepares_backward:
            return
        if options.deduplicate:
            deduplicate(module, options.backend.takes_subgraphs)
        if options.passes != ():
            with self.lift.modes.as_at_entry():
                improve(module, options.passes, options.backend.is_bitwise, options.pass_options)
            self.attempt.lap("passes")

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
            lessons=self.request.history.lessons if graph.depends_on_data else None,
        )

    def _call_backend(self, module: Any, ops: int, outputs: Sequence[Any]) -> Callable[..., Any]:
        """Hand the graph over."""
        graph = self.lift.graph
        names = tuple(ref.source_name or "" for ref in graph.live_inputs)
        stream.emit(events.GraphCaptured(self.number, module, ops, names))
        module.compile_subgraph_reason = self.attempt.reason
        backend, began = self.request.options.backend, time.perf_counter()
        tensors = list(self.lift.inputs.tensors.values())
        plain = any(value.source is not None and value.source.access == "AS_PLAIN" for value in tensors)
        shared = those_that_share(written_inputs(self.lift), tensors)
        writes = backend.derives and any(record.writes for record in graph.records)
        original = as_captured(module) if shared or writes else None
        with self.lift.modes.as_at_entry():
            refs = [value.ref(self.lift) for value in shared]
            try:
                if backend.derives:
                    leave_to_autograd(self.lift, self.attempt, self.request, module, refs, outputs)
                if backend.derives and graph.differentiates:
                    compiled = compile_differentiated(backend, module, graph, outputs)
                else:
                    asks = self.lift.modes.asks_classes and not plain
                    with torch._C._EnableTorchFunction() if asks else nullcontext():
                        compiled = backend.compile(module, graph.example_inputs, original if writes else None)
                    if backend.derives and torch.is_grad_enabled():
                        changes = graph.propagation.changes
                        compiled = only_reached(compiled, graph.records, graph.live_inputs, outputs, changes)
                    uncounted = written_uncounted(graph.live_inputs) if writes else ()
                    if uncounted:
                        compiled = uncounting(compiled, uncounted)
            except LeftToAutograd as left:
                compiled = module.forward
                stream.emit(events.NotCompiled(self.number, self.code.co_qualname, backend.name, str(left)))
        if shared and original is not None and getattr(compiled, "__self__", None) not in (module, original):
            compiled = where_inputs_lie_alike(compiled, original.forward, graph.example_inputs)
        if plain:
            compiled = without_overrides(compiled)
        stream.emit(events.BackendCalled(self.number, backend.name, time.perf_counter() - began))
        self.attempt.lap("backend")
        return compiled

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


def _is_handled(record: Record) -> bool:
    """Whether the program handles what an operation raises."""
    return isinstance(record.location, ProgramPoint) and record.location.line.is_handled


def _switches_modes(graph: GraphBuilder) -> bool:
    return any(record.target in MODE_SWITCHES for record in graph.records if record.op == "call_function")


def _count_ops(module: Any) -> int:
    return sum([node.op in ("call_function", "call_method") for node in module.graph.nodes])
