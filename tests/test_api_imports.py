"""What framelift imports, and what it must not."""

import ast
import pathlib
import subprocess
import sys

import pytest

import framelift
import framelift.errors

SOURCE = pathlib.Path(__file__).parent.parent / "src" / "framelift"
FILES = sorted(SOURCE.rglob("*.py"))


def imported(tree):
    """Every module name in an import statement or an import_module("...") call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
            yield from (argument.value for argument in node.args if isinstance(argument, ast.Constant))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_imports_dynamo(path):
    names = imported(ast.parse(path.read_text()))
    assert [name for name in names if f"{name}.".startswith("torch._dynamo.")] == []


def modules_after(statement):
    program = f"{statement}; import sys; print(sorted(name for name in sys.modules if name.count('.') < 2))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE.parent)}
    )
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout)


@pytest.mark.parametrize("part", ["framelift", "framelift.bytecode", "framelift.native", "framelift.report.logs"])
def test_parts_that_need_no_torch_do_not_import_it(part):
    assert "torch" not in modules_after(f"import {part}")


def test_capture_does_not_need_dynamo():
    """torch's own libraries may load it for their ends; using framelift with the eager backend does not."""
    statement = (
        "import torch, framelift; before = 'torch._dynamo' in __import__('sys').modules; "
        "framelift.compile(lambda x: x + 1, backend='eager'); "
        "assert before or 'torch._dynamo' not in __import__('sys').modules"
    )
    modules_after(statement)


def test_the_warning_is_public():
    assert framelift.FrameliftWarning is framelift.errors.FrameliftWarning
    assert issubclass(framelift.FrameliftWarning, UserWarning)
    assert "FrameliftWarning" in dir(framelift)
