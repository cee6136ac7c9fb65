"""torch's operators that take functions: `cond`, `while_loop`, `scan`, `map`, `flex_attention` and their kin.

Each function is traced once and becomes a body. What differs between operators is how they call their functions, which
is what a row of the table below says: on the very tensors of the program, on ones like them, or on slices of them. All
else that the functions use is found when they are traced, and is handed to the operator behind what it takes itself.

torch's compiler traces functions for those who call them without one. So what is not traced here is left to it, all of
it: the program is captured again, and torch's functions hear that they are not compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import HigherOrderOperator, _higher_order_ops

from framelift.breaks import FL0102, GraphBreak
from framelift.graph import TensorRef
from framelift.graph.bodies import Body
from framelift.torch_names import is_absent
from framelift.values.core import protocol as py
from framelift.values.core.construct import make_tuple
from framelift.values.core.hash_keys import from_key
from framelift.values.core.primitives import primitive
from framelift.values.tensors.tensors import TensorValue
from framelift.values.torch.higher_order import Traced, without
from framelift.values.torch.pytrees import flatten

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class OperatorCall:
    """A call of an operator: the functions it was given, traced, and what they use besides their arguments."""

    def __init__(self, tracer: Tracer, operator: HigherOrderOperator) -> None:
        self.lift = tracer
        self.operator = operator
        self.what = f"torch.ops.higher_order.{operator.name()}"
        self._traced: list[tuple[str, Traced, list[TensorRef], bool]] = []

    def refuse(self, why: str) -> Any:
        raise GraphBreak(FL0102, what=f"{self.what} with {why}")

    # What functions are called on

    def tensors(self, values: Any) -> list[TensorRef]:
        """The tensors in a list or tuple of nothing else."""
        return [self.tensor(value) for value in py.items(self.lift, values)]

    def tensor(self, value: Any) -> TensorRef:
        if not isinstance(value, TensorValue):
            self.refuse("other operands than tensors")
        return value.ref(self.lift)

    def like(self, ref: TensorRef, shape: Sequence[Any] | None = None) -> TensorRef:
        """A tensor that a function is given in the place of one."""
        shape = list(ref.descriptor.shape) if shape is None else shape
        return self.lift.graph.placeholder(ref, shape, ref.requires_grad and torch.is_grad_enabled())

    def slices(self, refs: Sequence[TensorRef]) -> list[TensorRef]:
        """What functions are given of tensors whose first dimension is gone over."""
        if any(not ref.descriptor.shape for ref in refs):
            self.refuse("tensors without dimensions")
        return [self.like(ref, list(ref.descriptor.shape)[1:]) for ref in refs]

    # Functions

    def trace(self, name: str, function: Any, inside: Sequence[TensorRef], is_bare: bool = False) -> Traced:
        """Trace a function on tensors; a bare one gives one tensor, and not a tuple of some."""
        args = [self.lift.from_graph(ref) for ref in inside]
        return self.trace_on(name, function, args, inside, is_bare)

    def trace_on(
        self, name: str, function: Any, args: list[Any], inside: Sequence[TensorRef] = (), is_bare: bool = False
    ) -> Traced:
        """The same on any arguments, in which these tensors are the function's own."""
        traced = Traced(self.lift, function, args, {}, self.what)
        if inside and traced.asks_layout:
            self.refuse("a function that asks how tensors lie in memory")
        if is_bare and not traced.tree.is_leaf:
            self.refuse("a function that returns other things than one tensor")
        if not is_bare:
            self._refuse_aliases(traced, inside)
        self._traced.append((name, traced, list(inside), is_bare))
        return traced

    def _refuse_aliases(self, traced: Traced, inside: Sequence[TensorRef]) -> None:
        """Results of functions share no memory with each other or with what they are given.

        (What only decides, or is one score, may.)
        """
        given = {id(ref.storage) for ref in (*inside, *traced.part.free(traced.outputs)) if type(ref) is TensorRef}
        for output in traced.outputs:
            if id(output.storage) in given:
                self.refuse("a function whose results share memory")
            given.add(id(output.storage))

    @functools.cached_property
    def extra(self) -> list[Any]:
        """What the functions use from outside, each once."""
        found: dict[int, Any] = {}
        for _, traced, inside, _ in self._traced:
            found.update((id(ref), ref) for ref in without(traced.part.free(traced.outputs), inside))
        return list(found.values())

    def bodies(self) -> list[Body]:
        """The functions as graphs that take what they were called on, and then what they use besides."""
        graph = self.lift.graph
        return [
            graph.body(name, traced.part, [*inside, *self.extra], traced.outputs, is_bare, is_final=bool(inside))
            for name, traced, inside, is_bare in self._traced
        ]

    def emit(self, *args: Any) -> list[Any]:
        """The results of the operator, as a node of the graph."""
        raises = any(traced.part.may_raise() for _, traced, _, _ in self._traced)
        return py.items(self.lift, self.lift.call_on_bodies(self.operator, args, raises))

    def check_carried(self, traced: Sequence[TensorRef], before: Sequence[TensorRef]) -> None:
        """What one round hands to the next is like what it was given."""
        pairs = [(one.descriptor, two.descriptor) for one, two in zip(traced, before, strict=False)]
        if len(traced) != len(before) or not all(
            one.shape == two.shape and one.dtype is two.dtype and one.device == two.device for one, two in pairs
        ):
            self.refuse("a function whose results differ from what it is given")


