"""Derivatives of functions: `torch.func.grad`, `vjp`, `jvp`, `jacrev`, `jacfwd` and what is made of them.

The function is traced once, on tensors like those it is given, and becomes a body. The operation on it is torch's own
transform, over the tensors in the arguments; their containers are put together again around the results.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch.eager_transforms import grad_and_value_impl, grad_impl

from framelift.breaks import FL0102, FL0102_ARGUMENTS, GraphBreak
from framelift.graph import TensorRef
from framelift.graph.bodies import Body
from framelift.graph.operations.transformed import applied, gradient, jacobian, pulled_back, pushed_forward
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.hash_keys import from_key
from framelift.values.core.primitives import primitive
from framelift.values.tensors.tensors import TensorValue
from framelift.values.torch.higher_order import Traced, without
from framelift.values.torch.pytrees import Tree, flatten

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


# Transforms by which no tensor comes to require gradients.
_FORWARDS = ("torch.func.jvp", "torch.func.jacfwd")


def _takes_gradients(ref: TensorRef) -> bool:
    return ref.dtype.is_floating_point or ref.dtype.is_complex


class _Function:
    """A function as a body over the tensors of the arguments that it is differentiated by, and all else it uses."""

    def __init__(
        self,
        tracer: Tracer,
        func: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        wanted: Any,
        has_aux: Any,
        what: str,
    ) -> None:
        self.lift = tracer
        self.what = what
        numbers = wanted if type(wanted) is tuple else (wanted,)
        if not all(type(number) is int and -len(args) <= number < len(args) for number in numbers):
            self.refuse("these argnums")
        numbers = tuple([number % len(args) for number in numbers])
        if len(set(numbers)) != len(numbers):
            self.refuse("these argnums")
        flat = [flatten(tracer, args[number]) for number in numbers]
        leaves = [leaf for leaves, _ in flat for leaf in leaves]
        if not leaves or not all(isinstance(leaf, TensorValue) for leaf in leaves):
            self.refuse("other arguments than tensors")
        # The shape of what is differentiated by: one argument, or a tuple of them.
        self.tree = Tree(tuple, (), [tree for _, tree in flat]) if type(wanted) is tuple else flat[0][1]
        self.given: list[TensorRef] = [leaf.ref(tracer) for leaf in leaves]
        # A function that is differentiated backwards finds that its arguments require gradients.
        is_backwards = what not in _FORWARDS
        self._inside = [
            tracer.graph.placeholder(ref, list(ref.descriptor.shape), is_backwards and _takes_gradients(ref))
            for ref in self.given
        ]
        rest = iter([tracer.from_graph(ref) for ref in self._inside])
        built = {
            number: tree.build(tracer, [next(rest) for _ in range(tree.count)])
            for number, (_, tree) in zip(numbers, flat, strict=True)
        }
        inside = [built.get(number, arg) for number, arg in enumerate(args)]
        with torch.enable_grad(), tracer.modes.transformed("backwards" if is_backwards else "forwards"):
            self._traced = Traced(tracer, func, inside, kwargs, what)
        if self._traced.asks_layout:
            self.refuse("a function that asks how tensors lie in memory")
        self._split(bool(tracer.constant(has_aux)))
        self.extra = without(self._traced.part.free(self._traced.outputs), self._inside)

    def refuse(self, why: str) -> Any:
        raise GraphBreak(FL0102, what=f"{self.what} with {why}")

    def _split(self, has_aux: bool) -> None:
        """What is differentiated, and what is returned besides."""
        tree = self._traced.tree
        self.value_tree, self.aux_tree = tree, None
        if has_aux:
            if tree.kind is not tuple or len(tree.parts) != 2:
                self.refuse("a function that does not return two things")
            self.value_tree, self.aux_tree = tree.parts
        self.values = self._traced.outputs[: self.value_tree.count]

    def body(self) -> Body:
        inputs = [*self._inside, *self.extra]
        part, outputs = self._traced.part, self._traced.outputs
        return self.lift.graph.body("differentiated_body", part, inputs, outputs, is_final=True)

    def run(self, operation: Any, *plan: Any, more: Sequence[TensorRef] = ()) -> list[Any]:
        """The results of an operation on the body, its plan, the tensors it takes and some more."""
        args = (self.body(), *plan, *self.given, *self.extra, *more)
        return py.items(self.lift, self.lift.call_on_bodies(operation, args, self._traced.part.may_raise()))

    def with_aux(self, result: Any, aux: Sequence[Any]) -> Any:
        """The result of a transform, with what the function returned besides."""
        if self.aux_tree is None:
            return result
        return make_tuple([result, self.aux_tree.build(self.lift, aux)])

    @property
    def is_scalar(self) -> bool:
        return self.value_tree.is_leaf and not self.values[0].descriptor.shape


# grad ----------------------------------------------------------------------------------------------------------------


@primitive(grad_impl)
def _grad(tracer: Tracer, func: Any, argnums: Any, has_aux: Any, args: Any, kwargs: Any) -> Any:
    function, gradients, results = _differentiate(tracer, func, argnums, has_aux, args, kwargs)
    return function.with_aux(gradients, results[1:])


@primitive(grad_and_value_impl)
def _grad_and_value(tracer: Tracer, func: Any, argnums: Any, has_aux: Any, args: Any, kwargs: Any) -> Any:
    function, gradients, results = _differentiate(tracer, func, argnums, has_aux, args, kwargs)
    return make_tuple([gradients, function.with_aux(results[0], results[1:])])


def _differentiate(
    tracer: Tracer, func: Any, argnums: Any, has_aux: Any, args: Any, kwargs: Any
) -> tuple[_Function, Any, list[Any]]:
    """The function, its gradients in the shape of `argnums`, and what it returned."""
    named = {tracer.constant(from_key(key)): value for key, value in kwargs.entries(tracer).items()}
    given, wanted = py.items(tracer, args), tracer.constant(argnums)
    function = _Function(tracer, func, given, named, wanted, has_aux, "torch.func.grad")
    if not function.is_scalar:
        function.refuse("a function that does not return one number")
    count = len(function.given)
    results = function.run(gradient, tuple(range(count)), True)
    return function, function.tree.build(tracer, results[:count]), results[count:]


# vjp and jvp ---------------------------------------------------------------------------------------------------------


class PullbackValue(Value):
    """What `torch.func.vjp` gives besides the value: takes cotangents, gives gradients."""

    __slots__ = ("function",)

    def __init__(self, function: _Function) -> None:
        super().__init__()
        self.function = function

    def python_type(self) -> type:
        return functools.partial

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        function = self.function
        if len(args) != 1 or kwargs:
            self.refuse("calling with these arguments")
        leaves, tree = flatten(tracer, args[0])
        cotangents = _tensors_like(tracer, leaves, function.values) if tree == function.value_tree else None
        if cotangents is None:
            self.refuse("calling with other cotangents than the values ask for")
        return function.tree.build(tracer, function.run(pulled_back, len(function.given), len(leaves), more=cotangents))


def _tensors_like(tracer: Tracer, leaves: Sequence[Any], models: Sequence[TensorRef]) -> list[TensorRef] | None:
    """Tensors with the shapes and dtypes of others; None where they are not."""
    if len(leaves) != len(models) or not all(isinstance(leaf, TensorValue) for leaf in leaves):
        return None
    refs = [leaf.ref(tracer) for leaf in leaves]
    pairs = [(ref.descriptor, model.descriptor) for ref, model in zip(refs, models, strict=True)]
    return refs if all(one.shape == two.shape and one.dtype is two.dtype for one, two in pairs) else None


@primitive(torch.func.vjp)
def _vjp(tracer: Tracer, func: Any, *primals: Any, has_aux: Any = False) -> Any:
    every = tuple(range(len(primals)))
    function = _Function(tracer, func, primals, {}, every, has_aux, "torch.func.vjp")
    results = function.run(applied)
    count = function.value_tree.count
    pair = [function.value_tree.build(tracer, results[:count]), PullbackValue(function)]
    aux = [] if function.aux_tree is None else [function.aux_tree.build(tracer, results[count:])]
    return make_tuple([*pair, *aux])


@primitive(torch.func.jvp)
def _jvp(tracer: Tracer, func: Any, primals: Any, tangents: Any, *, strict: Any = False, has_aux: Any = False) -> Any:
    what = "torch.func.jvp"
    if tracer.type_of(primals) is not tuple or py.truth(tracer, strict):
        raise GraphBreak(FL0102_ARGUMENTS, what=what)
    args = py.items(tracer, primals)
    function = _Function(tracer, func, args, {}, tuple(range(len(args))), has_aux, what)
    leaves, tree = flatten(tracer, tangents)
    directions = _tensors_like(tracer, leaves, function.given) if tree == function.tree else None
    if directions is None:
        raise GraphBreak(FL0102, what=f"{what} with other tangents than the arguments ask for")
    count = function.value_tree.count
    results = function.run(pushed_forward, len(function.given), count, more=directions)
    parts = [function.value_tree.build(tracer, results[start : start + count]) for start in (0, count)]
    aux = [] if function.aux_tree is None else [function.aux_tree.build(tracer, results[2 * count :])]
    return make_tuple([*parts, *aux])


# Jacobians -----------------------------------------------------------------------------------------------------------


def _jacobian(
    tracer: Tracer, mode: str, options: dict[str, Any], func: Any, argnums: Any, has_aux: Any, args: Any
) -> Any:
    function = _Function(tracer, func, args, {}, tracer.constant(argnums), has_aux, f"torch.func.{mode}")
    count = len(function.given)
    results = function.run(jacobian, mode, tuple(range(count)), function.value_tree.count, options)
    split = count * function.value_tree.count
    rows = [function.tree.build(tracer, results[start : start + count]) for start in range(0, split, count)]
    return function.with_aux(function.value_tree.build(tracer, rows), results[split:])


def _backwards(tracer: Tracer, func: Any, argnums: Any, has_aux: Any, chunk_size: Any, *args: Any) -> Any:
    return _jacobian(tracer, "jacrev", {"chunk_size": tracer.constant(chunk_size)}, func, argnums, has_aux, args)


def _forwards(tracer: Tracer, func: Any, argnums: Any, has_aux: Any, randomness: Any, *args: Any) -> Any:
    return _jacobian(tracer, "jacfwd", {"randomness": tracer.constant(randomness)}, func, argnums, has_aux, args)


def _bound(tracer: Tracer, function: Any, *args: Any) -> Any:
    return py.call(tracer, tracer.known_object(functools.partial), [tracer.known_object(function), *args], {})


@primitive(torch.func.jacrev)
def _jacrev(tracer: Tracer, func: Any, argnums: Any = 0, *, has_aux: Any = False, chunk_size: Any = None) -> Any:
    return _bound(tracer, jacobian_backwards, func, argnums, has_aux, chunk_size)


@primitive(torch.func.jacfwd)
def _jacfwd(tracer: Tracer, func: Any, argnums: Any = 0, has_aux: Any = False, *, randomness: Any = "error") -> Any:
    return _bound(tracer, jacobian_forwards, func, argnums, has_aux, randomness)


def jacobian_backwards(func: Any, argnums: Any, has_aux: bool, chunk_size: int | None, *args: Any) -> Any:
    """`torch.func.jacrev(func, ...)(*args)`: what it is where it leaves the frame."""
    return torch.func.jacrev(func, argnums, has_aux=has_aux, chunk_size=chunk_size)(*args)


def jacobian_forwards(func: Any, argnums: Any, has_aux: bool, randomness: str, *args: Any) -> Any:
    """`torch.func.jacfwd(func, ...)(*args)`."""
    return torch.func.jacfwd(func, argnums, has_aux, randomness=randomness)(*args)


primitive(jacobian_backwards)(_backwards)
primitive(jacobian_forwards)(_forwards)
