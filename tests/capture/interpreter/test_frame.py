"""Frames: random programs of nested control flow, with exceptions, `with`, generators, effects and breaks."""

from __future__ import annotations

import random
import signal
import threading

import pytest
import torch

import framelift
from tests.helpers import check, untraced
from tests.values.programs import x

PRELUDE = """
class E1(Exception):
    pass

class E2(E1):
    pass

class M:
    def __init__(self, log, n, swallow):
        self.log, self.n, self.swallow = log, n, swallow

    def __enter__(self):
        self.log.append(("enter", self.n))
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(("exit", self.n, None if kind is None else kind.__name__))
        return self.swallow

def gen(log, n):
    for i in range(n):
        log.append(("yield", i))
        yield i
"""


class Writer:
    """Writes one random program. `breaks` says whether it may print, which cannot be traced."""

    def __init__(self, seed: int, breaks: bool) -> None:
        self.random = random.Random(seed)
        self.breaks = breaks
        self.lines: list[str] = []
        self.number = 0

    def program(self) -> str:
        self.lines = ["def fn(x):", "    log = []", "    y = x + 1"]
        self.block(1, 3, loops=0)
        self.lines.append("    return y, log")
        return PRELUDE + "\n".join(self.lines)

    def fresh(self) -> int:
        self.number += 1
        return self.number

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, size: int, loops: int) -> None:
        for _ in range(self.random.randint(1, size)):
            self.statement(depth, loops)

    def statement(self, depth: int, loops: int) -> None:
        simple = [self.note, self.add, self.note, self.raising]
        if self.breaks:
            simple.append(self.printing)
        if loops:
            simple += [self.leave]
        nested = [self.condition, self.loop, self.trying, self.managing, self.function, self.generating]
        choice = self.random.choice(simple + (nested * 2 if depth < 5 else []))
        choice(depth, loops)

    def note(self, depth: int, loops: int) -> None:
        self.put(depth, f"log.append({self.fresh()})")

    def add(self, depth: int, loops: int) -> None:
        self.put(depth, f"y = y + {self.fresh()}")

    def printing(self, depth: int, loops: int) -> None:
        self.put(depth, f"print({self.fresh()}, len(log))")

    def raising(self, depth: int, loops: int) -> None:
        what = self.random.choice(["raise E1(len(log))", "raise E2", "{}['k']", "[][0]", "1 // 0", "raise"])
        self.put(depth, f"if len(log) % {self.random.randint(2, 5)} == 0:")
        self.put(depth + 1, what)

    def leave(self, depth: int, loops: int) -> None:
        self.put(depth, f"if len(log) % {self.random.randint(2, 4)} == 0:")
        self.put(depth + 1, self.random.choice(["break", "continue", "break", "return y, log"]))

    def condition(self, depth: int, loops: int) -> None:
        self.put(depth, f"if len(log) % {self.random.randint(2, 3)} == 0:")
        self.block(depth + 1, 2, loops)
        self.put(depth, "else:")
        self.block(depth + 1, 2, loops)

    def loop(self, depth: int, loops: int) -> None:
        name = f"i{self.fresh()}"
        self.put(depth, f"for {name} in {self.random.choice(['range(3)', '[1, 2]', '(4,)', 'gen(log, 2)'])}:")
        self.block(depth + 1, 3, loops + 1)
        if self.random.random() < 0.3:
            self.put(depth, "else:")
            self.block(depth + 1, 1, loops)

    def trying(self, depth: int, loops: int) -> None:
        self.put(depth, "try:")
        self.block(depth + 1, 3, loops)
        handlers = self.random.randint(0, 2)
        for _ in range(handlers):
            self.put(
                depth, f"except {self.random.choice(['E1', 'E2', '(KeyError, E2)', 'LookupError', 'Exception'])} as e:"
            )
            self.put(depth + 1, "log.append((type(e).__name__, repr(e.__context__)))")
            if self.random.random() < 0.3:
                self.put(depth + 1, self.random.choice(["raise", "raise E1('again') from e", "raise E2"]))
            self.block(depth + 1, 2, loops)
        if handlers and self.random.random() < 0.3:
            self.put(depth, "else:")
            self.block(depth + 1, 1, loops)
        if not handlers or self.random.random() < 0.4:
            self.put(depth, "finally:")
            self.block(depth + 1, 2, 0)

    def managing(self, depth: int, loops: int) -> None:
        self.put(depth, f"with M(log, {self.fresh()}, {self.random.choice([True, False])}):")
        self.block(depth + 1, 3, loops)

    def function(self, depth: int, loops: int) -> None:
        name = f"f{self.fresh()}"
        self.put(depth, f"def {name}(y, n=1):")
        self.block(depth + 1, 3, 0)
        self.put(depth + 1, "return y * n, log" if self.random.random() < 0.9 else "return y, log")
        self.put(depth, f"y, _ = {name}(y)")

    def generating(self, depth: int, loops: int) -> None:
        name = f"g{self.fresh()}"
        self.put(depth, f"def {name}(y):")
        self.put(depth + 1, f"got = yield {self.fresh()}")
        self.put(depth + 1, "log.append(got)")
        self.put(depth + 1, "yield from gen(log, 2)")
        self.put(depth, f"log.append(sum({name}(y)))")


