"""Random programs over tensors, containers, loops, exceptions, closures and mutation.

A program reads and writes a few variables of fixed kinds, all of which exist from its first line on. So every
statement can stand anywhere, and any statement can be taken out of a program that fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

HEADER = """\
import collections
import contextlib
import copy
import itertools
import torch
import framelift

calls = 0
registry = {"k": 1}


class Thing:
    def __init__(self, count, items, tensor):
        self.count = count
        self.items = items
        self.tensor = tensor

    def bump(self, by=1):
        self.count += by
        return self.count

    def __len__(self):
        return len(self.items)

    @property
    def double(self):
        return self.tensor * 2


class Guarded:
    def __init__(self, log, swallow):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append(len(self.log))
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(-1 if kind is None else -2)
        return self.swallow


class Oops(Exception):
    pass


def countdown(n):
    while n > 0:
        got = yield n
        n -= 1 if got is None else got


def note(value):
    global calls
    calls += 1
    return value


def program(x, y, n, word, ints, tensors, table, thing):
    t0, t1 = x, y + 1
    i0, i1 = n, 2
    s0 = word
    l0, l1 = ints, [1, 2, 3]
    m0, m1 = tensors, [x]
    d0, d1 = table, {"a": 1, "b": 2}
    q0 = {1, 2}
    o0, o1 = thing, Thing(1, [3], x)
