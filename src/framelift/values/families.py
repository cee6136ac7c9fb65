"""The files that nothing refers to by name: importing them registers how their objects and functions behave."""

from framelift.values import (
    builtins,
    caches,
    contexts,
    copies,
    deques,
    lifted,
    numpy_floats,
    object_methods,
    partials,
    signatures,
    torch_answers,
    torch_callables,
    torch_modes,
    torch_ops,
    weakrefs,
)

FAMILIES = (
    builtins,
    caches,
    contexts,
    copies,
    deques,
    lifted,
    numpy_floats,
    object_methods,
    partials,
    signatures,
    torch_answers,
    torch_callables,
    torch_modes,
    torch_ops,
    weakrefs,
)
