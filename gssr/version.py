"""The version, for whoever needs nothing else of the package; and whether another package has the same command."""

import os
import sys

__version__ = "0.5.0"
DISTRIBUTION = "gssr-profiler"
"""What ``pip`` calls this package."""


def other_package() -> "str | None":  # for Python 3.9; no __future__ is imported before gssr.module_path is
    """Return a sentence on what to do if the published package ``gssr`` is installed beside this one; None if it is
    not. Both have a command ``gssr``: the one installed last remains, and goes when either is removed."""
    for folder in sys.path:
        try:
            names = os.listdir(folder) if folder.endswith("-packages") else ()
        except OSError:
            continue
        for name in names:
            if name.startswith("gssr-") and name.endswith(".dist-info") and name != f"gssr-{__version__}.dist-info":
                found = name.removesuffix(".dist-info").replace("-", " ")
                cure = f"pip uninstall gssr {DISTRIBUTION}, then install {DISTRIBUTION} again"
                return f"{found}, another package, is installed here too and has the same command: {cure}"
    return None
