//! GGUF file → model folder: weights streamed into ONNX with external data, tokenizer, configuration, manifest.
