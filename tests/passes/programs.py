"""Random graphs of the operations the passes know, with views, writes and repeated results, by any source of chance."""

from __future__ import annotations

import math
import operator
import random
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.nn import functional as F

from tests.passes.support import copies, is_overlapping

LARGEST = 400  # elements of a tensor


class Program:
    """A graph under construction and the real values of its nodes."""

    def __init__(self, chance: random.Random, writes: bool = True) -> None:
        self.random = chance
        self.generator = torch.Generator().manual_seed(chance.randint(0, 1000))
        self.graph = Graph()
        self.values: dict[Node, Any] = {}
        self.inputs: list[torch.Tensor] = []
        self.writes = writes
        for index in range(self.random.randint(1, 3)):
            value = self.input_value()
            node = self.graph.placeholder(f"x{index}")
            self.values[node] = copies(value)
            self.inputs.append(value)

    def input_value(self) -> torch.Tensor:
        sizes = [self.random.choice((1, 2, 3, 4, 6)) for _ in range(self.random.randint(1, 4))]
        if self.random.random() < 0.05:
            sizes[0] = 0
        dtype = self.random.choice((torch.float32,) * 6 + (torch.float64, torch.int64))
        value = torch.randn(sizes, generator=self.generator)
        value = (value * 4).to(dtype) if dtype == torch.int64 else value.to(dtype)
        if len(sizes) > 1 and self.random.random() < 0.3:
            value = value.transpose(0, -1)
        if self.random.random() < 0.1:
            value = value.unsqueeze(0).expand(2, *value.shape)
        return value

    def new_input(self, *sizes: int) -> Node:
        """Another input, of this shape."""
        value = torch.randn(sizes, generator=self.generator)
        last = [node for node in self.graph.nodes if node.op == "placeholder"][-1]
        with self.graph.inserting_after(last):
            node = self.graph.placeholder(f"x{len(self.inputs)}")
        self.values[node] = value.clone()
        self.inputs.append(value)
        return node

    # -- choosing --------------------------------------------------------------------------------------------------

    def tensors(self, test: Any = lambda value: True) -> list[Node]:
        return [node for node, value in self.values.items() if isinstance(value, torch.Tensor) and test(value)]

    def tensor(self, test: Any = lambda value: True) -> Node:
        # Late values more often, so that chains grow.
        found = self.tensors(test)
        if not found:
            raise LookupError
        return found[max(self.random.randrange(len(found)), self.random.randrange(len(found)))]

    def dim(self, node: Node, extra: int = 0) -> int:
        rank = self.values[node].dim() + extra
        if not rank:
            raise LookupError
        dim = self.random.randrange(rank)
        return dim - rank if self.random.random() < 0.3 else dim

    # -- adding ----------------------------------------------------------------------------------------------------

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        values = torch.fx.node.map_arg((args, kwargs), lambda node: self.values[node])
        if isinstance(target, str):
            result = getattr(values[0][0], target)(*values[0][1:], **values[1])
        else:
            result = target(*values[0], **values[1])
        results = result if isinstance(result, list | tuple) else [result]
        if sum(each.numel() for each in results) > LARGEST:
            raise LookupError
        kind = "call_method" if isinstance(target, str) else "call_function"
        node = self.graph.create_node(kind, target, args, kwargs)
        self.values[node] = result
        return node

    def grow(self, steps: int) -> None:
        names = [name for name in GRAMMAR if self.writes or name not in WRITING]
        weights = [GRAMMAR[name] for name in names]
        done = tries = 0
        while done < steps and tries < 20 * steps:
            tries += 1
            (name,) = self.random.choices(names, weights)
            try:
                globals()[f"step_{name}"](self)
                done += 1
            except (LookupError, RuntimeError, IndexError, ValueError):
                continue

    def finish(self) -> GraphModule:
        """Most of what nobody uses is returned, so that it counts; and something that is used, or the same twice."""
        nodes = self.tensors()
        ends = [node for node in nodes if not node.users] or nodes
        chosen = [node for node in ends if self.random.random() < 0.8][-8:] or ends[-1:]
        if self.random.random() < 0.3:
            chosen.append(self.random.choice(nodes))
        self.graph.output(tuple(chosen))
        return GraphModule(torch.nn.Module(), self.graph)


def items(program: Program, whole: Node) -> list[Node]:
    return [program.call(operator.getitem, whole, index) for index in range(len(program.values[whole]))]


def step_split(program: Program) -> None:
    x = program.tensor()
    dim = program.dim(x)
    size = program.values[x].shape[dim]
    how = program.random.random()
    if how < 0.4:
        whole = program.call(torch.chunk, x, program.random.choice((2, 3, 4)), dim)
    elif how < 0.6:
        whole = program.call("split", x, program.random.choice((1, 2)), dim=dim)
    elif how < 0.8:
        cut = sorted(program.random.randint(0, size) for _ in range(2))
        whole = program.call(torch.split, x, [cut[0], cut[1] - cut[0], size - cut[1]], dim)
    else:
        whole = program.call(torch.unbind, x, dim)
    parts = items(program, whole)
    if program.random.random() < 0.7:
        rejoin(program, parts, dim)


