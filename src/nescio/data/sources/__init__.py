"""Where data sets come from: embedded, on disk, downloaded."""
