"""Strings: methods, formatting, f-strings."""

from __future__ import annotations

import fractions

import torch

from tests.helpers import check
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


@cases(X, "a,b,c", changed=[(X, "d")])
def methods(x, s):
    return (
        x + len(s),
        s.split(","),
        s.partition(","),
        s.replace("a", "z"),
        s.startswith("a"),
        s.endswith(("c", "d")),
        s.find("b"),
        s.title(),
        s.encode(),
        s.center(9, "*"),
        s.isalpha(),
        "-".join(s),
        s.strip("ac"),
        s.zfill(8),
        s.count(","),
        s.rsplit(",", 1),
        s.removeprefix("a"),
        s.splitlines(),
        s.translate(str.maketrans("a", "q")),
        s.casefold(),
    )


@cases(X)
def joins(x):
    xs = ["a", "b"]
    xs.append("c")
    return x + 1, "".join(xs), ",".join(str(n) for n in range(3)), "/".join(("p", "q")), " ".join({"k": 1})


@cases(X, 5, "name", changed=[(X, 6, "name"), (X, 5, "other")])
def f_strings(x, n, s):
    width = 8
    return (
        x + 1,
        f"{n} {s}",
        f"{n:>{width}}|{s:<{width}}|",
        f"{s!r}",
        f"{s!s:^10}",
        f"{'é'!a}",
        f"{n=}",
        f"{n:.{2}f}",
        f"{n:#x}",
        f"{{}}{n}",
        f"{3.14159:.2f}",
        f"{1e10:,}",
        f"{f'{n}{s}'}",
        f"{None} {True} {(1, 2)} {[1]}",
    )


@cases(X)
def shapes_and_dtypes(x):
    return (
        x + 1,
        f"{x.shape}",
        str(x.shape),
        f"{x.dtype}",
        f"{x.device}",
        f"{tuple(x.shape)}",
        f"{x.shape[0]:03d}",
        repr(x.dtype),
        f"{x.size(0)}x{x.dim()}",
        str(x.layout),
        f"{torch.float32}",
    )


@cases(X, 3, "b", changed=[(X, 4, "b")])
def percent(x, n, s):
    return (
        x + 1,
        "%d" % n,
        "%s-%s" % (n, s),
        "%5.2f|%r" % (n, s),
        "%(a)s %(b)d" % {"a": s, "b": n},
        "%s" % [n, s],
        "%%",
        "%s" % (x.shape,),
        "%d items" % len([1, 2]),
        b"%d" % n,
    )


@cases(X, 3, changed=[(X, 4)])
def str_format(x, n):
    return (
        x + 1,
        "{} {}".format(n, "a"),
        "{0}{1}{0}".format("a", n),
        "{a:>4}{b!r}".format(a=n, b="q"),
        "{0[1]} {1.start}".format([1, n], range(2, 3)),
        "{:{}}".format(n, 5),
        "{}".format([n]),
        format(n, "04d"),
        format("a", ">3"),
        "{x}".format_map({"x": n}),
    )


@cases(X)
def errors(x):
    y = x + 1
    found = []
    for n in range(11):
        try:
            if n == 0:
                "%d" % "a"  # noqa: PLE1307
            elif n == 1:
                "{}".format()  # noqa: F524
            elif n == 2:
                "a" + 1
            elif n == 3:
                "a".index("z")
            elif n == 4:
                int("z")
            elif n == 5:
                "abc"[9]
            elif n == 6:
                f"{'a':d}"
            elif n == 7:
                ",".join([1])
            elif n == 8:
                chr(-1)
            elif n == 9:
                format(fractions.Fraction(1, 2), None)
            elif n == 10:
                format("a", b"s")
        except (TypeError, ValueError, IndexError) as error:
            found.append((type(error), str(error)))
    return y, found


@cases(X)
def list_with_a_format_specification(x):
    y = x + 1
    try:
        return y, f"{(1, 2):>10}"
    except TypeError as error:
        return y, str(error)


@cases(X, b"abc", changed=[(X, b"abd")])
def byte_methods(x, b):
    return (
        x + b[0],
        b.upper(),
        b.split(b"b"),
        b.decode("ascii"),
        b.find(b"c"),
        bytes.fromhex("00ff"),
        b[::-1],
        b"a" in b,
        97 in b,
    )


@cases(X, "abc", changed=[(X, "xyz")])
def characters(x, s):
    return (
        x + ord(s[0]),
        [chr(ord(c) + 1) for c in s],
        s[-1],
        s[1:],
        "".join(reversed(s)),
        sorted(s, reverse=True),
        max(s),
    )


@cases(X, "layer.0.weight")
def parses(x, name):
    parts = name.split(".")
    index = int(parts[1])
    return x * (index + 2), parts[-1], ".".join(parts[:-1])


@cases(X)
def built_up(x):
    text = ""
    for n in range(3):
        text += str(n)
    return x + int(text), text, text * 2, text in "0123"


@cases(X, "a", changed=[(X, "b")])
def keyword_from_string(x, key):
    table = {"a": torch.sin, "b": torch.cos}
    return table[key](x), getattr(torch, {"a": "sin", "b": "cos"}[key])(x), getattr(x, "abs")()


@cases(X)
def chained(x):
    return x + 1, " Abc ".strip().lower().replace("b", "B"), str.upper("a"), str.join("-", ["a", "b"]), "ab"


@cases(X)
def representations(x):
    return (
        x + 1,
        repr("a'b"),
        repr(1.0),
        repr(1e100),
        repr(None),
        repr(b"x"),
        ascii("é"),
        repr(...),
        str(1 + 2j),
        repr(int),
        str(type(1.0)),
    )


test = cases.test


class TakesRemainders:
    def __rmod__(self, other: object) -> str:
        return "never asked by a text"

    def __repr__(self) -> str:
        return "shown"


def test_texts_format_before_the_operand_is_asked() -> None:
    def f(x: torch.Tensor) -> object:
        operand = TakesRemainders()
        return x + 1, "<%s>" % operand, 3 % operand

    check(f, torch.ones(2))


@cases(X)
def arguments_that_nothing_shows(x):
    class Plain:
        pass

    class WithItems:
        def __getitem__(self, key):
            return key + "!"

    try:
        "text" % Plain()  # noqa: F507
    except TypeError as error:
        return x + 1, str(error), "text" % WithItems(), "%(a)s" % WithItems()  # noqa: F507
