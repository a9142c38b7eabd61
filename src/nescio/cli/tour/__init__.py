"""The tour of `nescio demo`: two small problems, five methods, from data to a report."""
