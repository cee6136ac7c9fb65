"""Tensors of classes of one's own, parameters and buffers among them: Python runs what is done with them."""

import collections
import copy
import dataclasses
import math
import operator
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree

import framelift
from framelift.errors import FullGraphError
from tests.helpers import check
from tests.values.tensor_classes import (
    Layer,
    Logged,
    LoggedParameter,
    Odd,
    Plain,
    Programs,
    Quiet,
    Refusing,
    Tagged,
    Tenfold,
    WithMethods,
    Wrapper,
    doubled,
    of,
    two,
    x,
)

program = Programs()
OUTSIDE = two()
Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Config:
    tensor: torch.Tensor
    scale: int = 2


# -- what they are -----------------------------------------------------------------------------------------------------


@program(lambda: (x(), two()))
def told_apart(x, t):
    kinds = isinstance(t, TwoTensor), isinstance(t, torch.Tensor), isinstance(t, nn.Parameter), isinstance(t, Plain)
    return kinds, type(t), type(t).__name__, issubclass(type(t), torch.Tensor), t is x, t is t, x + 1


@program(lambda: (x(), two()))
def read(x, t):
    return t.a + x, t.shape, t.dtype, t.requires_grad, t.ndim, hasattr(t, "a"), hasattr(t, "c"), getattr(t, "c", 3)


@program(lambda: (x(), two()))
def given_attributes(x, t):
    t.mark = 3
    return t.mark, hasattr(t + 1, "mark"), x + 1


@program(lambda: (x(), two()))
def kept(x, t):
    keys = {t: 1, x: 2}
    return keys[t], t in keys, [t][0] is t, {"a": [t]}["a"][0] is t, weakref.ref(t)() is t, x + 1


@program(lambda: (x(), two()))
def matched(x, t):
    match t:
        case Plain():
            return x
        case TwoTensor():
            return x * 2


@program(lambda: (x(), two()))
def shown(x, t):
    return repr(t), f"{t}", str(t), x + 1


@program(lambda: (x(), two()))
def copies(x, t):
    return copy.copy(t), copy.deepcopy(t), t.detach(), t.clone(), t.data, t.is_leaf, t.grad, x + 1


@program(lambda: (x(), nn.Parameter(two())), expect_breaks=0)
def parameter_given(x, p):
    return isinstance(p, nn.Parameter), isinstance(p, nn.Buffer), issubclass(type(p), nn.Parameter), x + 1


@program(lambda: (two(), x()))
def parameter_of_given(t, x):
    p = nn.Parameter(t)
    return isinstance(p, nn.Parameter), isinstance(p, TwoTensor), type(p), p.requires_grad, x + 1


@program(lambda: (x(),))
def parameter_of_made(x):
    p = nn.Parameter(TwoTensor(x, x))
    return isinstance(p, nn.Parameter), isinstance(p, TwoTensor), p + x, x + 1


@program(lambda: (nn.Buffer(two()), nn.Buffer(of(Plain)), x()), expect_breaks=0)
def buffers_given(b, c, x):
    return isinstance(b, nn.Buffer), isinstance(c, nn.Buffer), isinstance(b, nn.Parameter), x + 1


@program(lambda: (two(), x()))
def marked_as_parameter(t, x):
    before = isinstance(t, nn.Parameter)
    t._is_param = True
    return before, isinstance(t, nn.Parameter), x + 1


class FlagByProperty(torch.Tensor):
    @property
    def _is_param(self):
        return True


class FlagByGetattr(torch.Tensor):
    def __getattr__(self, name):
        if name == "_is_param":
            return True
        raise AttributeError(name)


class ClaimsAClass(torch.Tensor):
    @property
    def __class__(self):
        return nn.Parameter


@program(lambda: (x(), of(FlagByProperty), of(FlagByGetattr), of(ClaimsAClass)))
def parameters_by_their_word(x, a, b, c):
    kinds = isinstance(a, nn.Parameter), isinstance(b, nn.Parameter), isinstance(c, nn.Parameter)
    return kinds, isinstance(c, nn.Linear), x + 1