def run(seed: int, breaks: bool) -> None:
    source = Writer(seed, breaks).program()
    namespace: dict = {"print": untraced.print}
    exec(compile(source, f"<random {seed}>", "exec"), namespace)
    try:
        check(namespace["fn"], x(), expect_breaks=None, expect_ops=0)
    except AssertionError as error:
        raise AssertionError(f"{source}\n\n{error}") from error


@pytest.mark.parametrize("seed", range(40))
def test_random_program(seed):
    run(seed, breaks=False)


@pytest.mark.parametrize("seed", range(100, 140))
def test_random_program_with_breaks(seed):
    run(seed, breaks=True)


# -- frames and the world around them --------------------------------------------------------------------------------


def test_keyboard_interrupt_while_capturing():
    """An interrupt is the user's: it passes through, and the next call works."""
    from framelift.capture.interpreter.frame import Frame

    def helper(y):
        return y * 2

    def fn(x):
        with torch.no_grad():
            return helper(x + 1)

    original = Frame.run
    interrupted = []

    def interrupting(self):
        if not interrupted:
            interrupted.append(True)
            signal.raise_signal(signal.SIGINT)
        return original(self)

    lifted = framelift.compile(fn, backend="eager")
    Frame.run = interrupting
    # A shell starts what runs in its background with interrupts ignored.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            lifted(x())
    finally:
        signal.signal(signal.SIGINT, handler)
        Frame.run = original
    assert torch.is_grad_enabled()
    assert torch.equal(lifted(x()), fn(x()))


def test_deep_in_recursion_capture_is_not_tried():
    def fn(x):
        return x + 1

    lifted = framelift.compile(fn, backend="eager")

    def dive(n):
        return lifted(x()) if n == 0 else dive(n - 1)

    assert torch.equal(dive(780), x() + 1)
    assert torch.equal(lifted(x()), x() + 1)


def test_recursion_in_a_thread():
    def down(x, n):
        return x if n == 0 else down(x + 1, n - 1)

    lifted = framelift.compile(down, backend="eager")
    found = []
    thread = threading.Thread(target=lambda: found.append(lifted(x(), 300)))
    thread.start()
    thread.join()
    assert torch.equal(found[0], x() + 300)


@pytest.mark.parametrize(
    "kind", ["async def f(x):\n    return x", "async def f(x):\n    yield x", "def f(x):\n    yield x + 1"]
)
def test_coroutines_and_generators_are_left_alone(kind):
    namespace: dict = {}
    exec(kind, namespace)
    f = namespace["f"]
    lifted = framelift.compile(f, backend="eager")
    assert type(lifted(x())) is type(made := f(x()))
    if hasattr(made, "close"):
        made.close()
