"""`check(fn, *args)`: the lifted function must do exactly what the function does.

Both are called on their own copies of everything, twice with the same inputs and then with changed ones. Compared
are the value (types, structure, identity, bits), what was printed and warned, the exception and the user's line it
came from, what happened to arguments, closure and globals, the random generators, the context of decimals, and
gradients. Events must show
that operations were captured: a function that silently ran in Python does not pass.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import traceback
import types
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

import framelift
from framelift.errors import FrameliftWarning
from tests.helpers.record import Record, disassembly
from tests.helpers.same import Comparison, Difference
from tests.helpers.traces import lines_of
from tests.helpers.world import Side, changed_in_value, random_state, seed, tensors_in
from tests.tolerances import tolerance


@dataclass(slots=True)
class Checked:
    """What a passed check saw: the events, and eager's value of the first call."""

    record: Record
    value: Any

    @property
    def graphs(self) -> list[Any]:
        return self.record.graphs

    @property
    def ops(self) -> int:
        return self.record.ops

    @property
    def guards(self) -> list[str]:
        return self.record.guards


@dataclass(slots=True)
class Outcome:
    """Everything one call did."""

    args: Any
    value: Any = None
    error: BaseException | None = None
    line: str = ""
    printed: str = ""
    warned: list[tuple[type, str]] | None = None
    random: Any = None


def check(
    fn: Callable[..., Any],
    *args: Any,
    changed: Iterable[tuple[Any, ...]] | None = None,
    expect_ops: int = 1,
    expect_breaks: int | None = 0,
    expect_hit: bool | None = None,
    allow_internal: bool = False,
    deterministic: bool = True,
    backend: Any = "eager",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    inputs: Callable[[], tuple[Any, ...]] | None = None,
    rounding: str | None = None,
    whole_errors: bool = False,
    **kwargs: Any,
) -> Checked:
    """Compare eager and lifted; see the module's docstring.

    changed         arguments of further calls (default: the same, with every tensor changed in value); taken one by
                    one, so that a generator can change more than arguments between calls
    expect_ops      at least so many operations must be captured, over all graphs
    expect_breaks   exactly so many graph breaks over all captures; None for any number
    expect_hit      the second call must not capture (default: so where the first call changed nothing that it can see)
    allow_internal  internal failures are what this test is about
    deterministic   capturing again must give the same graph, guards and code
    inputs          makes fresh arguments for each call, where deepcopy cannot
    rounding        what rounds its own way besides the backend ("numpy": torch's NumPy layer)
    whole_errors    exceptions are compared with all frames of their tracebacks, notes, causes and contexts
    Other keyword arguments go to the function.
    """
    compiled = {"backend": backend, "fullgraph": fullgraph, "dynamic": dynamic, "mode": mode}
    untouched, eager, lifted = Side(fn), Side(fn), Side(fn)
    lifted.function = framelift.compile(lifted.function, **compiled)
    first = inputs() if inputs is not None else args
    further = changed if changed is not None else [] if inputs is not None else [changed_in_value(first)]
    record = Record()
    outcomes: list[Outcome] = []
    unchanged = False
    try:
        for number, given in enumerate(itertools.chain([first, first], further)):
            captures = record.captures
            fresh = inputs if inputs is not None and number < 2 else None
            expected = run(eager, given, kwargs, number, fresh)
            with record.listening():
                actual = run(lifted, given, kwargs, number, fresh)
            compare(expected, actual, eager, lifted, rounding or backend, number)
            if whole_errors:
                Comparison().compare(_chain(expected.error), _chain(actual.error), f"call {number}: exception")
            if number == 1 and record.captures > captures and _must_hit(expect_hit, unchanged):
                raise Difference("the second call with the same inputs was captured again instead of hitting the entry")
            if number == 0 and expect_hit is None:
                unchanged = fresh is None and _changed_nothing(expected, first, untouched, eager)
            outcomes.append(expected)
        _check_events(record, expect_ops, expect_breaks, allow_internal)
        if deterministic and not allow_internal:
            _check_determinism(fn, first, kwargs, compiled, inputs)
    except AssertionError as problem:
        raise type(problem)(f"{problem}\n\n{_context(fn, record)}") from None
    return Checked(record, outcomes[0].value)


