"""One name and one argument list for each operation, whatever way it is spelled in a graph.

    x.chunk(4, -1)    torch.chunk(x, 4, dim=-1)    torch.chunk(input=x, chunks=4, axis=-1)

are all `chunk` with `tensor`, `chunks` and `dim`. Passes see nodes through :func:`bind` and never look at `args` and
`kwargs`. An operation that is not in the table, or a call with arguments that the table does not name (`out=`), binds
to nothing, so no pass touches it.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional

from framelift.passes import facts

MISSING = object()
# What NumPy calls it, on the left.
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}


@dataclass(frozen=True, slots=True)
class Parameter:
    names: tuple[str, ...]  # the first is ours and torch's function's; the others are accepted
    default: Any = MISSING

    @property
    def name(self) -> str:
        return self.names[0]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its parameters, its spellings, and the function that new nodes call."""

    name: str
    parameters: tuple[Parameter, ...]
    emitted: Callable[..., Any]
    variadic: bool  # the second parameter may be given as several numbers: x.view(2, 3)
    names: tuple[str, ...]

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """Every parameter with its value, or None if the call does not fit."""
        if self.variadic and len(args) > 1 and not isinstance(args[1], tuple | list):
            args = (args[0], args[1:])
        if len(args) > len(self.parameters):
            return None
        found = dict(zip(self.names, args, strict=False))
        if not kwargs and len(args) == len(self.names):
            return found
        if kwargs:
            rest = dict(kwargs)
            for parameter in self.parameters[len(args) :]:
                for name in parameter.names:
                    if name in rest:
                        found[parameter.name] = rest.pop(name)
                        break
            if rest:
                return None
        for parameter in self.parameters[len(args) :]:
            if parameter.name not in found:
                if parameter.default is MISSING:
                    return None
                found[parameter.name] = parameter.default
        return found

    def without_defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        defaults = {parameter.name: parameter.default for parameter in self.parameters}
        return {name: given for name, given in arguments.items() if not is_default(given, defaults[name])}


def is_default(given: Any, default: Any) -> bool:
    return default is not MISSING and type(given) is type(default) and given == default


class Bound:
    """A node seen as an operation with named arguments."""

    __slots__ = ("node", "operation", "arguments")

    def __init__(self, node: Node, operation: Operation, arguments: dict[str, Any]) -> None:
        self.node = node
        self.operation = operation
        self.arguments = arguments

    @property
    def op(self) -> str:
        return self.operation.name

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    @property
    def first(self) -> Any:
        """The first argument: the tensor the operation is about, or its list of tensors."""
        return self.arguments[self.operation.parameters[0].name]

    def dim(self, rank: int | None = None) -> int:
        """The argument `dim`, counted from the front; `rank` is the first argument's unless given."""
        return facts.wrapped(self.arguments["dim"], facts.rank(self.first) if rank is None else rank)

    def rest(self) -> tuple[tuple[str, Any], ...]:
        """The arguments after the first, as a key for grouping equal calls; a tensor among them is a Reject."""
        first = self.operation.parameters[0].name
        given = tuple((name, _hashable(item)) for name, item in self.arguments.items() if name != first)
        return given


def _hashable(item: Any) -> Any:
    if isinstance(item, list | tuple):
        return tuple(_hashable(part) for part in item)
    if isinstance(item, Node):
        raise facts.Reject("an argument is computed by the graph")
    return (type(item), repr(item)) if isinstance(item, float) else (type(item), item)


def _parameters(text: str) -> tuple[Parameter, ...]:
    found = []
    for word in text.split():
        names, _, default = word.lstrip("*").partition("=")
        spelled = names.split("|")
        spelled += [numpy for numpy, ours in NUMPY_NAMES.items() if ours in spelled]
        found.append(Parameter(tuple(spelled), _constant(default) if default else MISSING))
    return tuple(found)


def operation(name: str, text: str, emitted: Callable[..., Any]) -> Operation:
    parameters = _parameters(text)
    return Operation(name, parameters, emitted, "*" in text, tuple(parameter.names[0] for parameter in parameters))


def _constant(text: str) -> Any:
    words = {"None": None, "True": True, "False": False, "()": ()}
    if text in words:
        return words[text]
    return int(text) if text.lstrip("-").isdigit() else float(text)


