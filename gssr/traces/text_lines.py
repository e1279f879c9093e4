"""The lines of texts that profilers print, CSV above all."""

import codecs
from collections.abc import Iterator

from gssr.traces.json_events import FileChunks
from gssr.traces.timeline import TraceError

LONGEST_LINE = 4 << 20
"""Characters: of Nsight Compute's page "raw" with all metrics there are it has some 500,000."""


def text_lines(path: str, most_bytes: int | None, tool: str) -> Iterator[str]:
    """Yield the lines of a text in UTF-8 or UTF-16, as PowerShell writes it, with their ends, which a last line that is cut
    off lacks. ``most_bytes``: how much the file may unpack to, None for the default; ``tool``: what has written it. Raises
    TraceError, also for a line of more than LONGEST_LINE."""
    chunks = FileChunks(path, most_bytes)
    decoder, rest = None, ""
    for chunk in chunks:
        if decoder is None:
            is_wide = chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            decoder = codecs.getincrementaldecoder("utf-16" if is_wide else "utf-8-sig")("replace")
        *lines, rest = (rest + decoder.decode(chunk)).split("\n")
        yield from (f"{line.rstrip(chr(13))}\n" for line in lines)
        if len(rest) > LONGEST_LINE:
            raise TraceError(f"{path}: is damaged: a line of it is longer than any that {tool} prints")
    if chunks.problem:
        raise TraceError(f"{path}: {chunks.problem.split(':')[0]}")
    if rest:
        yield rest
