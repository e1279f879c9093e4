"""A folder in which everybody may make files."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from two_users import remove_theirs


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A folder in which everybody may make files, as /tmp is; two users who may."""
    if os.geteuid() != 0:
        pytest.skip("on this machine we are not root, and can't become two users")
    folder = Path("/tmp") / f"gssr-shared-{uuid.uuid4().hex}"
    folder.mkdir()
    folder.chmod(0o1777)
    remove_theirs("/dev/shm")  # of a run that was killed
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    for place in ("/dev/shm", str(tmp_path)):
        remove_theirs(place)
