"""Greedy decoding: tokens equal to eager's, few captures, and no call that runs in Python unseen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.report.events import RanEagerly
from tests.helpers.record import Record

transformers = pytest.importorskip("transformers")

TOKENS = 200
PROMPT = 5


def tiny_llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
    )
    return transformers.LlamaForCausalLM(config).eval()


def with_growing_cache(call: Callable[..., Any], config: Any) -> list[int]:
    cache = transformers.DynamicCache(config=config)
    token, found = torch.arange(PROMPT)[None], []
    for _ in range(TOKENS):
        token = call(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
        found.append(int(token))
    return found


def with_static_cache(call: Callable[..., Any], config: Any) -> list[int]:
    """The position is a tensor."""
    cache = transformers.StaticCache(config=config, max_cache_len=PROMPT + TOKENS)
    token, position, found = torch.arange(PROMPT)[None], torch.arange(PROMPT), []
    for _ in range(TOKENS):
        given = {"past_key_values": cache, "cache_position": position, "position_ids": position[None]}
        token = call(input_ids=token, use_cache=True, **given).logits[:, -1:].argmax(-1)
        position = position[-1:] + 1
        found.append(int(token))
    return found


@pytest.mark.parametrize(("decode", "most"), [(with_growing_cache, 3), (with_static_cache, 2)])
def test_greedy_decoding(decode: Callable[..., list[int]], most: int) -> None:
    model = tiny_llama()
    record = Record()
    with torch.no_grad():
        expected = decode(model, model.config)
        lifted = framelift.compile(model, backend="eager")
        with record.listening():
            assert decode(lifted, model.config) == expected
    assert record.captures <= most
    assert not record.of(RanEagerly) and not record.breaks
    assert lifted is not model and framelift.counters().eager == {}
