"""`nescio`, and `python -m nescio`: the command line, which can be stopped at any time, also while it is loaded."""

import signal
import sys


def main() -> None:
    """Run the command line; Ctrl-C before a command has begun ends with one line, and a second one changes nothing."""
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
