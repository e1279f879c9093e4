"""What the live screen's tests share: recordings with planted causes."""

import planted
import pytest


@pytest.fixture(scope="session")
def plants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The path of each recording of ``planted``, by name."""
    return planted.write_all(tmp_path_factory.mktemp("planted"))
