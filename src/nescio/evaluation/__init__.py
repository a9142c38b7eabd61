"""Model × data → record."""
