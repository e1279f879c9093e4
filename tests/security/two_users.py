"""Two users of one machine, whom a test that is run by root becomes."""

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

VICTIM = 50_000 + 2 * (os.getpid() % 5_000)  # others than those of tests that run at the same time
ATTACKER = VICTIM + 1


def as_user(uid: int, function: Callable[[], Any]) -> Any:
    """What the function returns, as JSON knows it, when that user calls it."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer: Any = "died"
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.umask(0)
            answer = function()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        finally:
            os.write(writable, json.dumps(answer).encode())
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        answer = json.loads(pipe.read())
    os.waitpid(pid, 0)
    return answer


def remove_theirs(place: str) -> None:
    """What the two users have made there."""
    for name in os.listdir(place):
        if name.startswith((f"gssr-{VICTIM}", f"gssr-{ATTACKER}")):
            subprocess.run(["rm", "-rf", os.path.join(place, name)], check=True)
