"""*Why ReLU networks yield high-confidence predictions far away from the training data …*."""
