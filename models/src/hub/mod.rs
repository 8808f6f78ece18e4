//! Models from an address: HTTPS downloads and Hugging Face repositories, resumed, hashed, bounded.
