"""`python -m nescio` is `nescio`."""

from nescio.cli import main

main()
