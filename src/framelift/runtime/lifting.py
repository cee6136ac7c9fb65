"""Lifting functions: entry tables, misses, and what happens when a capture fails."""

from __future__ import annotations

import functools
import weakref
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

import framelift.guards.reference  # noqa: F401  (strict mode checks against it)
from framelift import config
from framelift.backends import lookup
from framelift.capture.capture import Captured, capture
from framelift.capture.interpreter.headroom import Headroom
from framelift.capture.interpreter.program import Programs
from framelift.capture.request import Request
from framelift.errors import (
    BackendError,
    DynamicError,
    FullGraphError,
    InternalError,
    RecompileError,
    warn_user,
)
from framelift.fallbacks import (
    BUILTINS_REPLACED,
    CAPTURE_FAILED,
    ERROR_FORESEEN,
    FALLBACKS,
    LIMIT_REACHED,
    MANY_FRAMES,
    OWN_BUILTINS,
    STACK_USED_UP,
    STANCE,
    TORCH_UNFIT,
    UNPROMISING,
    Because,
)
from framelift.graph import GraphBuilder, MetadataMemo
from framelift.graph.torch_caches import forget_environments, forget_fakes, forget_tracebacks
from framelift.interrupts import Interrupted
from framelift.locks import Lock
from framelift.native import _core
from framelift.native.torch import calibrate
from framelift.options import Options
from framelift.own_builtins import replaced_builtins
from framelift.report import events, stream
from framelift.residual.segments import Fragments
from framelift.residual.waiting_frames import Part, handled_by, join, run_by_python, split
from framelift.runtime.entry_keys import WeakOptions
from framelift.runtime.histories import Histories, Known, note_arguments, wishes_for
from framelift.runtime.limits import make_room, reached_limit
from framelift.runtime.policy import STEPS_OF_A_REST, foreign_mode, has_tensors_in_sight, is_cut_off, worth_lifting
from framelift.runtime.recompile_reasons import misfits, refused, what_keeps_failing
from framelift.runtime.stance import Stances, forced_backend, lift_anew_with
from framelift.runtime.stance import current as current_stance
from framelift.runtime.torch_hook import leave_alone
from framelift.shapes.bindings import Foreseen
from framelift.torch_names import TORCH_NAMES
from framelift.values.functions.untraceable import has_own_builtins

_FOR_OTHER_BACKENDS = "__framelift_for_other_backends__"
# A frame that was called so often without a tensor in sight is not asked about any more.
_PATIENCE = 16
# So many captures of what follows a break are tried before one of them must have been of use.
_PATIENCE_WITH_RESTS = 8
# Frames that wait for each other are captured anew as one at every level of a recursion with a break in it.
_MOST_FRAMES = 40


class Runtime:
    """What captures share: lowered programs, the metadata memo, the capture lock."""

    def __init__(self) -> None:
        self.programs = Programs()
        self.fragments = Fragments()
        # One capture at a time; calls that hit take no lock. Re-entrant: a backend may call lifted code.
        self.lock = Lock()
        self.memo = MetadataMemo()
        # Kept by lifted callables and by the residual code of frames that broke.
        self._contexts: weakref.WeakValueDictionary[Any, Context] = weakref.WeakValueDictionary()
        TORCH_NAMES.unfit = _why_unfit()
        lift_anew_with(self.lift_anew)
        _core.connect(hear_of_fallback=_hear_of_fallback)

    def lift(self, function: FunctionType, options: Options) -> Any:
        """A callable that runs `function` lifted. It keeps the options alive, and with them their tables."""
        context = self.context(options)
        table = _core.table_for(function.__code__, context.key)
        return _core.Lifted(function, table, functools.partial(context.miss, options), options.fullgraph)

    def lift_anew(self, lifted: Any) -> Any:
        """The callable for the backend that torch's stance forces; None if it has that one."""
        options: Options = lifted.miss.args[0]
        forced = forced_backend()
        backend = options.backend if forced is None else lookup(forced)
        if backend == options.backend:
            return None
        # Kept by the callable, with its context and what that knows.
        kept: dict[Any, Any] = lifted.__dict__.setdefault(_FOR_OTHER_BACKENDS, {})
        if backend not in kept:
            other = replace(options, backend=backend, mode=None, inductor=())
            kept.setdefault(backend, self.lift(lifted.__wrapped__, other))
        return kept[backend]

    def context(self, options: Options) -> Context:
        """The one context of equal options."""
        weak = WeakOptions(options)
        with self.lock:
            found = self._contexts.get(weak.key)
            if found is None:
                found = self._contexts[weak.key] = Context(self, weak)
            return found

    def make_graph(self) -> GraphBuilder:
        return GraphBuilder(self.memo, config.check)

    def reset(self) -> None:
        """Forget all entries, failures and limits, and what is remembered about operations."""
        with self.lock:
            self.memo.clear()
            forget_environments()
            forget_fakes()
            forget_tracebacks()
            for context in list(self._contexts.values()):
                context.forget()
            for table in _core.all_tables():
                table.clear()
        _core.tell_again()


