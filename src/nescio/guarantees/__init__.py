"""Scores → promises: p-values, ranks and bounds that hold in finite samples, without any network."""
