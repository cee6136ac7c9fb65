"""The demo runs, and shows what it promises."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent


def test_demo():
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for words in (
        "What you wrote",
        "the FX graph",
        "the guards",
        "residual normalize",
        "a hit",
        "the guard that failed",
    ):
        assert words in done.stdout
    assert "NOT" not in done.stdout and "internal failure" not in done.stdout
