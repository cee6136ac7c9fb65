"""Builds the native extension; everything else about the package stands in pyproject.toml.

FRAMELIFT_SANITIZE=1 builds it with AddressSanitizer and UndefinedBehaviorSanitizer (see scripts/asan).
"""

import os
from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("src/framelift/native")

compile_args = ["-std=gnu11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"]
link_args: list[str] = []

if os.environ.get("FRAMELIFT_SANITIZE") == "1":
    sanitize = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
    compile_args += [*sanitize, "-O1", "-g"]
    link_args += sanitize

setup(
    ext_modules=[
        Extension(
            "framelift.native._core",
            sources=sorted(str(path) for path in NATIVE.rglob("*.c")),
            depends=sorted(str(path) for path in NATIVE.rglob("*.h")),
            include_dirs=[str(NATIVE)],
            libraries=["dl"],
            extra_compile_args=compile_args,
            extra_link_args=link_args,
        )
    ]
)
