"""clang-format over the C sources: rewrites them, or with --check says which differ."""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    files = sorted(str(path) for pattern in ("*.c", "*.h") for path in (ROOT / "src").rglob(pattern))
    if not files:
        return 0
    mode = ["--dry-run", "--Werror"] if "--check" in arguments else ["-i"]
    tool = pathlib.Path(sys.executable).parent / "clang-format"
    return subprocess.run([str(tool), *mode, *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