@program(lambda: (x(), Odd(x())))
def parameter_of_own_class(x, p):
    y = p * x
    return y, type(y), p.extra(), isinstance(p, nn.Parameter), isinstance(p, Odd), type(p), x + 1


@program(lambda: (x(),))
def parameter_of_own_class_made(x):
    p = Odd(x * 2)
    return p + 1, type(p), isinstance(p, nn.Parameter), x + 1


@program(lambda: (x(), LoggedParameter(x())))
def parameter_with_rules(x, p):
    return p * x, isinstance(p, nn.Parameter), type(p * x), x + 1


@program(lambda: (x(), nn.Buffer(x())), expect_breaks=0)
def buffer_given(x, b):
    return isinstance(b, nn.Buffer), type(b), b + x


@program(lambda: (x(),))
def buffer_made(x):
    b = nn.Buffer(x * 2)
    return isinstance(b, nn.Buffer), type(b), b.persistent, b + x


# -- operations --------------------------------------------------------------------------------------------------------


@program(lambda: (x(), two()))
def operators(x, t):
    return t + x, x + t, 1 - t, 2**t, x @ t, -t, abs(t), t > x, x == t, t != 1, t[1:], t[0], t[None], x + 1


@program(lambda: (x(), two()))
def methods_and_functions(x, t):
    return t.sin().cos(), torch.sin(t), F.relu(t), t.sum(), torch.max(t, 0), torch.einsum("i,i->", x, t), x + 1


@program(lambda: (x(), two()))
def operators_of_aten(x, t):
    return torch.ops.aten.add(x, t), torch.ops.aten.mul.Tensor(t, 2), operator.add(x, t), x + 1


@program(lambda: (x(), two()))
def unbound_methods(x, t):
    return torch.Tensor.add(x, t), torch.Tensor.size(t), torch.Tensor.shape.__get__(t), torch.numel(t), x + 1


@program(lambda: (x(), two()))
def in_containers(x, t):
    return torch.cat([x, t]), torch.stack((t, x)), torch.cat(tensors=[t, t]), torch._foreach_add([t], 1.0), x + 1


@program(lambda: (x(), {"k": [two()]}, Pair(two(), x()), Config(two())))
def from_containers(x, d, pair, config):
    return x + d["k"][0], pair.a + pair.b, config.tensor * config.scale, x + 1


@program(lambda: (x(), two()))
def through_calls(x, t):
    def inner(y):
        return y + t

    def by_keyword(*args, other=t, **kwargs):
        return args[0] * other + kwargs["t"]

    return inner(x), by_keyword(x, t=t), [each * 2 for each in (x, t)], list(map(lambda a: a + 1, (t, x)))


@program(lambda: (x(),))
def from_outside(x):
    return x + OUTSIDE, OUTSIDE * 2, x * 2


@program(lambda: (x(), two()))
def decides(x, t):
    if (t > 0).a.all():
        return t + 1, x + 1
    return t


@program(lambda: (x(), two()))
def walked(x, t):
    first, *rest = [x, t, x]
    return len(t), [each.a for each in t], rest[0] * 2, first + 1


@program(lambda: (x(), two()))
def in_trees(x, t):
    return _pytree.tree_map(lambda a: a * 2, {"a": x, "b": [t]})


@program(lambda: (x(), two()))
def between_breaks(x, t):
    y = x + 1
    framelift.graph_break()
    z = y + t
    framelift.graph_break()
    return z * y


@program(lambda: (x(), two()))
def under_autocast(x, t):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x[None] @ x[:, None], t[None] @ t[:, None]


@program(lambda: (x(), two()))
def handled(x, t):
    try:
        y = x * 2
        z = y + t
        raise ValueError(t)
    except ValueError as error:
        return z * 3, y, error.args[0] is t


@program(lambda: (x(), two()))
def generated(x, t):
    def each():
        for i in range(2):
            yield x * i + t

    return sum(each()), x * 2


@program(lambda: (x(), of(Refusing)))
def refusing(x, r):
    try:
        return torch.add(x, r)
    except KeyError as error:
        return str(error), x * 2


# -- writing -----------------------------------------------------------------------------------------------------------


@program(lambda: (x(), two()))
def written_to(x, t):
    t.add_(x)
    t[0] = 5.0
    t += x
    return t * 2, x + 1


