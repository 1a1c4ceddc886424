#!/usr/bin/env python3
"""Writes external-golden.json: logits of three small Qwen3 models, computed in float64 with numpy alone.

It is a judge of the judge: it shares no code with core/reference, and follows the model's equations (Qwen3's
report, arXiv:2505.09388; YaRN, arXiv:2309.00071) as they are written down in the papers.

The weights are not stored. Both sides make them from a seed with SplitMix64 (Steele, Lea, Flood 2014): tensor number t
of a model, in the order of `tensors` below, is seeded with seed * 1000 + t; each 64-bit output z gives
u = (z >> 40) / 2^23 - 1, in [-1, 1); a matrix element is float32(u * sqrt(3 / columns)), a norm's 1 + float32(u / 4).

    python3 make_external_golden.py external-golden.json
"""

import json
import sys

import numpy as np

MODELS = [
    {"name": "yarn", "seed": 1, "layers": 2, "hidden": 32, "ffn": 48, "heads": 4, "kv_heads": 2, "head_dim": 16,
     "vocab": 40, "tied": True, "rope_base": 10000.0, "yarn_factor": 4.0, "original_context": 32},
    {"name": "untied", "seed": 2, "layers": 2, "hidden": 32, "ffn": 64, "heads": 2, "kv_heads": 2, "head_dim": 16,
     "vocab": 45, "tied": False, "rope_base": 1000000.0, "yarn_factor": 0.0, "original_context": 0},
    {"name": "gqa-4", "seed": 3, "layers": 3, "hidden": 48, "ffn": 32, "heads": 8, "kv_heads": 2, "head_dim": 8,
     "vocab": 33, "tied": True, "rope_base": 10000.0, "yarn_factor": 0.0, "original_context": 0},
]
N_TOKENS = 40  # beyond the YaRN model's original context
RECORDED = [0, 1, 17, 39]  # positions whose logits are written
RMS_EPS = np.float64(np.float32(1e-6))  # as a GGUF file holds it


def split_mix_64(seed, count):
    """The first `count` outputs of SplitMix64."""
    mask = (1 << 64) - 1
    outputs, state = [], seed & mask
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        outputs.append(z ^ (z >> 31))
    return outputs


def uniform(seed, count):
    """Numbers in [-1, 1) that are multiples of 2^-23: exact in float32 and float64."""
    return np.array([(z >> 40) / 2.0**23 - 1 for z in split_mix_64(seed, count)])


def tensor_shapes(model):
    """Names and shapes (rows, columns), norms (size,), in the order in which their seeds count."""
    q, kv = model["heads"] * model["head_dim"], model["kv_heads"] * model["head_dim"]
    hidden, ffn = model["hidden"], model["ffn"]
    shapes = [("token_embd", (model["vocab"], hidden))]
    for i in range(model["layers"]):
        shapes += [(f"blk.{i}.attn_norm", (hidden,)), (f"blk.{i}.attn_q", (q, hidden)),
                   (f"blk.{i}.attn_k", (kv, hidden)), (f"blk.{i}.attn_v", (kv, hidden)),
                   (f"blk.{i}.attn_q_norm", (model["head_dim"],)), (f"blk.{i}.attn_k_norm", (model["head_dim"],)),
                   (f"blk.{i}.attn_output", (hidden, q)), (f"blk.{i}.ffn_norm", (hidden,)),
                   (f"blk.{i}.ffn_gate", (ffn, hidden)), (f"blk.{i}.ffn_up", (ffn, hidden)),
                   (f"blk.{i}.ffn_down", (hidden, ffn))]
    shapes.append(("output_norm", (hidden,)))
    if not model["tied"]:
        shapes.append(("output", (model["vocab"], hidden)))
    return shapes


def make_weights(model):
    weights = {}
    for number, (name, shape) in enumerate(tensor_shapes(model)):
        u = uniform(model["seed"] * 1000 + number, int(np.prod(shape)))
        values = 1 + (u / 4).astype(np.float32) if len(shape) == 1 else (u * np.sqrt(3 / shape[-1])).astype(np.float32)
        weights[name] = values.astype(np.float32).astype(np.float64).reshape(shape)
    return weights


def rms_norm(x, weight):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + RMS_EPS) * weight


def rope_angles(model, n):
    """(n, head_dim / 2) angles, and the factor on cos and sin."""
    dim, base = model["head_dim"], model["rope_base"]
    frequencies = base ** (-np.arange(0, dim, 2) / dim)
    scale = 1.0
    if model["yarn_factor"]:
        factor, original = model["yarn_factor"], model["original_context"]

        def pair_that_turns(rotations):
            return dim * np.log(original / (2 * np.pi * rotations)) / (2 * np.log(base))

        low = min(max(np.floor(pair_that_turns(32)), 0), dim - 1)
        high = min(max(np.ceil(pair_that_turns(1)), 0), dim - 1)
        ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
        frequencies = (1 - ramp) * frequencies + ramp * frequencies / factor
        scale = 1 + 0.1 * np.log(factor)
    return np.outer(np.arange(n), frequencies), scale


def rotate(x, angles, scale):
    """x (n, heads, head_dim): pairs (i, i + head_dim / 2)."""
    cos, sin = np.cos(angles)[:, None, :] * scale, np.sin(angles)[:, None, :] * scale
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attention(q, k, v):
    """q (n, heads, head_dim), k and v (n, kv_heads, head_dim), causal."""
    n, heads, dim = q.shape
    k, v = (np.repeat(t, heads // t.shape[1], axis=1) for t in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(dim)
    scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hij,jhd->ihd", weights, v).reshape(n, heads * dim)


def logits(model, w, tokens):
    """All positions at once, (n, vocab)."""
    n, dim = len(tokens), model["head_dim"]
    angles, scale = rope_angles(model, n)
    x = w["token_embd"][tokens]
    for i in range(model["layers"]):
        layer = {name.removeprefix(f"blk.{i}."): value for name, value in w.items() if name.startswith(f"blk.{i}.")}
        h = rms_norm(x, layer["attn_norm"])
        q = (h @ layer["attn_q"].T).reshape(n, model["heads"], dim)
        k = (h @ layer["attn_k"].T).reshape(n, model["kv_heads"], dim)
        v = (h @ layer["attn_v"].T).reshape(n, model["kv_heads"], dim)
        q = rotate(rms_norm(q, layer["attn_q_norm"]), angles, scale)
        k = rotate(rms_norm(k, layer["attn_k_norm"]), angles, scale)
        x = x + attention(q, k, v) @ layer["attn_output"].T
        h = rms_norm(x, layer["ffn_norm"])
        gate = h @ layer["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ layer["ffn_up"].T)) @ layer["ffn_down"].T
    return rms_norm(x, w["output_norm"]) @ w["output" if "output" in w else "token_embd"].T


def main():
    models = []
    for model in MODELS:
        weights = make_weights(model)
        tokens = [z % model["vocab"] for z in split_mix_64(model["seed"], N_TOKENS)]
        rows = logits(model, weights, tokens)
        models.append({**model, "tokens": tokens, "first_weights": weights["token_embd"][0, :3].tolist(),
                       "positions": RECORDED, "logits": [rows[p].tolist() for p in RECORDED]})
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"source": "make_external_golden.py, numpy float64", "models": models}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
