"""A lifted module is the module, seen from a second object."""

import abc
import copy
import gc
import io
import pickle
import traceback
import weakref

import pytest
import torch
from torch import nn

import framelift
from framelift.modules import LiftedModule


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 3)
        self.register_buffer("count", torch.zeros(1))
        self.scale = 2.0

    def forward(self, x, *, bias=0.0):
        return self.linear(x) * self.scale + bias


def lift(module, **options):
    return framelift.compile(module, **{"backend": "eager", **options})


X = torch.ones(1, 2)


@pytest.fixture
def pair():
    module = Net()
    return module, lift(module)


def test_same_state_seen_from_both_sides(pair):
    module, lifted = pair
    assert isinstance(lifted, Net) and isinstance(lifted, LiftedModule)
    assert type(lifted).__name__ == "Net" and type(lifted).__qualname__ == "Net"
    assert lifted.__dict__ is module.__dict__
    assert lifted._orig_mod is module and "_orig_mod" not in module.__dict__
    assert list(lifted.state_dict()) == list(module.state_dict()) == ["count", "linear.weight", "linear.bias"]
    assert [name for name, _ in lifted.named_modules()] == ["", "linear"]
    assert repr(lifted) == repr(module)


def test_call_equals_the_original(pair):
    module, lifted = pair
    assert torch.equal(lifted(X), module(X))
    assert torch.equal(lifted(X, bias=1.0), module(X, bias=1.0))


def test_changes_through_either_side(pair):
    module, lifted = pair
    lifted.scale = 3.0
    assert module.scale == 3.0
    module.extra = nn.Parameter(torch.ones(1))
    assert lifted.extra is module.extra and "extra" in dict(lifted.named_parameters())
    lifted.linear = nn.Linear(2, 3, bias=False)
    assert module.linear.bias is None
    del module.extra
    assert not hasattr(lifted, "extra")
    lifted.eval()
    assert not module.training and not module.linear.training
    module.train()
    assert lifted.training
    lifted.to(torch.float64)
    assert module.linear.weight.dtype is torch.float64
    lifted.load_state_dict({name: torch.zeros_like(value) for name, value in module.state_dict().items()}, strict=True)
    assert not module.linear.weight.any()


def test_hooks_registered_on_either_side_run(pair):
    module, lifted = pair
    seen = []
    lifted.register_forward_hook(lambda mod, args, out: seen.append("lifted"))
    module.register_forward_pre_hook(lambda mod, args: seen.append("original"))
    lifted(X)
    assert seen == ["original", "lifted"]


def test_copies_are_lifted_and_independent(pair):
    module, lifted = pair
    deep = copy.deepcopy(lifted)
    assert isinstance(deep, LiftedModule) and isinstance(deep, Net)
    assert deep.linear.weight is not module.linear.weight and deep._orig_mod is not module
    assert torch.equal(deep(X), module(X))
    shallow = copy.copy(lifted)
    assert shallow.linear is module.linear and shallow.__dict__ is not module.__dict__
    shallow.scale = 7.0
    assert module.scale == 2.0


def test_pickle_gives_a_lifted_module_with_its_options(pair):
    module, lifted = pair
    loaded = pickle.loads(pickle.dumps(lift(module, dynamic=True)))
    assert isinstance(loaded, LiftedModule)
    assert loaded._framelift_wrap == lift(module, dynamic=True)._framelift_wrap
    assert torch.equal(loaded(X), module(X))
    file = io.BytesIO()
    torch.save(lifted, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(X), module(X))


def test_as_submodule_keys_do_not_change():
    outer = nn.Sequential(Net(), nn.Linear(3, 1))
    keys = list(outer.state_dict())
    expected = outer(X)
    outer[0] = lift(outer[0])
    assert list(outer.state_dict()) == keys
    assert len(list(outer.parameters())) == 4
    assert torch.equal(outer(X), expected)


class Slotted(nn.Module):
    __slots__ = ("inner",)

    def __init__(self):
        super().__init__()
        self.inner = 3

    def forward(self, x):
        return x + self.inner


def test_slots_of_the_class_stay_with_the_original():
    module = Slotted()
    lifted = lift(module)
    assert lifted.inner == 3
    lifted.inner = 4
    assert module.inner == 4 and torch.equal(lifted(X), X + 4)
    del module.inner
    assert not hasattr(lifted, "inner")


