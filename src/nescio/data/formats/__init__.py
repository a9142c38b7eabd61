"""File formats: each reader takes bytes that may be damaged or malicious."""
