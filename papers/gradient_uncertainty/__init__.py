"""*Classification uncertainty of deep neural networks based on gradient information*."""
