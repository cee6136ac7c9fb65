"""What programs tell a compiler about their functions."""

import math

import torch

import framelift
from tests.kinds.program import Programs

program = Programs()

X = lambda *s: torch.randn(*s)
G = lambda *s: torch.randn(*s, requires_grad=True)


@program.built
def allow_in_graph():
    @torch.compiler.allow_in_graph
    def g(x):
        return x.sin() if x.sum() > 0 else x.sin()

    return (lambda x: g(x) + 1), (X(3),)


@program.built
def allow_in_graph_class():
    class C:
        @staticmethod
        def run(x):
            return x.cos()

    g = torch.compiler.allow_in_graph(C.run)
    return (lambda x: g(x) + 1), (X(3),)


@program.built
def allow_in_graph_gradient():
    @torch.compiler.allow_in_graph
    def g(x, w):
        return (x @ w).tanh()

    return (lambda x, w: g(x, w).sum()), (G(2, 3), G(3, 3))


@program.built
def nonstrict_trace():
    @torch._dynamo.nonstrict_trace
    def g(x):
        if x.shape[0] > 1:
            torch._dynamo.graph_break()
        return x.sin()

    return (lambda x: g(x) + 1), (X(3),)


@program.built
def nonstrict_trace_pytree():
    @torch._dynamo.nonstrict_trace
    def g(d):
        return {"a": d["a"] * 2, "b": [d["b"][0] + 1]}

    return (lambda x: g({"a": x, "b": [x]})["b"][0] + 1), (G(3),)


@program.built
def nonstrict_trace_closure():
    w = torch.randn(3, requires_grad=True)

    @torch._dynamo.nonstrict_trace
    def g(x):
        return x * w

    return (lambda x: g(x) + 1), (G(3),)


@program.built
def assume_constant():
    @torch.compiler.assume_constant_result
    def g():
        return 3

    return (lambda x: x + g()), (X(3),)


@program.built
def assume_constant_method():
    class C:
        def __init__(self):
            self.k = 4

        @torch.compiler.assume_constant_result
        def g(self):
            return self.k

    c = C()
    return (lambda x: x + c.g()), (X(3),)


@program.built
def substitute():
    def original(a):
        return a * 2

    @torch.compiler.substitute_in_graph(original, skip_signature_check=True)
    def replacement(a):
        return a * 2

    return (lambda x: original(x) + 1), (X(3),)


@program.built
def substitute_builtin():

    try:

        @torch.compiler.substitute_in_graph(math.erfc, skip_signature_check=True)
        def repl(v):
            return 1 - math.erf(v)
    except Exception:
        pass
    return (lambda x: x * math.erfc(0.5)), (X(3),)


@program.built
def disable_nonrecursive():
    def inner(x):
        return x.sin()

    @torch.compiler.disable(recursive=False)
    def g(x):
        return inner(x) + 1

    return (lambda x: g(x) * 2), (X(3),)


@program.built
def disable_recursive():
    @torch.compiler.disable
    def g(x):
        return x.sin() + 1

    return (lambda x: g(x) * 2), (X(3),)


@program.built
def disallow():
    def g(x):
        return torch.sin(x)

    torch._dynamo.disallow_in_graph(torch.erfinv)
    return (lambda x: torch.erfinv(x.tanh()) * 2), (X(3),)


@program.built
def is_compiling():
    return (lambda x: x + 1 if torch.compiler.is_compiling() else x + 1), (X(3),)


@program.built
def leaf_function():

    if not hasattr(torch._dynamo.decorators, "leaf_function"):
        return (lambda x: x + 1), (X(3),)

    @torch._dynamo.decorators.leaf_function
    def g(x):
        return (x * 2,)

    @g.register_fake
    def _(x):
        return (x * 2,)

    return (lambda x: g(x)[0] + 1), (X(3),)


@program.built
def set_stance_in():
    def f(x):
        with torch.compiler.set_stance("default"):
            return x + 1

    return f, (X(3),)


@program.built
def cudagraph_mark():
    def f(x):
        torch.compiler.cudagraph_mark_step_begin()
        return x + 1

    return f, (X(3),)


@program.built
def lifted_inside_vmap():
    g = framelift.compile(lambda x: x.sin() + 1)
    return (lambda x: torch.vmap(g)(x)), (X(4, 3),)


@program.built
def lifted_inside_grad():
    g = framelift.compile(lambda x: (x.sin() + 1).sum())
    return (lambda x: torch.func.grad(g)(x)), (X(3),)


@program.built
def compiled_inside_lifted():
    g = torch.compile(lambda x: x.sin() + 1, backend="eager")
    return (lambda x: g(x) * 2), (X(3),)
