"""A batch of cases in this process: what becomes of each, told as it happens."""

from __future__ import annotations

import faulthandler
import gc
import os
from multiprocessing.connection import Connection

import torch

from tests.torch_databases.databases import all_cases
from tests.torch_databases.steps import judge_case
from tests.torch_databases.ways import WAYS


def run_cases(ids: list[str], way_name: str, at_most: int | None, pipe: Connection) -> None:
    """Run cases in turn; before each its id is sent, after it the verdict."""
    faulthandler.enable()
    torch.set_num_threads(1)
    cases = all_cases()
    gc.freeze()
    with WAYS[way_name]() as way:
        for id in ids:
            pipe.send(id)
            pipe.send(judge_case(cases[id], way, at_most))
    pipe.send(None)
    os._exit(0)
