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


def arguments(module: Any, seed: int) -> tuple[Any, ...]:
    """Arguments for a program. Another seed gives other numbers, lengths, keys, aliases and shapes."""
    chosen = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    shape = (2, 3) if chosen.random() < 0.8 else (3, 3)
    x = torch.randint(-3, 4, shape, generator=generator).float()
    y = x if chosen.random() < 0.1 else torch.randint(-3, 4, shape, generator=generator).float()
    ints = [chosen.randint(-1, 4) for _ in range(chosen.randint(0, 4))]
    tensors = [x + i for i in range(chosen.randint(0, 2))] + ([y] if chosen.random() < 0.5 else [])
    table = {key: chosen.randint(0, 3) for key in chosen.sample(["a", "b", "k"], chosen.randint(0, 3))}
    thing = module.Thing(chosen.randint(0, 3), ints if chosen.random() < 0.3 else [1, 2], y)
    if chosen.random() < 0.2:
        thing.extra = 5
    return x, y, chosen.randint(0, 4), chosen.choice(["ab", "a", "k"]), ints, tensors, table, thing


def failure_of(statements: list[Statement], seed: int) -> Failure:
    """What is wrong with the lifted program, if anything is."""
    module = build(source(statements), f"fuzz_{seed}")
    given = [arguments(module, seed * 10 + i) for i in range(4)]
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
