"""The batch scripts of the pages run as they stand, in real Slurm jobs."""

import re
from contextlib import closing
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from gssr.store.read.recording import open_recording

pytestmark = pytest.mark.xdist_group("slurm")

ROOT = Path(__file__).parents[2]


def batch_scripts(page: Path) -> list[str]:
    found = re.findall(r"^```bash\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [script for script in found if "#SBATCH" in script]


@pytest.mark.parametrize("page", ["README.md", "docs/profile.md"])
def test_batch_scripts_of_the_pages_end_with_the_job_on_a_page(slurm, tmp_path: Path, page: str) -> None:
    (script,) = batch_scripts(ROOT / page)
    (tmp_path / "train.py").write_text("import sys, time; time.sleep(0.6); sys.exit(3)")
    output = slurm.sbatch(script, cwd=tmp_path)
    assert re.search(r"^GSSR  .*job \d+  failed, exit code 3$", output, re.MULTILINE), output
    own = [line for line in output.splitlines() if not line.startswith("srun: ")]  # which says what code it got
    assert own[-1] == "GSSR score=unknown imbalance=unknown gpus=0 gaps=0"
    files = [path for path in tmp_path.rglob("*.sql") if path.is_file()]
    assert len(files) == 1


def test_the_job_of_the_one_file_is_recorded_and_merged_without_an_installation(slurm, tmp_path: Path) -> None:
    (script,) = batch_scripts(ROOT / "docs" / "install.md")
    (tmp_path / "train.py").write_text("import time; time.sleep(5)")  # as long as a busy node may need to find its GPUs
    spec = spec_from_file_location("one_file", ROOT / ".ci" / "one_file.py")
    assert spec is not None and spec.loader is not None
    one_file = module_from_spec(spec)
    spec.loader.exec_module(one_file)
    (tmp_path / one_file.NAME).write_bytes(one_file.build(ROOT, 1_800_000_000))
    output = slurm.sbatch(script, cwd=tmp_path)
    assert "see it with: gssr analyze" in output and "Traceback" not in output, output
    (file,) = tmp_path.glob("*.sql")
    with closing(open_recording(file)) as recording:
        assert [process.rank for process in recording.runs[0].processes] == list(range(8))
