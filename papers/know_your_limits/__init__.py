"""*Know your limits: monotonicity & softmax make neural classifiers overconfident on OOD data*."""