@program(lambda: (x(), of(Logged)))
def written_to_plain_ones(x, other):
    before = x + 1
    x.add_(other)
    x[:] = other + 1
    x *= other
    x.copy_(other * 3)
    return x * 2, type(x), before


@program(lambda: (x(), of(Logged)))
def out(x, other):
    made = torch.zeros(3)
    result = torch.add(other, x, out=made)
    torch.add(x, x, out=other)
    return made, type(result), result is made, other, x + 1


@program(lambda: (x(),))
def aliases_of_plain_ones(x):
    y = x * 2
    t = TwoTensor(y, y)
    p = y.as_subclass(Plain)
    y.add_(1)
    p.mul_(2)
    return t, y, p, y + 1


@program(lambda: (x(), two()))
def parts_are_plain(x, t):
    part = t.a
    part.add_(x)
    t.b.mul_(2)
    return t + 1, part * 2


@program(lambda: (nn.Parameter(x()), two()))
def data_and_gradients(p, t):
    t.data = two() * 3
    p.grad = torch.ones(3)
    return t, p + 1


# -- made inside -------------------------------------------------------------------------------------------------------


@program(lambda: (x(), x()))
def made_and_returned(x, y):
    return TwoTensor(x, y), x + y, [TwoTensor(x + 1, y)]


@program(lambda: (x(),))
def made_by_as_subclass(x):
    y = (x * 2).as_subclass(Plain)
    z = (x * 2).as_subclass(Logged)
    return y + x, type(y + x), z + x, type(z.as_subclass(torch.Tensor) + x), x + 1


@program(lambda: (x(),))
def made_by_a_constructor(x):
    t = Tagged(x * 2, tag="a")
    return t.tag, t + 1, type(t), hasattr(t + 1, "tag"), x + 1


@program(lambda: (x(),))
def masked(x):
    m = torch.masked.masked_tensor(x * 2, x > 1)
    return (m + m).get_data(), (m * 2).get_mask(), m.sum().get_data(), x + 1


@program(lambda: (torch.ones(5, 3), torch.tensor([0, 2, 5])))
def nested(values, offsets):
    n = torch.nested.nested_tensor_from_jagged(values * 2, offsets)
    return (n + 1).values(), n.is_nested, n.dim(), isinstance(n, torch.Tensor), type(n).__name__, values + 1


# -- classes without rules, and rules that do other things -------------------------------------------------------------


@program(lambda: (x(), of(Plain)))
def without_rules(x, p):
    y = p * 2
    found = torch.cat([x, p]), torch.stack([p, p]), p.sum(), torch.max(p, 0), p[0], p.unbind(), torch.where(x > 1, x, p)
    return y, type(y), isinstance(y, Plain), type(x + y), found, x + 1


@program(lambda: (x(), of(Plain)))
def without_rules_written(x, p):
    before = x + 1
    x += p
    p.mul_(2)
    view = p.view(3, 1)
    view.add_(1)
    return before, x, p, type(x), view, torch.addcmul(x, p, x), x.clamp(min=p), x.masked_fill(p > 1, 0.0)


@program(lambda: (torch.arange(6.0), of(Plain, 1, 2)))
def without_rules_as_index(x, i):
    x[i] = 7.0
    return x + 1, x, x[i], x.take(i), x[i[0] :], type(x[i[0] :]), x.narrow(0, i[0], 1), x.index_select(0, i)


@program(lambda: (x(), of(Plain, 2)[0]))
def without_rules_as_number(x, n):
    numbers = int(n), bool(n), n.item(), [1, 2, 3][n], list(range(n)), math.sqrt(n), "%d" % n, f"{n}", not n
    return x + 1, numbers, x * n, torch.zeros(n), x.expand(n, 3), torch.full((2,), n), torch.arange(n), x.repeat(n)


@program(lambda: (x(), of(Logged)))
def rules_that_log(x, other):
    index = x[other.long() - 1]
    return torch.where(x > 1, x, other), index, type(index), sum([x, other]), divmod(x, other), x + 1


@program(lambda: (x(), of(Tenfold)))
def rules_that_compute(x, other):
    return x + other, other + x, torch.add(x, other), x.add(other), x + 1


