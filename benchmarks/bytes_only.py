"""``python -m benchmarks.bytes_only FILE [TABLE]``: only read the bytes of a file, or of a table's blobs, and look at
each: what no analysis can be faster than. Prints how many there are."""

import sqlite3
import sys

import numpy as np


def main(path: str, table: str | None = None) -> int:
    """The number of bytes."""
    if table is None:
        words = np.memmap(path, dtype=np.uint64, mode="r", shape=None)
        words.sum()
        return int(words.nbytes)
    total = 0
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        for (data,) in connection.execute(f"SELECT data FROM {table}"):
            np.frombuffer(data, np.uint8).sum()
            total += len(data)
    return total


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
