"""Operators that take functions, checkpoints, and operators that a program registers."""

import functools

import torch
from torch import nn
from torch._higher_order_ops import InvokeQuant, associative_scan, scan, while_loop, while_loop_stack_output
from torch._higher_order_ops import map as hop_map
from torch._higher_order_ops.foreach_map import foreach_map
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.wrap import wrap
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from tests.kinds.program import Programs

program = Programs()

X = lambda *s: torch.randn(*s)
G = lambda *s: torch.randn(*s, requires_grad=True)


@program.built
def cond_plain():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    return f, (X(3),)


@program.built
def cond_gradient():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))

    return f, (G(3),)


@program.built
def cond_closure():
    w = torch.randn(3)

    def f(x, y):
        z = y * 2

        def a():
            return x + z + w

        def b():
            return x - z

        return torch.cond(x.sum() > 0, a, b)

    return f, (G(3), G(3))


@program.built
def cond_nested():
    def f(x):
        def a(x):
            return torch.cond(x.max() > 1, lambda x: x + 1, lambda x: x + 2, (x,))

        def b(x):
            return x * 3

        return torch.cond(x.sum() > 0, a, b, (x,))

    return f, (X(3),)


@program.built
def cond_module():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.Linear(3, 3)

        def forward(self, x):
            return torch.cond(x.sum() > 0, self.a, self.b, (x,))

    return M(), (X(2, 3),)


@program.built
def cond_method_branches():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.s = nn.Parameter(torch.ones(3))

        def yes(self, x):
            return self.a(x) * self.s

        def no(self, x):
            return x * self.s

        def forward(self, x):
            return torch.cond(x.sum() > 0, self.yes, self.no, (x,)) + 1

    return M(), (X(2, 3),)


@program.built
def cond_python_pred():
    def f(x):
        return torch.cond(x.shape[0] > 2, lambda x: x.sin(), lambda x: x.cos(), (x,))

    return f, (X(3),)


@program.built
def cond_no_grad_mutation():
    def f(x):
        with torch.no_grad():
            return torch.cond(x.sum() > 0, lambda x: x.clone().add_(1), lambda x: x.clone().mul_(2), (x,))

    return f, (X(3),)


@program.built
def cond_size_one_pred():
    def f(x):
        return torch.cond((x.sum() > 0).reshape(1), lambda x: (x + 1, x - 1), lambda x: (x * 2, x * 3), (x,))

    return f, (X(3),)


@program.built
def cond_in_loop():
    def f(x):
        for i in range(3):
            x = torch.cond(x.sum() > i, lambda x: x.sin() + i, lambda x: x.cos() - i, (x,))
        return x

    return f, (G(3),)


@program.built
def cond_partial():
    def a(k, x):
        return x + k

    def f(x):
        return torch.cond(x.sum() > 0, functools.partial(a, 1), functools.partial(a, 2), (x,))

    return f, (X(3),)


@program.built
def while_plain():
    def f(x):
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x.sin() + 1), (torch.tensor(0), x))

    return f, (X(3),)


@program.built
def while_closure():
    w = torch.randn(3)

    def f(x, y):
        z = y + 1
        return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * w + z), (torch.tensor(0), x))

    return f, (X(3), X(3))


@program.built
def while_data():
    def f(x):
        return while_loop(lambda x: x.norm() > 0.1, lambda x: (x / 2,), (x,))

    return f, (X(3),)


@program.built
def while_zero_rounds():
    def f(x):
        return while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, x.sin()), (torch.tensor(0), x))

    return f, (X(3),)


@program.built
def while_int_carry():
    def f(x):
        i, y = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + i), (0, x))
        return y

    return f, (X(3),)


@program.built
def while_pytree():
    def f(x):
        def c(i, d):
            return i < 3

        def b(i, d):
            return i + 1, {"a": d["a"] + 1, "b": d["b"] * 2}

        return while_loop(c, b, (torch.tensor(0), {"a": x, "b": x + 1}))

    return f, (X(3),)


@program.built
def while_module():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(3, 3)

        def forward(self, x):
            with torch.no_grad():
                return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, self.l(x).relu()), (torch.tensor(0), x))

    return M(), (X(2, 3),)


@program.built
def while_nested_cond():
    def f(x):
        def b(i, x):
            return i + 1, torch.cond(x.sum() > 0, lambda x: x - 1, lambda x: x + 2, (x,))

        return while_loop(lambda i, x: i < 5, b, (torch.tensor(0), x))

    return f, (X(3),)


@program.built
def while_gradient():
    def f(x):
        i, y = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.sin() * 2), (torch.tensor(0), x))
        return y

    return f, (G(3),)


@program.built
def scan_cumsum():
    def add(c, x):
        n = c + x
        return n, n.clone()

    def f(init, xs):
        return scan(add, init, xs)

    return f, (torch.zeros(3), X(5, 3))


@program.built
def scan_gradient():
    def f(init, xs, w):
        def step(c, x):
            n = torch.tanh(c @ w + x)
            return n, n.clone()

        return scan(step, init, xs)

    return f, (G(2, 3), G(5, 2, 3), G(3, 3))