"""
FOOTER = "return t0, t1, i0, i1, s0, l0, l1, m0, m1, d0, d1, sorted(q0), o0, o1"

VARIABLES = "t0 t1 i0 i1 s0 l0 l1 m0 m1 d0 d1 q0 o0 o1".split()
KEYS = ["a", "b", "c", "k"]


@dataclass
class Statement:
    """One statement: `blocks` are (line, statements below it); a simple statement is one line with nothing below."""

    blocks: list[tuple[str, list[Statement]]] = field(default_factory=list)

    def lines(self, indent: int) -> list[str]:
        found = []
        for line, body in self.blocks:
            found += [" " * indent + part for part in line.split("\n")]
            for statement in body:
                found += statement.lines(indent + 4)
            if line.endswith(":") and not body:
                found.append(" " * (indent + 4) + "pass")
        return found


def source(statements: list[Statement]) -> str:
    """The program as a module."""
    lines = [line for statement in statements for line in statement.lines(4)]
    return HEADER + "\n".join([*lines, "    " + FOOTER]) + "\n"


class Writer:
    """Writes statements. The same seed gives the same statements; a larger size gives more of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0

    def program(self, size: int) -> list[Statement]:
        return [self.statement(2, False) for _ in range(size)]

    # -- statements --------------------------------------------------------------------------------------------------

    def statement(self, depth: int, in_loop: bool) -> Statement:
        pick = self.random.random()
        if depth > 0 and pick < 0.35:
            return self.random.choice(_COMPOUND)(self, depth, in_loop)
        if in_loop and pick > 0.95:
            return self._line(f"if {self.truth()}: {self._one_of(['break', 'continue'])}")
        return self._line(self._one_of(_SIMPLE)(self))

    def body(self, depth: int, in_loop: bool) -> list[Statement]:
        return [self.statement(depth - 1, in_loop) for _ in range(self.random.randint(1, 3))]

    def _line(self, text: str) -> Statement:
        return Statement([(text, [])])

    def _one_of(self, options: list[T]) -> T:
        return self.random.choice(options)

    def _if(self, depth: int, in_loop: bool) -> Statement:
        blocks = [(f"if {self.truth()}:", self.body(depth, in_loop))]
        if self.random.random() < 0.5:
            blocks.append(("else:", self.body(depth, in_loop)))
        return Statement(blocks)

    def _for(self, depth: int, in_loop: bool) -> Statement:
        heads = [
            f"for i0 in range({self.random.randint(0, 4)}):",
            f"for i1, i0 in enumerate({self.ints()}[:4]):",
            f"for t1 in {self.tensors()}[:3]:",
            f"for s0, i1 in list({self.table()}.items())[:3]:",
            f"for s0 in {self.table()}:",
            f"for i0, t0 in zip({self.ints()}[:3], {self.tensors()}[:3]):",
            f"for i0 in countdown({self.random.randint(0, 3)}):",
            f"for i0, i1 in itertools.product({self.ints()}[:2], {self.ints()}[:2]):",
            f"for i1 in reversed({self.ints()}[:3]):",
        ]
        blocks = [(self._one_of(heads), self.body(depth, True))]
        if self.random.random() < 0.2:
            blocks.append(("else:", self.body(depth, in_loop)))
        return Statement(blocks)

    def _while(self, depth: int, in_loop: bool) -> Statement:
        self.names += 1
        name = f"w{self.names}"
        body = [self._line(f"{name} += 1"), *self.body(depth, True)]
        return Statement([(f"{name} = 0\nwhile {name} < {self.random.randint(1, 4)}:", body)])

    def _try(self, depth: int, in_loop: bool) -> Statement:
        raising = self._line(self._one_of(_RAISING)(self))
        kind = self._one_of(["ValueError", "Oops", "(KeyError, IndexError)", "LookupError", "Exception"])
        body = self.body(depth, in_loop)
        body.insert(self.random.randint(0, len(body)), raising)
        handler = [self._line(self._one_of(["l1.append(7)", "s0 = str(e)[:3]", "i0 = len(e.args)", "i1 = -1"]))]
        blocks = [("try:", body), (f"except {kind} as e:", [*handler, *self.body(depth, in_loop)])]
        if self.random.random() < 0.3:
            blocks.append(("else:", self.body(depth, in_loop)))
        if self.random.random() < 0.4:
            blocks.append(("finally:", self.body(depth, False)))
        return Statement(blocks)

    def _with(self, depth: int, in_loop: bool) -> Statement:
        heads = [
            f"with Guarded({self.ints()}, {self.random.choice(['True', 'False'])}) as g:",
            "with torch.no_grad():",
            f"with contextlib.suppress({self.random.choice(['ValueError', 'LookupError', 'Oops'])}):",
            f"with contextlib.nullcontext({self.ints()}) as l1:",
        ]
        body = self.body(depth, in_loop)
        if self.random.random() < 0.4:
            body.append(self._line(self._one_of(_RAISING)(self)))
        return Statement([(self._one_of(heads), body)])

    def _closure(self, depth: int, in_loop: bool) -> Statement:
        """A function that shares the variables, or starts from what they hold; and a call of it."""
        self.names += 1
        name = f"f{self.names}"
        if self.random.random() < 0.5:
            parameters, first = "", [self._line(f"nonlocal {', '.join(VARIABLES)}")]
        else:
            parameters, first = ", ".join(f"{variable}={variable}" for variable in VARIABLES), []
        body = [*first, *self.body(depth, False), self._line(f"return {self.number()}")]
        return Statement([(f"def {name}({parameters}):", body), (f"i0 = {name}()", [])])

    # -- expressions -------------------------------------------------------------------------------------------------

    def constant(self) -> str:
        return str(self.random.randint(-2, 4))

    def number(self) -> str:
        return self._one_of(_NUMBERS)(self)

    def small(self) -> str:
        """A number that is small whatever the variables hold."""
        return f"({self.number()}) % 5"

    def tensor(self) -> str:
        return self._one_of(_TENSORS)(self)

    def plain_tensor(self) -> str:
        return self._one_of(["t0", "t1", "x", "y", "o0.tensor", "o1.tensor"])

    def truth(self) -> str:
        return self._one_of(_TRUTHS)(self)

    def ints(self) -> str:
        return self._one_of(["l0", "l1", "l0", "l1", "o0.items", "o1.items", "ints"])

    def tensors(self) -> str:
        return self._one_of(["m0", "m1", "tensors"])

    def table(self) -> str:
        return self._one_of(["d0", "d1", "table", "registry"])

    def thing(self) -> str:
        return self._one_of(["o0", "o1", "thing"])

    def key(self) -> str:
        return self._one_of([repr(key) for key in KEYS] + ["s0"])


Make = Callable[[Writer], str]

