"""`nescio` and `python -m nescio`: the command line, which can be interrupted while it loads."""

import signal
import sys


def main() -> None:
    """Run the command line; Ctrl-C before a command has begun ends with one line."""
    try:
        from nescio.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was written\n")
        sys.exit(128 + signal.SIGINT)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()