def run(side: Side, args: Any, kwargs: dict[str, Any], number: int, fresh: Callable[[], Any] | None = None) -> Outcome:
    """Call one side's function on its own copies and note everything the call did."""
    mine, mine_kwargs = (fresh(), dict(kwargs)) if fresh is not None else side.copied((args, kwargs))
    outcome = Outcome(args=(mine, mine_kwargs))
    out = io.StringIO()
    always = torch.is_warn_always_enabled()
    seed(number)
    torch.set_warn_always(True)
    try:
        with side.installed(), contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                outcome.value = side.function(*mine, **mine_kwargs)
            except Exception as error:
                outcome.error, outcome.line = error, _user_line(error)
    finally:
        torch.set_warn_always(always)
    outcome.random = random_state()
    outcome.printed = out.getvalue()
    outcome.warned = [(entry.category, str(entry.message)) for entry in caught]
    return outcome


def compare(expected: Outcome, actual: Outcome, eager: Side, lifted: Side, backend: Any, number: int) -> None:
    """Raise Difference at the first thing that differs between the two calls."""
    name = ("first call", "second call")[number] if number < 2 else f"changed call {number - 1}"
    comparison = Comparison(lambda dtype: tolerance(backend, dtype))
    ours = [entry for entry in actual.warned or [] if issubclass(entry[0], FrameliftWarning)]
    others = [entry for entry in actual.warned or [] if not issubclass(entry[0], FrameliftWarning)]
    if (expected.error is None) != (actual.error is None):
        raise Difference(f"{name}: eager {_did(expected)}, lifted {_did(actual)}") from actual.error
    if expected.error is not None and actual.error is not None:
        if type(expected.error) is not type(actual.error) or str(expected.error) != str(actual.error):
            raise Difference(f"{name}: eager {_did(expected)}, lifted {_did(actual)}") from actual.error
        comparison.compare(expected.line, actual.line, f"{name}: user's line of the exception")
    # One walk over all of it, so that identity between result, arguments, closure and globals is compared too.
    comparison.compare(expected.args, actual.args, f"{name}: arguments afterwards")
    comparison.compare(expected.value, actual.value, f"{name}: result")
    comparison.compare(_state(eager), _state(lifted), f"{name}: function, closure")
    comparison.compare(eager.globals, lifted.globals, f"{name}: globals")
    comparison.compare(eager.decimals, lifted.decimals, f"{name}: context of decimals")
    comparison.compare(_printed(expected, backend), _printed(actual, backend), f"{name}: printed")
    comparison.compare(expected.warned, others, f"{name}: warnings")
    comparison.compare(expected.random, actual.random, f"{name}: random state")
    _compare_gradients(expected, actual, eager, lifted, backend, name)
    if ours:
        raise Difference(f"{name}: framelift warned: {ours[0][1]}")


def _printed(outcome: Outcome, backend: Any) -> str:
    """What was printed. The nodes of a graph with a backward of its own have a name of their own."""
    return outcome.printed if backend == "eager" else re.sub(r"grad_fn=<\w+>", "grad_fn=<...>", outcome.printed)


def _compare_gradients(expected: Outcome, actual: Outcome, eager: Side, lifted: Side, backend: Any, name: str) -> None:
    """Backward through both results, then compare what arrived at the leaves; leaves the gradients as they were."""
    comparison = Comparison(lambda dtype: tolerance(backend, dtype))
    gradients = []
    for outcome, side in ((expected, eager), (actual, lifted)):
        results = [
            tensor for tensor in tensors_in(outcome.value) if tensor.requires_grad and tensor.grad_fn is not None
        ]
        results = [tensor for tensor in results if tensor.is_floating_point() or tensor.is_complex()]
        leaves = [*tensors_in([outcome.args, _state(side), list(side.globals.values())])]
        leaves = [leaf for leaf in leaves if leaf.is_leaf and leaf.requires_grad]
        if not results or not leaves:
            gradients.append(None)
            continue
        gradients.append(_gradients(results, leaves))
    if type(gradients[1]) is str and gradients[0] != gradients[1]:
        raise Difference(f"{name}: gradients: backward raised {gradients[1]}")
    comparison.compare(gradients[0], gradients[1], f"{name}: gradients")


