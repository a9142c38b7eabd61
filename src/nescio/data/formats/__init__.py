"""File formats: each reader takes bytes that may be broken or hostile."""
