"""`torch.func`: derivatives and `vmap`, nested, over closures, classes and modules."""

import collections
import functools

import torch
import torch.autograd.forward_ad as fwAD
from torch import nn
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

from tests.kinds.program import Programs

program = Programs()

X = lambda *s: torch.randn(*s)
G = lambda *s: torch.randn(*s, requires_grad=True)


@program.built
def vmap_plain():
    return (lambda x, y: vmap(torch.dot)(x, y)), (X(4, 3), X(4, 3))


@program.built
def vmap_in_dims():
    return (lambda x, y: vmap(lambda a, b: a @ b, in_dims=(1, None), out_dims=1)(x, y)), (X(3, 4), X(3, 2))


@program.built
def vmap_negative_dims():
    return (lambda x: vmap(lambda a: a.sum() + a, in_dims=-1, out_dims=-1)(x)), (X(3, 4),)


@program.built
def vmap_dict_dims():
    def f(d):
        return vmap(lambda d: {"o": d["a"] * d["b"]}, in_dims=({"a": 0, "b": None},))(d)

    return f, ({"a": X(4, 3), "b": X(3)},)


@program.built
def vmap_out_dims_tuple():
    return (lambda x: vmap(lambda a: (a, a.sum(), a * 2), out_dims=(1, 0, 0))(x)), (X(4, 3),)


@program.built
def vmap_nested():
    return (lambda x, y: vmap(vmap(torch.mul, (0, None)), (None, 0))(x, y)), (X(3), X(4))


@program.built
def vmap_chunk():
    return (lambda x: vmap(lambda a: a.sin().sum(), chunk_size=2)(x)), (X(5, 3),)


@program.built
def vmap_random_different():
    return (lambda x: vmap(lambda a: a + torch.rand(3), randomness="different")(x)), (X(4, 3),)


@program.built
def vmap_random_same():
    return (lambda x: vmap(lambda a: a + torch.rand(3), randomness="same")(x)), (X(4, 3),)


@program.built
def vmap_kwargs():
    return (lambda x, y: vmap(lambda a, b=None: a * b)(x, b=y)), (X(4, 3), X(4, 3))


@program.built
def vmap_returns_constant():
    return (lambda x: vmap(lambda a: torch.ones(2))(x)), (X(4, 3),)


@program.built
def vmap_gradient():
    return (lambda x, w: vmap(lambda a: (a @ w).tanh())(x)), (G(4, 3), G(3, 2))


@program.built
def vmap_closure_list():
    def f(x):
        out = []

        def g(a):
            out.append(2)
            return a * 2

        return vmap(g)(x), out

    return f, (X(4, 3),)


@program.built
def vmap_method():
    class M:
        def __init__(self):
            self.k = 3.0

        def g(self, a):
            return a * self.k

        def run(self, x):
            return vmap(self.g)(x)

    m = M()
    return (lambda x: m.run(x)), (X(4, 3),)


@program.built
def vmap_module():
    m = nn.Linear(3, 2)
    return (lambda x: vmap(m)(x)), (X(4, 5, 3),)


@program.built
def vmap_inplace():
    return (lambda x: vmap(lambda a: a.clone().add_(1).mul_(2))(x)), (X(4, 3),)


@program.built
def vmap_shapes():
    return (lambda x: vmap(lambda a: a.view(-1) * a.shape[0] + a.dim())(x)), (X(4, 3, 2),)


@program.built
def vmap_decorator():
    @functools.partial(vmap, in_dims=(0, None))
    def g(a, b):
        return a * b

    return (lambda x, y: g(x, y)), (X(4, 3), X(3))


@program.built
def vmap_size_zero_dims_error():
    def f(x, y):
        try:
            return vmap(torch.add)(x, y)
        except ValueError as e:
            return x + 1

    return f, (X(4, 3), X(5, 3))


@program.built
def vmap_torch_function():
    return (lambda x: torch.vmap(torch.linalg.inv)(x)), (torch.eye(3).repeat(4, 1, 1) + 0.1,)


