"""Makes the expected values in tests/gguf/blocks.rs with the `gguf` Python package (pip install gguf==0.19.0).

    python3 models/tests/gguf/blocks.py            # the tables of blocks
    python3 models/tests/gguf/blocks.py FILE.gguf  # the table of a real file

Raw bytes come from a linear congruential generator that the test has too; 16-bit floats in them are made finite by
clearing the upper bit of their exponent. A digest is FNV-1a (64 bits) over the values' bytes, little-endian float32.
"""

import sys

import numpy as np
from gguf import GGUFReader, GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

FLOATS = {  # where the upper byte of a 16-bit float lies in a block
    "F32": [3], "F16": [1], "BF16": [1],
    "Q4_0": [1], "Q4_1": [1, 3], "Q5_0": [1], "Q5_1": [1, 3], "Q8_0": [1],
    "Q2_K": [81, 83], "Q3_K": [109], "Q4_K": [1, 3], "Q5_K": [1, 3], "Q6_K": [209],
}


def digest(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"0x{h:016x}"


def noise(n, x=1):
    out = bytearray()
    for _ in range(n):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(x >> 24)
    return out


def blocks():
    for name, places in FLOATS.items():
        kind = T[name]
        size, n = GGML_QUANT_SIZES[kind][1], 16
        raw = noise(size * n)
        for b in range(n):
            for p in places:
                raw[b * size + p] &= 0xBF
        v = dequantize(np.frombuffer(bytes(raw), np.uint8).reshape(n, size), kind).astype("<f4").ravel()
        first = ", ".join(f"0x{x:08x}" for x in v[:4].view("<u4"))
        print(f"(Kind::{name.replace('_K', 'K')}, [{first}], {digest(v.tobytes())}),")
    # Values -3.2 to 3.2 in steps of 0.05, and a block of zeros.
    v = np.concatenate([(np.frombuffer(bytes(noise(256)), np.uint8).astype(np.float32) - 128) / 40, np.zeros(32)])
    v = v.astype(np.float32)
    for name in ("F16", "BF16", "Q8_0", "Q4_0"):
        q = quantize(v.reshape(-1, 32), T[name])
        print(f"(Kind::{name}, {digest(np.ascontiguousarray(q).tobytes())}),")


def real(path):
    seen = set()
    for t in GGUFReader(path).tensors:
        if t.tensor_type.name in seen:
            continue
        seen.add(t.tensor_type.name)
        rows = np.atleast_2d(t.data)[:5]
        v = dequantize(np.ascontiguousarray(rows), t.tensor_type).astype("<f4")
        print(f'("{t.name}", {v.shape[0]}, {digest(v.tobytes())}), // {t.tensor_type.name}')


blocks() if len(sys.argv) == 1 else real(sys.argv[1])
