"""``python -m gssr.backends.synthetic SCENARIO --gpus 1024 --hours 1 -t 100 -o FILE``: a recording without a job."""

import argparse
import os
import sys
from collections.abc import Sequence

from gssr.backends.base import BackendError
from gssr.backends.synthetic.bulk import generate
from gssr.backends.synthetic.scenarios import SCENARIOS
from gssr.store.disk import PLANTED, is_planted
from gssr.store.read.open import RecordingError, looks_like_recording
from gssr.store.write.create import remove
from gssr.store.write.thinning import KEEPS


def _make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line, whose help describes each scenario."""
    width = max(map(len, SCENARIOS))
    table = "\n".join(
        f"  {name:<{width}}  {scenario.description}\n  {'':<{width}}  ({scenario.features})"
        for name, scenario in SCENARIOS.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m gssr.backends.synthetic",
        description="Write a recording of GPUs that don't exist, as if a job had run.",
        epilog="scenarios:\n" + table,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenario", metavar="SCENARIO", choices=SCENARIOS, help="see below")
    parser.add_argument("--gpus", type=_positive_int, default=8, metavar="N", help="number of GPUs (default 8)")
    parser.add_argument("--hours", type=_positive, default=1.0, metavar="H", help="length of the job (default 1)")
    parser.add_argument(
        "-t", "--sampling-time", type=_positive, default=500.0, metavar="MS", help="sampling interval (default 500)"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the recording to write")
    parser.add_argument(
        "--keep",
        choices=KEEPS,
        default="raw",
        help="what is kept of samples: all, means over 10 s, nothing (default raw)",
    )
    parser.add_argument("--host", action="store_true", help="rows of the nodes and their processes, too: one a second")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed, other noise (default 0)")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite the file if it exists")
    return parser


def _positive(text: str) -> float:
    """Parse a finite number above 0. Raises ValueError for anything else."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def _positive_int(text: str) -> int:
    """Parse a whole number from 1 on. Raises ValueError for anything else."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


_positive.__name__ = _positive_int.__name__ = "number above 0"  # what argparse calls it when it complains


def _show(share: float) -> None:
    filled = round(share * 40)
    sys.stderr.write(f"\r[{'#' * filled}{'.' * (40 - filled)}] {share:4.0%}" + ("\n" if share >= 1 else ""))
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the recording that the command line asks for. Returns the exit code: 0, 1 when the file can't be written,
    130 when interrupted. Raises SystemExit(2) for wrong usage."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    if os.path.lexists(options.output) and not options.force:
        parser.error(f"{options.output}: exists already; -f overwrites it")
    terminal = sys.stderr.isatty()
    try:
        if os.path.lexists(options.output):
            if is_planted(options.output):
                raise RecordingError(f"{options.output}: {PLANTED}: choose another name")
            if not os.path.isfile(options.output) or not looks_like_recording(options.output):
                raise RecordingError(f"{options.output}: is not a recording: choose another name")
            remove(options.output)
        n = generate(
            options.output,
            options.scenario,
            options.gpus,
            options.hours,
            options.sampling_time / 1000,
            options.seed,
            options.keep,
            options.host,
            _show if terminal else None,
        )
    except OSError as error:
        print(f"gssr: {error.filename or options.output}: {error.strerror}", file=sys.stderr)
        return 1
    except (BackendError, RecordingError) as error:
        print(f"gssr: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ngssr: interrupted; nothing is left behind", file=sys.stderr)
        return 130
    if terminal:
        _show(1.0)
    print(f"{options.output}: {n} samples of {options.gpus} GPU{'s' if options.gpus > 1 else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
