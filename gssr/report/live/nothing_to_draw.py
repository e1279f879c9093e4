"""What a screen says where there is nothing to draw, and where something could not be read."""

import os
import traceback

from gssr.gpu_name import listed
from gssr.model.live.live_result import Result
from gssr.render.cells import clean


def why_nothing_to_draw(result: Result, chosen: str, waiting: str) -> str:
    """Say why there is nothing to draw; "" if there is something. ``chosen``: the filter as it was typed; ``waiting``: what
    to add while the recording does not exist yet."""
    if result.part is not None and not result.part.matched:
        return f"no match: {clean(chosen)}\nThe rows are {listed(result.gpus)}. Esc shows all."
    if result.n_rows and result.n_gpus:
        return ""
    if result.problem:
        return result.problem
    if result.run is None and result.part is None:
        said = f"{'waiting for' if result.refined else 'reading'} {clean(result.path)}"
        return f"{said}\n{waiting}" if waiting and result.refined else said
    return "no sample yet" if result.n_gpus else "no GPU was recorded"


def problem_text(result: Result) -> str:
    """Say what could not be read, with the file's name in place of its path; "" if there is no problem."""
    return clean((result.problem or "").replace(result.path, os.path.basename(result.path.rstrip("/"))))


def error_text(problem: BaseException | None) -> str:
    """Name the error that ended the reading in a line; under ``gssr --debug`` with its traceback above. None stands for an
    unknown error."""
    text = clean(f"gssr: an error while reading: {problem!r}")
    if problem is None or not os.environ.get("GSSR_DEBUG"):
        return text if problem is None else f"{text}; gssr --debug shows where"
    return "\n".join([*map(clean, "".join(traceback.format_exception(problem)).splitlines()), text])
