"""Does rounds of jobs that race for one name, and judges each."""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.processes import CACHE
from tests.races.rounds import judged, started
from tests.races.rounds.drawn import Race
from tests.races.rounds.judged import Verdict


def verdicts(
    races: Sequence[Race], environment: Mapping[str, str] = started.ENVIRONMENT
) -> Iterator[tuple[Race, Verdict]]:
    """Do these rounds, then judge each; one that can't be started is told and left out."""
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folders = [Path(name) / str(race.seed) for race in races]
        done = []
        for race, folder in zip(races, folders, strict=True):
            folder.mkdir()
            try:
                outcome = started.run(race, folder, environment)
            except (TimeoutError, RuntimeError) as error:
                print(f"races: --seed {race.seed}: {error}", file=sys.stderr, flush=True)
                continue
            done.append((race, folder / "records", outcome, judged.merged(folder / "records")))
        pages = judged.pages(records for _, records, *_ in done)
        for race, records, outcome, stray in done:
            yield race, judged.judged(race, outcome, stray, judged.held(records), pages)


def usual(race: Race, environment: Mapping[str, str] = started.ENVIRONMENT) -> float:
    """The longest that a rank of this round takes beyond its workload where each job has a name of its own, s."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        outcome = started.run(race, Path(name), environment, apart=True)
    return max(judged.beyond(outcome), default=0.0)
