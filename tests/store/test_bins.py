"""Sketches decoded together hold what each of them holds by itself, and what is none is left out."""

import sqlite3
from collections import Counter
from itertools import islice

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.store.format.rollup import Histogram, pack_sketch, unpack_sketch
from gssr.store.format.schema import SKETCH_SECONDS, SKETCHES
from gssr.store.format.sketches import Sketches, decode_sketches

METRICS = 4

histograms = st.dictionaries(st.integers(0, 65_535), st.integers(1, 2**32 - 1), max_size=5).map(Counter)
lengths = st.sampled_from(list(SKETCHES))


def decode(blobs: list[bytes], n_metrics: int, seconds: int = SKETCH_SECONDS) -> Sketches:
    """Decode blobs whose GPUs are their places among them."""
    places = np.arange(len(blobs))
    return decode_sketches(places, 60 * places, blobs, n_metrics, seconds)


def sound(seconds: int) -> st.SearchStrategy[bytes]:
    return st.lists(histograms, max_size=METRICS + 1).map(lambda found: pack_sketch(found, seconds))


@st.composite
def spoilt(draw, seconds: int) -> bytes:
    """One that is cut off, goes on, or has another byte somewhere."""
    blob = bytearray(draw(sound(seconds)))
    kind = draw(st.sampled_from(("cut", "longer", "byte")))
    if kind == "cut":
        return bytes(blob[: draw(st.integers(0, len(blob)))])
    if kind == "longer":
        return bytes(blob) + draw(st.binary(min_size=1, max_size=8))
    blob[draw(st.integers(0, min(len(blob), 12) - 1))] = draw(st.integers(0, 255))
    return bytes(blob)


def alone(blob: bytes, seconds: int) -> list[Histogram] | None:
    try:
        found = unpack_sketch(blob, seconds)
    except sqlite3.DatabaseError:
        return None
    return None if len(blob) < 2 or len(found) > METRICS else [*found, *([Counter()] * (METRICS - len(found)))]


@settings(max_examples=20)
@given(lengths, st.data())
def test_together_as_one_by_one(seconds: int, data: st.DataObject) -> None:
    each = st.one_of(sound(seconds), spoilt(seconds), st.binary(max_size=20))
    blobs = data.draw(st.lists(each, min_size=1, max_size=6))
    expected = [alone(blob, seconds) for blob in blobs]
    bins = decode(blobs, METRICS, seconds)
    assert bins.gpu.tolist() == [place for place, each in enumerate(expected) if each is not None]
    known = [each for each in expected if each is not None]
    assert bins.sizes.shape == (len(known), METRICS)
    pairs = iter(zip(bins.keys.tolist(), bins.counts.tolist(), strict=True))
    for sizes, samples, own in zip(bins.sizes.tolist(), bins.samples().tolist(), known, strict=True):
        assert [Counter(dict(islice(pairs, size))) for size in sizes] == own
        assert samples == [sum(histogram.values()) for histogram in own]
    assert next(pairs, None) is None


@given(st.lists(st.lists(histograms, max_size=METRICS + 1), min_size=1, max_size=6), lengths)
def test_packed_or_not_a_sketch_holds_the_same(sketches: list[list[Histogram]], seconds: int) -> None:
    for histograms in sketches:
        assert unpack_sketch(pack_sketch(histograms, seconds), seconds) == histograms


@given(st.lists(sound(SKETCH_SECONDS), min_size=1, max_size=6), st.data())
def test_some_of_them_are_as_if_only_these_were_decoded(blobs: list[bytes], data: st.DataObject) -> None:
    bins = decode(blobs, METRICS + 1)
    assert len(bins.gpu) == len(blobs)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(blobs), max_size=len(blobs))))
    if chosen.any():
        only = decode([blob for blob, own in zip(blobs, chosen, strict=True) if own], METRICS + 1)
        for one, other in zip(bins.of(chosen)[2:], only[2:], strict=True):
            np.testing.assert_array_equal(one, other)
