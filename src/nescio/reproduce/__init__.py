"""The papers' experiments, from data to records."""