_NUMBERS: list[Make] = [
    lambda w: w.constant(),
    lambda w: "i0",
    lambda w: "i1",
    lambda w: "n",
    lambda w: f"i0 + {w.constant()}",
    lambda w: "(i0 * i1) % 7",
    lambda w: f"len({w.ints()})",
    lambda w: f"len({w.table()})",
    lambda w: f"{w.table()}.get({w.key()}, {w.constant()})",
    lambda w: f"sum({w.ints()}) % 11",
    lambda w: f"{w.thing()}.count",
    lambda w: f"{w.thing()}.bump()",
    lambda w: f"note({w.constant()})",
    lambda w: f"{w.plain_tensor()}.dim()",
    lambda w: "x.shape[0]",
    lambda w: f"max({w.ints()} + [0])",
    lambda w: "len(q0)",
    lambda w: f"(lambda a, b=i0: a + b)({w.constant()})",
    lambda w: "calls",
    lambda w: "len(s0)",
    lambda w: f"len({w.thing()})",
    lambda w: "registry['k']",
]
_TENSORS: list[Make] = [
    lambda w: w.plain_tensor(),
    lambda w: f"{w.plain_tensor()} + {w.plain_tensor()}",
    lambda w: f"{w.plain_tensor()} * ({w.small()})",
    lambda w: f"torch.sin({w.plain_tensor()})",
    lambda w: f"{w.plain_tensor()}.relu()",
    lambda w: f"{w.plain_tensor()}.clone()",
    lambda w: f"torch.where({w.plain_tensor()} > 0, {w.plain_tensor()}, y)",
    lambda w: f"{w.plain_tensor()}.view(-1).view(x.shape)",
    lambda w: f"{w.thing()}.double",
    lambda w: f"sum({w.tensors()}[:2], x)",
    lambda w: f"torch.stack([{w.plain_tensor()}, {w.plain_tensor()}]).sum(0)",
    lambda w: "torch.zeros_like(x) + i0",
]
_TRUTHS: list[Make] = [
    lambda w: f"{w.number()} < {w.number()}",
    lambda w: f"{w.number()} == {w.number()}",
    lambda w: f"{w.number()} in {w.ints()}",
    lambda w: f"{w.key()} in {w.table()}",
    lambda w: f"{w.key()} not in {w.table()}",
    lambda w: f"{w.ints()} is {w.ints()}",
    lambda w: f"{w.plain_tensor()} is {w.plain_tensor()}",
    lambda w: f"{w.thing()} is {w.thing()}",
    lambda w: f"{w.table()} == {w.table()}",
    lambda w: f"not {w.ints()}",
    lambda w: "n > 2",
    lambda w: "word == 'ab'",
    lambda w: f"any(i > 1 for i in {w.ints()})",
    lambda w: f"all(i < 4 for i in {w.ints()})",
    lambda w: f"hasattr({w.thing()}, {w._one_of(['count', 'extra'])!r})",
    lambda w: f"{w.plain_tensor()}.sum() > 0",
    lambda w: "s0.startswith('a')",
    lambda w: "1 in q0",
]
_RAISING: list[Make] = [
    lambda w: f"raise Oops({w.number()})",
    lambda w: "raise ValueError(s0)",
    lambda w: f"i0 = {w.table()}[{w.key()}]",
    lambda w: f"i1 = {w.ints()}[{w.constant()}]",
    lambda w: f"if {w.truth()}: raise ValueError({w.constant()})",
    lambda w: f"{w.ints()}.remove({w.constant()})",
    lambda w: f"del {w.table()}[{w.key()}]",
    lambda w: "raise KeyError(s0) from Oops(1)",
    lambda w: "assert i0 == i1, 'unequal'",
    lambda w: "i0 = 1 // (i1 % 2)",
]
_SIMPLE: list[Make] = [
    lambda w: f"i0 = {w.number()}",
    lambda w: f"i1 = {w.number()}",
    lambda w: f"i0 += {w.small()}",
    lambda w: f"t0 = {w.tensor()}",
    lambda w: f"t1 = {w.tensor()}",
    lambda w: f"t0 = {w.tensor()}",
    lambda w: f"t1 += {w.plain_tensor()}",
    lambda w: f"{w.plain_tensor()}.add_(1)",
    lambda w: f"{w.plain_tensor()}.mul_({w.plain_tensor()})",
    lambda w: f"{w.plain_tensor()}[0] = {w.small()}",
    lambda w: f"{w.plain_tensor()}[:, 0].sub_(1)",
    lambda w: f"{w.ints()}.append({w.small()})",
    lambda w: f"{w.ints()}.insert(0, {w.small()})",
    lambda w: f"{w.ints()}.extend({w.ints()}[:2])",
    lambda w: "i0 = l0.pop() if l0 else 0",
    lambda w: "i1 = l1.pop(0) if l1 else 0",
    lambda w: f"{w.ints()}.reverse()",
    lambda w: f"{w.ints()}.sort()",
    lambda w: f"{w.ints()}[:] = [i + 1 for i in {w.ints()}[:5]]",
    lambda w: f"{w.ints()}[:1] = [{w.small()}, {w.small()}]",
    lambda w: f"l1 = {w.ints()}",
    lambda w: f"l0 = {w.ints()}",
    lambda w: f"l1 = {w.ints()}[::-1]",
    lambda w: f"l0 = sorted({w.ints()}, reverse=True)[:6]",
    lambda w: f"l1 = [i for i in {w.ints()} if i % 2][:6]",
    lambda w: f"l1 += {w.ints()}[:2]",
    lambda w: f"{w.tensors()}.append({w.tensor()})",
    lambda w: f"m1 = {w.tensors()}",
    lambda w: f"m0 = {w.tensors()}[:3]",
    lambda w: f"{w.tensors()}[:1] = [{w.tensor()}]",
    lambda w: f"m1 = [t * 2 for t in {w.tensors()}[:2]]",
    lambda w: f"{w.table()}[{w.key()}] = {w.number()}",
    lambda w: f"{w.table()}[{w.key()}] = {w.number()}",
    lambda w: f"i0 = {w.table()}.pop({w.key()}, {w.constant()})",
    lambda w: f"i1 = {w.table()}.setdefault({w.key()}, {w.small()})",
    lambda w: f"{w.table()}.update({w.table()})",
    lambda w: f"{w.table()}.update(c={w.small()})",
    lambda w: f"d1 = {w.table()}",
    lambda w: f"d1 = dict({w.table()})",
    lambda w: f"d1 = {{k: v + 1 for k, v in {w.table()}.items()}}",
    lambda w: f"d0 = {{**{w.table()}, 'c': {w.small()}}}",
    lambda w: f"{w.table()}.clear()",
    lambda w: f"l1 = list({w.table()}.values())",
    lambda w: f"s0 = ''.join({w.table()})[:3]",
    lambda w: "s0 = f'{i0}{s0}'[:3]",
    lambda w: "s0 = s0.upper()",
    lambda w: "s0 = 'a' if s0 == word else 'b'",
    lambda w: f"q0.add({w.small()})",
    lambda w: f"q0.discard({w.small()})",
    lambda w: f"q0 |= set({w.ints()}[:3])",
    lambda w: f"q0 = q0 & set({w.ints()})",
    lambda w: f"{w.thing()}.count = {w.number()}",
    lambda w: f"{w.thing()}.tensor = {w.tensor()}",
    lambda w: f"{w.thing()}.items = {w.ints()}",
    lambda w: f"{w.thing()}.items.append({w.small()})",
    lambda w: f"{w.thing()}.extra = {w.number()}",
    lambda w: f"i0 = getattr({w.thing()}, 'extra', {w.constant()})",
    lambda w: f"o1 = {w.thing()}",
    lambda w: f"o1 = Thing({w.number()}, {w.ints()}, {w.tensor()})",
    lambda w: f"i0 = {w.thing()}.bump({w.small()})",
    lambda w: "i0, i1 = i1, i0",
    lambda w: "t0, t1 = t1, t0",
    lambda w: "l0, l1 = l1, l0",
    lambda w: f"i0, *l1 = [{w.small()}, *{w.ints()}[:3]]",
    lambda w: f"i1 = (i0 := {w.number()}) + 1",
    lambda w: f"print({w.number()}, s0)",
    lambda w: "framelift.graph_break()",
    lambda w: f"registry['k'] = {w.number()}",
    lambda w: f"note({w.number()})",
    lambda w: "l1 = list(countdown(2))",
    lambda w: f"l1 = copy.copy({w.ints()})",
    lambda w: f"o1 = copy.copy({w.thing()})",
    lambda w: f"d1 = copy.deepcopy({w.table()})",
    lambda w: f"d1 = dict(collections.Counter({w.ints()}[:4])); d1 = {{str(k): v for k, v in d1.items()}}",
    lambda w: f"i0 = next(iter({w.ints()}), 0)",
    lambda w: f"l1 = list(map(lambda i: i - 1, {w.ints()}[:4]))",
    lambda w: f"l1 = list(itertools.chain({w.ints()}[:2], {w.ints()}[:2]))",
    lambda w: f"i0 = int({w.plain_tensor()}.numel())",
    lambda w: f"if {w.truth()}: return t0, l0, d0, i0",
]
_COMPOUND = [
    Writer._if,
    Writer._if,
    Writer._for,
    Writer._for,
    Writer._while,
    Writer._try,
    Writer._with,
    Writer._closure,
]
