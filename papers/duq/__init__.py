"""*Uncertainty estimation using a single deep deterministic neural network* (DUQ)."""
