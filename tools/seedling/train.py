#!/usr/bin/env python3
"""Trains a tiny Qwen3 language model whose every matrix is 1-bit or ternary, as the Bonsai models are.

Each weight matrix, the embedding included, is used in the forward pass as its quantised value: groups of 128 along
the input dimension share one scale. 1-bit: w = s * sign(latent), s = mean|latent|. Ternary: w = s * round(latent / s)
clipped to {-1, 0, 1}. Gradients pass straight through to the latent weights (BinaryConnect, arXiv:1511.00363;
BitNet b1.58, arXiv:2402.17764).

    train.py tokenizer CORPUS OUT/                     byte-level BPE with Qwen2's split pattern -> tokenizer.json
    train.py model CORPUS OUT/ --bits 1 [--minutes N]  -> model.safetensors (F16, already quantised), config.json
    train.py model ... --procs 2                       data-parallel over processes (gloo)

The output directory has the layout of a Hugging Face Qwen3ForCausalLM checkpoint. `tokenizer` needs the standard
library only; `model` needs torch >= 1.13 and numpy, and uses a GPU when there is one.
"""
import argparse
import collections
import heapq
import json
import math
import os
import re
import struct
import sys
import time

# Qwen2's pattern in the vocabulary of Python's re: [^\W\d_] stands for \p{L}.
SPLIT = re.compile(
    r"'(?:[sdmtSDMT]|ll|LL|ve|VE|re|RE)"
    r"|[^\r\n\w]?[^\W\d_]+"
    r"|\d"
    r"| ?[^\s\w]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
# The same as tokenizer.json spells it.
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
GROUP = 128  # weights that share a scale
CONTEXT_LENGTH = 1024  # what config.json promises
SHORTEST_STORY = 400  # characters; what is shorter is a heading or a rhyme
HELD_OUT_EVERY = 100  # of a hundred stories, one is kept for validation
NO_MERGE = 1 << 30


# --- Tokenizer -------------------------------------------------------------------------------------------------------


def byte_alphabet():
    """GPT-2's printable stand-in for every byte: {byte: character}."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in printable}
    extra = 0
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + extra)
            extra += 1
    return table


def merge_pair(word, pair):
    """The word with every occurrence of the pair joined, from the left."""
    joined = pair[0] + pair[1]
    merged, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
            merged.append(joined)
            i += 2
        else:
            merged.append(word[i])
            i += 1
    return merged


class PairCounts:
    """How often each pair of neighbouring tokens occurs, and in which words. Words are weighted by their frequency."""

    def __init__(self, words, frequencies):
        self.words = words
        self.frequencies = frequencies
        self.counts = collections.Counter()
        self.where = collections.defaultdict(set)
        for i, word in enumerate(words):
            for pair in zip(word, word[1:]):
                self.counts[pair] += frequencies[i]
                self.where[pair].add(i)
        self.heap = [(-count, pair) for pair, count in self.counts.items()]
        heapq.heapify(self.heap)

    def pop_most_frequent(self):
        """The most frequent pair, ties by token order; None when every word is one token.

        Entries of the heap may be out of date; those go back in.
        """
        while self.heap:
            negative, pair = heapq.heappop(self.heap)
            if self.counts[pair] == -negative:
                return pair
            if self.counts[pair] > 0:
                heapq.heappush(self.heap, (-self.counts[pair], pair))
        return None

    def merge(self, pair):
        touched = set()
        for i in list(self.where.pop(pair)):
            before, after = self.words[i], merge_pair(self.words[i], pair)
            for old in zip(before, before[1:]):
                self.counts[old] -= self.frequencies[i]
                touched.add(old)
            for new in zip(after, after[1:]):
                self.counts[new] += self.frequencies[i]
                self.where[new].add(i)
                touched.add(new)
            self.words[i] = after
        for pair in touched:
            if self.counts[pair] > 0:
                heapq.heappush(self.heap, (-self.counts[pair], pair))


def train_tokenizer(text, vocab_size):
    """Returns (vocab {token: id}, merges [(left, right)]), most frequent pair first, ties by token order.

    They are fewer than vocab_size where the text has no more.
    """
    table = byte_alphabet()
    occurrences = collections.Counter(SPLIT.findall(text))
    words = [[table[byte] for byte in word.encode()] for word in occurrences]
    pairs = PairCounts(words, list(occurrences.values()))
    vocab = {character: i for i, character in enumerate(sorted(table.values()))}
    merges = []
    while len(vocab) < vocab_size - len(SPECIAL):
        pair = pairs.pop_most_frequent()
        if pair is None:
            break
        merges.append(pair)
        vocab[pair[0] + pair[1]] = len(vocab)
        pairs.merge(pair)
    return vocab, merges


def write_json(path, value, **options):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, **options)


def write_tokenizer(vocab, merges, out):
    """Writes tokenizer.json and tokenizer_config.json in Hugging Face's layout."""
    added = [
        {
            "id": len(vocab) + i,
            "content": special,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, special in enumerate(SPECIAL)
    ]
    split = {"type": "Split", "pattern": {"Regex": QWEN2_PATTERN}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocab, "merges": [list(merge) for merge in merges]},
    }
    config = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": SPECIAL[0],
        "pad_token": SPECIAL[0],
        "bos_token": SPECIAL[0],
        "add_bos_token": True,
        "model_max_length": CONTEXT_LENGTH,
    }
    write_json(os.path.join(out, "tokenizer.json"), tokenizer, ensure_ascii=False)
    write_json(os.path.join(out, "tokenizer_config.json"), config)