@program(lambda: (x(), of(Quiet)))
def rules_switched_off(x, other):
    return other + x, type(other + x), x + 1


@program(lambda: (x(), of(WithMethods)))
def methods_of_its_own(x, p):
    return p.twice(), p.half, p + x, x + p, type(x + p), x + 1


@program(lambda: (x(), Wrapper(x())))
def a_wrapper(x, w):
    w.add_(x)
    x.copy_(w)
    return (w + x).inner, (w * 2).inner, x + 1


# -- modules and optimizers --------------------------------------------------------------------------------------------


@program(lambda: (x()[None], Layer(doubled)))
def module_with_parameter(x, m):
    return m(x), [type(p) for p in m.parameters()], [isinstance(p, nn.Parameter) for p in m.parameters()], x + 1


@program(lambda: (x()[None], Layer(lambda weight: nn.Parameter(weight.as_subclass(Plain)))))
def module_with_plain_parameter(x, m):
    return m(x), type(m(x)), x + 1


@program(lambda: (x()[None], Layer(Odd)))
def module_with_own_parameter(x, m):
    return m(x), m.linear.weight.extra(), x + 1


@program(lambda: (x()[None], Layer(buffer=two())))
def module_with_buffer(x, m):
    return m(x), [name for name, _ in m.named_buffers()], x + 1


@program(lambda: (x()[None], Layer()))
def module_given_a_parameter(x, m):
    y = m(x)
    m.linear.weight = nn.Parameter(TwoTensor(torch.eye(3), torch.eye(3)))
    m.register_buffer("other", TwoTensor(torch.ones(3), torch.ones(3)))
    return y, m(x), m.other + x


@program(lambda: (x()[None], nn.Sequential(Layer(), nn.ReLU(), Layer(doubled))))
def modules_in_a_row(x, m):
    return m(x), m.state_dict(), x + 1


@program(lambda: (x()[None], Layer(doubled)), expect_ops=0)
def trained(x, m):
    optimizer = torch.optim.Adam(m.parameters(), lr=0.1, foreach=False)
    for _ in range(2):
        optimizer.zero_grad()
        m(x).sum().backward()
        optimizer.step()
    torch.nn.utils.clip_grad_value_(m.parameters(), 0.5)
    return m(x)


# -- gradients ---------------------------------------------------------------------------------------------------------


@program(lambda: (x(True), two(True)))
def added_to_plain(x, t):
    y = x * 2
    z = t + y
    return z * 3, y


@program(lambda: (x(True),))
def made_of_what_needs_gradients(x):
    t = TwoTensor(x * 2, x * 3)
    return t + x, x - 1


@program(lambda: (x(True), two(True)))
def in_a_loop(x, t):
    for i in range(3):
        x = x * 2 + i
        t = t + x
    return t, x


@program(lambda: (x(True), two(True)), expect_ops=0)
def backward_inside(x, t):
    y = x * 2
    y.retain_grad()
    (y * t).sum().backward()
    return y.grad, x.grad, t.grad


@program(lambda: (x(True), Layer(doubled)))
def met_after_another_break(x, m):
    y = x * 2
    framelift.graph_break()
    return m(y[None])


@program(lambda: (x(True), [{"t": two(True)}]))
def held_after_another_break(x, held):
    y = x * 2
    framelift.graph_break()
    return y * held[0]["t"]


@program(lambda: (x(True),))
def made_after_another_break(x):
    y = x * 2
    framelift.graph_break()
    return TwoTensor(torch.ones(3), torch.ones(3)) * y


@program(lambda: (x(True), Wrapper(x())))
def of_a_wrapper(x, w):
    y = x * 2
    return (w * y).sum().inner, y


@program(lambda: (x(True), of(Plain)))
def without_rules_inplace(x, p):
    y = x * 2
    y.mul_(p)
    y += p
    return y, type(y)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("case", program.cases, ids=[case[0].__name__ for case in program.cases])
def test_programs(case, backend):
    function, make, options = case
    # (To compare two captures, arguments are copied: most of these classes do not allow it.)
    check(function, inputs=make, backend=backend, deterministic=False, **{"expect_breaks": None, **options})