class Context:
    """Answers misses for one set of options: from lifted callables, and from frames below a break.

    Residual code holds its context, and code objects their residual code: so it refers to the backend weakly.
    """

    def __init__(self, runtime: Runtime, options: WeakOptions) -> None:
        self.runtime = runtime
        self.options = options
        self.key = options.key
        self._known = Histories()

    def forget(self) -> None:
        self._known.clear()

    # -- misses ----------------------------------------------------------------------------------------------------

    def miss(self, options: Options, lifted: Any, slots: tuple[Any, ...]) -> Any:
        """A lifted callable found no entry for these arguments."""
        return self.capture(lifted.__wrapped__, slots, options)

    def __call__(self, code: CodeType, function: FunctionType, slots: tuple[Any, ...]) -> Any:
        """The frame hook met a frame without an entry. False: never ask for this code; ...: nor for what it calls."""
        if is_cut_off(function):
            return ...
        if not worth_lifting(code, function):
            return False
        if not has_tensors_in_sight(code, function, slots):
            return None if _core.table_for(code, self.key).misses < _PATIENCE else False
        options = self.options.get()
        return None if options is None else self.capture(function, slots, options)

    def resume(self, function: FunctionType, slots: tuple[Any, ...]) -> Any:
        """A resume function has no entry for these arguments."""
        options = self.options.get()
        frames = self._parts(function, slots)
        if len(frames) > _MOST_FRAMES:
            _ran_eagerly(function.__qualname__, MANY_FRAMES.because())
            return None
        if self._is_unpromising(function, slots):
            _ran_eagerly(function.__qualname__, UNPROMISING.because())
            return None
        if options is None or not any(map(self._may_compute, frames)):
            return None
        if options.fullgraph and handled_by(self.runtime.fragments, frames) is not None:
            return None  # an exception is on its way; a break that is an error must not get in its way
        return self.capture(function, slots, options)

    def _may_compute(self, frame: Part) -> bool:
        """Whether a frame that goes on may have to do with tensors: it did before, or there are some."""
        if self.runtime.fragments.of(frame.code).segments.computes:
            return True
        return has_tensors_in_sight(frame.code, frame.function, frame.arguments, STEPS_OF_A_REST)

    def _is_unpromising(self, function: FunctionType, slots: tuple[Any, ...]) -> bool:
        """Whether entries of a resume function are for one call each: a number or an object that is always another."""
        table = _core.table_for(function.__code__, self.key)
        captures = self._known.of(table, function, slots).captures
        return captures >= _PATIENCE_WITH_RESTS and table.hits < captures

    def join(self, tail: Any) -> tuple[FunctionType, tuple[Any, ...]]:
        """Frames were left together: as which function they are to be lifted."""
        return join(self.runtime.fragments, tail)

    def unlifted(
        self, function: FunctionType, slots: tuple[Any, ...], error: BaseException | None
    ) -> tuple[FunctionType, list[Any]]:
        """What to call for Python to go on in place of a resume function that is not lifted, or that failed."""
        if error is not None and not config.full_traceback:
            error.__traceback__ = None
        return run_by_python(self.runtime.fragments, self._parts(function, slots), error)

    def _parts(self, function: FunctionType, slots: tuple[Any, ...]) -> list[Part]:
        code, fragments = function.__code__, self.runtime.fragments
        return split(fragments, code, slots) if fragments.is_chain(code) else [Part(code, function, list(slots))]

    def capture(self, function: FunctionType, slots: tuple[Any, ...], options: Options) -> Any:
        """Capture a call and install its entry. None: run it in Python this time. NotImplemented: and what it calls.

        An exception is raised by whoever asked: nothing is seen of how framelift came to it.
        """
        try:
            return self._capture_alone(function, slots, options)
        except Interrupted as interrupted:
            return interrupted.error.with_traceback(None)
        except BaseException as error:  # handed on whole: only the way it came is taken off
            if config.full_traceback:
                raise
            return error.with_traceback(None)

    def _capture_alone(self, function: FunctionType, slots: tuple[Any, ...], options: Options) -> Any:
        """One thread captures at a time."""
        with self.runtime.lock, _core.undisturbed(), _core.suspended():
            table = _core.table_for(function.__code__, self.key)
            entry = _fitting_entry(table, slots, function)
            if entry is not None:  # another thread was faster
                return entry
            known = self._known.of(table, function, slots)
            why = _why_not(function, known)
            if why is not None:
                return self._leave_to_python(known, function, options, why)
            why = self._refusal(table, known, function, slots, options)
            if why is not None:
                self._leave_to_python(known, function, options, why)
                return NotImplemented
            return self._capture(table, known, function, slots, options)

    def _capture(
        self, table: Any, known: Known, function: FunctionType, slots: tuple[Any, ...], options: Options
    ) -> Any:
        number = stream.new_capture()
        known.captures += 1
        if table.entries and stream.wanted(events.Recompiled):
            reasons = tuple(misfit.words for misfit in misfits(table.entries, function, slots))
            stream.emit(events.Recompiled(number, known.name, reasons))
        wishes = wishes_for(options, function, slots)
        fragments, make_graph = self.runtime.fragments, self.runtime.make_graph
        request = Request(function, slots, options, self, fragments, make_graph, known.history, wishes)
        try:
            captured = capture(request, self.runtime.programs, number)
            _check_guards(captured, slots, function)
        except (FullGraphError, BackendError, DynamicError) as error:
            error.__context__ = error.__cause__  # else what was being captured lives as long as the error
            raise error.with_traceback(None) from error.__cause__
        except Foreseen as error:
            known.history.lessons.foresee()
            return self._leave_to_python(known, function, options, ERROR_FORESEEN.because(check=error))
        except MemoryError:
            raise
        except RecursionError:  # the caller's stack was deeper than it looked
            return self._leave_to_python(known, function, options, STACK_USED_UP.because())
        except Exception as error:  # noqa: BLE001  (framelift's own failure must not become the user's)
            return self._fail(number, known, self._wants_one_graph(function, options), error)
        leave_alone(captured.residual.__code__)
        make_room(table, known, options)
        return table.install(captured.tree, captured.residual, known, captured.direct)

    def _refusal(
        self, table: Any, known: Known, function: FunctionType, slots: tuple[Any, ...], options: Options
    ) -> Because | None:
        """Why the stance or a limit forbids this capture, and what the call would call; None if they do not."""
        stance = current_stance()
        if stance == "eager_on_recompile":
            return STANCE.because(stance="'eager_on_recompile'")
        if stance == "fail_on_recompile":
            raise RecompileError(refused(known.name, function, misfits(table.entries, function, slots)))
        if stance == "eager_then_compile" and not known.seen and not known.captures:
            known.seen = True
            note_arguments(known.history, self.runtime.fragments.argument_names(function.__code__), slots)
            return STANCE.because(stance="'eager_then_compile', and it is the first call")
        limit = reached_limit(table, known, options)
        if limit is None:
            return None
        is_error = self._wants_one_graph(function, options)
        if is_error or not known.told:
            found = what_keeps_failing(misfits(known.entries(table), function, slots), options)
            if is_error:
                raise FullGraphError(f"{LIMIT_REACHED.id}: {known.name} {limit}\n  {found}")
            known.told = True
            warn_user(
                f"{LIMIT_REACHED.id}: {known.name} {limit}; calls that fit none of its entries run in Python "
                f"(framelift.counters().eager counts them)\n  {found}"
            )
        return LIMIT_REACHED.because(limit=limit)

    # -- telling ---------------------------------------------------------------------------------------------------

    def _leave_to_python(self, known: Known, function: FunctionType, options: Options, why: Because) -> None:
        """Python runs a call, unless the user wants one graph or an error."""
        fallback = why.fallback
        if fallback.is_error and self._wants_one_graph(function, options):
            where = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
            raise FullGraphError(
                f"{fallback.id}: {why.words}\n  at the call of {known.name} ({where})\n  {fallback.remedy}"
            )
        _ran_eagerly(known.name, why)

    def _wants_one_graph(self, function: FunctionType, options: Options) -> bool:
        """Not where a break was allowed (`error_on_graph_break(False)`): what follows it may be left to Python, too."""
        return options.fullgraph and not self.runtime.fragments.is_fragment(function.__code__)

    def _fail(self, number: int, known: Known, is_error: bool, error: Exception) -> None:
        words = f"{type(error).__name__}: {error}"
        stream.emit(events.InternalFailure(number, CAPTURE_FAILED.id, known.name, words))
        if config.strict:
            raise InternalError(CAPTURE_FAILED.id, f"capture of {known.name} failed: {words}") from error
        if is_error:
            raise FullGraphError(
                f"{CAPTURE_FAILED.id}: framelift failed to capture {known.name} ({words})\n  {CAPTURE_FAILED.remedy}"
            ) from error
        known.failed = True
        warn_user(
            f"{CAPTURE_FAILED.id}: framelift failed to capture {known.name} ({words}); it runs in Python. "
            "Please report this."
        )