class Tokenizer:
    """Encodes the corpus with a tokenizer.json that train_tokenizer made. Words are cached."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.vocab = document["model"]["vocab"]
        self.rank = {tuple(merge): i for i, merge in enumerate(document["model"]["merges"])}
        self.eos = document["added_tokens"][0]["id"]
        self.size = len(self.vocab) + len(document["added_tokens"])
        self.table = byte_alphabet()
        self.cache = {}

    def word(self, word):
        if word not in self.cache:
            symbols = [self.table[byte] for byte in word.encode()]
            while len(symbols) > 1:
                ranks = (self.rank.get(pair, NO_MERGE) for pair in zip(symbols, symbols[1:]))
                rank, i = min((rank, i) for i, rank in enumerate(ranks))
                if rank == NO_MERGE:
                    break
                symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
            self.cache[word] = [self.vocab[symbol] for symbol in symbols]
        return self.cache[word]

    def encode(self, text):
        return [token for word in SPLIT.findall(text) for token in self.word(word)]


# --- Model -----------------------------------------------------------------------------------------------------------


def make_quantise(bits):
    """The function that maps latent weights to those that the forward pass uses."""
    import torch

    def quantise(latent):
        groups = latent.reshape(-1, GROUP)
        scale = groups.abs().mean(1, keepdim=True).half().float()  # the file holds F16 scales
        if bits == 1:
            quantised = torch.where(groups >= 0, scale, -scale)
        else:
            quantised = scale * torch.clamp(torch.round(groups / (scale + 1e-8)), -1, 1)
        return quantised.reshape(latent.shape)

    return quantise


def build(config, bits):
    """Returns (model, quantise). Parameters are named as in a Hugging Face checkpoint, less the leading "model."."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    hidden, head_dim = config["hidden_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    ffn, eps = config["intermediate_size"], config["rms_norm_eps"]
    quantise = make_quantise(bits)

    def used(latent):
        """The quantised value with the latent weight's gradient."""
        return latent + (quantise(latent) - latent).detach()

    class RmsNorm(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(size))

        def forward(self, x):
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))

    class QuantisedLinear(nn.Module):
        def __init__(self, columns, rows, gain=1.0):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(rows, columns) * gain * columns**-0.5)

        def forward(self, x):
            return F.linear(x, used(self.weight))

    def rope(x, cos, sin):
        low, high = x[..., : head_dim // 2], x[..., head_dim // 2 :]
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj = QuantisedLinear(hidden, heads * head_dim)
            self.k_proj = QuantisedLinear(hidden, kv_heads * head_dim)
            self.v_proj = QuantisedLinear(hidden, kv_heads * head_dim)
            self.o_proj = QuantisedLinear(heads * head_dim, hidden, 0.3)
            self.q_norm, self.k_norm = RmsNorm(head_dim), RmsNorm(head_dim)

        def forward(self, h, cos, sin, mask):
            batch, length, _ = h.shape
            q = self.q_norm(self.q_proj(h).view(batch, length, heads, head_dim)).transpose(1, 2)
            k = self.k_norm(self.k_proj(h).view(batch, length, kv_heads, head_dim)).transpose(1, 2)
            v = self.v_proj(h).view(batch, length, kv_heads, head_dim).transpose(1, 2)
            q, k = rope(q, cos, sin), rope(k, cos, sin)
            k = k.repeat_interleave(heads // kv_heads, 1)
            v = v.repeat_interleave(heads // kv_heads, 1)
            weights = torch.softmax(q @ k.transpose(-1, -2) * head_dim**-0.5 + mask, -1)
            return self.o_proj((weights @ v).transpose(1, 2).reshape(batch, length, heads * head_dim))

    class FeedForward(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate_proj, self.up_proj = QuantisedLinear(hidden, ffn), QuantisedLinear(hidden, ffn)
            self.down_proj = QuantisedLinear(ffn, hidden, 0.3)

        def forward(self, h):
            return self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.input_layernorm, self.post_attention_layernorm = RmsNorm(hidden), RmsNorm(hidden)
            self.self_attn, self.mlp = Attention(), FeedForward()

        def forward(self, x, cos, sin, mask):
            x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
            return x + self.mlp(self.post_attention_layernorm(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed_tokens = nn.Module()
            self.embed_tokens.weight = nn.Parameter(torch.randn(config["vocab_size"], hidden) * 0.05)
            self.layers = nn.ModuleList(Block() for _ in range(config["num_hidden_layers"]))
            self.norm = RmsNorm(hidden)

        def forward(self, ids):
            length, device, dtype = ids.shape[1], ids.device, self.norm.weight.dtype
            pairs = torch.arange(0, head_dim, 2, device=device, dtype=torch.float64)
            positions = torch.arange(length, device=device, dtype=torch.float64)
            angles = positions[:, None] * config["rope_theta"] ** (-pairs / head_dim)
            cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
            mask = torch.full((length, length), float("-inf"), device=device, dtype=dtype).triu(1)
            embedding = used(self.embed_tokens.weight)
            x = F.embedding(ids, embedding)
            for block in self.layers:
                x = block(x, cos, sin, mask)
            return F.linear(self.norm(x), embedding)  # the head is tied

    return Model(), quantise


def save(model, quantise, config, out):
    """Writes model.safetensors (matrices quantised, in F16; norms in F32) and config.json."""
    header, parts, offset = {}, [], 0
    for name, parameter in model.named_parameters():
        weight = parameter.detach().float().cpu()
        is_matrix = weight.dim() == 2
        data = (quantise(weight).half() if is_matrix else weight).numpy().tobytes()
        header["model." + name] = {
            "dtype": "F16" if is_matrix else "F32",
            "shape": list(weight.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        parts.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the data begins on a multiple of eight
    path = os.path.join(out, "model.safetensors")
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    os.replace(path + ".part", path)
    write_json(os.path.join(out, "config.json"), config, indent=1)


# --- Training --------------------------------------------------------------------------------------------------------


def make_config(args, tokenizer):
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "vocab_size": tokenizer.size,
        "hidden_size": args.hidden,
        "intermediate_size": args.inter,
        "num_hidden_layers": args.layers,
        "num_attention_heads": args.heads,
        "num_key_value_heads": args.kv_heads,
        "head_dim": args.head_dim,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "max_position_embeddings": CONTEXT_LENGTH,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "torch_dtype": "float16",
        "eos_token_id": tokenizer.eos,
        "bos_token_id": tokenizer.eos,
    }


def load_streams(corpus, tokenizer):
    """Returns (training, held-out) token streams; every story begins with <|endoftext|>."""
    with open(corpus, encoding="utf-8") as file:
        stories = [story for story in file.read().split("\n\n") if len(story) > SHORTEST_STORY]
    held_out = stories[::HELD_OUT_EVERY]
    kept = [story for i, story in enumerate(stories) if i % HELD_OUT_EVERY]

    def stream(chosen):
        return [token for story in chosen for token in [tokenizer.eos] + tokenizer.encode(story.strip())]

    return stream(kept), stream(held_out)


def make_optimizer(model, lr):
    """AdamW with weight decay on matrices only."""
    import torch

    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.02}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98))


def learning_rate(peak, step, done):
    """A hundred steps of warm-up, then a cosine over the share of the time that is done, down to 3 %."""
    return peak * min(1, (step + 1) / 100) * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * min(1, done))))


def loss_of(model, windows):
    """Mean cross entropy of each window's every next token."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


def held_out_loss(model, stream, context, device):
    import torch

    whole = len(stream) // context
    windows = stream[: whole * context].view(whole, context)[:24].to(device)
    with torch.no_grad():
        return loss_of(model, windows).item()


def average_gradients(model, processes):
    import torch
    import torch.distributed as dist

    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= processes
    offset = 0
    for p in model.parameters():
        p.grad = flat[offset : offset + p.numel()].view_as(p)
        offset += p.numel()


def share_of_time(start, args):
    """How much of --minutes has passed, by the first process's clock, so that all stop at the same step."""
    done = (time.time() - start) / 60 / args.minutes
    if args.procs == 1:
        return done
    import torch
    import torch.distributed as dist

    shared = torch.tensor([done])
    dist.broadcast(shared, 0)
    return shared.item()


def train(rank, args, config, streams):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.procs > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port))
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo", rank=rank, world_size=args.procs)
    torch.manual_seed(7)
    data, held_out = (torch.tensor(stream, dtype=torch.long) for stream in streams)
    model, quantise = build(config, args.bits)
    model.to(device)
    optimizer = make_optimizer(model, args.lr)
    generator = torch.Generator().manual_seed(100 + rank)

    def report(text):
        if rank == 0:
            print(text, flush=True)

    millions = sum(p.numel() for p in model.parameters()) / 1e6
    report(f"{millions:.2f}M parameters, {len(data)/1e6:.2f}M training tokens, {len(held_out)} held out, {device}")
    start, step, seen = time.time(), 0, 0
    while (done := share_of_time(start, args)) < 1:
        lr = learning_rate(args.lr, step, done)
        for group in optimizer.param_groups:
            group["lr"] = lr
        begins = torch.randint(len(data) - args.context - 1, (args.batch,), generator=generator)
        windows = torch.stack([data[begin : begin + args.context + 1] for begin in begins]).to(device)
        loss = loss_of(model, windows)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if args.procs > 1:
            average_gradients(model, args.procs)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        seen += args.batch * args.context * args.procs
        if step % 50 == 0 or step == 5:
            speed = seen / (time.time() - start)
            report(f"step {step} {done*100:.1f}% lr {lr:.2e} loss {loss.item():.3f} {speed:.0f} tok/s")
        if rank == 0 and step % 400 == 0:
            validation = held_out_loss(model, held_out, args.context, device)
            report(f"held-out loss {validation:.3f} perplexity {math.exp(validation):.2f}")
            save(model, quantise, config, args.out)
    if rank == 0:
        save(model, quantise, config, args.out)
    report(f"saved {args.out} steps {step}")


