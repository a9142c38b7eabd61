"""The parts of a report, one file each: `section(given)` makes it of its records, or None without them."""
