"""What a command runs: the same word for every run of the same program, whatever its arguments."""

import os
import re
from collections.abc import Sequence

_INTERPRETER = re.compile(
    r"(?:python|pypy|perl|ruby|lua)[\d.]*|(?:ba|da|z|k|c|tc|fi)?sh|julia|Rscript|node|java|matlab"
)
_BEFORE = {"env", "nice", "nohup", "time", "timeout", "numactl", "taskset", "srun", "mpirun", "mpiexec", "stdbuf"}
"""What only starts another program."""
_TAKE_TEXT = ("-c", "-e", "-lc")
_MODULE = "-m"


def program_of(command: Sequence[str]) -> str | None:
    """``train.py`` of ``/usr/bin/python3 -u /home/me/train.py --lr 1``, ``torch.distributed.run`` of ``python -m ...``,
    ``sh -c`` of a text for the shell, ``solver`` of ``./bin/solver input``. None of no command."""
    words = list(command)
    while len(words) > 1 and os.path.basename(words[0]) in _BEFORE:
        words = _after_options(words)
    if not words:
        return None
    name = os.path.basename(words[0].rstrip("/")) or words[0]
    if not _INTERPRETER.fullmatch(name):
        return name
    for place, word in enumerate(words[1:], 1):
        if word in _TAKE_TEXT:
            return f"{name} {word}"
        if word == _MODULE and place + 1 < len(words):
            return words[place + 1]
        if not word.startswith("-"):
            return os.path.basename(word.rstrip("/")) or word
    return name


def _after_options(words: Sequence[str]) -> list[str]:
    """The words after a starter, its options, its settings (NAME=VALUE) and its numbers (a priority, a time limit)."""
    rest = list(words[1:])
    while len(rest) > 1 and (rest[0].startswith("-") or "=" in rest[0] or re.fullmatch(r"[\d.,:]+[smhd]?", rest[0])):
        del rest[0]
    return rest
