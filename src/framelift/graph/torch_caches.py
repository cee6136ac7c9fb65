"""What torch keeps for ever of a graph that is gone: here it goes with the graph, or when all is forgotten.

The source of generated code is kept for tracebacks. Caches of symbolic shapes hold the environments that they were
asked about; that of fake tensors has an entry for every number an operation was called with.
For every backward that is compiled a traceback stays, and all code in it.
"""

from __future__ import annotations

import linecache
import sys
import weakref

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, graph_module
from torch.fx.experimental.symbolic_shapes import ShapeEnv

# Results that may stay remembered. A large model has some hundred different operations.
MOST_FAKES = 4096


def release_source(module: GraphModule) -> None:
    """From now on the source of a graph's code lives as long as the code, generated already or not."""
    weakref.finalize(module, _module_died, type(module)).atexit = False


def _module_died(kind: type) -> None:
    # (Whoever runs the code without the module may still fail, and show a traceback.)
    forward = vars(kind).get("forward")
    if forward is not None and forward.__code__.co_filename in graph_module._loader.eval_cache:
        weakref.finalize(forward, _forget, forward.__code__.co_filename).atexit = False


def _forget(filename: str) -> None:
    graph_module._loader.eval_cache.pop(filename, None)
    linecache.cache.pop(filename, None)


def forget_environments() -> None:
    """Drops what torch's caches hold of symbolic shapes. Who still uses an environment works out again what it asks."""
    for method in vars(ShapeEnv).values():
        clear = getattr(method, "cache_clear", None)
        if clear is not None:
            clear()


def forget_fakes() -> None:
    """Drops what torch remembers of operations on fake tensors, when that has become much: captures to come are quicker
    for it, in torch's compilers as well."""
    if FakeTensorMode.cache_info().size > MOST_FAKES:
        FakeTensorMode.cache_clear()


def forget_tracebacks() -> None:
    """Drops the tracebacks of what torch noted on this thread about compilations, for its error when something is
    noted twice. (Whoever compiles has loaded the module.)"""
    of_thread = getattr(sys.modules.get("torch._dynamo.utils"), "_metrics_context_tls", None)
    edits = getattr(getattr(of_thread, "metrics_context", None), "_edits", None)
    if isinstance(edits, list):
        edits.clear()