def contents(tensor):
    """All there is to a tensor, to be compared."""
    if isinstance(tensor, TwoTensor):
        return TwoTensor, contents(tensor.a), contents(tensor.b)
    if isinstance(tensor, Wrapper):
        return Wrapper, contents(tensor.inner)
    return tensor if tensor is None else (type(tensor), tensor.tolist())


def gradients(function, make):
    """What arrives at the leaves, when the results are added up outside."""
    args = make()
    results = [each for each in _pytree.tree_leaves(function(*args)) if getattr(each, "requires_grad", False)]
    sum(each.sum() for each in results if not each.is_leaf).backward()
    modules = [parameter for each in args if isinstance(each, nn.Module) for parameter in each.parameters()]
    leaves = [*modules, *[each for each in _pytree.tree_leaves(args) if isinstance(each, torch.Tensor)]]
    return [contents(each.grad) for each in leaves]


_WITH_GRADIENTS = (
    module_with_buffer,
    module_given_a_parameter,
    modules_in_a_row,
    added_to_plain,
    made_of_what_needs_gradients,
    in_a_loop,
    met_after_another_break,
    held_after_another_break,
    made_after_another_break,
    of_a_wrapper,
    without_rules_inplace,
)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", _WITH_GRADIENTS)
def test_gradients(function, backend):
    make = next(case[1] for case in program.cases if case[0] is function)
    lifted = framelift.compile(function, backend=backend)
    expected = gradients(function, make)
    assert any(expected)
    assert [gradients(lifted, make) for _ in range(2)] == [expected] * 2


# -- the break ---------------------------------------------------------------------------------------------------------


def meets_one(x, t):
    y = x * 2
    z = t + y
    return z, y * 3


def test_one_clean_break():
    record = check(meets_one, inputs=lambda: (x(), two(True)), expect_breaks=1).record
    assert [event.id for event in record.breaks] == ["FL0306"]
    assert record.ops == 2


@pytest.mark.parametrize("make", [lambda: two(True), lambda: Wrapper(x())])
def test_one_graph_is_an_error_with_the_reason(make):
    other = make()
    with pytest.raises(FullGraphError, match=rf"FL0306: {type(other).__name__} has rules of its own.*\n.*z = t \+ y"):
        framelift.compile(meets_one, backend="eager", fullgraph=True)(x(), other)


@pytest.mark.parametrize("function", [lambda x: TwoTensor(x, x), lambda x: torch.cat([x, OUTSIDE])])
def test_where_one_is_made_or_hidden(function):
    with pytest.raises(FullGraphError, match="FL0306: .* has rules of its own"):
        framelift.compile(function, backend="eager", fullgraph=True)(x(True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_classes_in_turn(backend):
    def function(x, y):
        return x * 2 + y, type(x + y)

    lifted = framelift.compile(function, backend=backend)
    for args in [(x(), x()), (x(), two()), (x(), x()), (of(Plain), x()), (two(), x()), (of(Quiet), x()), (x(), x())]:
        expected, given = function(*args), lifted(*args)
        assert given[1] is expected[1] and type(given[0]) is type(expected[0])
        assert repr(given[0]) == repr(expected[0])


def test_uninitialized_parameters():
    def function(x, u):
        kinds = isinstance(u, nn.Parameter), isinstance(u, nn.UninitializedParameter), isinstance(u, nn.Buffer)
        words = None
        try:
            u + x
        except ValueError as error:
            words = str(error)
        before = type(u)
        u.materialize((3,))
        return kinds, words, before, type(u), (x + 1).tolist()

    lifted = framelift.compile(function, backend="eager")
    for make in (nn.UninitializedParameter, nn.UninitializedBuffer):
        assert [lifted(x(), make()) for _ in range(2)] == [function(x(), make()) for _ in range(2)]


def test_nested_tensors_given():
    def function(x, n):
        return (n * 2).values().tolist(), n.dim(), type(n), isinstance(n, torch.Tensor), (x + 1).tolist()

    given = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 3)], layout=torch.jagged)
    lifted = framelift.compile(function, backend="eager")
    assert [lifted(x(), given) for _ in range(2)] == [function(x(), given)] * 2
