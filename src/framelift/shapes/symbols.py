"""The symbols of one capture: the one place that knows torch's ShapeEnv.

A size or number of an input that may differ from call to call is a symbol. torch's operations compute with symbols and
note in the ShapeEnv what they had to assume about them; `Symbols.program` turns all of it into guards.

    >>> symbols = Symbols()
    >>> n = symbols.size(5, "x.size()[0]", "x.size()[0]")
    >>> bool(n % 2 == 1)
    True
    >>> symbols.program(lambda origin: (0, 1, 0)).words
    ('x.size()[0] >= 2', '(x.size()[0] % 2) == 1')
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import sympy
import torch
from torch._guards import GuardSource, Source
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    free_unbacked_symbols,
    statically_known_false,
    statically_known_true,
)
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges

from framelift.shapes.guard_program import GuardProgram
from framelift.shapes.translate import Calculation, Untranslatable, Writer
from framelift.shapes.unbacked import LEAST_SIZE, PresumingEnv

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
Size: TypeAlias = Any  # int or torch.SymInt
Origin = Hashable


@dataclass(frozen=True)
class NamedSource(Source):
    """Names a symbol or an input to torch's compilers."""

    words: str

    @property
    def _name_template(self) -> str:
        return self.words

    @property
    def guard_source(self) -> GuardSource:
        return GuardSource.LOCAL


class Dimension(NamedTuple):
    """How a dimension becomes symbolic: within which bounds; `alike` lets equal sizes be one symbol.

    `unbacked` gives an unbacked symbol: only what is presumed about it is guarded, nothing is decided by it.
    `hint` is a value for compilers to optimise for.
    """

    lower: int | None = None
    upper: int | None = None
    alike: bool = False
    unbacked: bool = False
    hint: int | None = None


class Layout(NamedTuple):
    """Sizes and strides of a tensor, some of them symbolic."""

    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]


class _Loaded(NamedTuple):
    """A number that is loaded when the guards are checked."""

    origin: Origin
    name: str
    bounds: tuple[int | None, int | None]
    # What it must be, where that is not a symbol of its own.
    expression: Any


