"""Changes of functions, globals, closures and imported modules are seen."""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any

import torch

from tests.soundness.scenario import ANY, EAGER, HIT, MISS, Scenarios, Steps, X, function, namespace, play

scenario = Scenarios()


@scenario
def global_constant_rebound() -> Steps:
    names = namespace(k=2)
    yield function("def f(x): return x * k", names), (X,)
    names["k"] = 3
    yield MISS
    names["unrelated"] = 1
    yield HIT
    names["k"] = 2
    yield HIT


@scenario
def global_rebound_to_another_type() -> Steps:
    names = namespace(k=2)
    yield function("def f(x): return x * k", names), (X,)
    names["k"] = 2.0
    yield MISS
    names["k"] = True
    yield MISS


@scenario
def global_function_rebound() -> Steps:
    names = namespace(h=lambda x: x + 1)
    yield function("def f(x): return h(x) * 2", names), (X,)
    names["h"] = lambda x: x - 1
    yield MISS
    names["h"] = torch.sin
    yield MISS


@scenario
def global_deleted() -> Steps:
    names = namespace(k=2)
    yield function("def f(x): return x * k", names), (X,)
    del names["k"]
    yield ANY
    names["k"] = 2
    yield HIT


@scenario
def builtin_shadowed_by_a_global() -> Steps:
    names = namespace()
    yield function("def f(x, l): return x * len(l)", names), (X, [1, 2])
    names["len"] = lambda values: 10
    yield MISS
    del names["len"]
    yield HIT


@scenario
def builtin_replaced() -> Steps:
    names = namespace()
    yield function("def f(x, l): return x * abs(l)", names), (X, -3)
    real = builtins.abs
    try:
        builtins.abs = lambda value: 10
        yield EAGER
    finally:
        builtins.abs = real
    yield HIT


@scenario
def import_replaced() -> Steps:
    real, other = builtins.__import__, types.SimpleNamespace(floor=lambda number: 70)
    yield function("def f(x):\n import math\n return x * math.floor(2.5)", namespace()), (X,)
    try:
        builtins.__import__ = lambda name, *rest: other if name == "math" else real(name, *rest)
        yield ANY
    finally:
        builtins.__import__ = real
    yield ANY


@scenario
def class_statement_replaced() -> Steps:
    real = builtins.__build_class__
    yield function("def f(x):\n class Local: k = 2\n return x * Local.k", namespace()), (X,)
    try:
        builtins.__build_class__ = lambda body, name, *rest: type("Other", (), {"k": 7})
        yield EAGER
    finally:
        builtins.__build_class__ = real
    yield HIT


@scenario
def code_replaced() -> Steps:
    def f(x: Any) -> Any:
        return x + 1

    def other(x: Any) -> Any:
        return x * 5

    yield f, (X,)
    f.__code__ = other.__code__
    yield MISS


@scenario
def code_of_a_helper_replaced() -> Steps:
    def helper(x: Any) -> Any:
        return x + 1

    def other(x: Any) -> Any:
        return x * 5

    def f(x: Any) -> Any:
        return helper(x) * 2

    yield f, (X,)
    helper.__code__ = other.__code__
    yield MISS


@scenario
def defaults_replaced() -> Steps:
    def f(x: Any, k: Any = 2, *, m: Any = 3) -> Any:
        return x * k + m

    yield f, (X,)
    f.__defaults__ = (5,)
    yield MISS
    f.__kwdefaults__ = {"m": 7}
    yield MISS
    f.__kwdefaults__["m"] = 8
    yield MISS
    f.__defaults__ = (5,)
    yield HIT
    f.__defaults__ = None
    yield ANY


@scenario
def defaults_of_a_helper_replaced() -> Steps:
    def helper(x: Any, k: Any = 2, *, m: Any = 3) -> Any:
        return x * k + m

    def f(x: Any) -> Any:
        return helper(x) * 2

    yield f, (X,)
    helper.__defaults__ = (5,)
    yield MISS
    helper.__kwdefaults__ = {"m": 7}
    yield MISS
    helper.__kwdefaults__["m"] = 8
    yield MISS
    helper.__defaults__ = None
    yield ANY


@scenario
def closure_cell_changed() -> Steps:
    k: Any = 2

    def f(x: Any) -> Any:
        return x * k

    yield f, (X,)
    k = 3
    yield MISS
    k = 2
    yield HIT
    k = torch.ones(4)
    yield MISS


@scenario
def closure_of_a_helper_changed() -> Steps:
    k = 2

    def helper(x: Any) -> Any:
        return x * k

    def f(x: Any) -> Any:
        return helper(x) + 1

    yield f, (X,)
    k = 3
    yield MISS


@scenario
def function_attribute_changed() -> Steps:
    def f(x: Any) -> Any:
        return x * f.scale

    f.scale = 2
    yield f, (X,)
    f.scale = 3
    yield MISS
    f.other = 1
    yield HIT


@scenario
def module_attribute_monkeypatched() -> Steps:
    module = types.ModuleType("soundness_module")
    module.scale = lambda x: x * 2
    yield function("def f(x): return module.scale(x)", namespace(module=module)), (X,)
    module.scale = lambda x: x * 3
    yield MISS


@scenario
def torch_function_monkeypatched() -> Steps:
    real = torch.nn.functional.relu
    yield function("def f(x): return torch.nn.functional.relu(x)", namespace()), (X,)
    try:
        torch.nn.functional.relu = lambda x, inplace=False: x * 10
        yield MISS
    finally:
        torch.nn.functional.relu = real
    yield HIT


@scenario
def imported_module_replaced() -> Steps:
    def with_scale(scale: float) -> types.ModuleType:
        module = types.ModuleType("soundness_imported")
        module.scale = scale
        return module

    sys.modules["soundness_imported"] = with_scale(2)
    try:
        yield function("def f(x):\n    import soundness_imported as m\n    return x * m.scale", namespace()), (X,)
        sys.modules["soundness_imported"] = with_scale(3)
        yield MISS
        sys.modules["soundness_imported"].scale = 4
        yield MISS
        del sys.modules["soundness_imported"]
        yield ANY
    finally:
        sys.modules.pop("soundness_imported", None)


@scenario.parametrize()
def test_change_is_seen(steps: Any, breaks: bool) -> None:
    play(steps, breaks)
