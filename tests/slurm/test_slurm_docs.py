"""The batch scripts of the pages run as they stand, in real Slurm jobs."""

import re
from pathlib import Path

import pytest

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