@program.built
def scan_reverse_dim():
    def f(init, xs):
        return scan(lambda c, x: (c + x, c * x), init, xs, dim=1, reverse=True)

    return f, (torch.zeros(3), X(3, 4))


@program.built
def scan_pytree():
    def f(c, xs):
        def step(c, x):
            h = c["h"] * x["a"] + x["b"]
            return {"h": h, "n": c["n"] + 1}, {"y": h * 2}

        return scan(step, c, xs)

    return f, ({"h": X(3), "n": torch.zeros(1)}, {"a": X(4, 3), "b": X(4, 3)})


@program.built
def scan_rnn_module():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.i = nn.Linear(3, 4)
            self.h = nn.Linear(4, 4)

        def forward(self, xs):
            def step(h, x):
                h = torch.tanh(self.i(x) + self.h(h))
                return h, h.clone()

            return scan(step, torch.zeros(2, 4), xs)

    return M(), (X(5, 2, 3),)


@program.built
def associative_generic():
    def f(x):
        return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")

    return f, (X(5, 3),)


@program.built
def associative_tuple():
    def comb(a, b):
        return a[0] * b[0], a[1] * b[0] + b[1]

    def f(a, b):
        return associative_scan(comb, (a, b), dim=1, combine_mode="generic")

    return f, (X(2, 6), X(2, 6))


@program.built
def associative_reverse_gradient():
    def f(x):
        return associative_scan(lambda a, b: a * b + a, x, 1, reverse=True, combine_mode="generic")

    return f, (G(3, 4),)


@program.built
def map_plain():
    def f(xs, y):
        return hop_map(lambda x, y: x.sin() + y, xs, y)

    return f, (X(4, 3), X(3))


@program.built
def map_gradient():
    def f(xs, y):
        return hop_map(lambda x, y: x.sin() * y, xs, y)

    return f, (G(4, 3), G(3))


@program.built
def map_pytree_closure():
    def f(xs, y):
        z = y.exp()
        return hop_map(lambda d: (d["a"] * z, d["b"][0] + d["a"]), {"a": xs, "b": [xs + 1]})

    return f, (G(4, 3), G(3))


@program.built
def map_nested():
    def f(xs, y):
        return hop_map(lambda x, y: hop_map(lambda u, y: u * y.sum(), x, y), xs, y)

    return f, (X(2, 3, 4), X(3))


@program.built
def nested_region():
    @torch.compiler.nested_compile_region
    def layer(x, w):
        return torch.relu(x @ w) + x

    def f(x, w):
        for _ in range(3):
            x = layer(x, w)
        return x

    return f, (G(2, 3), G(3, 3))


@program.built
def nested_region_module():
    class B(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(3, 3)

        @torch.compiler.nested_compile_region
        def forward(self, x):
            return self.l(x).relu() + x

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.ls = nn.ModuleList([B() for _ in range(3)])

        def forward(self, x):
            for layer in self.ls:
                x = layer(x)
            return x

    return M(), (X(2, 3),)


@program.built
def checkpoint_plain():
    def f(x, w):
        return checkpoint(lambda x: torch.relu(x @ w).sin(), x, use_reentrant=False)

    return f, (G(2, 3), G(3, 3))


@program.built
def checkpoint_module():
    m = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 3))

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = m

        def forward(self, x):
            return checkpoint(self.m, x, use_reentrant=False) + x

    return M(), (X(2, 3),)


@program.built
def checkpoint_selective():
    def policy(ctx, op, *a, **k):
        return CheckpointPolicy.MUST_SAVE if op == torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE

    ctx = functools.partial(create_selective_checkpoint_contexts, policy)

    def f(x, w):
        return checkpoint(lambda x: torch.relu(x @ w).sin(), x, use_reentrant=False, context_fn=ctx)

    return f, (G(2, 3), G(3, 3))


@program.built
def checkpoint_dropout():
    def f(x):
        return checkpoint(lambda x: nn.functional.dropout(x * 2, 0.5), x, use_reentrant=False)

    return f, (G(8, 3),)


@program.built
def checkpoint_tuple_kwargs():
    def f(x, y):
        return checkpoint(lambda x, y=None: (x.sin() * y, 3, None), x, y=y, use_reentrant=False)

    return f, (G(3), G(3))


@program.built
def checkpoint_sequential():
    m = nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)])

    def f(x):
        return torch.utils.checkpoint.checkpoint_sequential(m, 2, x, use_reentrant=False)

    return f, (G(2, 3),)


@program.built
def checkpoint_effect():
    log = []

    def f(x):
        def run(x):
            log.append(x.shape)
            return x.sin()

        return checkpoint(run, x, use_reentrant=False), len(log)

    return f, (G(3),)


@program.built
def checkpoint_batchnorm():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.b = nn.BatchNorm1d(3)

        def forward(self, x):
            return checkpoint(self.b, x, use_reentrant=False)

    return M(), (X(5, 3),)


