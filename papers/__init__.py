"""The tables and figures of four papers, made again with nescio: `python -m papers list`."""
