"""Binding arguments: random signatures and calls, with values and error messages as CPython gives them."""

from __future__ import annotations

import random
import sys

import pytest

from tests.helpers import check
from tests.values.programs import x


def signature(rng: random.Random) -> tuple[str, list[str]]:
    """A parameter list, and the names of its parameters."""
    names = [f"p{i}" for i in range(rng.randint(0, 4))]
    first_default = rng.randint(0, len(names))
    parts = [name if i < first_default else f"{name}={i * 10}" for i, name in enumerate(names)]
    if parts and rng.random() < 0.4:
        parts.insert(rng.randint(1, len(parts)), "/")
    star = rng.choice(["", "*args", "*"])
    keywords = [f"k{i}" for i in range(rng.randint(1 if star == "*" else 0, 2))] if star else []
    if star:
        parts.append(star)
    parts += [name if rng.random() < 0.5 else f"{name}={name!r}" for name in keywords]
    if rng.random() < 0.4:
        parts.append("**kw")
    shown = [
        *names,
        *keywords,
        *(["args"] if star == "*args" else []),
        *(["kw"] if parts and parts[-1] == "**kw" else []),
    ]
    return ", ".join(parts), shown


def call(rng: random.Random) -> str:
    parts = [str(i) for i in range(rng.randint(0, 5))]
    if rng.random() < 0.3:
        parts.append("*[7, 8]")
    names = [f"p{i}" for i in range(4)] + ["k0", "k1"] + (["zz"] if sys.version_info < (3, 13) else [])
    chosen = rng.sample(names, rng.randint(0, 3))
    parts += [f"{name}={i + 100}" for i, name in enumerate(chosen)]
    if rng.random() < 0.3:
        parts.append("**{'k0': 200}" if "k0" not in chosen else "**{}")
    return f"f({', '.join(parts)})"


@pytest.mark.parametrize("seed", range(25))
def test_random_signature(seed):
    rng = random.Random(seed)
    parameters, names = signature(rng)
    calls = [call(rng) for _ in range(12)]
    lines = ["def fn(x):", f"    def f({parameters}):", f"        return [{', '.join(names)}]", "    out = [x + 1]"]
    for text in calls:
        lines += ["    try:", f"        out.append({text})", "    except TypeError as e:", "        out.append(str(e))"]
    source = "\n".join([*lines, "    return out"])
    namespace: dict = {}
    exec(source, namespace)
    try:
        # For an unexpected keyword Python 3.13 guesses what was meant; such calls are left to it.
        check(namespace["fn"], x(), expect_breaks=0 if sys.version_info < (3, 13) else None)
    except AssertionError as error:
        raise AssertionError(f"{source}\n\n{error}") from error


def test_names_of_errors_follow_the_function():
    def inner(a):
        return a

    inner.__qualname__ = "renamed"

    def fn(x):
        try:
            inner()
        except TypeError as error:
            return x + 1, str(error)

    check(fn, x())


def test_keywords_must_be_strings():
    def fn(x):
        def inner(**kw):
            return kw

        try:
            return inner(**{1: 2})
        except TypeError as error:
            return x + 1, str(error)

    check(fn, x(), expect_breaks=None, expect_ops=0)


def test_keyword_given_twice():
    def fn(x):
        def inner(**kw):
            return kw

        try:
            return inner(a=1, **{"a": 2})  # noqa: PLE1132
        except TypeError as error:
            return x + 1, str(error)

    check(fn, x(), expect_breaks=None, expect_ops=0)


def test_starred_things_that_are_no_iterables():
    def fn(x):
        def inner(*args, **kw):
            return args

        found = []
        for make in (
            lambda: inner(*3),
            lambda: inner(**3),
            lambda: inner(*[1], *{"k": 2}),
            lambda: inner(*(i for i in "ab")),
        ):
            try:
                found.append(make())
            except TypeError as error:
                found.append(str(error))
        return x + 1, found

    check(fn, x(), expect_breaks=None, expect_ops=0)
