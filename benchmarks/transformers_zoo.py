"""Tiny models with random weights from the `transformers` package: real modelling code, nothing to download.

>>> model, inputs = build("bloom")
>>> model(**inputs)
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

transformers.logging.set_verbosity_error()
warnings.filterwarnings("ignore", module="transformers")

# What a configuration calls its sizes varies from model to model; every name it has is made small.
SIZES: dict[tuple[str, ...], int] = {
    ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers",
     "num_decoder_layers", "num_encoder_layers"): 2,
    ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size", "word_embed_proj_dim"): 64,
    ("intermediate_size", "ffn_dim", "n_inner", "hidden_dim", "d_ff", "ffn_hidden_size", "encoder_ffn_dim",
     "decoder_ffn_dim"): 128,
    ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads", "n_head_kv",
     "encoder_attention_heads", "decoder_attention_heads"): 4,
    ("head_dim", "d_kv", "kv_channels", "v_head_dim", "q_lora_rank", "kv_lora_rank", "num_mel_bins",
     "sliding_window"): 16,
    ("qk_rope_head_dim", "qk_nope_head_dim", "state_size", "patch_size"): 8,
    ("num_experts", "num_local_experts", "n_routed_experts"): 4,
    ("num_experts_per_tok", "moe_topk"): 2,
    ("n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"): 1,
    ("moe_intermediate_size", "image_size"): 32,
    ("vocab_size",): 256,
    ("max_position_embeddings", "n_positions"): 128,
    ("pad_token_id",): 0,
    ("bos_token_id", "cls_token_id", "decoder_start_token_id"): 1,
    ("eos_token_id", "sep_token_id"): 2,
    ("unk_token_id",): 3,
}  # fmt: skip

NAMES = """
    afmoe aimv2_vision_model albert apertus aria_text bart beam bert-generation bigbird_pegasus bit blenderbot
    blenderbot-small bloom clip_text_model clip_vision_model cohere2_moe cpmant cwm data2vec-audio data2vec-vision
    deberta deepseek_v4 deit diffllama doge ernie ernie4_5 esm esmc eurobert exaone4 falcon_h1 fastspeech2_conformer
    flaubert flex_olmo flint fnet focalnet fsmt glm glm4_moe_lite glm_moe_dsa glmasr_encoder gpt-sw3 gpt_neox
    gpt_neox_japanese gpt_oss granite granite_swa granitemoe_swa gte helium hgnet_v2 hrm_text hunyuan_v1_moe hy_v3
    hy_v4 ibert imagegpt inkling_text jetmoe laguna layoutlm led llama4_text m2m_100 maskformer-swin mbart
    megatron-bert minimax_m3_vl_text mlcd mlcd_vision_model mobilebert mobilenet_v2 mobilevit modernbert
    modernbert-decoder muse_glimmer_text mvp nemotron nystromformer olmo olmo3 olmoe openai-gpt opt pegasus_x
    persimmon phi phi3 poolformer prophetnet pvt pvt_v2 qianfan_ocr_vision qwen2 qwen3_vl_moe_text radio regnet
    rembert sam_vision_model seed_oss sew siglip_vision_model smollm3 solar_open squeezebert stablelm swiftformer
    switch_transformers tipsv2_text_model umt5 unispeech unispeech-sat visual_bert vit vit_msn vitdet
    voxtral_realtime_encoder wav2vec2 wav2vec2-conformer wavlm xglm xlm-roberta yoso
""".split()

TOO_BIG = 30_000_000  # parameters; a model whose configuration could not be made small


def tiny_config(name: str) -> Any:
    """The model's default configuration with its sizes made small."""
    kind = CONFIG_MAPPING[name]
    default = kind()
    known = default.to_dict()
    changed: dict[str, Any] = {}
    for words, size in SIZES.items():
        for word in words:
            value = getattr(default, word, None)
            if word in known and (value is None or type(value) is int):
                changed[word] = size
    kinds_of_layers = getattr(default, "layer_types", None)
    if isinstance(kinds_of_layers, list):
        try:
            return kind(**changed, layer_types=kinds_of_layers[:2])
        except (TypeError, ValueError, KeyError, AttributeError):  # some derive it, and refuse to be told
            pass
    return kind(**changed)


def build(name: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A model in evaluation mode and the keyword arguments of one call. The same ones every time."""
    torch.manual_seed(0)
    config = tiny_config(name)
    with torch.device("meta"):
        sketch = transformers.AutoModel.from_config(config)
    parameters = sum(parameter.numel() for parameter in sketch.parameters())
    if parameters > TOO_BIG:
        raise ValueError(f"{name} has {parameters / 1e6:.0f} million parameters")
    model = transformers.AutoModel.from_config(config).eval()
    return model, inputs_of(model, config)


def inputs_of(model: torch.nn.Module, config: Any) -> dict[str, torch.Tensor]:
    main = model.main_input_name
    if main == "input_ids":
        inputs = {main: torch.randint(3, 200, (2, 16))}
        if getattr(config, "is_encoder_decoder", False):
            inputs["decoder_input_ids"] = torch.randint(3, 200, (2, 16))
        return inputs
    if main == "pixel_values":
        size = getattr(config, "image_size", 32)
        side = size if isinstance(size, int) else size[0]
        return {main: torch.randn(1, getattr(config, "num_channels", 3), side, side)}
    if main == "input_values":
        return {main: torch.randn(1, 4000)}
    if main == "input_features":
        return {main: torch.randn(1, getattr(config, "num_mel_bins", 16), 128)}
    raise ValueError(f"{type(model).__name__} is called with {main}, which nobody here knows how to make")