# name: parameters ("*" may be several numbers, "|" another name, "=" default); functions; methods.
# The first function is the one that new nodes call.
_TABLE: tuple[tuple[str, str, tuple[Any, ...], tuple[str, ...]], ...] = (
    # pieces of a tensor
    (
        "split",
        "tensor|self|input split_size_or_sections|split_size|split_sizes dim=0",
        (torch.split, torch.split_with_sizes),
        ("split", "split_with_sizes"),
    ),
    ("chunk", "input chunks dim=0", (torch.chunk,), ("chunk",)),
    ("tensor_split", "input indices_or_sections|sections|indices dim=0", (torch.tensor_split,), ("tensor_split",)),
    ("unbind", "input dim=0", (torch.unbind,), ("unbind",)),
    ("narrow", "input dim start length", (torch.narrow,), ("narrow",)),
    ("select", "input dim index", (torch.select,), ("select",)),
    ("getitem", "input index", (operator.getitem,), ("__getitem__",)),
    # tensors joined
    ("cat", "tensors dim=0", (torch.cat, torch.concat, torch.concatenate), ()),
    ("stack", "tensors dim=0", (torch.stack,), ()),
    # other shapes
    ("reshape", "input *shape", (torch.reshape,), ("reshape",)),
    ("view", "input *shape|size", (torch.Tensor.view,), ("view",)),
    ("flatten", "input start_dim=0 end_dim=-1", (torch.flatten,), ("flatten",)),
    ("unflatten", "input dim sizes", (torch.unflatten,), ("unflatten",)),
    ("squeeze", "input dim=None", (torch.squeeze,), ("squeeze",)),
    ("unsqueeze", "input dim", (torch.unsqueeze,), ("unsqueeze",)),
    ("expand", "input *size", (torch.Tensor.expand,), ("expand",)),
    # axes in another order
    ("permute", "input *dims", (torch.permute,), ("permute",)),
    (
        "transpose",
        "input dim0|axis0 dim1|axis1",
        (torch.transpose, torch.swapaxes, torch.swapdims),
        ("transpose", "swapaxes", "swapdims"),
    ),
    ("movedim", "input source destination", (torch.movedim, torch.moveaxis), ("movedim", "moveaxis")),
    ("t", "input", (torch.t,), ("t",)),
    # products
    ("linear", "input weight bias=None", (functional.linear,), ()),
    ("matmul", "input other|tensor2", (torch.matmul, operator.matmul), ("matmul", "__matmul__")),
    ("mm", "input mat2", (torch.mm,), ("mm",)),
    ("bmm", "input mat2", (torch.bmm,), ("bmm",)),
    ("baddbmm", "input batch1 batch2 beta=1 alpha=1", (torch.baddbmm,), ("baddbmm",)),
    # arithmetic
    ("add", "input other alpha=1", (torch.add, operator.add), ("add", "__add__")),
    ("sub", "input other alpha=1", (torch.sub, operator.sub, torch.subtract), ("sub", "subtract", "__sub__")),
    ("mul", "input other", (torch.mul, operator.mul, torch.multiply), ("mul", "multiply", "__mul__")),
    (
        "div",
        "input other rounding_mode=None",
        (torch.div, operator.truediv, torch.divide, torch.true_divide),
        ("div", "divide", "true_divide", "__truediv__"),
    ),
    ("addcmul", "input tensor1 tensor2 value=1", (torch.addcmul,), ("addcmul",)),
    ("sum", "input dim=None keepdim=False dtype=None", (torch.sum,), ("sum",)),
    # one value at a time
    ("relu", "input inplace=False", (torch.relu, functional.relu), ("relu",)),
    ("tanh", "input", (torch.tanh, functional.tanh), ("tanh",)),
    ("sigmoid", "input", (torch.sigmoid, functional.sigmoid, torch.special.expit), ("sigmoid",)),
    ("neg", "input", (torch.neg, operator.neg, torch.negative), ("neg", "negative", "__neg__")),
    ("exp", "input", (torch.exp,), ("exp",)),
    ("sin", "input", (torch.sin,), ("sin",)),
    ("cos", "input", (torch.cos,), ("cos",)),
    ("abs", "input", (torch.abs, operator.abs, torch.absolute), ("abs", "absolute")),
    ("clamp", "input min=None max=None", (torch.clamp, torch.clip), ("clamp", "clip")),
    ("clamp_min", "input min", (torch.clamp_min,), ("clamp_min",)),
    ("clamp_max", "input max", (torch.clamp_max,), ("clamp_max",)),
    ("nan_to_num", "input nan=None posinf=None neginf=None", (torch.nan_to_num,), ("nan_to_num",)),
    ("detach", "input", (torch.detach,), ("detach",)),
    (
        "dropout",
        "input p=0.5 training|train=True inplace=False",
        (functional.dropout, torch.dropout),
        (),
    ),
    # the same values, elsewhere or again
    ("contiguous", "input memory_format=None", (torch.Tensor.contiguous,), ("contiguous",)),
    ("clone", "input memory_format=None", (torch.clone,), ("clone",)),
    ("repeat", "input *repeats", (torch.Tensor.repeat,), ("repeat",)),
    ("pad", "input pad mode=None value=None", (functional.pad,), ()),
    # over the last dimensions
    (
        "layer_norm",
        "input normalized_shape weight=None bias=None eps=1e-05",
        (functional.layer_norm,),
        (),
    ),
    ("rms_norm", "input normalized_shape weight=None eps=None", (functional.rms_norm,), ()),
    ("softmax", "input dim=None _stacklevel=3 dtype=None", (functional.softmax,), ()),
    ("torch_softmax", "input dim dtype=None", (torch.softmax,), ("softmax",)),
    ("log_softmax", "input dim=None _stacklevel=3 dtype=None", (functional.log_softmax,), ()),
    ("einsum", "equation operands", (torch.einsum,), ()),  # variadic: its pass reads the node itself
)

