"""Random programs over tensors, containers, loops, exceptions, closures, classes, generators and mutation.

A program reads and writes a few variables of fixed kinds, all of which exist from its first line on. So every
statement can stand anywhere, and any statement can be taken out of a program that fails. What lines say is in
`phrases`; here is how they are put together.
"""

from __future__ import annotations

import pathlib
import random
from dataclasses import dataclass, field
from typing import TypeVar

from tests.fuzz import data_phrases, phrases

T = TypeVar("T")

PRELUDE = (pathlib.Path(__file__).parent / "prelude.py").read_text()
OPENING = """\
def program(x, y, n, word, ints, tensors, table, thing, other, view, index, net, queue, stream, act, record, grid):
    t0, t1 = x, y + 1
    i0, i1 = n, 2
    s0 = word
    l0, l1 = ints, [1, 2, 3]
    m0, m1 = tensors, [x]
    d0, d1 = table, {"a": 1, "b": 2}
    q0 = {1, 2}
    o0, o1 = thing, Thing(1, [3], x)
    u0 = (1, 2)
    p0 = Point(1, 2)
"""
CLOSING = (
    "return t0, t1, i0, i1, s0, l0, l1, m0, m1, d0, d1, sorted(q0, key=str), o0, o1, u0, p0, view, queue, list(stream)"
)
VARIABLES = "t0 t1 i0 i1 s0 l0 l1 m0 m1 d0 d1 q0 o0 o1 u0 p0".split()


@dataclass
class Statement:
    """One statement: `blocks` are (line, statements below it); a simple statement is one line with nothing below."""

    blocks: list[tuple[str, list[Statement]]] = field(default_factory=list)

    def lines(self, indent: int) -> list[str]:
        found = []
        for line, body in self.blocks:
            found += [" " * indent + part for part in line.split("\n")]
            deeper = len(found[-1]) - len(found[-1].lstrip()) + 4
            for statement in body:
                found += statement.lines(deeper)
            if line.endswith(":") and not body:
                found.append(" " * deeper + "pass")
        return found


def source(statements: list[Statement]) -> str:
    """The program as a module."""
    return PRELUDE + shown(statements)


def shown(statements: list[Statement]) -> str:
    """The program without what stands in front of every program."""
    lines = [line for statement in statements for line in statement.lines(4)]
    return OPENING + "\n".join([*lines, "    " + CLOSING]) + "\n"


