"""Records as things to look at; nothing here imports torch."""
