"""One random program: lifted and compared with Python, and made as small as it can be while it still fails."""

from __future__ import annotations

import contextlib
import io
import linecache
import signal
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

from framelift import config
from tests.fuzz.generate import Statement, Writer, shown, source
from tests.fuzz.inputs import Inputs, calls
from tests.helpers import check

__all__ = ["Way", "failure_of", "limited", "shown", "shrink", "write"]

Failure = str | None

# What AOTAutograd says of graphs that it knows not to be its own.
REFUSED = "aot_autograd() does not yet handle"
# What backward raises where a compiled graph is one node of autograd (docs/backends.md).
ONE_NODE = (
    "Trying to backward through the graph a second time",
    "one of the variables needed for gradient computation has been modified by an inplace operation",
)
RAISED_BACKWARD = tuple(
    f"{who} {words}" for who in ("gradients: backward raised", "lifted raised RuntimeError:") for words in ONE_NODE
)
# What framelift says of programs that go on differently each time: they have more cases than entries are kept for.
LIMITED = "FL0002"
# Seconds of processor time for all calls of one program; most need less than one, with many breaks some need ten.
LIMIT = 40


class Endless(BaseException):
    """A program takes too long: no loop of theirs is long."""


@dataclass(frozen=True)
class Way:
    """How programs are lifted and called: with which backend, and whether sizes and numbers grow from call to call."""

    backend: str = "eager"
    growing: bool = False
    # Whether most phrases are about what depends on data, and nothing but data changes.
    data: bool = False

    @classmethod
    def of(cls, seed: int) -> Way:
        """How a program is run if nobody says otherwise: one of eight by a backend as users write them."""
        return cls("users_aot", growing=True) if seed % 8 == 7 else cls()


def users_aot(module: Any, example_inputs: Any) -> Any:
    """A backend as users write it: AOTAutograd with a compiler that compiles nothing."""
    return aot_module_simplified(module, example_inputs, fw_compiler=lambda graph, _: make_boxed_func(graph.forward))


BACKENDS: dict[str, Any] = {"users_aot": users_aot}


def build(text: str, name: str) -> types.ModuleType:
    """The module of a program, as if it had been imported from a file."""
    module = types.ModuleType(name)
    filename = f"<{name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec", dont_inherit=True), module.__dict__)
    return module


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """No block takes longer than `LIMIT`."""

    def stop(*_: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def failure_of(statements: list[Statement], seed: int, way: Way | None = None) -> Failure:
    """What is wrong with the lifted program, if anything is."""
    way = way or Way.of(seed)
    module = build(source(statements), f"fuzz_{seed}")
    first, further = Inputs(module, seed).arguments, calls(module, seed, 8 if way.data else 3, way.growing, way.data)
    redirected = contextlib.redirect_stderr(io.StringIO())
    try:
        with redirected, config.patch(strict=True), contextlib.closing(further), limited():
            check(
                module.program,
                *first,
                changed=further,
                backend=BACKENDS.get(way.backend, way.backend),
                expect_ops=0,
                expect_breaks=None,
                expect_hit=False,
                deterministic=False,
                whole_errors=True,
            )
    except Endless:
        return f"does not end in {LIMIT} seconds"
    except AssertionError as problem:
        words = str(problem).partition("\n\noriginal code:")[0]
        known = () if way.backend == "eager" else (REFUSED, *RAISED_BACKWARD)
        return None if LIMITED in words or any(each in words for each in known) else words
    return None


def write(seed: int, size: int, way: Way | None = None) -> list[Statement]:
    return (Writer(seed, data=0.8) if way is not None and way.data else Writer(seed)).program(size)


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
