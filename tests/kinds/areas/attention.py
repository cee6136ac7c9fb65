"""`flex_attention` with scores and masks of the program's, and what these capture."""

import torch
from torch import nn
from torch.nn.attention.flex_attention import BlockMask, and_masks, create_block_mask, create_mask, flex_attention

from tests.kinds.program import Programs

program = Programs()


def qkv(grad=False, n=128, d=16, h=2, hk=None):
    return tuple(torch.randn(2, x, n, d, requires_grad=grad) for x in (h, hk or h, hk or h))


def causal(b, h, q, k):
    return q >= k


@program.built
def flex_plain():
    return (lambda q, k, v: flex_attention(q, k, v)), qkv()


@program.built
def flex_score_mod():
    def f(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j))

    return f, qkv()


@program.built
def flex_score_gradient():
    def f(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * 2 + h)

    return f, qkv()


@program.built
def flex_captured_bias():
    def f(q, k, v, bias):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h, i, j])

    return f, (*qkv(), torch.randn(2, 128, 128))


@program.built
def flex_captured_bias_gradient():
    def f(q, k, v, bias):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h])

    return f, (*qkv(), torch.randn(2))


@program.built
def flex_alibi_module():
    class A(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.Linear(16, 48)
            self.register_buffer("slopes", torch.tensor([0.5, 0.25]))

        @torch.no_grad()
        def forward(self, x):
            B, N, C = x.shape
            q, k, v = self.p(x).view(B, N, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
            o = flex_attention(q, k, v, score_mod=self.bias)
            return o.transpose(1, 2).reshape(B, N, C)

        def bias(self, s, b, h, i, j):
            return s - self.slopes[h] * (i - j).abs()

    return A(), (torch.randn(2, 128, 16),)


@program.built
def flex_block_mask_captured():
    m = create_block_mask(causal, None, None, 128, 128, device="cpu")

    def f(q, k, v):
        return flex_attention(q, k, v, block_mask=m)

    return f, qkv()


@program.built
def flex_block_mask_argument():
    m = create_block_mask(causal, None, None, 128, 128, device="cpu")

    def f(q, k, v, m):
        return flex_attention(q, k, v, block_mask=m)

    return f, (*qkv(), m)


@program.built
def flex_block_mask_inside():
    def f(q, k, v):
        m = create_block_mask(causal, None, None, 128, 128, device="cpu")
        return flex_attention(q, k, v, block_mask=m)

    return f, qkv()


@program.built
def flex_block_mask_documents():
    doc = torch.arange(128) // 40

    def same(b, h, q, k):
        return (doc[q] == doc[k]) & (q >= k)

    m = create_block_mask(same, None, None, 128, 128, device="cpu")

    def f(q, k, v):
        return flex_attention(q, k, v, block_mask=m)

    return f, qkv()


@program.built
def flex_documents_inside():
    def f(q, k, v, doc):
        def same(b, h, q, k):
            return (doc[q] == doc[k]) & (q >= k)

        m = create_block_mask(same, None, None, 128, 128, device="cpu")
        return flex_attention(q, k, v, block_mask=m)

    return f, (*qkv(), torch.arange(128) // 40)


@program.built
def flex_gqa():
    def f(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + 1, enable_gqa=True)

    return f, qkv(h=4, hk=2)


@program.built
def flex_scale_lse():
    def f(q, k, v):
        return flex_attention(q, k, v, scale=0.3, return_lse=True)

    return f, qkv()


@program.built
def flex_score_and_mask():
    m = create_block_mask(causal, None, None, 128, 128, device="cpu")

    def f(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.tanh(s / 20) * 20, block_mask=m)

    return f, qkv()


@program.built
def flex_and_masks():
    def window(b, h, q, k):
        return q - k <= 32

    m = create_block_mask(and_masks(causal, window), None, None, 128, 128, device="cpu")

    def f(q, k, v):
        return flex_attention(q, k, v, block_mask=m)

    return f, qkv()


@program.built
def flex_create_mask():
    def f(x):
        return create_mask(causal, 1, 1, 8, 8, device="cpu") & (x.sum() < 100)

    return f, (torch.randn(3),)


@program.built
def flex_decoding():
    def f(q, k, v, pos):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(j <= pos[b], s, -float("inf")))

    return f, (torch.randn(2, 2, 1, 16), torch.randn(2, 2, 128, 16), torch.randn(2, 2, 128, 16), torch.tensor([5, 9]))


@program.built
def flex_mask_from_kv_blocks():
    def f(q, k, v):
        m = BlockMask.from_kv_blocks(
            torch.ones(1, 1, 1, dtype=torch.int32), torch.zeros(1, 1, 1, 1, dtype=torch.int32), mask_mod=causal
        )
        return flex_attention(q, k, v, block_mask=m)

    return f, qkv()


@program.built
def flex_layers():
    m = create_block_mask(causal, None, None, 128, 128, device="cpu")

    class L(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.Linear(16, 48)
            self.o = nn.Linear(16, 16)

        @torch.no_grad()
        def forward(self, x, mask):
            B, N, C = x.shape
            q, k, v = self.p(x).view(B, N, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
            return x + self.o(flex_attention(q, k, v, block_mask=mask).transpose(1, 2).reshape(B, N, C))

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.ls = nn.ModuleList([L(), L()])

        @torch.no_grad()
        def forward(self, x):
            for layer in self.ls:
                x = layer(x, m)
            return x

    return M(), (torch.randn(2, 128, 16),)