@program.built
def vmap_where_index():
    return (lambda x, i: vmap(lambda a, j: torch.where(a > 0, a, -a).index_select(0, j))(x, i)), (
        X(4, 3),
        torch.randint(0, 3, (4, 2)),
    )


@program.built
def vmap_python_number_result():
    return (lambda x: vmap(lambda a: (a, a.sum() * 0 + 1))(x)), (X(4, 3),)


@program.built
def grad_plain():
    return (lambda x: grad(lambda x: x.sin().sum())(x)), (X(3),)


@program.built
def grad_argnums():
    return (lambda x, y: grad(lambda x, y: (x * y.exp()).sum(), argnums=(0, 1))(x, y)), (X(3), X(3))


@program.built
def grad_aux():
    return (lambda x: grad(lambda x: ((x * x).sum(), {"a": x.sin(), "b": [x]}), has_aux=True)(x)), (X(3),)


@program.built
def grad_value():
    return (lambda x: grad_and_value(lambda x: x.sin().sum())(x)), (X(3),)


@program.built
def grad_dict_params():
    def f(p, x):
        def loss(p):
            return ((x @ p["w"] + p["b"]) ** 2).mean()

        return grad(loss)(p)

    return f, ({"w": X(3, 2), "b": X(2)}, X(4, 3))


@program.built
def grad_nested():
    return (lambda x: grad(lambda x: grad(lambda x: (x**3).sum())(x).sum())(x)), (X(3),)


@program.built
def grad_outer_gradient():
    return (lambda x: grad(lambda x: (x**3).sum())(x)), (G(3),)


@program.built
def grad_no_grad_inside():
    def f(x):
        def g(x):
            with torch.no_grad():
                c = x * 2
            return (x * c).sum()

        return grad(g)(x)

    return f, (X(3),)


@program.built
def grad_of_detach():
    return (lambda x: grad(lambda x: (x.detach() * x).sum())(x)), (X(3),)


@program.built
def grad_under_no_grad():
    def f(x):
        with torch.no_grad():
            return grad(lambda x: x.sin().sum())(x)

    return f, (X(3),)


@program.built
def grad_kwargs():
    return (lambda x, y: grad(lambda x, y=None: (x * y).sum())(x, y=y)), (X(3), X(3))


@program.built
def grad_python_constant_arg():
    return (lambda x: grad(lambda x, k: (x * k).sum())(x, 3)), (X(3),)


@program.built
def grad_list_tuple_arg():
    return (lambda x, y: grad(lambda p: (p[0] * p[1][0]).sum())((x, [y]))), (X(3), X(3))


@program.built
def grad_namedtuple():

    T = collections.namedtuple("T", "a b")

    def f(x, y):
        r = grad(lambda t: (t.a * t.b).sum())(T(x, y))
        return r.a, r.b

    return f, (X(3), X(3))


@program.built
def vmap_grad():
    return (lambda x, w: vmap(grad(lambda w, x: (x @ w).sin().sum()), (None, 0))(w, x)), (X(4, 3), X(3, 2))


@program.built
def vmap_grad_per_sample():
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    params = {k: v.detach() for k, v in m.named_parameters()}

    def f(x, y):
        def loss(p, x, y):
            return ((functional_call(m, p, (x.unsqueeze(0),)) - y) ** 2).mean()

        return vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)

    return f, (X(4, 3), X(4, 1))


@program.built
def grad_vmap():
    return (lambda x: grad(lambda x: vmap(torch.sin)(x).sum())(x)), (X(4, 3),)


@program.built
def vjp_plain():
    def f(x, v):
        y, pull = vjp(torch.sin, x)
        return y, pull(v)

    return f, (X(3), X(3))


@program.built
def vjp_two():
    def f(x, y, v):
        o, pull, aux = vjp(lambda x, y: (x * y, x.sum()), x, y, has_aux=True)
        return o, pull(v), aux

    return f, (X(3), X(3), X(3))


