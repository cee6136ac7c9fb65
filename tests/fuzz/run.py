"""One random program: lifted and compared with Python, and made as small as it can be while it still fails."""

from __future__ import annotations

import contextlib
import io
import linecache
import random
import types
from collections.abc import Callable
from typing import Any

import torch

from framelift import config
from tests.fuzz.generate import Statement, Writer, source
from tests.helpers import check

Failure = str | None


def build(text: str, name: str) -> types.ModuleType:
    """The module of a program, as if it had been imported from a file."""
    module = types.ModuleType(name)
    filename = f"<{name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec"), module.__dict__)
    return module


class Inputs:
    """The arguments of a program. Equal seeds give equal arguments; `change` then changes one thing about them."""

    def __init__(self, module: Any, seed: int) -> None:
        chosen = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randint(-3, 4, (2, 3), generator=generator).float()
        self.y = torch.randint(-3, 4, (2, 3), generator=generator).float()
        self.n = chosen.randint(0, 4)
        self.word = chosen.choice(["ab", "a", "k"])
        self.ints = [chosen.randint(-1, 4) for _ in range(chosen.randint(0, 4))]
        self.tensors = [self.x + i for i in range(chosen.randint(0, 2))]
        self.table = {key: chosen.randint(0, 3) for key in chosen.sample(["a", "b", "k"], chosen.randint(0, 3))}
        self.thing = module.Thing(chosen.randint(0, 3), list(self.ints), self.x + 2)
        CHANGES[chosen.randrange(len(CHANGES))](self)

    def changed(self, number: int) -> Inputs:
        CHANGES[number % len(CHANGES)](self)
        return self

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.x, self.y, self.n, self.word, self.ints, self.tensors, self.table, self.thing


def _set(name: str, new: Callable[[Inputs], Any]) -> Callable[[Inputs], None]:
    return lambda inputs: setattr(inputs, name, new(inputs))


CHANGES: list[Callable[[Inputs], Any]] = [
    lambda inputs: inputs.x.neg_(),
    _set("y", lambda inputs: inputs.x),
    _set("x", lambda inputs: torch.ones(3, 3)),
    _set("y", lambda inputs: inputs.y.double()),
    _set("n", lambda inputs: inputs.n + 1),
    _set("word", lambda inputs: inputs.word + "b"),
    _set("ints", lambda inputs: [5, *inputs.ints[1:]]),
    lambda inputs: inputs.ints.append(1),
    lambda inputs: inputs.ints.clear(),
    _set("ints", lambda inputs: inputs.thing.items),
    lambda inputs: inputs.tensors.append(inputs.x),
    lambda inputs: inputs.table.update(c=1),
    lambda inputs: inputs.table.pop("a", None),
    lambda inputs: inputs.table.update(a=7),
    _set("table", lambda inputs: dict(reversed(inputs.table.items()))),
    lambda inputs: setattr(inputs.thing, "count", inputs.thing.count + 1),
    lambda inputs: setattr(inputs.thing, "extra", 5),
    lambda inputs: setattr(inputs.thing, "tensor", inputs.x),
    lambda inputs: setattr(inputs.thing, "tensor", inputs.y),
]


def failure_of(statements: list[Statement], seed: int) -> Failure:
    """What is wrong with the lifted program, if anything is."""
    module = build(source(statements), f"fuzz_{seed}")
    changes = random.Random(seed).sample(range(len(CHANGES)), 3)
    given = [Inputs(module, seed).arguments, *[Inputs(module, seed).changed(number).arguments for number in changes]]
    quiet = io.StringIO()
    try:
        with contextlib.redirect_stderr(quiet), config.patch(strict=True):
            check(module.program, *given[0], changed=given[1:], expect_ops=0, expect_breaks=None, deterministic=False)
    except AssertionError as problem:
        return str(problem).partition("\n\noriginal code:")[0]
    return None


def write(seed: int, size: int) -> list[Statement]:
    return Writer(seed).program(size)


def shrink(statements: list[Statement], fails: Callable[[list[Statement]], bool]) -> list[Statement]:
    """Take out statements, one by one and at every depth, as long as the program still fails."""
    changed = True
    while changed:
        changed = False
        for container in _containers(statements):
            position = 0
            while position < len(container):
                removed = container.pop(position)
                if fails(statements):
                    changed = True
                else:
                    container.insert(position, removed)
                    position += 1
    return statements


def _containers(statements: list[Statement]) -> list[list[Statement]]:
    """All lists of statements, the outermost first."""
    found = [statements]
    for statement in statements:
        for _, body in statement.blocks:
            found += _containers(body)
    return found
