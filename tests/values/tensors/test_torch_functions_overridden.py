"""Objects that torch asks before it does anything, and the switches and modes of that protocol."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framelift
from framelift.errors import FullGraphError
from tests.helpers import check
from tests.values.tensor_classes import (
    AskedByGetattr,
    AskedFloat,
    AskedIndex,
    AskedInstance,
    AskedList,
    CountingMode,
    DoublingMode,
    Duck,
    Logged,
    LoggingMode,
    Programs,
    Reflected,
    of,
    x,
)

program = Programs()


# -- objects -----------------------------------------------------------------------------------------------------------


@program(lambda: (x(), Duck(x())))
def duck_in_functions(x, d):
    found = torch.add(x, d), x.add(d), torch.cat([x, d]), torch.where(x > 1, x, d), torch.add(input=x, other=d)
    return [each.value for each in found], torch.stack((d, x)).value, type(torch.add(x, d)), x + 1


@program(lambda: (x()[None], Duck(x()[None]), nn.Linear(3, 2, bias=False).requires_grad_(False).eval()))
def duck_in_modules(x, d, m):
    with torch.no_grad():
        m.weight.fill_(0.5)
    return m(d).value, m(x), F.softmax(d, dim=1).value, F.mse_loss(x, d).value, nn.ReLU()(d).value


@program(lambda: (x(), Duck(x())))
def duck_in_operators(x, d):
    y = x.clone()
    y *= d
    return (x + d).value, (x > d).value, (x @ d).value, y.value, x * 2


@program(lambda: (x(), Duck(x())))
def duck_in_handled_operators(x, d):
    found = []
    for operation in (lambda: x @ d, lambda: d + x, lambda: x == d, lambda: d > x, lambda: x**d, lambda: x & d):
        try:
            result = operation()
            found.append(result.value if isinstance(result, Duck) else result)
        except (TypeError, RuntimeError) as error:
            found.append(type(error))
    return found, x + 1


@program(lambda: (x(),))
def duck_made(x):
    d = Duck(x * 2)
    return torch.mul(d, x).value + 1


@program(lambda: (x(), Duck(x())))
def duck_asked_about(x, d):
    like = torch.overrides.is_tensor_like(d), torch.overrides.has_torch_function((d,)), torch.is_tensor(d)
    return like, torch.overrides.has_torch_function((x, 1)), x + 1


@program(lambda: (x(), AskedFloat(2.0)))
def number_that_is_asked(x, d):
    return x + d, d * x, torch.add(x, d), x.mul(d), x * 2


@program(lambda: (x(), AskedList([0, 1])))
def list_that_is_asked(x, d):
    try:
        return x + d, x * 2
    except TypeError as error:
        return str(error), x * 2


@program(lambda: (x(), AskedIndex()))
def index_that_is_asked(x, d):
    return x[d], x[d:], x * 2


@program(lambda: (x(), AskedInstance(), AskedByGetattr()))
def instances_that_are_asked(x, a, b):
    return x + a, torch.add(x, a), x + b, x * 2


@program(lambda: (x(), Reflected()), expect_breaks=0)
def not_asked(x, r):
    return x + r, x * 2


# -- switches ----------------------------------------------------------------------------------------------------------


@program(lambda: (x(),), expect_breaks=0)
def switched_off(x):
    enabled = torch._C._is_torch_function_enabled
    found = [enabled()]
    with torch._C.DisableTorchFunctionSubclass():
        found.append(enabled())
        with torch._C.DisableTorchFunctionSubclass():
            found.append(enabled())
            y = x * 2
        found.append(enabled())
    found.append(enabled())
    return found, y


@program(lambda: (x(),), expect_breaks=0)
def switched_off_in_a_call(x):
    def enabled():
        return torch._C._is_torch_function_enabled()

    def inner():
        with torch._C.DisableTorchFunctionSubclass():
            return enabled(), x + 1

    return inner(), enabled()


@program(lambda: (x(),), expect_breaks=0)
def switched_on_by_an_exception(x):
    try:
        with torch._C.DisableTorchFunctionSubclass():
            y = x * 2
            raise ValueError
    except ValueError:
        return torch._C._is_torch_function_enabled(), y


@program(lambda: (x(),), expect_breaks=0)
def switched_by_hand(x):
    block = torch._C.DisableTorchFunctionSubclass()
    block.__enter__()
    try:
        return torch._C._is_torch_function_enabled(), x * 2
    finally:
        block.__exit__(None, None, None)


@program(lambda: (x(),))
def break_while_switched_off(x):
    with torch._C.DisableTorchFunctionSubclass():
        before = torch._C._is_torch_function_enabled()
        y = x * 3
        framelift.graph_break()
        y = y + 1
        after = torch._C._is_torch_function_enabled()
    return before, after, torch._C._is_torch_function_enabled(), y


@program(lambda: (x(),))
def generator_while_switched_off(x):
    def inside():
        with torch._C.DisableTorchFunctionSubclass():
            yield torch._C._is_torch_function_enabled()
            yield x * 2

    return list(inside()), torch._C._is_torch_function_enabled()


@program(lambda: (x(), of(Logged)))
def rules_switched_off(x, other):
    results = []
    for i in range(3):
        with torch._C.DisableTorchFunctionSubclass():
            results.append((x * i, other + i, type(other + x), torch.overrides.has_torch_function((other,))))
        results.append(torch._C._is_torch_function_enabled())
    return results, type(other + x)


@program(lambda: (x(), Duck(x())))
def duck_switched_off(x, d):
    with torch._C.DisableTorchFunctionSubclass():
        try:
            x + d
        except TypeError as error:
            return str(error), x + 1


@program(lambda: (x(), of(Logged)))
def all_switched_off(x, other):
    with torch._C.DisableTorchFunction():
        state = torch._C._is_torch_function_enabled(), torch._C._is_torch_function_all_disabled()
        y = x + other
    return state, y, type(y), torch._C._is_torch_function_enabled(), x + 1


# -- modes -------------------------------------------------------------------------------------------------------------


@program(lambda: (x(),))
def function_mode(x):
    with LoggingMode():
        y = torch.add(x, x)
        z = torch.ones(3)
        count = torch._C._len_torch_function_stack()
    return y * 2 + z, count, torch._C._len_torch_function_stack()


@program(lambda: (x(),))
def function_mode_that_computes(x):
    with DoublingMode():
        y = torch.add(x, x)
        with torch._C.DisableTorchFunctionSubclass():
            z = torch.add(x, x)
        with torch._C.DisableTorchFunction():
            w = torch.add(x, x)
    return y, z, w, torch.add(x, x)


@program(lambda: (x(True),))
def dispatch_mode(x):
    y = x * 3
    with CountingMode():
        z = (y * 2).relu().sum()
    return z + y.sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("case", program.cases, ids=[case[0].__name__ for case in program.cases])
def test_programs(case, backend):
    function, make, options = case
    # (To compare two captures, arguments are copied: most of these classes do not allow it.)
    check(function, inputs=make, backend=backend, deterministic=False, **{"expect_breaks": None, **options})


@pytest.mark.parametrize("make", [lambda: AskedFloat(2.0), AskedInstance, AskedByGetattr])
@pytest.mark.parametrize("function", [lambda x, d: x + d, torch.add, lambda x, d: torch.cat([x, d])])
def test_one_graph_is_an_error_with_the_reason(make, function):
    other = make()
    with pytest.raises(FullGraphError, match=f"FL0306: {type(other).__name__} has rules of its own"):
        framelift.compile(lambda x: function(x, other), backend="eager", fullgraph=True)(x())


def test_the_switch_around_a_lifted_function():
    lifted = framelift.compile(lambda x, y: (torch._C._is_torch_function_enabled(), type(x + y)), backend="eager")
    assert lifted(x(), of(Logged)) == (True, Logged)
    with torch._C.DisableTorchFunctionSubclass():
        assert lifted(x(), of(Logged)) == (False, torch.Tensor)
    assert lifted(x(), of(Logged)) == (True, Logged)


def test_a_block_that_is_left_open():
    """What the caller hears afterwards is Python's."""

    def function(x):
        block = torch._C.DisableTorchFunctionSubclass()
        block.__enter__()
        return x + 1, block

    lifted = framelift.compile(function, backend="eager")
    for _ in range(2):
        _, block = lifted(x())
        try:
            assert not torch._C._is_torch_function_enabled()
        finally:
            block.__exit__(None, None, None)
        assert torch._C._is_torch_function_enabled()
