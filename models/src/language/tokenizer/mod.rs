//! Text ↔ tokens: tokenizer.json, and how it is rebuilt from GGUF metadata.
