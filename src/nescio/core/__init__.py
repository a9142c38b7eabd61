"""Where a network is run: predictions, features, gradients, attacks; the model is left as found."""
