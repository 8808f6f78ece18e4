//! GGUF files: the weights that people have. Reading (versions 2 and 3, little-endian, split files), the block
//! formats of the weights, and writing.
