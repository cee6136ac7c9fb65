"""Tensor metadata read natively: what Python says, every change seen, and the slow way where the fast one ends."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="these tests also run on interpreters without torch")

from framelift.native import core  # noqa: E402
from framelift.native.torch import calibrate  # noqa: E402
from framelift.native.torch.tensor_spec import TensorSpec  # noqa: E402
from tests.native.guards_builder import Nodes, function, hits, sees, words  # noqa: E402

calibrate.ensure()


class Sub(torch.Tensor):
    """A plain subclass."""


class Loud(torch.Tensor):
    """A subclass whose code a guard must not run."""

    allowed = True

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert cls.allowed, f"a guard ran __torch_function__ for {func}"
        return super().__torch_function__(func, types, args, kwargs or {})


def varied() -> dict[str, torch.Tensor]:
    base = torch.randn(4, 6)
    with torch.inference_mode():
        inference = torch.zeros(3, 4)
    return {
        "plain": torch.randn(3, 4),
        "other size": torch.randn(4, 4),
        "more dimensions": torch.randn(3, 4, 1),
        "transposed": torch.randn(4, 3).t(),
        "strided": torch.randn(3, 8)[:, ::2],
        "scalar": torch.tensor(1.0),
        "empty": torch.empty(0),
        "six dimensions": torch.zeros(1, 2, 1, 2, 1, 2),
        "six others": torch.zeros(1, 2, 1, 2, 1, 3),
        "six transposed": torch.zeros(1, 2, 1, 2, 1, 2).transpose(1, 3).contiguous().transpose(1, 3)[..., :1],
        "double": torch.randn(3, 4, dtype=torch.float64),
        "half": torch.randn(3, 4).half(),
        "bfloat": torch.randn(3, 4).bfloat16(),
        "bool": torch.zeros(3, 4, dtype=torch.bool),
        "int": torch.zeros(3, 4, dtype=torch.int64),
        "uint16": torch.zeros(3, 4, dtype=torch.uint16),
        "float8": torch.zeros(3, 4).to(torch.float8_e4m3fn),
        "complex": torch.zeros(3, 4, dtype=torch.complex64),
        "conjugate": torch.zeros(3, 4, dtype=torch.complex64).conj(),
        "negative": torch.zeros(3, 4, dtype=torch.complex64).conj().imag,
        "requires grad": torch.randn(3, 4, requires_grad=True),
        "not a leaf": torch.randn(3, 4, requires_grad=True) * 2,
        "parameter": torch.nn.Parameter(torch.randn(3, 4)),
        "frozen parameter": torch.nn.Parameter(torch.randn(3, 4), requires_grad=False),
        "buffer": torch.nn.Buffer(torch.randn(3, 4)),
        "subclass": torch.randn(3, 4).as_subclass(Sub),
        "loud subclass": torch.randn(3, 4).as_subclass(Loud),
        "view": base[1:, 2:],
        "meta": torch.empty(3, 4, device="meta"),
        "inference": inference,
        "sparse": torch.zeros(3, 4).to_sparse(),
        "csr": torch.ones(3, 4).to_sparse_csr(),
        "csc": torch.ones(3, 4).to_sparse_csc(),
        "nested": torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged),
        "quantized": torch.quantize_per_tensor(torch.zeros(3, 4), 0.1, 0, torch.qint8),
        "channels last": torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last),
        "expanded": torch.zeros(3, 1).expand(3, 4),
    }


pytestmark = pytest.mark.filterwarnings("ignore")


def guard_on(spec: Any) -> Any:
    nodes = Nodes()
    nodes.arg(TENSOR=spec, name="x", out=True)
    return nodes.tree()


def test_tensors_are_read_natively() -> None:
    """With the versions of torch this project is tested with, nothing is left to Python."""
    info = core.tensor_access_info()
    if not torch.__version__.startswith(("2.13.", "2.14.", "2.15.")):
        pytest.skip("another torch: whatever is not found there is asked of Python")
    assert info["native"] and info["requires_grad"] and info["is_leaf"]
    assert info["metadata_bytes"] > 0 and info["storage"] >= 0


def test_every_tensor_fits_itself_and_no_other() -> None:
    tensors = varied()
    specs = {name: calibrate.tensor_spec(tensor) for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        tree = guard_on(tensor)
        for other, candidate in tensors.items():
            same = specs[name].matches(calibrate.tensor_facts(candidate))
            for _ in range(2):
                assert hits(tree, candidate) is same, (name, other)
        assert hits(tree, tensor)


def test_same_kinds_fit() -> None:
    for (name, first), second in zip(varied().items(), varied().values(), strict=True):
        if name == "nested":
            continue  # every ragged dimension is its own
        tree = guard_on(first)
        assert hits(tree, first) and hits(tree, second) and hits(tree, first), name


def test_natively_read_equals_python() -> None:
    for name, tensor in varied().items():
        spec, read = calibrate.tensor_facts(tensor), core.tensor_read(tensor)
        if isinstance(read, int):
            assert read == spec.keys, name
            continue
        keys, _, _, _, requires_grad, sizes, strides, is_leaf = read
        assert (keys, requires_grad, sizes, strides, is_leaf) == (
            spec.keys,
            spec.requires_grad,
            spec.sizes,
            spec.strides,
            spec.is_leaf,
        ), name


def no_grad(change: Any) -> Any:
    def changed() -> None:
        with torch.no_grad():
            change()

    return changed


TRANSPOSED = "; ".join(
    f"x.{part} was {old}, now {new}"
    for part, old, new in (("size()[0]", 3, 4), ("size()[1]", 4, 3), ("stride()[0]", 4, 1), ("stride()[1]", 1, 4))
)


def test_changes_in_place() -> None:
    def fresh() -> torch.Tensor:
        return torch.nn.Parameter(torch.zeros(3, 4))

    changes = {
        "x.requires_grad was True, now False": lambda p: p.requires_grad_(False),
        "x.dtype was torch.float32, now torch.float16": lambda p: setattr(p, "data", p.data.half()),
        "x.size()[0] was 3, now 5; x.size()[1] was 4, now 6; x.stride()[0] was 4, now 6": lambda p: setattr(
            p, "data", torch.zeros(5, 6)
        ),
        TRANSPOSED: no_grad_of(lambda p: p.t_()),
        "x.dim() was 2, now 3": no_grad_of(lambda p: p.unsqueeze_(0)),
        "x.dim() was 2, now 1": no_grad_of(lambda p: p.set_(torch.zeros(7))),
        "x.device was cpu, now meta": lambda p: torch.utils.swap_tensors(
            p, torch.nn.Parameter(torch.empty(3, 4, device="meta"))
        ),
    }
    for text, change in changes.items():
        parameter = fresh()
        for holder in (None, {"p": parameter}):
            parameter = fresh()
            if holder is None:
                tree, slot = guard_on(parameter), parameter
            else:
                holder["p"] = parameter
                nodes = Nodes()
                nodes.add(nodes.arg(), "DICT_ITEM", "p", TENSOR=parameter, name="x", out=True)
                tree, slot = nodes.tree(), holder
            sees(tree, (slot,), lambda: change(parameter), text if "meta" not in text else words_of_meta(tree, text))
    same = fresh()
    tree = guard_on(same)
    assert hits(tree, same)
    same.data = torch.ones(3, 4)
    assert hits(tree, same), "other data with the same metadata is the same to a guard"


def words_of_meta(tree: Any, text: str) -> str:
    keys = calibrate.tensor_spec(torch.nn.Parameter(torch.empty(3, 4, device="meta"))).keys
    old = calibrate.tensor_spec(torch.nn.Parameter(torch.empty(3, 4))).keys
    return f"{text}; dispatch keys of x were {old:#x}, now {keys:#x}"


def no_grad_of(change: Any) -> Any:
    def changed(parameter: torch.Tensor) -> None:
        with torch.no_grad():
            change(parameter)

    return changed


def test_class_of_a_tensor() -> None:
    x = torch.zeros(3).as_subclass(Sub)
    tree = guard_on(x)

    class Other(torch.Tensor):
        pass

    def back() -> None:
        x.__class__ = Sub

    sees(tree, (x,), lambda: setattr(x, "__class__", Other), f"type(x) was Sub, now {Other.__qualname__}", back)


def test_anything_where_nothing_is_asked() -> None:
    spec = calibrate.tensor_spec(torch.randn(3, 4))._replace(sizes=(None, 4), strides=(None, None))
    tree = guard_on(spec)
    for size in (1, 2, 3, 100):
        assert hits(tree, torch.randn(size, 4))
    assert not hits(tree, torch.randn(3, 5)) and not hits(tree, torch.randn(3, 4, 1)) and not hits(tree, torch.randn(4))
    tree = guard_on(TensorSpec(torch.Tensor, sizes=(3, None)))
    assert hits(tree, torch.zeros(3, 4, dtype=torch.int8)) and hits(tree, torch.randn(3, 4, requires_grad=True))
    assert not hits(tree, torch.zeros(4, 4))
    tree = guard_on(spec._replace(sizes=None, strides=None))
    assert hits(tree, torch.zeros(())) and hits(tree, torch.zeros(1, 2, 3, 4, 5, 6))
    assert not hits(tree, torch.zeros(3, 4).double())


def test_being_a_leaf_is_asked_on_demand() -> None:
    leaf = torch.zeros(3, requires_grad=True)
    derived = leaf * 2
    assert hits(guard_on(leaf), derived)
    spec = calibrate.tensor_spec(leaf)._replace(is_leaf=True)
    tree = guard_on(spec)
    assert hits(tree, leaf) and not hits(tree, derived)
    assert words(tree, derived) == "x.is_leaf was True, now False"


def test_code_of_subclasses_and_modes_is_not_run() -> None:
    loud = torch.zeros(3, 4).as_subclass(Loud)
    tree = guard_on(loud)
    sparse = guard_on(torch.zeros(3, 4).to_sparse())
    slow = torch.zeros(3, 4).to_sparse()

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("a guard ran a mode")

    Loud.allowed = False
    try:
        with Mode():
            for _ in range(3):
                assert tree.check((loud,), function) is not None
                assert tree.check_strict((loud,), function) is not None
                assert sparse.check_strict((slow,), function) is not None
    finally:
        Loud.allowed = True


def test_not_a_tensor() -> None:
    tree = guard_on(torch.zeros(3))
    for other in (None, 3, "x", [], torch.Tensor, torch.Size([3])):
        assert not hits(tree, other)
    assert words(tree, 3) == "type(x) was Tensor, now int"
    for wrong in (3, (torch.Tensor,), (int, *[None] * 6), (torch.Tensor, 1, None, None, None, (1, "a"), None)):
        with pytest.raises((TypeError, ValueError)):
            guard_on(wrong)


def test_overlap() -> None:
    base = torch.zeros(8, 8)
    cases = [
        (base[0], base[0], True),
        (base[:4], base[4:], False),
        (base[:5], base[4:], True),
        (base[:, 0], base[:, 1], True),  # by their spans, which is all that is asked
        (base[:0], base, False),
    ]
    for a, b, expected in cases:
        assert core.tensors_overlap(a, b) is expected is calibrate.tensors_overlap(a, b)
    memory = bytearray(64)
    first, second = torch.frombuffer(memory, dtype=torch.uint8), torch.frombuffer(memory, dtype=torch.float32)
    assert core.tensors_overlap(first, second), "two storages of the same memory"
    assert not core.tensors_overlap(first[:8], second[2:])
    assert not core.tensors_overlap(base, torch.zeros(8, 8)) and not core.tensors_overlap(base, 3)
    meta = torch.empty(4, device="meta")
    assert core.tensors_overlap(meta, meta[1:]) and not core.tensors_overlap(meta, torch.empty(4, device="meta"))
    for x, y in itertools.combinations(varied().values(), 2):
        if x.layout is torch.strided and y.layout is torch.strided and not x.is_nested and not y.is_nested:
            assert core.tensors_overlap(x, y) is calibrate.tensors_overlap(x, y)


@pytest.mark.parametrize("expected", [True, False])
def test_overlap_as_a_relation(expected: bool) -> None:
    nodes = Nodes()
    nodes.relate("OVERLAP", nodes.arg(0, name="p"), nodes.arg(1, name="q"), expected)
    tree = nodes.tree(2)
    base, other = torch.zeros(8), torch.zeros(8)
    assert hits(tree, base, base[2:]) is expected
    assert hits(tree, base, other) is not expected
    text = words(tree, base, other if expected else base)
    assert text == ("p and q shared memory, now they do not" if expected else "p and q now share memory")


def disjoint_tree(tensors: list[torch.Tensor], written: int, guarded: bool) -> Any:
    nodes = Nodes()
    root = nodes.arg(0, name="d")
    checks = [{"TENSOR": tensor} if guarded else {} for tensor in tensors]
    members = [nodes.add(root, "DICT_ITEM", i, name=f"d[{i}]", **checks[i]) for i in range(len(tensors))]
    nodes.relate("DISJOINT", members[:written], members[written:])
    return nodes.tree()


@pytest.mark.parametrize("guarded", [True, False])
def test_disjoint(guarded: bool) -> None:
    base = torch.zeros(100)
    tensors = [
        base[:10],
        base[10:20],
        base[50:],
        base[60:70],
        torch.zeros(3),
        torch.zeros(0),
        base[55:60].view(1, 1, 1, 1, 1, 5),
    ]
    stored = dict(enumerate(tensors))
    tree = disjoint_tree(tensors, 2, guarded)
    for _ in range(3):
        assert hits(tree, stored), "what is only read may overlap"
    for position, other in ((0, base[1:11]), (1, base[:10]), (4, base[19:22]), (3, base[5:15])):
        changed = stored | {position: other}
        assert not hits(tree, changed) and not hits(tree, changed)
        assert words(tree, changed) == "two of d[0], d[1], d[2], d[3], d[4], d[5], d[6] now share memory"
        assert hits(tree, stored)
    moved = base[20:30]
    assert hits(tree, stored | {0: moved}) and hits(tree, stored)
    tensors[4].set_(base[:3])  # in place: no dictionary tells
    assert not hits(tree, stored)
    tensors[4].set_(torch.zeros(3))
    assert hits(tree, stored)


def test_disjoint_fuzzed() -> None:
    import random

    choose = random.Random(1)
    base = torch.zeros(60)

    def piece() -> torch.Tensor:
        start = choose.randrange(60)
        return base[start : start + choose.randrange(0, 8)]

    for _ in range(60):
        count = choose.randrange(2, 6)
        tensors = [piece() for _ in range(count)]
        tree = disjoint_tree([torch.zeros(t.shape) for t in tensors], choose.randrange(1, count + 1), True)
        for _ in range(20):
            candidate = [base[s : s + t.numel()] for t in tensors for s in [choose.randrange(60 - t.numel())]]
            hits(tree, dict(enumerate(candidate)))  # strict: native and reference agree


def test_overlap_with_what_a_memo_found() -> None:
    weight = torch.zeros(8)
    holder = {"w": weight}
    nodes = Nodes()
    item = nodes.add(nodes.arg(0), "DICT_ITEM", "w", TENSOR=weight, out=True)
    nodes.relate("OVERLAP", item, nodes.arg(1), False)
    tree = nodes.tree(2)
    for _ in range(4):
        assert tree.check_strict((holder, torch.zeros(3)), function) == (weight,)
        assert not hits(tree, holder, weight[1:])


def test_hash_of_shapes_natively() -> None:
    def hash_of(*objects: Any) -> int:
        return core.shape_hash(objects)

    x = torch.randn(3, 4)
    assert hash_of(x) == hash_of(torch.randn(3, 4)) == hash_of(x[:])
    others = [torch.randn(3, 5), torch.randn(4, 3), torch.randn(4, 3).t(), x.double(), torch.nn.Parameter(x.clone())]
    others += [torch.randn(3, 4, 1), torch.empty(3, 4, device="meta"), torch.zeros(3, 4).to_sparse()]
    assert len({hash_of(x), *map(hash_of, others)}) == len(others) + 1
    assert hash_of(1) == hash_of(2) != hash_of("a") and hash_of(x, 1) != hash_of(1, x)


def test_a_stored_tensor_may_be_another_one_like_it() -> None:
    holder = {"state": torch.zeros(3), "other": 1}
    nodes = Nodes()
    root = nodes.arg()
    item = nodes.add(root, "DICT_ITEM", "state", TENSOR=holder["state"], name="state", out=True)
    nodes.relate("DISTINCT", item, nodes.add(root, "DICT_ITEM", "other"))
    tree = nodes.tree()
    for step in range(10):
        holder["state"] = torch.full((3,), float(step))
        assert tree.check_strict((holder,), function) == (holder["state"],)
    assert tree.memo_info()["hits"] == 9
    holder["state"] = torch.zeros(4)
    assert not hits(tree, holder)
    assert words(tree, holder) == "state.size()[0] was 3, now 4"
    holder["state"] = 3  # type: ignore[assignment]
    assert not hits(tree, holder)
    holder["state"] = torch.ones(3)
    assert hits(tree, holder)


def test_references_of_tensors() -> None:
    x, p = torch.randn(3, 4), torch.nn.Parameter(torch.randn(2))
    holder = {"p": p}
    nodes = Nodes()
    nodes.arg(0, TENSOR=x, out=True)
    nodes.add(nodes.arg(1), "DICT_ITEM", "p", TENSOR=p, out=True)
    tree = nodes.tree(2, core.torch_state())
    del nodes
    slots = (x, holder)
    tree.check(slots, function)
    gc.collect()
    before = sys.getrefcount(x), sys.getrefcount(p), sys.getrefcount(torch.Tensor)
    for _ in range(100_000):
        tree.check(slots, function)
    assert (sys.getrefcount(x), sys.getrefcount(p), sys.getrefcount(torch.Tensor)) == before
    assert hits(tree, *slots)


def test_from_several_threads() -> None:
    x = torch.randn(3, 4)
    nodes = Nodes()
    nodes.arg(TENSOR=x, out=True)
    tree = nodes.tree(1, core.torch_state())
    answers: list[Any] = []

    def work() -> None:
        assert torch.is_grad_enabled()
        for _ in range(200):
            answers.append(tree.check((x,), function) is not None)
        with torch.no_grad():
            answers.append(tree.check((x,), function) is None)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 804


RESTRICTIONS = """
import sys, torch
from framelift.native import core
from framelift.native.torch import calibrate
calibrate.ensure()
core.restrict_tensors(sys.argv[1])
import pytest
sys.exit(pytest.main([sys.argv[2], "-q", "-p", "no:cacheprovider", "-k", "not restricted and not natively"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["native", "metadata", "requires_grad", "is_leaf", "storage"])
def test_all_of_this_restricted(what: str) -> None:
    """A torch in which something is not found: the same answers, more slowly."""
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", RESTRICTIONS, what, __file__], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