OPERATIONS: dict[str, Operation] = {}
_FUNCTIONS: dict[Any, Operation] = {}
_METHODS: dict[str, Operation] = {}
# Attributes that are operations: x.T is a getattr in the graph.
ATTRIBUTES = ("T", "mT")

for _name, _text, _functions, _methods in _TABLE:
    _operation = operation(_name, _text, _functions[0])
    OPERATIONS[_name] = _operation
    _FUNCTIONS.update(dict.fromkeys(_functions, _operation))
    _METHODS.update(dict.fromkeys(_methods, _operation))

# Shape alone, never the order of elements.
SHAPES = frozenset({"reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze"})
# Pieces by getitem.
SPLITS = frozenset({"split", "chunk", "tensor_split"})
AXES = frozenset({"permute", "transpose", "movedim", "t", "attribute"})
# Each output element depends on one input element; further arguments are numbers.
UNARY = frozenset(
    {"relu", "tanh", "sigmoid", "neg", "exp", "sin", "cos", "abs", "clamp", "nan_to_num", "clamp_min", "clamp_max"}
)

# Targets that take no keywords.
POSITIONAL: frozenset[Any] = frozenset(
    {each for each in vars(operator).values() if callable(each)}
    | {torch.Tensor.view, torch.Tensor.expand, torch.einsum}
)

_ATTRIBUTE = operation("attribute", "input name", builtins.getattr)


def operation_of(node: Node) -> Operation | None:
    """The operation a node calls, if the table knows it."""
    if node.op == "call_function":
        found = _FUNCTIONS.get(node.target)
        if found is None and node.target is builtins.getattr and node.args[1] in ATTRIBUTES:
            return _ATTRIBUTE
        return found
    if node.op == "call_method":
        return _METHODS.get(str(node.target))
    return None


def op(node: Any) -> str | None:
    """The name of the operation a node calls: op(node) == "cat"."""
    found = operation_of(node) if isinstance(node, Node) else None
    return found.name if found is not None else None


def bind(node: Any) -> Bound | None:
    """The node as an operation with named arguments; None for what the table does not know."""
    operation = operation_of(node) if isinstance(node, Node) else None
    if operation is None:
        return None
    arguments = operation.bind(node.args, node.kwargs)
    return Bound(node, operation, arguments) if arguments is not None else None


def bound(node: Any, *names: str) -> Bound:
    """The node as one of the named operations; anything else is no match."""
    found = bind(node)
    if found is None or found.op not in names:
        raise facts.NoMatch(f"not {' or '.join(names)}")
    return found


def named(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call by name and without defaults, as normalized graphs have them, where names are known."""
    operation = _FUNCTIONS.get(function)
    if operation is None or function is not operation.emitted or function in POSITIONAL:
        return args, kwargs
    arguments = operation.bind(args, kwargs)
    if arguments is None:
        return args, kwargs
    return (), operation.without_defaults(arguments)


def index_of(node: Any) -> int | None:
    """The index of a node that takes one item out of a result with several."""
    if isinstance(node, Node) and node.target is operator.getitem and isinstance(node.args[0], Node):
        index = node.args[1]
        if type(index) is int and isinstance(facts.value(node.args[0]), tuple | list):
            return index
    return None


def items_of(node: Node) -> dict[int, Node]:
    """The items taken out of a result with several: index -> node. Anything but single items is a Reject."""
    found: dict[int, Node] = {}
    for user in node.users:
        index = index_of(user)
        if index is None or index < 0 or index in found:
            raise facts.Reject("a result with several parts is not only taken apart")
        found[index] = user
    return dict(sorted(found.items()))


def known(names: Iterable[str]) -> frozenset[str]:
    """Operation names, checked against the table."""
    wanted = frozenset(names)
    assert wanted <= OPERATIONS.keys() | {"attribute"}, wanted - OPERATIONS.keys()
    return wanted
