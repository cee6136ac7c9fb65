"""Python's language as models and libraries use it, several features together, each program in one graph."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools

import torch
from torch import nn

from tests.values.programs import Programs, x

programs = Programs()
whole = functools.partial(programs, fullgraph=True)


class ShapeError(ValueError):
    def __init__(self, layer, want, got):
        super().__init__(layer, want)
        self.layer, self.want, self.got = layer, want, got

    def __str__(self):
        return f"{self.layer}: {self.want} != {self.got}"


class Checked(nn.Module):
    """Exceptions of its own that cross calls, with all clauses of `try`."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.log = []

    def validate(self, x):
        if x.shape[-1] != 3:
            raise ShapeError(type(self).__name__, 3, x.shape[-1])
        return x

    def forward(self, x):
        try:
            x = self.validate(x)
        except ShapeError as error:
            self.log.append((str(error), error.got, error.args))
            x = x[..., :3]
        else:
            self.log.append("fine")
        finally:
            self.log.append(len(self.log))
        return self.linear(x), list(self.log)


whole(Checked(), changed=[(torch.ones(2, 4),), (x(),)], expect_hit=False)


@whole
def exceptions_in_a_chain(x):
    def low(entries):
        return entries["missing"]

    def middle(entries):
        try:
            return low(entries)
        except KeyError as error:
            raise ShapeError("middle", 1, 2) from error

    try:
        middle({})
    except ValueError as error:
        cause = error.__cause__
        return x * error.got, str(error), repr(cause), error.__suppress_context__, cause.__context__


@whole
def groups_of_exceptions(x):
    errors, log = [], []
    for text in ("1", "a", None, "3"):
        try:
            x = x + int(text)
        except (ValueError, TypeError) as error:
            errors.append(error)
    try:
        raise ExceptionGroup("parsing", errors)
    except* ValueError as group:
        log.append([str(error) for error in group.exceptions])
    except* TypeError as group:
        log.append((group.message, len(group.exceptions)))
    return x, log


