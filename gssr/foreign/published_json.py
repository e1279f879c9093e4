"""The files of JSON that the published GSSR, 0.4.0 and older, leaves: one for each rank, in a folder for each step."""

from collections.abc import Sequence
from typing import Any

from gssr.foreign.json_file import floats, load, number, text_or_none, whole
from gssr.foreign.published import TIMELESS, Rank, runs_of
from gssr.foreign.series import ForeignError, ForeignSeries, ImportHints


def read(paths: Sequence[str], told: ImportHints) -> list[ForeignSeries]:
    """Read the JSON files of the published GSSR. Returns one series for each step of each job. Up to 20 files that
    cannot be read are named in notes; raises ForeignError if no file can be read or none has samples."""
    ranks, problems = [], []
    for path in paths:
        try:
            ranks.append(_rank(path, load(path)))
        except ForeignError as error:
            problems.append(str(error))
    if not ranks:
        raise ForeignError(problems[0])
    return runs_of(ranks, told, (TIMELESS, *problems[:20]))


def _rank(path: str, found: Any) -> Rank:
    """Read one rank from a decoded file. Raises ForeignError if it lacks the published GSSR's ``metadata`` and
    ``data``."""
    metadata = found.get("metadata") if isinstance(found, dict) else None
    data = found.get("data") if isinstance(found, dict) else None
    if not isinstance(metadata, dict) or not isinstance(data, dict):
        raise ForeignError(f"{path}: is no file of the older GSSR: it has no metadata and data")
    listed = metadata.get("gpu_ids")
    ids = tuple(own for each in listed if (own := whole(each)) is not None) if isinstance(listed, list) else ()
    samples = {
        device: {text_or_none(tag) or "": floats(column) for tag, column in columns.items() if isinstance(column, list)}
        for key, columns in data.items()
        if (device := whole(key)) is not None and isinstance(columns, dict)
    }
    asked = number(metadata.get("sampling_time"))
    return Rank(
        path, text_or_none(metadata.get("job_id")), text_or_none(metadata.get("step_id")), whole(metadata.get("proc_id")),
        text_or_none(metadata.get("hostname")), ids, samples | {device: {} for device in ids if device not in samples},
        number(metadata.get("start_time")), number(metadata.get("end_time")), number(metadata.get("elapsed")),
        asked / 1e3 if asked is not None else None, text_or_none(metadata.get("label")), text_or_none(metadata.get("cmd")),
    )  # fmt: skip
