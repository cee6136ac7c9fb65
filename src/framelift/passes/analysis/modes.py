"""The modes of torch in each region of a graph, told from the switches that stand between regions."""

from __future__ import annotations

import torch
from torch._C import _is_any_autocast_enabled, _set_grad_enabled
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode
from torch.fx import Graph

from framelift.passes.analysis.effects import traits
from framelift.passes.facts import tensors_in, value

_ENTERING = (_enter_autocast, _enter_inference_mode)
_LEAVING = (_exit_autocast, _exit_inference_mode)


class RegionModes:
    """Region number -> whether gradients are recorded there, and whether another mode is on."""

    def __init__(self, graph: Graph) -> None:
        self._differentiable: set[int] = set()
        self._silent: set[int] = set()
        self._foreign: set[int] = set()
        region = 0
        is_recording, blocks = torch.is_grad_enabled(), [torch.is_inference_mode_enabled()]
        # What surrounds the graph when it runs is there now, when the passes do.
        depth = int(_is_any_autocast_enabled())
        for node in graph.nodes:
            known = traits(node)
            if known.is_mode or known.is_opaque:
                region += 1
                if node.target is _set_grad_enabled:
                    is_recording = bool(node.args[0])
                elif node.target is _enter_inference_mode:
                    blocks.append(bool(node.args[0]))
                elif node.target is _exit_inference_mode:
                    blocks.pop()
                if known.is_mode and node.target is not _set_grad_enabled:
                    depth += (node.target in _ENTERING) - (node.target in _LEAVING)
                    # A setting that is no region of its own is not followed: all that comes after it is foreign.
                    depth += 0 if node.target in _ENTERING or node.target in _LEAVING else 1_000_000
            if blocks[-1] or not is_recording:
                self._silent.add(region)
            if depth:
                self._foreign.add(region)
            if node.op not in ("placeholder", "get_attr", "output"):
                if any(tensor.requires_grad for tensor in tensors_in(value(node))):
                    self._differentiable.add(region)

    def is_differentiable(self, region: int) -> bool:
        """Whether results are seen to require gradients there."""
        return region in self._differentiable

    def is_silent(self, region: int) -> bool:
        """Whether no gradients are recorded there, whatever is computed."""
        return region in self._silent

    @property
    def records_gradients(self) -> bool:
        """Whether any result is seen to require gradients."""
        return bool(self._differentiable)

    def is_foreign(self, region: int) -> bool:
        """Whether autocast or inference mode is on: new nodes might compute something else there."""
        return region in self._foreign
