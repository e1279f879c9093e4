"""Where the command ``gssr`` begins, and ``python -m gssr``."""

from gssr.module_path import put_python_library_first


def run() -> None:
    """Run the command line; ends the process."""
    put_python_library_first()
    from gssr.cli import run

    run()


if __name__ == "__main__":
    run()
