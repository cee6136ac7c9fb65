"""The files that nothing refers to by name: importing them registers how their objects and functions behave."""

from framelift.values import (
    builtins,
    lifted,
    object_methods,
    partials,
    torch_answers,
    torch_callables,
    torch_modes,
    torch_ops,
    weakrefs,
)

FAMILIES = (
    builtins,
    lifted,
    object_methods,
    partials,
    torch_answers,
    torch_callables,
    torch_modes,
    torch_ops,
    weakrefs,
)
