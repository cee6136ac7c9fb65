"""What holds for the files of the project as such: generated pages are current, nothing is named that must not be."""

from __future__ import annotations

import ast
import graphlib
import pathlib
import re
import runpy
import subprocess

import pytest

from framelift import fallbacks
from framelift.breaks import REGISTRY
from framelift.fallbacks import FALLBACKS, Fallback

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = sorted(path for pattern in ("*.py", "*.pyi", "*.c", "*.h") for path in (ROOT / "src").rglob(pattern))

# Libraries that define models, and families of models: framelift knows Python and torch, not what is written in them.
LIBRARIES = """
    transformers huggingface accelerate peft diffusers timm torchvision torchaudio torchbench torchrec fairseq lightning
    fastai detectron2 mmdet monai sentence_transformers xformers vllm deepspeed megatron
    bert roberta gpt gpt2 llama mistral mixtral qwen gemma falcon bloom mamba whisper wav2vec2 vit swin deit
    resnet resnet18 resnet50 vgg alexnet densenet mobilenet efficientnet convnext unet yolo dlrm
""".split()
# Directories of a particular machine or user.
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:home|root|Users|work|tmp/\w|mnt|opt|scratch)/?\b")


def files_of_the_project() -> list[pathlib.Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a checkout: what belongs to the project is not known")
    return [
        path
        for name in listed.stdout.splitlines()
        if (path := ROOT / name).is_file() and path != pathlib.Path(__file__)
    ]


def compound_class_names(*folders: str) -> set[str]:
    """Names of classes of more than one word, which do not occur elsewhere by chance."""
    trees = [ast.parse(path.read_text()) for folder in folders for path in (ROOT / folder).rglob("*.py")]
    names = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return {name for name in names if re.match(r"[A-Z][a-z0-9]+[A-Z]", name)}


def test_no_model_or_library_is_special() -> None:
    names = {*LIBRARIES, *compound_class_names("benchmarks", "tests", "examples")}
    known = re.compile(rf"\b(?:{'|'.join(sorted(names))})\b", re.IGNORECASE)
    found = [(str(path.relative_to(ROOT)), known.findall(path.read_text())) for path in SOURCES]
    assert [entry for entry in found if entry[1]] == []


def modules_below() -> dict[str, set[str]]:
    """For each module of ours those that it imports, wherever it does: in functions, and for types alone."""
    paths = {
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"): path
        for path in SOURCES
        if path.suffix in (".py", ".pyi")
    }
    below: dict[str, set[str]] = {}
    for module, path in paths.items():
        nodes = list(ast.walk(ast.parse(path.read_text())))
        named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= {name if name in paths else node.module for name in inner}
        below[module] = named & paths.keys()
    return below


def test_no_module_needs_one_that_needs_it() -> None:
    below = modules_below()
    assert "framelift.graph.record" in below["framelift.graph.builder"]
    graphlib.TopologicalSorter(below).prepare()  # names the ring, if there is one


def test_nothing_names_a_machine() -> None:
    found = []
    for path in files_of_the_project():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if MACHINE_PATHS.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


def test_the_page_of_graph_breaks_is_current() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "graph_breaks_doc.py"))
    assert script["PAGE"].read_text() == script["page"](), "run python scripts/graph_breaks_doc.py"


@pytest.mark.parametrize("id", sorted(REGISTRY))
def test_every_graph_break_is_raised_somewhere_and_explained(id: str) -> None:
    raised = [path for path in SOURCES if path.name != "breaks.py" and id in path.read_text()]
    assert raised, f"{id} is never raised"
    assert REGISTRY[id].text and REGISTRY[id].remedy.endswith(".")
    assert f"| {id} |" in (ROOT / "docs" / "graph-breaks.md").read_text()


def test_the_page_of_fallbacks_is_current() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "fallbacks_doc.py"))
    assert script["PAGE"].read_text() == script["page"](), "run python scripts/fallbacks_doc.py"


@pytest.mark.parametrize("fallback", FALLBACKS.values(), ids=lambda fallback: fallback.id)
def test_every_fallback_is_used_somewhere_and_explained(fallback: Fallback) -> None:
    name = next(name for name, value in vars(fallbacks).items() if value is fallback)
    used = [path for path in SOURCES if path.name != "fallbacks.py" and name in path.read_text()]
    used += [path for path in ROOT.glob("src/framelift/native/**/*.c") if f"FALLBACK_{name}" in path.read_text()]
    assert used, f"{fallback.id} is never used"
    assert fallback.remedy.endswith(".")
    ways = (ROOT / "docs" / "fallbacks.md").read_text().split("<!-- end -->")[1]
    assert fallback.id in ways, "the page does not say where"


def test_all_say_the_same_of_the_versions_of_torch() -> None:
    """The README and the page of versions, what make installs, what CI runs and what pip allows."""

    def found(path: str, pattern: str) -> list[str]:
        place = re.search(pattern, (ROOT / path).read_text())
        assert place is not None, f"{path} does not say {pattern}"
        return re.findall(r"\d+\.\d+(?:\.\d+)?", place[1])

    tested = found("README.md", r"Tested on Linux with torch (.*?), CPython")
    assert len(tested) == 3 and tested == sorted(tested)
    assert found("docs/versions.md", r"(?m)^Tested: (.*)") == tested
    assert found("constraints.txt", r"(?m)^torch==(.*)") == tested[:1]
    assert found(".ci/run", r"(?m)^newest=(.*)") == tested[-1:]
    [oldest] = found("pyproject.toml", r'"torch>=(.*?)"')
    assert found("README.md", r"An older torch, from (\S+) on") == [oldest]
    assert re.search(rf"(?m)^## torch {re.escape(oldest)}$", (ROOT / "docs" / "versions.md").read_text())


def test_documents_name_files_that_exist() -> None:
    """A path in the documents' code spans is one of the project, unless its line says "later"."""
    missing = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        now = "\n".join(line for line in page.read_text().splitlines() if "later:" not in line)
        for span in re.findall(r"`([\w./-]+/[\w./-]*)`", now):
            places = (ROOT, ROOT / "src" / "framelift", ROOT / "src")
            if not any((place / span).exists() for place in places) and not span.startswith(".venv"):
                missing.append(f"{page.name}: {span}")
    assert missing == []
