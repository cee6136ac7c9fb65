"""`re`, `string` and `random`: odd arguments and errors."""

from __future__ import annotations

import random
import re
import string

from tests.library.outcomes import outcomes
from tests.values.programs import Programs, x

programs = Programs()
LAYER = re.compile(r"layers\.(?P<number>\d+)\.(.*)")
camel = re.compile(r"(?<!^)(?=[A-Z])").sub


class Formatter(string.Formatter):
    def get_value(self, key, args, kwargs):
        return kwargs.get(key, "?") if isinstance(key, str) else args[key]

    def format_field(self, value, spec):
        return f"[{format(value, spec)}]"


class Percent(string.Template):
    delimiter = "%"
    idpattern = "[a-z]+"


@programs(args=(x(), "layers.12.weight"), changed=[(x(), "layers.3.bias"), (x(), "head")], fullgraph=True)
def names_of_parameters(x, name):
    match = LAYER.match(name)
    if match is None:
        return x, LAYER.sub("", name), camel("_", "CamelCase").lower()
    found = match.groups(), match.groupdict(), match.span(2), match["number"], match.lastgroup, match.expand(r"\2-\1")
    return x * int(match.group(1)), found, LAYER.sub(r"h.\1.\2", name), LAYER.fullmatch(name, 0, 5), LAYER.findall(name)


@programs(fullgraph=True)
def substitutions(x):
    changed = re.sub("a", lambda match: match[0].upper() + "!", "banana"), re.subn("x", "y", "xx")
    parts = (
        re.split(r"[,;]\s*", "a, b;c", maxsplit=1),
        [m.span() for m in re.finditer(r"\d+", "1 22")],
        re.escape("a.b"),
    )
    return (
        x + 1,
        changed,
        parts,
        outcomes(
            lambda: re.match(3, "a") if False else None,
            lambda: re.compile("a").match(3),
            lambda: LAYER.match(b"a"),
            lambda: LAYER.match("layers.1.a").group(9),
        ),
    )


@programs(expect_breaks=None)
def what_cannot_be_substituted(x):
    return x + 1, outcomes(lambda: re.sub("a", 3, "a"), lambda: re.compile("("), lambda: re.sub("(a)", r"\2", "a"))


@programs(fullgraph=True)
def templates_and_formatters(x):
    made = Formatter().format("{0} {z} {a:03d}", 1, a=5), Percent("%ab %%").substitute(ab=3)
    errors = outcomes(lambda: string.Template("$c").substitute(), lambda: string.Template("${").substitute())
    shown = string.Formatter().vformat("{a.shape}", (), {"a": x}), string.Template("$a $c").safe_substitute(a=len(x))
    return (
        x + 1,
        made,
        errors,
        shown,
        string.capwords("hello  world"),
        string.ascii_letters,
        list(string.Formatter().parse("a{b:c}")),
    )


@programs(expect_breaks=None)
def errors_of_random(x):
    return x * random.random(), outcomes(
        lambda: random.choice([]),
        lambda: random.choices([], k=1),
        lambda: random.randint(2, 1),
        lambda: random.sample([1], 2),
        lambda: random.choices([1], [1, 2]),
        lambda: random.randrange(0),
    )


@programs(args=(x(), random.Random(3)), fullgraph=True)
def generators_that_are_passed_and_made(x, given):
    made = random.Random(7)
    order = [1, 2, 3, 4]
    made.shuffle(order)
    drawn = given.random(), given.randint(0, 9)
    return (
        x * drawn[0] + drawn[1],
        made.random(),
        made.choice("abc"),
        made.choices([1, 2], k=2),
        made.gauss(0, 1),
        order,
    )


@programs(fullgraph=True)
def the_state_is_kept(x):
    random.seed(5)
    first = random.random()
    state = random.getstate()
    second = random.random()
    random.setstate(state)
    return (
        x * first,
        second == random.random(),
        random.uniform(1, 2),
        random.sample(range(10), 3),
        random.betavariate(1, 2),
    )


test_programs = programs.test()
