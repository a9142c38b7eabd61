"""Data sets: embedded, from files, downloaded; inputs stay raw, images in [0, 1], tables in their own units."""