class Delegating(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def __setattr__(self, name, value):
        if name == "forbidden":
            raise AttributeError("forbidden")
        super().__setattr__(name, value)

    def forward(self, x):
        return self.module(x)


def test_custom_attribute_access():
    module = Delegating(Net())
    lifted = lift(module)
    assert lifted.scale == 2.0 and lifted._orig_mod is module
    with pytest.raises(AttributeError, match="forbidden"):
        lifted.forbidden = 1
    assert torch.equal(lifted(X), module(X))


MADE = []


class Registering(type):
    def __new__(metaclass, name, bases, namespace, **kwargs):
        MADE.append(name)
        return super().__new__(metaclass, name, bases, namespace)

    def __call__(cls, *args, **kwargs):
        return super().__call__(*args, **kwargs)


class WithMeta(Net, metaclass=Registering):
    def __init_subclass__(cls, *, required, **kwargs):
        MADE.append(required)


class Abstract(Net, abc.ABC):
    @abc.abstractmethod
    def work(self): ...


class Concrete(Abstract):
    def work(self):
        return 1


def test_metaclass_and_init_subclass_do_not_hear_of_it():
    before = list(MADE)
    lifted = lift(WithMeta())
    assert type(type(lifted)) is Registering and MADE == before
    assert torch.equal(lifted(X), lifted._orig_mod(X))


def test_abstract_base_classes():
    lifted = lift(Concrete())
    assert isinstance(lifted, Abstract) and isinstance(lifted, Concrete)
    assert not isinstance(Concrete(), type(lifted))


def test_finalizer_runs_once():
    died = []

    class Mortal(Net):
        def __del__(self):
            died.append(id(self))

    module = Mortal()
    number = id(module)
    lifted = lift(module)
    del lifted
    gc.collect()
    assert died == []
    del module
    gc.collect()
    assert died == [number]


def test_constructor_is_not_run_again():
    class Counted(nn.Module):
        made = 0

        def __new__(cls, *args):
            cls.made += 1
            return super().__new__(cls)

        def __init__(self, needed):
            super().__init__()

        def forward(self, x):
            return x

    lift(Counted(1))
    assert Counted.made == 1


def test_replaced_call_is_seen():
    class Patched(Net):
        pass

    module = Patched()
    lifted = lift(module)
    lifted(X)
    Patched.__call__ = lambda self, x: x - 1
    assert torch.equal(lifted(X), X - 1)


def test_lazy_module_changes_its_class():
    lifted = lift(nn.LazyLinear(3))
    out = lifted(X)
    assert out.shape == (1, 3)
    assert torch.equal(lifted(X), out)
    assert isinstance(lifted, nn.Linear) and not isinstance(lifted, nn.LazyLinear)


def test_parametrization_replaces_the_class():
    module = nn.Linear(2, 2)
    lifted = lift(module)
    nn.utils.parametrize.register_parametrization(module, "weight", nn.Identity())
    assert torch.equal(lifted.weight, module.weight)
    assert isinstance(lifted, type(module)) and torch.equal(lifted(X), module(X))


def test_builtin_container_module_is_refused():
    class Both(nn.Module, dict):
        def forward(self, x):
            return x

    with pytest.raises(TypeError, match="Both is an nn.Module and a dict in one"):
        lift(Both())


def test_classes_and_modules_are_freed():
    class Temporary(Net):
        pass

    module = Temporary()
    lifted = lift(module)
    lifted(X)
    watched = [weakref.ref(item) for item in (module, lifted, Temporary, type(lifted), module.linear.weight)]
    assert type(lift(module)) is type(lifted)
    del module, lifted, Temporary
    framelift.reset()
    gc.collect()
    assert [reference() for reference in watched] == [None] * len(watched)


def test_modules_of_many_kinds():
    for module, args in [
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU()), (X,)),
        (nn.ModuleList([nn.Linear(2, 2)]), None),
        (nn.ParameterDict({"a": torch.ones(1)}), None),
        (nn.MultiheadAttention(2, 1), (X, X, X)),
        (torch.fx.symbolic_trace(Net()), (X,)),
        (nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), (X,)),
    ]:
        lifted = lift(module)
        assert isinstance(lifted, type(module))
        if args is not None:
            torch.testing.assert_close(lifted(*args), module(*args), rtol=0, atol=0)
    assert lift(nn.ModuleList([nn.Linear(2, 2)]))[0].weight.shape == (2, 2)


class Failing(nn.Module):
    def __init__(self, fails):
        super().__init__()
        self.fails = fails

    def forward(self, x):
        y = x * 2
        return self.fails(y) + 1


def raises_in_python(y):
    return {"a": y}["b"]


def raises_in_torch(y):
    return y.reshape(7)


def raises_in_the_graph(y):
    return y[torch.tensor([9])]


def raises_behind_a_break(y):
    framelift.graph_break()
    return y.reshape(7)


def raises_while_running(y):
    framelift.disable(raises_in_python)(y)


FAILURES = [raises_in_python, raises_in_torch, raises_in_the_graph, raises_behind_a_break, raises_while_running]


def frames_of(function, x):
    """The frames of the traceback below the caller's."""
    with pytest.raises((KeyError, RuntimeError, IndexError)) as info:
        function(x)
    return [(frame.filename, frame.name) for frame in traceback.extract_tb(info.value.__traceback__)][1:]


@pytest.mark.parametrize("fails", FAILURES)
def test_tracebacks_do_not_show_how_a_module_is_called(fails):
    module = Failing(fails)
    lifted, within = lift(module), lift(nn.Sequential(nn.ReLU(), lift(Failing(fails))))
    for _ in range(2):
        assert frames_of(lifted, X) == frames_of(module, X)
        assert not [name for file, name in frames_of(within, X) if file == framelift.modules.__file__]
    with framelift.config.patch(full_traceback=True):
        assert (framelift.modules.__file__, "__call__") in frames_of(lifted, X)