# --- Command line ----------------------------------------------------------------------------------------------------


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tokenizer", "model"])
    parser.add_argument("corpus")
    parser.add_argument("out")
    parser.add_argument("--vocab", type=int, default=4096, help="tokens, the special ones included")
    parser.add_argument("--bits", type=int, choices=[1, 2], default=1, help="1: sign and scale; 2: ternary")
    parser.add_argument("--minutes", type=float, default=60, help="how long to train")
    parser.add_argument("--procs", type=int, default=1, help="processes that share each step's batch")
    parser.add_argument("--port", type=int, default=29511, help="where the processes meet")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--inter", type=int, default=768, help="width of the feed-forward layer")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--context", type=int, default=256, help="tokens in a training window")
    parser.add_argument("--batch", type=int, default=16, help="windows in a step, for each process")
    parser.add_argument("--lr", type=float, default=2.5e-3, help="the highest learning rate")
    return parser.parse_args()


def make_tokenizer(args):
    with open(args.corpus, encoding="utf-8") as file:
        vocab, merges = train_tokenizer(file.read(), args.vocab)
    if len(vocab) + len(SPECIAL) < args.vocab:
        found = len(vocab) + len(SPECIAL)
        sys.exit(f"train.py: {args.corpus}: has no more than {found} tokens, expected {args.vocab} (--vocab)")
    write_tokenizer(vocab, merges, args.out)
    print(len(vocab), "tokens,", len(merges), "merges")


def make_model(args):
    tokenizer = Tokenizer(os.path.join(args.out, "tokenizer.json"))
    streams = load_streams(args.corpus, tokenizer)
    for stream, name, least in zip(streams, ("to train with", "held out"), (args.context + 2, args.context)):
        if len(stream) < least:
            sys.exit(
                f"train.py: {args.corpus}: {len(stream)} tokens {name}, expected at least {least} (--context); "
                f"passages of more than {SHORTEST_STORY} characters count, with an empty line between them"
            )
    run = (args, make_config(args, tokenizer), streams)
    if args.procs > 1:
        import torch.multiprocessing

        torch.multiprocessing.spawn(train, run, nprocs=args.procs)
    else:
        train(0, *run)


def main():
    args = parse_arguments()
    os.makedirs(args.out, exist_ok=True)
    if args.what == "tokenizer":
        make_tokenizer(args)
    else:
        make_model(args)


if __name__ == "__main__":
    main()
