#!/usr/bin/env python3
"""Asks pip-audit whether vulnerabilities are known of what constraints.txt names. Exit code 0: of none, and all were looked
up; 1: of some; 2: not all could be looked up, so nothing is said. pip-audit alone passes where no database answers."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def ask(command: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """What pip-audit says of each package, and its last line of complaint."""
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True)
    complaints = done.stderr.strip().splitlines() or [""]
    try:
        return json.loads(done.stdout)["dependencies"], complaints[-1]
    except (ValueError, KeyError):
        return [], complaints[-1]


def main(command: Sequence[str]) -> int:
    """``command``: pip-audit and what it is to look at."""
    packages, complaint = ask(command)
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    found = [(package, each) for package in packages for each in package.get("vulns", ())]
    for package, each in found:
        cure = f"; mended in {', '.join(each['fix_versions'])}" if each["fix_versions"] else ""
        print(f"{package['name']} {package['version']}: {each['id']}{cure}")
    if found:
        return 1
    if skipped or not packages:
        why = f" ({complaint})" if not packages and complaint else ""
        of = f"{len(skipped)} of {len(packages)} packages" if packages else "any package"
        print(f"audit: NOT DONE: no advisory database answers for {of}{why}: it needs the network", file=sys.stderr)
        return 2
    print(f"audit: {len(packages)} packages, no known vulnerability")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
