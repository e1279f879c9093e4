"""Frames and large digits of a screen's picture: the lines of neighbouring cells meet, at every size."""

import io

import pytest
from PIL import Image

from gssr.report.png.cells import Ink, boxes, to_png

FRAME = ("╭──┬─╮", "│  │ │", "├──┼─┤", "╰──┴─╯")
HEAVY = ("┏━┳━┓", "┣━╋━┫", "┗━┻━┛")


@pytest.mark.parametrize("rows", [FRAME, HEAVY])
@pytest.mark.parametrize("scale", [1, 2, 3])
def test_a_frame_is_one_piece(rows: tuple[str, ...], scale: int) -> None:
    file = io.BytesIO()
    to_png([[(row, Ink("#ffffff", None, False, False))] for row in rows], len(rows[0]), file, scale)
    image = Image.open(file).convert("L").point(lambda value: 255 * (value > 128))
    lit = {(x, y) for x in range(image.width) for y in range(image.height) if image.getpixel((x, y))}
    reached, edge = set[tuple[int, int]](), [min(lit)]
    while edge:
        x, y = edge.pop()
        if (x, y) in lit and (x, y) not in reached:
            reached.add((x, y))
            edge += [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
    assert reached == lit and len(lit) > 50


def test_what_is_no_block_or_frame_is_left_to_the_font() -> None:
    assert boxes("a") is None and boxes("═") is None and boxes("█") == [(0, 0, 1, 1)]
