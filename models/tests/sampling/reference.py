"""Writes reference.json: what the sampling steps must leave, computed another way than the product does.

Plain numpy with full sorts, in double precision, from the published definitions: llama.cpp's order of steps
(common/sampling.cpp: bias, penalties, top-k, top-p, min-p, temperature), its penalties (llama-sampling.cpp:
a logit <= 0 is multiplied, another divided), presence and frequency as in OpenAI's API reference, counted in the
answer only. Run: python3 reference.py > reference.json
"""

import json
import numpy as np

rng = np.random.default_rng(20261130)


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def keep(logits, p):
    """Indices that are left, in descending order of their logits."""
    order = sorted(np.flatnonzero(logits > -np.inf), key=lambda i: (-logits[i], i))
    if p["top_k"] > 0:
        order = order[: p["top_k"]]
    if p["top_p"] < 1:
        cumulative = np.cumsum(softmax(logits[order]))
        order = order[: int(np.argmax(cumulative >= p["top_p"])) + 1]
    if p["min_p"] > 0:
        probabilities = softmax(logits[order])
        order = [i for i, q in zip(order, probabilities) if q >= p["min_p"] * probabilities.max()]
    return order


def case(**given):
    p = dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition=1.0, presence=0.0, frequency=0.0, bias=[],
             prompt=[], answer=[], allowed=None) | given
    raw = np.round(rng.normal(0, 2.5, 40), 3).astype(np.float32)
    logits = raw.astype(np.float64)
    if p["allowed"] is not None:
        logits[[i for i in range(40) if i not in p["allowed"]]] = -np.inf
    for token, bias in p["bias"]:
        logits[token] += bias
    for token in set(p["prompt"]) | set(p["answer"]):
        logits[token] = logits[token] * p["repetition"] if logits[token] <= 0 else logits[token] / p["repetition"]
        count = p["answer"].count(token)
        logits[token] -= p["frequency"] * count + p["presence"] * (count > 0)
    left = keep(logits, p)
    probabilities = softmax(logits[left] / p["temperature"])
    log = raw - raw.max() - np.log(np.exp(raw.astype(np.float64) - raw.max()).sum())
    return p | dict(
        logits=[float(f"{x:.3f}") for x in raw],
        left=sorted([int(i), float(f"{q:.9g}")] for i, q in zip(left, probabilities)),
        greedy=int(np.argmax(logits)),
        log=[float(f"{x:.7g}") for x in log],
    )


cases = [
    case(),
    case(temperature=0.7),
    case(temperature=1.8, top_k=5),
    case(top_k=1),
    case(top_k=1000),
    case(top_p=0.9),
    case(top_p=0.5, temperature=0.6),
    case(top_p=0.01),
    case(min_p=0.1),
    case(min_p=1.0),
    case(top_k=12, top_p=0.8, min_p=0.05, temperature=0.8),
    case(repetition=1.3, prompt=[1, 2, 3, 3], answer=[5, 5, 7]),
    case(presence=0.9, frequency=0.4, prompt=[1, 2, 3, 3], answer=[3, 5, 5, 7]),
    case(repetition=1.1, presence=-0.5, frequency=1.2, prompt=[0, 39], answer=[0, 8, 8, 8], top_k=20, temperature=1.5),
    case(bias=[[4, 6.0], [9, -100.0]], top_p=0.95),
    case(allowed=[3, 17, 31, 32, 39], top_k=3, temperature=2.0),
    case(allowed=list(range(1, 38)), bias=[[0, 50.0], [20, 3.0]], repetition=1.2, prompt=[20], min_p=0.02),
]
print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")
