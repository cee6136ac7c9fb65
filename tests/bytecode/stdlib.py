"""Code objects to test on: those of the standard library, all of them or a sample."""

from __future__ import annotations

import functools
import importlib.util
import marshal
import pathlib
import random
import sysconfig
import warnings
from collections.abc import Iterator
from types import CodeType

HEADER = 16  # bytes of a .pyc before the code


def nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


@functools.cache
def _files() -> list[pathlib.Path]:
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    return sorted(path for path in root.rglob("*.py") if "site-packages" not in path.parts)


def _module(path: pathlib.Path) -> CodeType | None:
    compiled = pathlib.Path(importlib.util.cache_from_source(str(path)))
    if compiled.exists() and compiled.stat().st_mtime >= path.stat().st_mtime:
        return marshal.loads(compiled.read_bytes()[HEADER:])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # files that are there to be wrong
        return None


def all_codes(part: int = 0, parts: int = 1) -> Iterator[CodeType]:
    """Every code object of the standard library and its tests, or every `parts`-th file of it."""
    for path in _files()[part::parts]:
        module = _module(path)
        if module is not None:
            yield from nested(module)


@functools.cache
def _sample() -> list[CodeType]:
    files = list(_files())
    random.Random(7).shuffle(files)
    codes: list[CodeType] = []
    for path in files:
        module = _module(path)
        codes += [] if module is None else nested(module)
        if len(codes) > 6000:
            break
    random.Random(8).shuffle(codes)
    return codes


def sampled_codes(count: int) -> list[CodeType]:
    """The same `count` code objects every time, from files all over the library."""
    return _sample()[:count]
