"""What framelift makes of many programs, as text: written before and after a change that must change nothing.

    python scripts/fingerprint.py write before.txt           the zoo, 500 random programs, the demo, the registries
    python scripts/fingerprint.py write after.txt --parts fuzz registries
    python scripts/fingerprint.py compare before.txt after.txt --renames scripts/renames.txt

Of every capture it holds the graph's code, the residual bytecode, the guards by kind and source, and the events by
kind, id and line. Each program runs in a process of its own, so nothing depends on what ran before. What was renamed on
purpose stands in a table of `old => new` lines, which `compare` applies to what was written before.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gc
import io
import multiprocessing
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import CodeType
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "examples")]

import torch  # noqa: E402

from framelift.guards.guardset import GuardSet  # noqa: E402
from framelift.report import events, stream  # noqa: E402
from framelift.report.text import bytecode_rows  # noqa: E402

PROGRAMS = 500
SECONDS = 600  # for one program
FORKS = multiprocessing.get_context("fork")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class Writer:
    """The lines of one program, from the events while it runs."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        build = GuardSet.build_tree

        def noted(guards: GuardSet, *given: Any) -> Any:
            self.guards(guards)
            return build(guards, *given)

        GuardSet.build_tree = noted  # type: ignore[method-assign]
        try:
            with stream.listening(self.event):
                yield
        finally:
            GuardSet.build_tree = build  # type: ignore[method-assign]

    def add(self, kind: str, *words: object) -> None:
        text = " ".join(str(word) for word in (kind, *words))
        self.lines += _ADDRESS.sub("0x", text.replace(str(ROOT), ".").replace(sys.prefix, "")).split("\n")

    def guards(self, guards: GuardSet) -> None:
        for guard in guards.guards:
            self.add("guard", guard.check, guard.source.name)
        for relation in guards.relations:
            self.add("relation", relation.kind, *(source.name for source in relation.sources), relation.expected)

    def event(self, event: events.Event) -> None:
        self.add("event", type(event).__name__, *_told(event))
        if isinstance(event, events.GraphCaptured):
            self.add("graph", event.graph_module.code.strip())
        if isinstance(event, events.ResidualBuilt):
            self.code(event.residual)

    def code(self, code: CodeType) -> None:
        self.add("code", code.co_name, code.co_varnames)
        for _, name, argument in bytecode_rows(code):
            self.add("    ", name, argument)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.code(constant)


def _told(event: events.Event) -> list[object]:
    """What an event says besides times, objects and numbers of captures."""
    names = "name function id filename line reason reasons changes error outcome ops guards rewrites".split()
    return [getattr(event, name) for name in names if isinstance(getattr(event, name, None), str | int | tuple)]


# -- programs --------------------------------------------------------------------------------------------------------


def zoo_names() -> list[str]:
    from benchmarks.transformers_zoo import NAMES  # noqa: PLC0415  (loads transformers)

    return NAMES


def zoo(name: str) -> None:
    from benchmarks.zoo_one import with_framelift  # noqa: PLC0415

    with_framelift(name)


def fuzz_names() -> list[str]:
    return [str(seed) for seed in range(PROGRAMS)]


def fuzz(name: str) -> None:
    from tests.fuzz.run import failure_of, write  # noqa: PLC0415

    failure_of(write(int(name), 8), int(name))


def demo(name: str) -> None:
    import demo as walk  # type: ignore[import-not-found]  # noqa: PLC0415

    with contextlib.redirect_stdout(io.StringIO()):
        walk.main()


def registries(name: str) -> None:
    """Nothing runs: the keys of the tables are told at the end."""


PARTS: dict[str, tuple[Callable[[], list[str]], Callable[[str], None]]] = {
    "registries": (lambda: ["all"], registries),
    "demo": (lambda: ["all"], demo),
    "fuzz": (fuzz_names, fuzz),
    "zoo": (zoo_names, zoo),
}


