"""Regular expressions on constants."""

import re
import sys

import pytest
import torch

import framelift
from tests.helpers import check

PATTERN = re.compile(r"(\w+)\.(?P<number>\d+)")


def test_functions_of_the_module():
    def fn(x):
        match = re.match(r"layer(\d+)", "layer12")
        assert match is not None
        parts = (re.sub("a", "b", "banana"), re.subn("a", "b", "banana", count=2), re.findall(r"\d", "1a2"))
        more = (
            re.split(r",\s*", "a, b,c"),
            re.escape("a.b"),
            re.fullmatch("a", "ab"),
            re.search("B", "abc", re.I) is not None,
        )
        return x + int(match.group(1)), parts, more

    check(fn, torch.ones(2), fullgraph=True)


def test_a_compiled_pattern():
    def fn(x):
        match = PATTERN.search("ab.3")
        if not PATTERN.match("nothing"):
            x = x + int(match["number"])
        return x, match.groups(), match.span(), match.groupdict(), match.start("number"), PATTERN.pattern, match.string

    check(fn, torch.ones(2), fullgraph=True)


def test_substitution_by_a_function():
    seen = []

    def fn(x):
        def replace(match):
            seen.append(match.group())
            return match.group().upper()

        return x + 1, re.sub(r"a(.)", replace, "abacad"), PATTERN.sub(lambda match: match["number"], "a.1 b.2", 1)

    check(fn, torch.ones(2), fullgraph=True)


def test_patterns_and_matches_leave_the_frame():
    def fn(x):
        return x + 1, re.compile("a+", re.I).findall("aAb"), PATTERN.match("a.1").group(), re.compile("b+").pattern

    check(fn, torch.ones(2), fullgraph=True)

    def returned(x):
        return x + 1, re.compile("b+"), re.match("(b)", "b")

    lifted = framelift.compile(returned, backend="eager", fullgraph=True)
    _, pattern, match = lifted(torch.ones(2))
    assert pattern is re.compile("b+")
    assert match.group(1) == "b"


def test_finditer():
    def fn(x):
        return x + sum(int(match.group()) for match in re.finditer(r"\d", "1a2b3"))

    check(fn, torch.ones(2), fullgraph=True)


def test_an_invalid_pattern():
    def fn(x):
        y = x + 1
        try:
            re.compile("(")
        except re.error as error:
            return y, str(error)

    check(fn, torch.ones(2), expect_breaks=None)


def test_another_pattern_is_seen():
    global PATTERN
    before = PATTERN

    def fn(x):
        return x + len(PATTERN.findall("ab.3 cd.4"))

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    x = torch.ones(2)
    try:
        assert torch.equal(lifted(x), fn(x))
        PATTERN = re.compile("c")
        assert torch.equal(lifted(x), fn(x))
    finally:
        PATTERN = before


def test_what_an_error_of_matching_knows():
    def fn(x):
        try:
            re.sub("x", r"\400", "xxx")
        except re.error as error:
            return x + 1, error.msg, error.pos, error.pattern, error.lineno, str(error)

    check(fn, torch.ones(2), expect_breaks=None)


def test_a_template_of_a_subclass():
    class Text(str):
        pass

    def fn(x):
        return x + 1, re.sub("y", Text("a"), Text("xyz")), type(re.sub("y", Text("a"), Text("x")))

    check(fn, torch.ones(2))


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="warns, which is left to Python")
def test_counts_and_flags_by_place():
    def f(x):
        return x + 1, re.sub("a", "b", "aaA", 2), re.subn("a", "b", "aaA", 0, re.I), re.split(",", "a,b,c", 1)

    check(f, torch.ones(3), fullgraph=True)


def test_what_patterns_and_matches_are():
    def fn(x):
        pattern = re.compile("b", re.I)
        match = pattern.search("ab")
        try:
            pattern.nothing
        except AttributeError as error:
            return x + 1, pattern.__class__, type(pattern.match), match.re is pattern, type(match.group), str(error)

    check(fn, torch.ones(3), fullgraph=True)


def test_a_match_leaves_with_its_pattern():
    def fn(x):
        pattern = re.compile("(?P<letter>b+)")
        return x + 1, pattern, pattern.search("abb", 1), re.match("a", "ab")

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    _, pattern, match, other = lifted(torch.ones(2))
    assert match.re is pattern and match["letter"] == "bb" and match.pos == 1
    assert other.span() == (0, 1)
