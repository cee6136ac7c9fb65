"""Operations of our own that graphs call: bodies with gradients of their own, bodies transformed, NumPy's functions."""
