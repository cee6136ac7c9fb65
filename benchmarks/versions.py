"""What a benchmark ran with: each says it first, since figures of other versions are other figures."""

from __future__ import annotations

import os
import platform
from importlib import metadata


def versions() -> str:
    """`torch 2.15.0, CPython 3.11.7, 2 CPUs`; torch is not imported for it."""
    return f"torch {metadata.version('torch')}, CPython {platform.python_version()}, {os.cpu_count()} CPUs"
