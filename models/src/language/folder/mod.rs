//! What is in a model folder: ours, ONNX Runtime GenAI's, Optimum's and transformers.js's; and what is missing.