def _gradients(results: list[torch.Tensor], leaves: list[torch.Tensor]) -> Any:
    """The gradients, or the words of an error: of a tensor that is needed and was written, say."""
    weights = [_weights_like(result) for result in results]
    try:
        return torch.autograd.grad(results, leaves, weights, allow_unused=True, retain_graph=True)
    except RuntimeError as error:
        return str(error).partition(":")[0]


def _weights_like(result: torch.Tensor) -> torch.Tensor:
    """Different for each element, so that gradients that went to the wrong element are seen."""
    return torch.linspace(0.5, 1.5, result.numel(), dtype=result.dtype, device=result.device).reshape(result.shape)


def _state(side: Side) -> Any:
    """What a call may change in the callable itself."""
    function = side.target
    if isinstance(function, torch.nn.Module):
        return {"state": dict(function.state_dict(keep_vars=True)), "training": function.training}
    if isinstance(function, types.MethodType):
        return function.__self__
    if isinstance(function, types.FunctionType):
        return [function.__closure__, function.__defaults__, function.__kwdefaults__]
    return None


def _must_hit(expect_hit: bool | None, unchanged: bool) -> bool:
    return unchanged if expect_hit is None else expect_hit


def _changed_nothing(outcome: Outcome, given: Any, before: Side, after: Side) -> bool:
    """Whether a call left arguments, closure and globals as they were; if not, the next may rightly need an entry."""
    comparison = Comparison()
    try:
        comparison.compare(given, outcome.args[0], "")
        comparison.compare(_state(before), _state(after), "")
        comparison.compare(before.globals, after.globals, "")
    except Difference:
        return False
    return outcome.error is None


def _check_events(record: Record, expect_ops: int, expect_breaks: int | None, allow_internal: bool) -> None:
    if record.failures and not allow_internal:
        raise AssertionError(f"framelift failed internally: {record.failures[0]}")
    if record.ops < expect_ops:
        raise AssertionError(f"captured {record.ops} operations, expected at least {expect_ops}")
    if expect_breaks is not None and len(record.breaks) != expect_breaks:
        raise AssertionError(f"{len(record.breaks)} graph breaks, expected {expect_breaks}: {record.breaks}")


def _check_determinism(
    fn: Callable[..., Any],
    args: Any,
    kwargs: dict[str, Any],
    compiled: dict[str, Any],
    inputs: Callable[[], Any] | None,
) -> None:
    """Capture the frame twice more, from nothing: graph, guards and residual code must come out the same."""
    prints = []
    for _ in range(2):
        framelift.reset()
        side, record = Side(fn), Record()
        side.function = framelift.compile(side.function, **compiled)
        with record.listening():
            run(side, args, kwargs, 0, inputs)
        prints.append(record.fingerprint())
    if prints[0] != prints[1]:
        one, two = next(
            pair for pair in zip([*prints[0], None], [*prints[1], None], strict=False) if pair[0] != pair[1]
        )
        raise AssertionError(f"two captures of the same frame differ:\n{one}\n{two}")


def _did(outcome: Outcome) -> str:
    if outcome.error is None:
        return f"returned a {type(outcome.value).__name__}"
    text = "".join(traceback.format_exception(outcome.error, limit=-8))
    return f"raised {type(outcome.error).__name__}: {outcome.error}\n{text}"


def _user_line(error: BaseException) -> str:
    """The innermost line of the traceback that belongs to a test, the part of the traceback a user reads."""
    own = lines_of(error, __file__)
    return f"{own[-1].filename}:{own[-1].number}" if own else ""


def _chain(error: BaseException | None) -> list[Any]:
    """An exception and those that led to it: words, notes and the user's lines it came through."""
    found: list[Any] = []
    while error is not None:
        lines = [(line.number, line.function) for line in lines_of(error, __file__)]
        # How deep a recursion without end goes depends on where it began.
        words = [type(error).__name__, str(error), [*getattr(error, "__notes__", [])], lines[:20]]
        found += [*words, error.__cause__ is not None, error.__suppress_context__]
        error = error.__cause__ or error.__context__
    return found


def _context(fn: Any, record: Record) -> str:
    inner = getattr(fn, "__func__", fn)
    inner = type(inner).forward if isinstance(inner, torch.nn.Module) else inner
    code = getattr(inner, "__code__", None)
    shown = f"original code:\n{disassembly(code)}\n\n" if code is not None else ""
    return shown + record.text()