class Symbols:
    """Makes symbols, and tells what was assumed about them."""

    def __init__(self) -> None:
        self.shape_env = PresumingEnv()
        self._loaded: list[_Loaded] = []
        self._index: dict[sympy.Symbol, int] = {}
        # Sizes of inputs that have no value here, and their names.
        self.unbacked: dict[sympy.Symbol, str] = {}
        # Numbers that are calculated from others: how, and the symbols behind them that guards know.
        self._calculated: dict[sympy.Symbol, Calculation] = {}
        self._behind: dict[sympy.Symbol, frozenset[sympy.Symbol]] = {}
        # Those that are read from tensors.
        self._items: set[sympy.Symbol] = set()
        # The user's line for each guard of the environment, as far as it is known.
        self._places: list[Any] = []

    def __len__(self) -> int:
        return len(self._index)

    # -- making --------------------------------------------------------------------------------------------------

    def size(self, value: int, origin: Origin, name: str, how: Dimension = Dimension()) -> Size:  # noqa: B008
        """A symbol for a size; sizes out of bounds stay numbers, and 0 and 1, which are special to operations."""
        if (how.lower is not None and value < how.lower) or (how.upper is not None and value > how.upper):
            return value
        if how.unbacked and value >= LEAST_SIZE and self.shape_env.takes_data:
            return self._unbacked(value, origin, name, how)
        kind = DimDynamic.DUCK if how.alike else DimDynamic.DYNAMIC
        expression = self.shape_env.create_symbol(value, NamedSource(name), kind)
        if not isinstance(expression, sympy.Symbol):
            return value
        if how.lower is not None or how.upper is not None:
            self._narrow(expression, how)
        self._load(expression, origin, name)
        self._suggest(expression, how)
        return self._node(expression, value)

    def _suggest(self, symbol: sympy.Symbol, how: Dimension) -> None:
        """What a symbol is likely to be, where this version of torch takes it."""
        hints = getattr(self.shape_env, "var_to_hint_override", None)
        if how.hint is not None and hints is not None:
            hints[symbol] = how.hint

    def _unbacked(self, value: int, origin: Origin, name: str, how: Dimension) -> Size:
        size = self.shape_env.given_size(value, how.lower, how.upper)
        symbol = size.node.expr
        self.unbacked[symbol] = name
        self._suggest(symbol, how)
        self._index[symbol] = len(self._loaded)
        self._loaded.append(_Loaded(origin, name, (None, None), None))
        return size

    def number(self, value: int | float, origin: Origin, name: str) -> Any:
        """A symbol for any int or float."""
        expression = self.shape_env.create_unspecified_symbol(value, NamedSource(name), DimDynamic.DYNAMIC)
        self._load(expression, origin, name)
        if isinstance(value, float):
            return self.shape_env.create_symfloatnode(expression, hint=value)
        return self._node(expression, value)

    def item(self, value: float, origin: Origin, name: str) -> Any:
        """A symbol for the number in a tensor."""
        number = self.number(value, origin, name)
        self._items.add(number.node.expr)
        return number

    def another(self, number: Any, origin: Origin, name: str) -> None:
        """A number elsewhere that is presumed to be the same."""
        self._loaded.append(_Loaded(origin, name, (None, None), number.node.expr))

    def calculated(self, value: int | float, name: str, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """A symbol for a number that is calculated from these."""
        words = f"{name}, the {len(self._calculated) + 1}. that is calculated"
        expression = self.shape_env.create_unspecified_symbol(value, NamedSource(words), DimDynamic.DYNAMIC)
        self._calculated[expression] = Calculation(function, tuple(args), name)
        leaves = [arg.node.expr for arg in args if isinstance(arg, SYMBOLIC)]
        self._behind[expression] = self._leaves(symbol for leaf in leaves for symbol in leaf.free_symbols)
        if isinstance(value, float):
            return self.shape_env.create_symfloatnode(expression, hint=value)
        return self._node(expression, value)

    def _leaves(self, symbols: Iterable[sympy.Symbol]) -> frozenset[sympy.Symbol]:
        """The symbols that guards know, behind those that are calculated."""
        return frozenset(leaf for symbol in symbols for leaf in self._behind.get(symbol, (symbol,)))

    def layout(
        self,
        sizes: Sequence[int],
        strides: Sequence[int],
        dimensions: dict[int, Dimension],
        free_strides: Collection[int],
        origin_of: Callable[[str, int], tuple[Origin, str]],
    ) -> Layout | None:
        """Sizes and strides with symbols in some dimensions; None if all of them stay numbers.

        A stride that is the product of an inner size and stride stays that product: a contiguous tensor is contiguous.
        What is left is a symbol of its own in `free_strides`, a number elsewhere.
        """
        shown = [
            self.size(size, *origin_of("SIZE", dim), dimensions[dim]) if dim in dimensions else size
            for dim, size in enumerate(sizes)
        ]
        if not free_strides and all(type(size) is int for size in shown):
            return None
        found: dict[int, Size] = {}
        products: dict[int, Any] = {}
        for dim in sorted(range(len(sizes)), key=lambda dim: (strides[dim], -dim)):
            stride = strides[dim]
            found[dim] = self._stride(stride, products, dim in free_strides, *origin_of("STRIDE", dim))
            products[stride * sizes[dim]] = _expression(found[dim]) * _expression(shown[dim])
        if all(type(number) is int for number in (*shown, *found.values())):
            return None
        return Layout(tuple(shown), tuple(found[dim] for dim in range(len(sizes))))

    def _stride(self, stride: int, products: dict[int, Any], is_free: bool, origin: Origin, name: str) -> Size:
        expression = products.get(stride)
        if expression is None and is_free:
            return self.size(stride, origin, name)
        if stride == 0 or expression is None or isinstance(expression, int | sympy.Integer):
            return stride
        self._loaded.append(_Loaded(origin, name, (None, None), expression))
        return self._node(expression, stride)

    def _narrow(self, symbol: sympy.Symbol, how: Dimension) -> None:
        known = self.shape_env.var_to_range[symbol]
        lower = known.lower if how.lower is None else max(known.lower, how.lower)
        upper = known.upper if how.upper is None else min(known.upper, how.upper)
        self.shape_env.var_to_range[symbol] = ValueRanges(lower, upper)

    def _load(self, symbol: sympy.Symbol, origin: Origin, name: str) -> None:
        if symbol in self._index:  # an equal size has it already
            self._loaded.append(_Loaded(origin, name, (None, None), symbol))
            return
        limits = self.shape_env.var_to_range[symbol]
        self._index[symbol] = len(self._loaded)
        self._loaded.append(_Loaded(origin, name, (_finite(limits.lower), _finite(limits.upper)), None))

    def _node(self, expression: Any, value: int) -> Size:
        hint = None if self.unbacked and free_unbacked_symbols(expression) else value
        node: Size = self.shape_env.create_symintnode(expression, hint=hint)
        return node

    def limit(self, number: Any, lower: float, upper: float) -> None:
        """Note between what a float of the graph lies."""
        self.shape_env.var_to_range[number.node.expr] = ValueRanges(sympy.sympify(lower), sympy.sympify(upper))

    def specialise(self, number: Any) -> None:
        """Assume that everything a symbolic number depends on is what it is now."""
        for symbol in sorted(number.node.expr.free_symbols, key=str):
            value = self.shape_env.backed_var_to_val[symbol]
            self.shape_env.evaluate_expr(sympy.Eq(symbol, value, evaluate=False))

    def note_place(self, where: Callable[[], Any]) -> None:
        """Say where in the program was assumed what was not assumed yet."""
        new = len(self.shape_env.guards) - len(self._places)
        if new > 0:
            self._places += [where()] * new

    @property
    def names(self) -> frozenset[str]:
        """The names of the symbols."""
        return frozenset(self._loaded[index].name for index in self._index.values())

    def names_in_float(self, number: Any) -> tuple[str, ...]:
        """The symbols that a float is computed from: of numbers with all their digits, not rounded as Python does."""
        if not isinstance(number, torch.SymFloat) or number.node.expr in self._index:
            return ()
        leaves = self._leaves(number.node.expr.free_symbols)
        found = [self._index[symbol] for symbol in leaves if symbol in self._index]
        return tuple(sorted(self._loaded[index].name for index in found))

    def items_in(self, number: Any) -> tuple[str, ...]:
        """Which numbers in tensors a number is computed from."""
        found = self._leaves(number.node.expr.free_symbols) & self._items
        return tuple(sorted(self._loaded[self._index[symbol]].name for symbol in found))

    def assumed_of_items(self) -> Iterator[tuple[str, str]]:
        """The numbers in tensors of which something was assumed, and what that was."""
        if not self._items:
            return
        spellings = {symbol: sympy.Symbol(self._loaded[index].name) for symbol, index in self._index.items()}
        spellings.update((symbol, sympy.Symbol(each.words)) for symbol, each in self._calculated.items())
        for guard in self.shape_env.guards:
            for symbol in self._leaves(guard.expr.free_symbols) & self._items:
                yield self._loaded[self._index[symbol]].name, str(guard.expr.xreplace(spellings))

    # -- telling -------------------------------------------------------------------------------------------------

    def program(self, load_of: Callable[[Origin], tuple[int, int, int]]) -> GuardProgram | None:
        """Everything that was assumed, as a program; `load_of` says where the number of an origin is found."""
        if not self._index:
            return None
        names = tuple(loaded.name for loaded in self._loaded)
        writer = Writer(self._index, names, self._calculated)
        for index, loaded in enumerate(self._loaded):
            writer.bounds(index, *loaded.bounds)
            if loaded.expression is not None:
                writer.equals(index, loaded.expression)
        for expression in dict.fromkeys(self._facts()):
            self._write(writer, expression)
        loads = tuple(load_of(loaded.origin) for loaded in self._loaded)
        return GuardProgram(loads, tuple(writer.code), tuple(writer.words), names)

    def _facts(self) -> Iterator[Any]:
        """What must be true of the inputs. What is presumed about data as well is for the graph to check."""
        yield from (guard.expr for guard in self.shape_env.guards)
        if self.unbacked:
            facts = (fact.expr for fact in self.shape_env.presumptions)
            yield from (fact for fact in facts if fact.free_symbols <= self._index.keys())

    def specialised(self) -> list[tuple[str, Any, Any]]:
        """The symbols that turned out to have one value only: name, value, the place that needed it."""
        found = []
        for symbol, index in self._index.items():
            value = self.shape_env.replace(symbol)
            if not value.free_symbols:
                guards = enumerate(self.shape_env.guards)
                guilty = next((i for i, guard in guards if symbol in guard.expr.free_symbols), len(self._places))
                place = self._places[guilty] if guilty < len(self._places) else None
                found.append((self._loaded[index].name, value, place))
        return found

    def _write(self, writer: Writer, expression: Any) -> None:
        try:
            writer.fact(expression)
        except Untranslatable:
            # What cannot be said in general is said of these very numbers. A symbol that a backend made for a tensor of
            # its own may stand for any of them.
            symbols = self._leaves(expression.free_symbols)
            for symbol in sorted(symbols if symbols <= self._index.keys() else self._index, key=str):
                writer.fact(sympy.Eq(symbol, self.shape_env.value_at_capture(symbol), evaluate=False))


@contextmanager
def hidden_floats(shape_env: ShapeEnv, shown: Container[sympy.Symbol] = ()) -> Iterator[None]:
    """While a graph is compiled that takes tensors for floats, or no floats but those: symbols of floats that are
    nothing to the compiler."""
    values = shape_env.backed_var_to_val
    floats = [symbol for symbol in values if symbol_is_type(symbol, SymT.FLOAT) and symbol not in shown]
    hidden = {symbol: values[symbol] for symbol in floats}
    for symbol in floats:
        del values[symbol]
    try:
        yield
    finally:
        values.update(hidden)


def forbids_guards(shape_env: ShapeEnv | None) -> AbstractContextManager[Any] | None:
    """A block in which nothing new is assumed about symbols; None where this version of torch has none to offer."""
    if shape_env is None or not shape_env.var_to_range:
        return nullcontext()
    forbid = getattr(shape_env, "error_on_new_guards", None)  # new in torch 2.13
    return None if forbid is None else cast(AbstractContextManager[Any], forbid())


def specialised(number: Any) -> int | float | bool | None:
    """The plain number that a symbolic one is known to be."""
    node = number.node
    if isinstance(number, torch.SymInt):
        return node.maybe_as_int()
    if isinstance(number, torch.SymBool):
        return node.maybe_as_bool()
    return node.maybe_as_float()


def known_of_data(number: Any) -> int | float | bool | None:
    """The plain number that one that depends on data must be, after all that the graph checks before."""
    known = specialised(number)
    if known is None and isinstance(number, torch.SymBool):
        if statically_known_true(number):
            return True
        if statically_known_false(number):
            return False
    return known


def decide(number: Any) -> int | float | bool:
    """The plain number a symbolic one is now, which is assumed from here on."""
    kind = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(number)]
    return kind(number)


def _expression(size: Size) -> Any:
    return size if type(size) is int else size.node.expr


def _finite(bound: Any) -> int | None:
    return None if bound in (int_oo, -int_oo, sympy.oo, -sympy.oo) else int(bound)
