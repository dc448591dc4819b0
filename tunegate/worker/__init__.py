"""What runs beside the GPU: rows, tokens, training, generation. Standard library at import."""