_OPERATORS: dict[str, Any] = {} if is_absent(_higher_order_ops) else _higher_order_ops
Row = Callable[..., Any]
# How operators call their functions, by the names of the operators.
_ROWS: dict[str, Row] = {}


def _row(*names: str) -> Callable[[Row], Row]:
    def register(row: Row) -> Row:
        for name in names:
            if name in _OPERATORS:  # not every torch has every operator
                _ROWS[name] = row
                primitive(type(_OPERATORS[name]).__call__)(_called)
        return row

    return register


def _called(tracer: Tracer, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """An operator is called: by its row, or it is left to torch's compiler."""
    real = operator.concrete
    try:
        row = _ROWS.get(real.name())
        if row is None:
            raise GraphBreak(FL0102, what=f"the operator {real.name()}, which takes functions")
        if tracer.modes.functions:
            raise GraphBreak(FL0102, what=f"the operator {real.name()} in a mode that is to be asked")
        return row(OperatorCall(tracer, real), *args, **kwargs)
    except GraphBreak as reason:
        tracer.answers.doubt(str(reason))
        raise


primitive(HigherOrderOperator.__call__)(_called)


# Branches ------------------------------------------------------------------------------------------------------------


@_row("cond")
def _cond(call: OperatorCall, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """Both branches are called on the operands themselves."""
    tracer = call.lift
    args = py.items(tracer, operands)
    if not isinstance(pred, TensorValue):
        return py.call(tracer, true_fn if py.truth(tracer, pred) else false_fn, args, {})
    condition = pred.ref(tracer)
    if any(type(size) is not int or size != 1 for size in condition.descriptor.shape):
        call.refuse("this predicate")
    if not all(isinstance(leaf, TensorValue) for arg in args for leaf in flatten(tracer, arg)[0]):
        call.refuse("other operands than tensors")
    branches = [call.trace_on("true_body", true_fn, args), call.trace_on("false_body", false_fn, args)]
    if branches[0].tree != branches[1].tree:
        call.refuse("branches that return different things")
    call.check_carried(branches[0].outputs, branches[1].outputs)
    return branches[0].result(tracer, call.emit(condition, *call.bodies(), tuple(call.extra)))


# Loops ---------------------------------------------------------------------------------------------------------------


@_row("while_loop", "while_loop_stack_output")
def _while_loop(call: OperatorCall, cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any) -> Any:
    """Both functions are called on what is carried, and on what is added."""
    carried, added = call.tensors(carried_inputs), call.tensors(additional_inputs)
    first = [call.like(ref) for ref in carried]
    condition = call.trace("loop_condition", cond_fn, [*first, *map(call.like, added)], is_bare=True).outputs[0]
    if condition.descriptor.shape or condition.dtype is not torch.bool:
        call.refuse("a condition that is not one truth value")
    body = call.trace("loop_body", body_fn, [*[call.like(ref) for ref in carried], *map(call.like, added)])
    call.check_carried(body.outputs, carried)
    if body.tree.kind is not tuple:
        call.refuse("a body that does not return a tuple")
    made = call.emit(*call.bodies(), tuple(carried), (*added, *call.extra))
    return body.result(call.lift, made)


@_row("scan")
def _scan(call: OperatorCall, combine_fn: Any, init: Any, xs: Any, additional_inputs: Any) -> Any:
    """The function is called on what is carried, a slice of each tensor gone over, and what is added."""
    start, over, added = call.tensors(init), call.tensors(xs), call.tensors(additional_inputs)
    inside = [*map(call.like, start), *call.slices(over), *map(call.like, added)]
    traced = call.trace("scan_body", combine_fn, inside)
    if traced.tree.kind is not tuple or len(traced.tree.parts) != 2:
        call.refuse("a function that does not return two things")
    call.check_carried(traced.outputs[: traced.tree.parts[0].count], start)
    made = call.emit(*call.bodies(), tuple(start), tuple(over), (*added, *call.extra))
    return traced.result(call.lift, made)


@_row("associative_scan")
def _associative_scan(call: OperatorCall, combine_fn: Any, xs: Any, additional_inputs: Any) -> Any:
    """The function is called on two slices of each tensor gone over, and on what is added."""
    over, added = call.tensors(xs), call.tensors(additional_inputs)
    inside = [*call.slices(over), *call.slices(over), *map(call.like, added)]
    traced = call.trace("scan_body", combine_fn, inside)
    call.check_carried(traced.outputs, inside[: len(over)])
    return traced.result(call.lift, call.emit(*call.bodies(), tuple(over), (*added, *call.extra)))


@_row("map_impl")
def _map(call: OperatorCall, f: Any, xs: Any, pos_args: Any) -> Any:
    """The function is called on a slice of each tensor gone over, and on what is added."""
    over, added = call.tensors(xs), call.tensors(pos_args)
    traced = call.trace("mapped_body", f, [*call.slices(over), *map(call.like, added)])
    return traced.result(call.lift, call.emit(*call.bodies(), tuple(over), (*added, *call.extra)))


# Regions -------------------------------------------------------------------------------------------------------------


@_row("wrap")
def _wrap(call: OperatorCall, func: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls the function, and does nothing else."""
    return py.call(call.lift, func, list(args), kwargs)


@_row("invoke_quant_packed")
def _invoke_quant(call: OperatorCall, subgraph: Any, *operands: Any, **options: Any) -> Any:
    """Marks operations for patterns of compilers, and does nothing else."""
    return py.call(call.lift, subgraph, list(operands), {})


@_row("strict_mode")
def _strict_mode(call: OperatorCall, callable: Any, operands: Any) -> Any:
    args = py.items(call.lift, operands)
    traced = call.trace_on("strict_body", callable, args)
    return traced.result(call.lift, call.emit(*call.bodies(), tuple(call.extra)))


@_row("hints_wrapper")
def _hints_wrapper(call: OperatorCall, body_fn: Any, args: Any, kwargs: Any, hints: Any) -> Any:
    if py.length(call.lift, kwargs):
        call.refuse("keyword arguments")
    traced = call.trace_on("hinted_body", body_fn, py.items(call.lift, args))
    said = {name: call.lift.constant(value) for name, value in _named(call, hints).items()}
    return traced.result(call.lift, call.emit(*call.bodies(), tuple(call.extra), {}, said))


def _named(call: OperatorCall, mapping: Any) -> dict[str, Any]:
    """A dict with names for keys."""
    leaves, tree = flatten(call.lift, mapping)
    if tree.kind is not dict or len(leaves) != len(tree.keys):
        call.refuse("these options")
    return {call.lift.constant(from_key(key)): leaf for key, leaf in zip(tree.keys, leaves, strict=True)}


# Attention -----------------------------------------------------------------------------------------------------------


@_row("flex_attention")
def _flex_attention(
    call: OperatorCall,
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any,
    block_mask: Any,
    scale: Any,
    kernel_options: Any,
    score_mod_other_buffers: Any = (),
    mask_mod_other_buffers: Any = (),
) -> Any:
    """`score_mod` is called on one score and its four indices, `mask_mod`, which is last in the mask, on the indices.

    Each has what it uses for itself.
    """
    tracer = call.lift
    if py.length(tracer, score_mod_other_buffers) or py.length(tracer, mask_mod_other_buffers):
        call.refuse("buffers of its own")
    given = [call.tensor(each) for each in (query, key, value)]
    *blocks, mask_mod = py.items(tracer, block_mask)
    index = tracer.call_torch(torch.zeros, (0,), {"dtype": torch.int32, "device": given[0].device}).ref(tracer)
    masking, scoring = OperatorCall(tracer, call.operator), call
    with tracer.modes.of_positions():
        masking.trace("mask_body", mask_mod, [call.like(index, ()) for _ in range(4)], is_bare=True)
        scores = [call.like(given[0], ()), *[call.like(index, ()) for _ in range(4)]]
        scoring.trace("score_body", score_mod, scores, is_bare=True)
    sizes = [each.ref(tracer) if isinstance(each, TensorValue) else tracer.constant(each) for each in blocks]
    made = call.emit(
        *given,
        *scoring.bodies(),
        (*sizes, *masking.bodies()),
        tracer.graph_argument(scale),
        {name: tracer.graph_argument(option) for name, option in _named(call, kernel_options).items()},
        tuple(scoring.extra),
        tuple(masking.extra),
    )
    return make_tuple(made)
