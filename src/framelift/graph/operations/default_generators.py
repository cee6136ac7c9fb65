"""The state of torch's default generators, read and set by operations: they keep their place among those that draw.

The tag says to all who take graphs apart that these do something; that no two calls are alike is said by the last
argument, which is another for each.
"""

from __future__ import annotations

import torch
from torch.library import Library

_LIBRARY = Library("framelift", "FRAGMENT")


def _define(name: str, arguments: str, result: str, run: object, described: object) -> None:
    _LIBRARY.define(f"{name}({arguments}) -> {result}", tags=(torch.Tag.nondeterministic_seeded,))
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"framelift::{name}", described, lib=_LIBRARY)


# What a seed is for.
SEEDED = {
    "all": torch.manual_seed,
    "cpu": torch.default_generator.manual_seed,
    "cuda": torch.cuda.manual_seed,
    "cuda, all": torch.cuda.manual_seed_all,
}


def _seed(seed: str, which: str, call: int) -> torch.Tensor:
    SEEDED[which](int(seed))
    return _nothing()


def _get(device: str, call: int) -> torch.Tensor:
    return torch.get_rng_state() if device == "cpu" else torch.cuda.get_rng_state(device)


def _set(device: str, state: torch.Tensor, call: int) -> torch.Tensor:
    if device == "cpu":
        torch.set_rng_state(state)
    else:
        torch.cuda.set_rng_state(state, device)
    return _nothing()


def _described(device: str, call: int) -> torch.Tensor:
    """A state: one of a GPU's generator is on the CPU as well."""
    return torch.empty(_get(device, call).shape, dtype=torch.uint8, device="cpu")


def _nothing(*args: object) -> torch.Tensor:
    """What an operation gives that only changes a generator: torch's compilers know none without a result."""
    return torch.empty(0, dtype=torch.uint8, device="cpu")


_define("rng_state", "str device, int call", "Tensor", _get, _described)
_define("set_rng_state", "str device, Tensor state, int call", "Tensor", _set, _nothing)
# A seed does not always fit an int64.
_define("manual_seed", "str seed, str which, int call", "Tensor", _seed, _nothing)

rng_state = torch.ops.framelift.rng_state.default
set_rng_state = torch.ops.framelift.set_rng_state.default
manual_seed = torch.ops.framelift.manual_seed.default
