//! Logits → the next token: greedy, temperature, top-k, top-p, min-p, penalties, bias, seed.