def registered() -> Iterator[str]:
    """Which class models which type, what is a primitive, what has a model, and the handlers of operations."""
    import framelift.api  # noqa: PLC0415, F401  (loads everything)
    from framelift.capture.interpreter.program import HANDLERS, RAW  # noqa: PLC0415
    from framelift.models import registry  # noqa: PLC0415
    from framelift.values.core.base import MODELS  # noqa: PLC0415
    from framelift.values.core.primitives import _PRIMITIVES  # noqa: PLC0415

    types = {id(kind): kind for kind in gc.get_objects() if issubclass(type(kind), type)}
    for key, value in MODELS.items():
        yield f"value {_named(types.get(key))}: {value.__name__}"
    for target, _ in _PRIMITIVES.values():
        yield f"primitive {_named(target)}"
    for target, function in registry._MODELS.values():
        yield f"model {_named(target)}: {function.__name__}"
    for code, function in registry._INNER.values():
        yield f"inner model {code.co_qualname}: {function.__name__}"
    for name, handler in {**HANDLERS, **RAW}.items():
        yield f"operation {name}: {handler.__name__}"


def _named(target: Any) -> str:
    return f"{getattr(target, '__module__', None)}.{getattr(target, '__qualname__', None) or repr(target)}"


# -- writing and comparing -------------------------------------------------------------------------------------------


def _report(part: str, name: str, sender: Any) -> None:
    torch.set_num_threads(1)
    writer = Writer()
    if part == "registries":
        writer.lines += sorted(_ADDRESS.sub("0x", line) for line in registered())
    with writer.listening(), contextlib.redirect_stderr(io.StringIO()):
        try:
            PARTS[part][1](name)
        except Exception as error:  # noqa: BLE001  (how a program ends is part of what it does)
            writer.add("raised", type(error).__name__)
    sender.send("\n".join(writer.lines))


def told(part: str, name: str) -> list[str]:
    """The lines of one program, run in a process of its own."""
    receiver, sender = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_report, args=(part, name, sender))
    process.start()
    sender.close()
    try:
        found = receiver.recv() if receiver.poll(SECONDS) else "took too long"
    except EOFError:
        found = "the process died"
    process.kill()
    process.join()
    return [f"[{part} {name}] {line}" for line in found.split("\n")]


def write(path: pathlib.Path, parts: list[str], jobs: int) -> None:
    import framelift.api  # noqa: PLC0415, F401  (before the processes are forked)

    torch.set_num_threads(1)
    with path.open("w") as out, ThreadPoolExecutor(jobs) as pool:
        for part in parts:
            names = PARTS[part][0]()
            for lines in pool.map(told, [part] * len(names), names):
                out.writelines(f"{line}\n" for line in lines)


def renamed(lines: list[str], renames: pathlib.Path | None) -> list[str]:
    """The lines as they would be written today."""
    table = (
        [] if renames is None else [line.split(" => ") for line in renames.read_text().splitlines() if " => " in line]
    )
    text = "\n".join(lines)
    for old, new in table:
        text = text.replace(old, new)
    registered, others = [], []
    for line in text.split("\n"):
        (registered if line.startswith("[registries ") else others).append(line)
    return sorted(registered) + others


def compare(before: pathlib.Path, after: pathlib.Path, renames: pathlib.Path | None) -> int:
    """How many lines differ; the first of them are shown."""
    one = renamed(before.read_text().splitlines(), renames)
    two = renamed(after.read_text().splitlines(), None)
    if one == two:
        print(f"equal: {len(two)} lines")
        return 0
    different = [line for line in difflib.unified_diff(one, two, "before", "after", "", n=1) if line[0] in "+-"]
    print("\n".join(different[:60]))
    print(f"{len(different)} lines differ")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("path", type=pathlib.Path)
    writing.add_argument("--parts", nargs="*", choices=list(PARTS), default=list(PARTS))
    writing.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=pathlib.Path)
    comparing.add_argument("after", type=pathlib.Path)
    comparing.add_argument("--renames", type=pathlib.Path)
    given = parser.parse_args()
    if given.command == "write":
        if os.environ.get("PYTHONHASHSEED") != "0":  # sets come in the order of hashes
            os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
        write(given.path, given.parts, given.jobs)
        return 0
    return compare(given.before, given.after, given.renames)


if __name__ == "__main__":
    sys.exit(main())