def rejoin(program: Program, parts: list[Node], dim: int) -> None:
    """What the passes look for, with variations that they must see."""
    parts = list(parts)
    change = program.random.random()
    if change < 0.5:
        parts = each(program, parts)
    if change > 0.9:
        program.random.shuffle(parts)
    elif change > 0.8:
        parts = parts[: program.random.randint(1, len(parts))]
    elif change > 0.7:
        parts.insert(program.random.randint(0, len(parts)), program.tensor())
    joined = program.random.choice((dim, program.dim(parts[0])))
    function = program.random.choice((torch.cat, torch.cat, torch.stack))
    program.call(function, parts, joined)


def each(program: Program, parts: list[Node]) -> list[Node]:
    """The same thing done to every piece."""
    how = program.random.random()
    sizes = list(program.values[parts[0]].shape)
    if how < 0.4:
        shape = regrouped(program, sizes)
        return [program.call("reshape", part, tuple(shape)) for part in parts]
    if how < 0.55:
        dim = program.dim(parts[0], 1)
        return [program.call(torch.unsqueeze, part, dim) for part in parts]
    if how < 0.7:
        dim = program.dim(parts[0])
        return [program.call("squeeze", part, dim) for part in parts]
    function = program.random.choice((torch.relu, torch.tanh, torch.neg, F.relu))
    return [program.call(function, part) for part in parts]