class Activations(nn.Module):
    """A generator that is sent to, that returns, and that is closed."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.trace = []

    def walk(self, x):
        try:
            for index, layer in enumerate(self.layers):
                x = torch.tanh(layer(x))
                factor = yield index, x
                x = x if factor is None else x * factor
            return x
        finally:
            self.trace.append("end")

    def forward(self, x, last=5):
        walk = self.walk(x)
        index, _ = next(walk)
        while True:
            try:
                index, x = walk.send(0.5 if index == 0 else None)
            except StopIteration as stop:
                return stop.value, list(self.trace)
            if index == last:
                walk.close()
                return x, list(self.trace)


whole(Activations(), changed=[(x(), 1), (x(), 2)], expect_hit=False)


@whole
def generators_delegate_and_catch(x):
    log = []

    def inner():
        try:
            yield x
        except KeyError as error:
            log.append(error.args)
            received = yield x * 3
        return received

    def outer():
        result = yield from inner()
        log.append(result)
        yield x * result

    walk = outer()
    return next(walk) + walk.throw(KeyError("k", 1)) + walk.send(7), log


@contextlib.contextmanager
def overridden(entries, key, value):
    before = entries.get(key)
    entries[key] = value
    try:
        yield entries
    except ShapeError as error:
        entries["error"] = str(error)
    finally:
        entries[key] = before


@whole(args=(x(), {"scale": 2}))
def managers_of_all_kinds(x, entries):
    log = []
    with overridden(entries, "scale", 10) as inside, contextlib.ExitStack() as stack:
        stack.callback(log.append, "left")
        x = x * inside["scale"]
        with contextlib.suppress(KeyError), contextlib.nullcontext(5) as five:
            log.append(five)
            entries["nothing"]
        raise ShapeError("with", 1, 2)
    return x * entries["scale"], log


@whole
def closures_and_classes_share_variables(x):
    events, total = [], 0

    class Recorder:
        kind = "recorder"

        def add(self, number):
            nonlocal total
            total += number
            events.append((self.kind, number))
            return self

    class Doubling(Recorder):
        kind = "doubling"

        def add(self, number):
            return super().add(number * 2)

    Doubling().add(1).add(2)
    Recorder().add(5)
    return x * total, events


class Act(enum.Enum):
    RELU = "relu"
    TANH = "tanh"

    def __call__(self, x):
        return getattr(torch, self.value)(x)


@dataclasses.dataclass
class Config:
    act: Act = Act.RELU
    widths: list = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(init=False)

    def __post_init__(self):
        self.total = sum(self.widths)


@whole(args=(x(), Config(widths=[1, 2])), changed=[(x(), Config(Act.TANH, [4])), (x(), Config())])
def configured(x, config):
    other = dataclasses.replace(config, act=Act["TANH"])
    config.widths.append(len(config.widths))
    return config.act(x) * config.total, other.act(x), repr(config), config == other, [act.name for act in Act]


class Counting(type):
    def __call__(cls, *args, **kwargs):
        instance = super().__call__(*args, **kwargs)
        instance.tags = [cls.__name__, len(args)]
        return instance


class Typed:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else instance.__dict__.get(self.name, 1)

    def __set__(self, instance, value):
        if not isinstance(value, int):
            raise TypeError(f"{self.name}: {type(value).__name__}")
        instance.__dict__[self.name] = value


class Base(metaclass=Counting):
    size = Typed()

    def __init__(self, *log):
        self.log = list(log)

    @property
    def scale(self):
        self.log.append("read")
        return self.size * len(self.log)

    @scale.setter
    def scale(self, value):
        self.log.append(("written", value))
        self.size = value


class Derived(Base):
    __slots__ = ("slot",)

    def __getattr__(self, name):
        if name.startswith(("no_", "__")):
            raise AttributeError(f"no {name}")
        return name.upper()

    @property
    def scale(self):
        return super().scale * 10

    @scale.setter
    def scale(self, value):
        self.log.append(("written there", value))
        self.size = value + 1


@whole(args=(x(), Derived("given")))
def attributes_of_all_kinds(x, given):
    made, said = Derived(1, 2), []
    for item in (given, made):
        item.scale = 3
        item.slot = item.scale
        try:
            item.size = "text"
        except TypeError as error:
            said.append(str(error))
        said += [item.anything, getattr(item, "no_such", "default"), hasattr(item, "no_other"), item.log, item.tags]
    return x * given.slot + made.slot, said


@functools.total_ordering
class Version:
    def __init__(self, text):
        self.parts = tuple(int(part) for part in text.split("."))

    def __eq__(self, other):
        return self.parts == other.parts if isinstance(other, Version) else NotImplemented

    def __hash__(self):
        return hash(self.parts)

    def __lt__(self, other):
        return self.parts < other.parts if isinstance(other, Version) else NotImplemented

    def __add__(self, number):
        return Version(f"{self.parts[0] + number}") if isinstance(number, int) else NotImplemented

    __radd__ = __add__

    def __bool__(self):
        return self.parts != (0,)

    def __len__(self):
        return len(self.parts)

    def __contains__(self, part):
        return part in self.parts

    def __index__(self):
        return self.parts[0]

    def __call__(self, x):
        return x * self.parts[0]

    def __repr__(self):
        return ".".join(map(str, self.parts))


@whole(args=(x(), [Version("1.10"), Version("1.9"), Version("0")]))
def objects_that_take_part(x, versions):
    table = {version: index for index, version in enumerate(versions)}
    versions.sort()
    said = [repr(versions), repr(sorted(versions, key=len, reverse=True)), table[Version("1.9")], Version("2") in table]
    said += [repr(max(versions)), repr(2 + versions[1]), repr(sum([1], Version("3"))), "ab"[versions[1]]]
    said += [bool(versions[0]), 9 in versions[1], len({*versions, Version("0")}), versions[1] >= versions[0]]
    try:
        versions[0] + "a"
    except TypeError as error:
        said.append(str(error))
    return versions[2](x), said


def evaluate(node, x):
    match node:
        case int() | float():
            return node
        case "x":
            return x
        case {"op": "add", "args": [left, right]}:
            return evaluate(left, x) + evaluate(right, x)
        case ["mul", first, *rest] if rest:
            return functools.reduce(lambda a, b: a * b, [evaluate(item, x) for item in rest], evaluate(first, x))
        case Version(parts=(major, *_)):
            return major
        case _:
            raise ValueError(f"cannot evaluate {node!r}")


@whole(
    args=(x(), ["mul", "x", {"op": "add", "args": [1, 2.5]}, Version("3.1")]),
    changed=[(x(), ["mul", 2, "x"]), (x(), {"op": "add", "args": ["x", 4]})],
)
def patterns_walrus_and_stars(x, node):
    if (count := len(node)) > 2:
        x = x + count
    first, *middle, last = [*range(3), *"ab"]
    (a, *b), *c = [(1, 2), *[3]]
    merged = {**{"p": 1}, "q": [y := 5, y**2]}
    squares = [square for n in range(4) if (square := n * n) > 1]
    return evaluate(node, x), first, middle, last, a, b, c, merged, squares, square


@whole(args=(x(), "  Key=Val;n=10 ", b"\x01\x02", 10, 2.5, 1 + 2j))
def texts_and_numbers(x, text, data, whole_number, fraction, number):
    pairs = dict(part.strip().partition("=")[::2] for part in text.split(";"))
    said = [
        f"{whole_number:>5,}|{fraction:+.2f}|{number:.1f}|{text!r:.8}|{data.hex(':')}",
        "%05d %s %%" % (whole_number, pairs),
    ]
    said += ["{0:x} {n[1]} {1!r:>6}".format(whole_number, fraction, n="ab"), text.strip().title().center(20, "*")]
    said += [
        int.from_bytes(data, "big"),
        whole_number.bit_length(),
        divmod(-whole_number, 3),
        (258).to_bytes(2, "little"),
    ]
    said += [
        fraction.as_integer_ratio(),
        fraction.hex(),
        round(fraction),
        fraction // 1,
        float("-1e3"),
        fraction.is_integer(),
    ]
    said += [
        number.conjugate(),
        abs(3 + 4j),
        number**2,
        complex("1-2j"),
        data.decode("latin-1").encode(),
        data + b"%d" % 3,
    ]
    return x * int(pairs["n"]), said


test_programs = programs.test()
