"""Calls of modules as calls of functions: what a plain module of torch does, said by a function and its parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.fx import Node
from torch.nn import functional
from torch.nn.modules.module import _has_any_global_hook

Call = tuple[Callable[..., Any], dict[str, Any]]
# Per class: the function, and the arguments behind the input by name. Text stands for the parameter of that name.
FUNCTIONS: dict[type[nn.Module], Callable[[Any], Call]] = {
    nn.Linear: lambda m: (functional.linear, {"weight": "weight", "bias": "bias"}),
    nn.LayerNorm: lambda m: (
        functional.layer_norm,
        {"normalized_shape": tuple(m.normalized_shape), "weight": "weight", "bias": "bias", "eps": m.eps},
    ),
    nn.ReLU: lambda m: (functional.relu, {"inplace": m.inplace}),
    nn.Tanh: lambda m: (functional.tanh, {}),
    nn.Sigmoid: lambda m: (functional.sigmoid, {}),
    nn.Softmax: lambda m: (functional.softmax, {"dim": m.dim}),
    nn.LogSoftmax: lambda m: (functional.log_softmax, {"dim": m.dim}),
}
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def module_at(node: Node) -> nn.Module | None:
    """The module a node calls; None where the graph belongs to none that has it."""
    owner = node.graph.owning_module
    try:
        return owner.get_submodule(str(node.target)) if owner is not None else None
    except AttributeError:
        return None


def is_plain(module: nn.Module | None) -> bool:
    """Whether calling a module is calling its class's forward and nothing else, without effects."""
    if type(module) is nn.Identity:
        return _is_unhooked(module)
    if type(module) not in FUNCTIONS or module is None or not _is_unhooked(module):
        return False
    return not getattr(module, "inplace", False) and getattr(module, "dim", 0) is not None


def _is_unhooked(module: nn.Module) -> bool:
    own = module.__dict__
    return "forward" not in own and not any(own.get(name) for name in HOOKS) and not _has_any_global_hook()


def call_of(module: nn.Module, parameter: Callable[[str], Any]) -> Call:
    """The function a plain module is, and its arguments; `parameter` gives what stands for a parameter."""

    def filled(given: Any) -> Any:
        if not isinstance(given, str):
            return given
        return None if getattr(module, given) is None else parameter(given)

    function, arguments = FUNCTIONS[type(module)](module)
    return function, {name: filled(given) for name, given in arguments.items()}
