"""The table of benchmarks/passes.py on a machine with a GPU.

    python setup.py build_ext --inplace
    python benchmarks/passes_gpu.py                                     bfloat16, sizes for a GPU
    python benchmarks/passes_gpu.py --device cpu --only parallel_heads  whether it runs at all

All options of benchmarks/passes.py are taken. `interaction_kernels` is interaction_block with the Triton kernels.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    importlib.import_module("benchmarks.passes").main(["--device", "cuda", *sys.argv[1:]])