# What calls call where no entry fits. All of a capture is below these.
for _entered in (Context.miss, Context.__call__, Context.resume, Context.join, Context.unlifted, Runtime.lift_anew):
    leave_alone(_entered.__code__)
leave_alone(Stances.ask.__code__)


def _why_unfit() -> str | None:
    """Why nothing can be lifted with this version of torch; None if it answers what is asked before every capture."""
    try:
        calibrate.ensure()
        foreign_mode()
    except (AttributeError, ImportError) as error:
        return str(error)
    return None


def _why_not(function: FunctionType, known: Known) -> Because | None:
    """Why this call cannot be captured, if it cannot."""
    if TORCH_NAMES.unfit is not None:
        return TORCH_UNFIT.because(reason=TORCH_NAMES.unfit)
    if known.failed:
        return CAPTURE_FAILED.because()
    if has_own_builtins(function):
        return OWN_BUILTINS.because()
    fallback = foreign_mode()
    if fallback is not None:
        return fallback.because()
    replaced = replaced_builtins()
    if replaced:
        return BUILTINS_REPLACED.because(names=", ".join(replaced))
    return None if Headroom().suffices else STACK_USED_UP.because()


def _ran_eagerly(function: str, why: Because) -> None:
    stream.emit(events.RanEagerly(function, why.words, why.fallback.id))


def _hear_of_fallback(id: str, function: FunctionType) -> None:
    """Native code says that Python runs a call."""
    _ran_eagerly(function.__qualname__, _from_native_code(id))


def untold_calls() -> dict[str, int]:
    """How many calls more than was told Python ran because the program asked for it, by reason."""
    return {_from_native_code(id).words: count for id, count in _core.untold_calls().items()}


def _from_native_code(id: str) -> Because:
    return FALLBACKS[id].because(stance="'force_eager'")


def _fitting_entry(table: Any, slots: tuple[Any, ...], function: FunctionType) -> Any:
    for entry in table.entries:
        if entry.tree.check(slots, function) is not None:
            return entry
    return None


def _check_guards(captured: Captured, slots: tuple[Any, ...], function: FunctionType) -> None:
    """An entry must fit the very call it was captured from."""
    captured.tree.strict = config.strict
    check = captured.tree.check_strict if config.strict else captured.tree.check
    if check(slots, function) is None:
        failure = captured.tree.explain(slots, function)
        raise AssertionError(f"the guards do not hold for their own inputs: {failure[2] if failure else 'unknown'}")
