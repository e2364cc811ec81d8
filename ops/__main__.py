"""What runs first when somebody types `labferry`? Little, so that Ctrl-C is quiet at once."""

import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    try:
        from ops.cli import main as command  # noqa: PLC0415  Ctrl-C may come while it is read

        command()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
