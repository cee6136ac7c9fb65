"""What is measured is not what is built for: no model, class or library of a benchmark is known by name in src/."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Names that are English words, or words of Python or torch, say nothing when they occur.
WORDS = set("beam bit doge opt phi glm led mvp sew vit helium laguna persimmon granite".split())
LIBRARIES = ["transformers", "huggingface", "torchvision", "timm", "lightning", "diffusers", "torchrec"]
OTHERS = ["llama", "bert", "mixtral", "whisper", "mamba", "gpt2", "t5", "unet", "dlrm", "resnet", "radio"]


def zoo_names() -> list[str]:
    """The names of the zoo, read from its source: its package need not be installed."""
    tree = ast.parse((ROOT / "benchmarks" / "transformers_zoo.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "NAMES":
            assert isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)
            text = node.value.func.value
            assert isinstance(text, ast.Constant)
            return str(text.value).split()
    raise AssertionError("the zoo has no NAMES")


def benchmark_classes() -> list[str]:
    found = []
    for name in ("models.py", "llama.py"):
        tree = ast.parse((ROOT / "benchmarks" / name).read_text())
        found += [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return [name for name in found if name not in ("Layer", "Norm", "Chain", "Residual")]


def test_the_zoo_has_its_models() -> None:
    assert len(zoo_names()) == len(set(zoo_names())) == 125


def test_no_name_of_a_benchmark_occurs_in_the_sources() -> None:
    names = [*LIBRARIES, *OTHERS, *benchmark_classes(), *(name for name in zoo_names() if name not in WORDS)]
    pattern = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(map(re.escape, names))})(?![a-z0-9])", re.IGNORECASE)
    found = []
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix in (".py", ".c", ".h", ".pyi"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found += [f"{path.relative_to(ROOT)}:{number}: {match[0]}" for match in pattern.finditer(line)]
    assert not found, "\n".join(found)


def test_every_model_has_its_bar() -> None:
    from benchmarks.models import CASES, COMPILED, GROWTH
    from benchmarks.run import BARS, INDUCTOR, SYMBOLIC

    names = [*CASES, "64 shapes", *(f"{INDUCTOR} {name}" for name in COMPILED), *SYMBOLIC]
    assert set(names) - set(GROWTH) == set(BARS) - set(GROWTH)


@pytest.mark.slow
def test_a_model_of_the_zoo() -> None:
    pytest.importorskip("transformers", reason="only make zoo and make bench install it")
    from benchmarks.zoo_one import with_framelift

    found = with_framelift("bit")
    assert found["equal"] and found["again"] == 0 and found["graphs"] == 1, found
