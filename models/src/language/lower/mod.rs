//! A description becomes a graph: the flavours (`fused`, `plain`) and the precisions of the weights (`exact`, `balanced`, `fast`).