@torch.library.custom_op("orders::scale", mutates_args=())
def scale(x: torch.Tensor, k: float) -> torch.Tensor:
    return x * k


@scale.register_fake
def _(x, k):
    return torch.empty_like(x)


scale.register_autograd(
    lambda ctx, g: (g * ctx.k, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1])
)


@torch.library.custom_op("orders::fill", mutates_args={"x"})
def fill(x: torch.Tensor, v: float) -> None:
    x.fill_(v)


@torch.library.custom_op("orders::addto", mutates_args={"out"})
def addto(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    out.add_(x)
    return x + 1


@addto.register_fake
def _(x, out):
    return torch.empty_like(x)


@torch.library.custom_op("orders::listop", mutates_args=())
def listop(xs: list[torch.Tensor], k: int) -> list[torch.Tensor]:
    return [x * k for x in xs]


@listop.register_fake
def _(xs, k):
    return [torch.empty_like(x) for x in xs]


@torch.library.custom_op("orders::nz", mutates_args=())
def nz(x: torch.Tensor) -> torch.Tensor:
    return x.nonzero()


@nz.register_fake
def _(x):
    n = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty([n, x.dim()], dtype=torch.int64)


@torch.library.custom_op("orders::nofake", mutates_args=())
def nofake(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@torch.library.triton_op("orders::tri", mutates_args=())
def tri(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


@program.built
def custom_op_gradient():
    return (lambda x: scale(x, 2.5).sin()), (G(3),)


@program.built
def custom_op_by_ops():
    return (lambda x: torch.ops.orders.scale(x, 2.5) + torch.ops.orders.scale.default(x, k=1.0)), (G(3),)


@program.built
def custom_op_mutates():
    def f(x):
        y = x + 1
        fill(y, 3.0)
        fill(x, 2.0)
        return y, x * 2

    return f, (X(3),)


@program.built
def custom_op_mutates_and_returns():
    def f(x, o):
        r = addto(x, o)
        addto(r, out=o)
        return r + o

    return f, (X(3), X(3))


@program.built
def custom_op_mutates_view():
    def f(x):
        fill(x[0], 5.0)
        return x + 1

    return f, (X(3, 2),)


@program.built
def custom_op_list():
    return (lambda a, b: listop([a, b], 3)), (X(3), X(2))


@program.built
def custom_op_dynamic_size():
    return (lambda x: nz(x > 0) + 1), (torch.tensor([1.0, -1.0, 2.0, 3.0]),)


@program.built
def triton_op_cpu():
    return (lambda x: tri(x) + 1), (X(3),)


@program.built
def custom_op_in_cond():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: scale(x, 2.0), lambda x: scale(x, 3.0), (x,))

    return f, (G(3),)


@program.built
def hop_out_dtype():

    def f(a, b):
        return out_dtype(torch.ops.aten.mm.default, torch.int32, a, b)

    return f, (torch.randint(0, 9, (3, 3), dtype=torch.int8), torch.randint(0, 9, (3, 3), dtype=torch.int8))


@program.built
def hop_strict_mode():

    def f(x):
        return strict_mode(lambda x: (x.sin() + 1,), (x,))

    return f, (X(3),)


@program.built
def hop_wrap():

    def f(x, y):
        return wrap(lambda x, y: x.sin() + y, x, y)

    return f, (G(3), G(3))


@program.built
def hop_hints_wrapper():

    def f(x):
        return hints_wrapper(lambda x: x.sin() + 1, (x,), {}, hints={"k": 1})

    return f, (X(3),)


@program.built
def hop_invoke_quant():

    q = InvokeQuant()

    def f(x):
        return q(lambda x, y: (torch.sin(x) * y,), x, x)[0] * 2

    return f, (G(3),)


@program.built
def hop_foreach_map():

    def f(xs, ys):
        return foreach_map(torch.add, xs, ys)

    return f, ([X(3), X(2)], [X(3), X(2)])


@program.built
def hop_while_stack_output():

    def f(x):
        return while_loop_stack_output(lambda i, x: i > 0, lambda i, x: (i - 1, x.cos()), (torch.tensor(3), x), ())

    return f, (X(3),)


@program.built
def scan_of_cond():
    def f(init, xs):
        def step(c, x):
            n = torch.cond(x.sum() > 0, lambda c, x: c + x, lambda c, x: c - x, (c, x))
            return n, n * 2

        return scan(step, init, xs)

    return f, (torch.zeros(3), X(5, 3))


@program.built
def cond_dynamic_shapes():
    def f(x):
        def a(x):
            return x.sum(0) * x.shape[0]

        def b(x):
            return x.mean(0)

        return torch.cond(x.sum() > 0, a, b, (x,))

    return f, (X(3, 2),)


@program.built
def cond_random():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), lambda x: x - torch.rand_like(x), (x,))

    return f, (X(3),)


@program.built
def cond_constant_outputs_int():
    def f(x):
        k = 4
        return torch.cond(x.sum() > 0, lambda x: x * k, lambda x: x * (k + 1), (x,)) * k

    return f, (X(3),)
