//! What each family of language models computes, as a description that the flavours lower to graphs.