@program.built
def vjp_pull_vmap():
    def f(x):
        y, pull = vjp(lambda x: x**2, x)
        return vmap(pull)(torch.eye(3))

    return f, (X(3),)


@program.built
def vjp_returned():
    def f(x):
        y, pull = vjp(torch.sin, x)
        return y, pull(torch.ones(3))[0] * 2

    return f, (G(3),)


@program.built
def jvp_plain():
    return (lambda x, t: jvp(torch.sin, (x,), (t,))), (X(3), X(3))


@program.built
def jvp_aux():
    return (lambda x, t: jvp(lambda x: (x * x, x.sum()), (x,), (t,), has_aux=True)), (X(3), X(3))


@program.built
def jvp_of_grad():
    return (lambda x, t: jvp(grad(lambda x: (x**3).sum()), (x,), (t,))), (X(3), X(3))


@program.built
def jvp_module():
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    return (lambda x, t: jvp(m, (x,), (t,))), (X(2, 3), X(2, 3))


@program.built
def linearize_plain():
    def f(x, t):
        y, push = linearize(lambda x: x.sin() * x, x)
        return y, push(t)

    return f, (X(3), X(3))


@program.built
def jacrev_plain():
    return (lambda x: jacrev(lambda x: x.sin() * x)(x)), (X(3),)


@program.built
def jacrev_argnums():
    return (lambda x, y: jacrev(lambda x, y: x * y, argnums=(0, 1))(x, y)), (X(3), X(3))


@program.built
def jacrev_chunk_aux():
    return (lambda x: jacrev(lambda x: (x * x, x.sum()), has_aux=True, chunk_size=2)(x)), (X(3),)


@program.built
def jacfwd_plain():
    return (lambda x: jacfwd(lambda x: x.sin() * x)(x)), (X(3),)


@program.built
def jacfwd_aux():
    return (lambda x: jacfwd(lambda x: (x.exp(), x * 2), has_aux=True)(x)), (X(3),)


@program.built
def hessian_plain():
    return (lambda x: hessian(lambda x: x.sin().sum())(x)), (X(3),)


@program.built
def jacrev_jacrev():
    return (lambda x: jacrev(jacrev(lambda x: x.sin().sum()))(x)), (X(3),)


@program.built
def jacfwd_jacfwd():
    return (lambda x: jacfwd(jacfwd(lambda x: x**3))(x)), (X(2),)


@program.built
def jacrev_vmap():
    return (lambda x: vmap(jacrev(lambda x: x**2))(x)), (X(4, 3),)


@program.built
def vmap_hessian():
    return (lambda x: vmap(hessian(lambda x: (x**3).sum()))(x)), (X(4, 3),)


@program.built
def jacrev_functional_call():
    m = nn.Linear(3, 2)

    def f(x):
        p = dict(m.named_parameters())
        return jacrev(lambda p: functional_call(m, p, (x,)))(p)

    return f, (X(3),)


@program.built
def functional_call_plain():
    m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))

    def f(x, w):
        return functional_call(m, {"0.weight": w}, (x,))

    return f, (X(5, 3), G(4, 3))


@program.built
def functional_call_tuple_dicts():
    m = nn.BatchNorm1d(3)

    def f(x, w):
        b = {k: v.clone() for k, v in m.named_buffers()}
        return functional_call(m, ({"weight": w}, b), (x,)), b

    return f, (X(5, 3), G(3))


@program.built
def functional_call_tied():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    m = M()
    return (lambda x, w: functional_call(m, {"a.weight": w}, x, tie_weights=True)), (X(2, 3), G(3, 3))


@program.built
def ensemble():
    ms = [nn.Linear(3, 2) for _ in range(3)]
    params, buffers = stack_module_state(ms)
    base = nn.Linear(3, 2, device="meta")

    def f(x):
        return vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(params, buffers, x)

    return f, (X(4, 3),)


@program.built
def stack_state_inside():
    ms = [nn.Linear(3, 2) for _ in range(3)]

    def f(x):
        p, b = stack_module_state(ms)
        return p["weight"] @ x

    return f, (X(3),)