def regrouped(program: Program, sizes: list[int]) -> list[int]:
    """Another shape for as many elements: an axis more, two axes merged, one cut in two, or the axes shuffled."""
    shape = list(sizes)
    at = program.random.randrange(len(shape) + 1)
    how = program.random.randrange(4)
    if how == 0:
        shape.insert(at, 1)
    elif how == 1:
        at = program.random.randrange(max(len(shape) - 1, 1))
        shape[at : at + 2] = [math.prod(shape[at : at + 2])]
    elif how == 2 and at < len(shape) and shape[at] % 2 == 0:
        shape[at : at + 1] = program.random.choice(([2, shape[at] // 2], [shape[at] // 2, 2]))
    else:
        program.random.shuffle(shape)
    return shape


def step_cat(program: Program) -> None:
    x = program.tensor()
    others = program.tensors(lambda value: value.dim() == program.values[x].dim())
    count = program.random.randint(1, 3)
    program.call(torch.cat, [x, *program.random.choices(others, k=count)], program.dim(x))


def step_stack(program: Program) -> None:
    x = program.tensor()
    others = program.tensors(lambda value: value.shape == program.values[x].shape)
    program.call(torch.stack, [x, *program.random.choices(others, k=program.random.randint(0, 2))], program.dim(x, 1))


def step_reshape(program: Program) -> None:
    x = program.tensor()
    value = program.values[x]
    target = program.random.choice(program.tensors(lambda other: other.numel() == value.numel()))
    shape = list(program.values[target].shape)
    if program.random.random() < 0.3:
        shape = [-1]
    program.call(program.random.choice(("reshape", "reshape", "view")), x, tuple(shape))


def step_shape(program: Program) -> None:
    x = program.tensor()
    how = program.random.randrange(5)
    if how == 0:
        program.call(torch.squeeze, x, program.dim(x))
    elif how == 1:
        program.call("unsqueeze", x, program.dim(x, 1))
    elif how == 2:
        program.call(torch.flatten, x)
    elif how == 3:
        program.call("transpose", x, program.dim(x), program.dim(x))
    else:
        dims = list(range(program.values[x].dim()))
        program.random.shuffle(dims)
        program.call("permute", x, tuple(dims))


def step_narrow(program: Program) -> None:
    x = program.tensor()
    dim = program.dim(x)
    size = program.values[x].shape[dim]
    start = program.random.randint(0, size)
    program.call(torch.narrow, x, dim, start, program.random.randint(0, size - start))


def step_noop(program: Program) -> None:
    x = program.tensor()
    value = program.values[x]
    how = program.random.randrange(7)
    calls: list[tuple[Any, ...]] = [
        ("reshape", x, tuple(value.shape)),
        ("contiguous", x),
        (torch.clone, x),
        (torch.mul, x, 1),
        ("to", x, value.dtype),
        (torch.cat, [x], 0),
        (F.dropout, x, 0.5, False),
    ]
    program.call(*calls[how])


def step_unary(program: Program) -> None:
    x = program.tensor()
    function = program.random.choice((torch.relu, torch.tanh, torch.sigmoid, torch.neg, "relu", F.relu))
    program.call(function, x)
    # Company for the batch fusions.
    for other in program.tensors(lambda value: value.shape == program.values[x].shape)[:4]:
        if program.random.random() < 0.5:
            program.call(function, other)


def step_binary(program: Program) -> None:
    x = program.tensor()
    other: Any = program.random.choice((1, 2.5, program.tensor()))
    program.call(program.random.choice((torch.add, operator.add, operator.mul, torch.sub)), x, other)


def step_linear(program: Program) -> None:
    """Linears on one tensor, or on the pieces of one, summed or not."""
    x = program.tensor(lambda value: value.dim() > 0 and value.dtype == torch.float32)
    last = program.values[x].shape[-1]
    if program.random.random() < 0.5 and last > 1:
        inputs = items(program, program.call(torch.split, x, program.random.choice((1, 2)), -1))[:4]
    else:
        inputs = [x] * program.random.randint(1, 3)
    outer = program.random.randint(1, 3)
    biased = program.random.random() < 0.5
    results = []
    for each in inputs:
        weight = program.new_input(outer, program.values[each].shape[-1])
        bias = [program.new_input(outer)] if biased else []
        results.append(program.call(F.linear, each, weight, *bias))
    if program.random.random() < 0.5:
        for result in results[1:]:
            results[0] = program.call(operator.add, results[0], result)


def step_norm(program: Program) -> None:
    """Layer norms of one size, with weights or without."""
    x = program.tensor(is_spread)
    sizes = program.values[x].shape
    weights = {name: program.new_input(sizes[-1]) for name in ("weight", "bias") if program.random.random() < 0.5}
    for other in program.tensors(lambda value: value.shape == sizes and is_spread(value))[:3]:
        program.call(F.layer_norm, other, (sizes[-1],), **weights)


def is_spread(value: torch.Tensor) -> bool:
    """Whether the rows vary: to divide by the variance of others makes any rounding large."""
    rows = value.dim() > 0 and value.shape[-1] >= 3 and value.numel() > 0 and value.dtype == torch.float32
    return rows and bool((value.var(-1) > 0.05).all())


def embeddings(program: Program) -> Node:
    """A batch of matrices: one that is there, or a new one."""
    found = program.tensors(lambda value: value.dim() == 3 and value.dtype == torch.float32 and value.numel() > 0)
    return program.random.choice(found) if found else program.new_input(2, 4, 3)


def step_compress(program: Program) -> None:
    """Embeddings mixed by a linear across them; sometimes several times, sometimes joined for it."""
    x = embeddings(program)
    if program.random.random() < 0.3:
        x = program.call(torch.cat, [x, x], 1)
    turned = program.call("permute", x, 0, 2, 1)
    biased = program.random.random() < 0.5
    for _ in range(program.random.randint(1, 2)):
        weight = program.new_input(program.random.randint(1, 3), program.values[x].shape[1])
        bias = [program.new_input(program.values[weight].shape[0])] if biased else []
        mixed = program.call("transpose", program.call(F.linear, turned, weight, *bias), 1, 2)
        if program.random.random() < 0.7:
            program.call("contiguous", mixed)


def step_pairs(program: Program) -> None:
    """Pairwise products, compressed at once."""
    x = embeddings(program)
    pairs = program.call(torch.bmm, x, program.call("transpose", x, 1, 2))
    program.call(torch.matmul, pairs, program.new_input(program.values[x].shape[1], program.random.randint(1, 2)))


def step_attention(program: Program) -> None:
    query, key = embeddings(program), embeddings(program)
    scores = program.call(torch.matmul, query, program.call("transpose", key, 1, 2))
    if program.random.random() < 0.5:
        scores = program.call(operator.mul, scores, 0.5)
    program.call(torch.matmul, program.call(torch.softmax, scores, program.random.choice((-1, -1, 1))), key)


def step_write(program: Program) -> None:
    x = program.tensor(lambda value: value.numel() > 0 and not is_overlapping(value))
    how = program.random.randrange(3)
    if how == 0:
        program.call("add_", x, 1)
    elif how == 1:
        program.call(F.relu, x, inplace=True)
    else:
        program.call("mul_", x, 2)


GRAMMAR = {
    "split": 5,
    "cat": 2,
    "stack": 1,
    "reshape": 3,
    "shape": 3,
    "narrow": 1,
    "noop": 2,
    "unary": 2,
    "binary": 2,
    "linear": 1,
    "norm": 1,
    "compress": 1,
    "pairs": 0.5,
    "attention": 0.5,
    "write": 1,
}
WRITING = ("write",)


def program(chance: random.Random) -> tuple[GraphModule, list[torch.Tensor]]:
    """A graph and inputs for it."""
    made = Program(chance, writes=chance.random() < 0.4)
    made.grow(chance.randint(3, 14))
    return made.finish(), made.inputs