class Writer:
    """Writes statements. The same seed gives the same statements; a larger size gives more of them.

    `data`: which part of the phrases is about sizes and numbers that depend on data.
    """

    def __init__(self, seed: int, data: float = 0.05) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.data = data

    def program(self, size: int) -> list[Statement]:
        return [self.statement(2, False) for _ in range(size)]

    # -- statements --------------------------------------------------------------------------------------------------

    def statement(self, depth: int, in_loop: bool) -> Statement:
        pick = self.random.random()
        if depth > 0 and pick < 0.35:
            return self.one_of(_COMPOUND)(self, depth, in_loop)
        if in_loop and pick > 0.95:
            return _line(f"if {self.truth()}: {self.one_of(['break', 'continue'])}")
        return _line(self._phrase(phrases.SIMPLE, data_phrases.SIMPLE))

    def body(self, depth: int, in_loop: bool) -> list[Statement]:
        return [self.statement(depth - 1, in_loop) for _ in range(self.random.randint(1, 3))]

    def one_of(self, options: list[T]) -> T:
        return self.random.choice(options)

    def _phrase(self, usual: list[phrases.Make], about_data: list[phrases.Make]) -> str:
        return self.one_of(about_data if self.random.random() < self.data else usual)(self)

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}_{self.names}"

    def raising(self) -> Statement:
        return _line(self.one_of(phrases.RAISING)(self))

    def _if(self, depth: int, in_loop: bool) -> Statement:
        blocks = [(f"if {self.truth()}:", self.body(depth, in_loop))]
        if self.random.random() < 0.5:
            blocks.append(("else:", self.body(depth, in_loop)))
        return Statement(blocks)

    def _for(self, depth: int, in_loop: bool) -> Statement:
        blocks = [(self.one_of(phrases.LOOPS)(self), self.body(depth, True))]
        if self.random.random() < 0.2:
            blocks.append(("else:", self.body(depth, in_loop)))
        return Statement(blocks)

    def _while(self, depth: int, in_loop: bool) -> Statement:
        name = self.name("w")
        head = f"{name} = 0\nwhile ({name} := {name} + 1) <= {self.random.randint(1, 4)}:"
        blocks = [(head, self.body(depth, True))]
        if self.random.random() < 0.2:
            blocks.append(("else:", self.body(depth, in_loop)))
        return Statement(blocks)

    def _try(self, depth: int, in_loop: bool) -> Statement:
        body = self.body(depth, in_loop)
        body.insert(self.random.randint(0, len(body)), self.raising())
        blocks = [("try:", body)]
        for _ in range(self.one_of([1, 1, 2])):
            handler = _line(self.one_of(phrases.HANDLERS)(self))
            kind = self.one_of(phrases.EXCEPTIONS)
            blocks.append((f"except {kind} as e:", [handler, *self.body(depth, in_loop)]))
        if self.random.random() < 0.3:
            blocks.append(("else:", self.body(depth, in_loop)))
        if self.random.random() < 0.4:
            blocks.append(("finally:", self.body(depth, in_loop and self.random.random() < 0.3)))
        return Statement(blocks)

    def _try_group(self, depth: int, in_loop: bool) -> Statement:
        """`except*`, which may not be left by break, continue or return."""
        handler = [
            _line(self.one_of(["i0 = len(e.exceptions)", "l1.append(7)", f"if {self.truth()}: raise Oops(i0)"])),
            _line(self.one_of(["t0 = t0.sin()", "t0 = broken(t0) + 1", "framelift.graph_break()", "raise"])),
        ]
        raising = f"raise ExceptionGroup('g', [ValueError(i0), {self.one_of(['KeyError(s0)', 'IndexError(1, 2)'])}])"
        first = ("try:", [_line(f"if {self.truth()}: {raising}")])
        return Statement([first, ("except* ValueError as e:", handler), ("except* LookupError:", [_line("i1 = 3")])])

    def _with(self, depth: int, in_loop: bool) -> Statement:
        body = self.body(depth, in_loop)
        if self.random.random() < 0.4:
            body.append(self.raising())
        return Statement([(self.one_of(phrases.MANAGERS)(self), body)])

    def _match(self, depth: int, in_loop: bool) -> Statement:
        subject, *cases = self.one_of(phrases.MATCHES)(self)
        blocks: list[tuple[str, list[Statement]]] = []
        for number, case in enumerate(cases):
            opening = f"match {subject}:\n    " if number == 0 else "    "
            blocks.append((f"{opening}case {case}:", self.body(depth, in_loop)))
        return Statement(blocks)

    def _function(self, depth: int) -> tuple[str, list[Statement]]:
        """The parameters and the first statements of a function that shares the variables, or takes what they hold."""
        if self.random.random() < 0.5:
            return "", [_line(f"nonlocal {', '.join(VARIABLES)}")]
        return ", ".join(f"{variable}={variable}" for variable in VARIABLES), []

    def _closure(self, depth: int, in_loop: bool) -> Statement:
        """A function, and calls of it, from here, from a sort, from a comprehension."""
        name = self.name("f")
        parameters, first = self._function(depth)
        body = [*first, *self.body(depth, False), _line(f"return {self.number()}")]
        call = self.one_of(
            [
                f"i0 = {name}()",
                f"i0 = {name}()",
                f"i0 = {name}(); i1 = {name}()",
                f"l1 = [{name}() for _ in range(2)]",
                f"i0 = max({self.ints()}[:2] + [0], key=lambda i: len(str({name}())))",
                f"i0 = traced({name})()",
                f"i0 = functools.partial({name})()",
            ]
        )
        return Statement([(f"def {name}({parameters}):", body), (call, [])])

    def _generator(self, depth: int, in_loop: bool) -> Statement:
        """A generator, and a loop over it, or a walk of some steps that leaves it behind."""
        name = self.name("g")
        parameters, first = self._function(depth)
        body = [*first, *self.body(depth, False), _line(f"yield {self.number()}"), *self.body(depth, False)]
        body.append(_line(self.one_of([f"yield {self.number()}", f"return {self.number()}", "yield from [1, 2]"])))
        use: tuple[str, list[Statement]] = self.one_of(
            [
                (f"for i1 in {name}():", self.body(depth, True)),
                (f"l1 = list({name}())[:4]", []),
                (f"i0 = next({name}(), 0)", []),
                (f"i0 = sum(itertools.islice({name}(), 2))", []),
                (f"g = {name}(); i0 = next(g, 0); g.close()", []),
                (f"with contextlib.suppress(Exception): g = {name}(); next(g); i1 = g.throw(Oops(i0))", []),
                (f"with contextlib.suppress(StopIteration): g = {name}(); next(g); i1 = g.send(2)", []),
            ]
        )
        return Statement([(f"def {name}({parameters}):", body), use])

    def _class(self, depth: int, in_loop: bool) -> Statement:
        """A class with a method that shares the variables, and some use of it."""
        name = self.name("C")
        base, given = self.one_of([("", ""), ("(Stack)", ""), ("(Thing)", "1, [2], x"), ("(Special)", "1, [2], x")])
        method = [_line(f"nonlocal {', '.join(VARIABLES)}"), *self.body(depth, False), _line(f"return {self.number()}")]
        made = f"{name}({given})"
        use = self.one_of(
            [
                f"c = {made}; i0 = c.step()",
                f"c = {made}; c.total += 1; i0 = c.total + {name}.total",
                f"c = {made}; {name}.total = c.step(); i1 = c.total",
                f"c = {made}; {name}.step = lambda self: 4; i1 = c.step()",
                f"c = {made}; c.step = lambda: 3; i0 = c.step()",
                f"i0 = {name}.step({made})",
            ]
        )
        head = f"class {name}{base}:\n    total = {self.number()}\n    def step(self, by=1):"
        return Statement([(head, method), (use, [])])

    # -- expressions -------------------------------------------------------------------------------------------------

    def constant(self) -> str:
        return str(self.random.randint(-2, 4))

    def number(self) -> str:
        return self._phrase(phrases.NUMBERS, data_phrases.NUMBERS)

    def small(self) -> str:
        """A number that is small whatever the variables hold."""
        return f"({self.number()}) % 5"

    def tensor(self) -> str:
        return self._phrase(phrases.TENSORS, data_phrases.TENSORS)

    def picked(self) -> str:
        """A tensor whose size depends on data."""
        return self.one_of(data_phrases.PICKED)(self)

    def count(self) -> str:
        """A number that depends on data."""
        return self.one_of(data_phrases.COUNTS)(self)

    def plain_tensor(self) -> str:
        return self.one_of(["t0", "t1", "t0", "t1", "x", "y", "o0.tensor", "o1.tensor", "other.tensor"])

    def written(self) -> str:
        """What functions with `out=` take: tensors without a history."""
        return f"{self.plain_tensor()}.detach().float()"

    def into_one(self) -> str:
        """A call of a function of one tensor, left open for `out=`."""
        name, _, rest = self.one_of(phrases.INTO_ONE).rstrip(")").partition("(?")
        return f"torch.{name}({self.written()}{rest}"

    def truth(self) -> str:
        return self.one_of(phrases.TRUTHS)(self)

    def text(self) -> str:
        return self.one_of(phrases.TEXTS)(self)

    def ints(self) -> str:
        return self.one_of(
            ["l0", "l1", "l0", "l1", "o0.items", "o1.items", "other.items", "ints", "record.parts", "net.log"]
        )

    def tensors(self) -> str:
        return self.one_of(["m0", "m1", "tensors"])

    def table(self) -> str:
        return self.one_of(["d0", "d1", "table", "registry"])

    def thing(self) -> str:
        return self.one_of(["o0", "o1", "thing", "other"])

    def key(self) -> str:
        return self.one_of([repr(key) for key in phrases.KEYS] + ["s0"])


def _line(text: str) -> Statement:
    return Statement([(text, [])])


_COMPOUND = [
    Writer._if,
    Writer._if,
    Writer._for,
    Writer._for,
    Writer._while,
    Writer._try,
    Writer._try,
    Writer._try_group,
    Writer._with,
    Writer._with,
    Writer._match,
    Writer._closure,
    Writer._generator,
    Writer._class,
]
