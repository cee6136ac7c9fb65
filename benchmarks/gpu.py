"""A one-token forward of a bf16 Llama on a machine with a GPU (see benchmarks/one_token.py).

python setup.py build_ext --inplace
python benchmarks/gpu.py                                the model of transformers, if it is there
python benchmarks/gpu.py --model plain --json gpu.json
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    importlib.import_module("benchmarks.one_token").main(sys.argv[1:])
