"""`generate` of small random language models, lifted as one graph: eager's tokens, few captures whatever the prompt."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from framelift.report.events import RanEagerly
from tests.helpers.record import Record

transformers = pytest.importorskip("transformers")

PROMPTS = (7, 12, 5, 7, 9)
NEW_TOKENS = 8
SIZES: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))


def gemma3() -> Any:
    """One layer sees the last 8 tokens, the other all."""
    kinds = ["sliding_attention", "full_attention"]
    sizes = {**SIZES, "head_dim": 8, "sliding_window": 8, "layer_types": kinds}
    return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**sizes))


def mixtral() -> Any:
    config = transformers.MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)
    return transformers.MixtralForCausalLM(config)


def t5() -> Any:
    ends = {"pad_token_id": 0, "eos_token_id": None, "decoder_start_token_id": 0}
    config = transformers.T5Config(vocab_size=128, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, **ends)
    return transformers.T5ForConditionalGeneration(config)


STATIC: dict[str, Any] = {"cache_implementation": "static"}
GROWING: dict[str, Any] = {}
BEAMS: dict[str, Any] = {"num_beams": 3}
# How many graphs torch.compile makes of the same calls (torch 2.13, transformers 5.22), or else framelift did.
CASES = [
    pytest.param(llama, STATIC, 3, id="llama, static cache", marks=pytest.mark.slow),
    pytest.param(gemma3, STATIC, 5, id="gemma 3, static and sliding cache", marks=pytest.mark.slow),
    pytest.param(mixtral, STATIC, 3, id="mixtral, static cache", marks=pytest.mark.slow),
    pytest.param(t5, STATIC, 4, id="t5, static cache", marks=pytest.mark.slow),
    pytest.param(llama, GROWING, 4, id="llama, growing cache", marks=pytest.mark.slow),
    pytest.param(gemma3, GROWING, 7, id="gemma 3, growing cache", marks=pytest.mark.slow),
    pytest.param(mixtral, GROWING, 4, id="mixtral, growing cache", marks=pytest.mark.slow),
    pytest.param(t5, GROWING, 6, id="t5, growing cache", marks=pytest.mark.slow),
    pytest.param(llama, BEAMS, 4, id="llama, beam search", marks=pytest.mark.slow),
    pytest.param(llama, {"prompt_lookup_num_tokens": 3}, 6, id="llama, tokens looked up", marks=pytest.mark.slow),
]


def generated(model: Any, ways: dict[str, Any]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    prompts = [torch.randint(3, 128, (1, length), generator=generator) for length in PROMPTS]
    settings = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "disable_compile": True, **ways}
    with torch.no_grad():
        return [model.generate(prompt, **settings) for prompt in prompts]


@pytest.mark.parametrize(("make", "ways", "most"), CASES)
def test_generate(make: Any, ways: dict[str, Any], most: int) -> None:
    torch.manual_seed(0)
    model = make().eval()
    model.generation_config.eos_token_id = None
    expected = generated(model, ways)
    record = Record()
    with framelift.patch_torch():
        model.forward = torch.compile(model.forward, backend="eager", fullgraph=True)
    with record.listening():
        tokens = generated(model, ways)
    assert all(map(torch.equal, tokens, expected))
    assert not record.of(RanEagerly) and not record.breaks
    assert record.captures <= most
    with record.listening():
        generated(model, ways)
    assert record.captures <= most