@program.built
def forward_ad():
    def f(x, t):
        with fwAD.dual_level():
            d = fwAD.make_dual(x, t)
            y = d.sin() * d
            p, tt = fwAD.unpack_dual(y)
            return p + 0, tt + 0

    return f, (X(3), X(3))


@program.built
def forward_ad_module():
    m = nn.Linear(3, 3)

    def f(x, t):
        with fwAD.dual_level():
            return fwAD.unpack_dual(m(fwAD.make_dual(x, t))).tangent + 0

    return f, (X(2, 3), X(2, 3))


@program.built
def functionalize_plain():
    return (lambda x: functionalize(lambda x: x.clone().add_(1).mul_(2))(x)), (X(3),)


@program.built
def maml():
    def net(p, x):
        return (x @ p["w"]).tanh() @ p["v"]

    def f(p, x, y):
        def loss(p):
            return ((net(p, x) - y) ** 2).mean()

        def outer(p):
            g = grad(loss)(p)
            q = {k: p[k] - 0.1 * g[k] for k in p}
            return loss(q)

        return grad_and_value(outer)(p)

    return f, ({"w": X(3, 4), "v": X(4, 1)}, X(5, 3), X(5, 1))


@program.built
def ntk():
    m = nn.Linear(3, 2)
    params = {k: v.detach() for k, v in m.named_parameters()}

    def f(x1, x2):
        def one(p, x):
            return functional_call(m, p, (x.unsqueeze(0),)).squeeze(0)

        j1 = vmap(jacrev(one), (None, 0))(params, x1)
        j2 = vmap(jacrev(one), (None, 0))(params, x2)
        return sum(torch.einsum("Naf,Mbf->NMab", a.flatten(2), b.flatten(2)) for a, b in zip(j1.values(), j2.values()))

    return f, (X(4, 3), X(2, 3))


@program.built
def hvp():
    def f(x, v):
        return jvp(grad(lambda x: (x.sin() ** 2).sum()), (x,), (v,))[1]

    return f, (G(3), X(3))


@program.built
def laplacian():
    def f(x):
        return vmap(lambda x: torch.trace(hessian(lambda x: (x**2).sum().exp())(x)))(x)

    return f, (X(4, 3),)


@program.built
def vmap_autograd_function():
    class S(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos()

    return (lambda x: vmap(S.apply)(x)), (X(4, 3),)


@program.built
def grad_autograd_function():
    class S(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos() * 2

    return (lambda x: grad(lambda x: S.apply(x).sum())(x)), (X(3),)


@program.built
def grad_with_print_effect():
    def f(x):
        log = []

        def g(x):
            log.append(x.shape[0])
            return x.sum()

        return grad(g)(x), log

    return f, (X(3),)


@program.built
def autograd_functional_jacobian():
    return (lambda x: torch.autograd.functional.jacobian(lambda x: x.sin() * 2, x)), (X(3),)


@program.built
def autograd_functional_hvp():
    return (lambda x, v: torch.autograd.functional.hvp(lambda x: (x**3).sum(), x, v)), (X(3), X(3))


@program.built
def grad_loop_sgd():
    def f(w, x):
        for _ in range(3):
            w = w - 0.1 * grad(lambda w: ((x @ w) ** 2).mean())(w)
        return w

    return f, (X(3, 1), X(5, 3))


@program.built
def grad_item_constant():
    def f(x):
        return grad(lambda x: (x * x.shape[0]).sum() / x.numel())(x)

    return f, (X(3),)


@program.built
def vmap_dropout_module():
    m = nn.Dropout(0.5)
    return (lambda x: vmap(m, randomness="different")(x)), (X(4, 3),)


@program.built
def jacrev_module_closure():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(3, 2)

        def forward(self, x):
            return vmap(jacrev(self.l))(x)

    return M(), (X(4, 3),)


@program.built
def grad_scalar_tensor_param():
    return (lambda x: vmap(grad(lambda a: a**2))(x)), (X(5),)
