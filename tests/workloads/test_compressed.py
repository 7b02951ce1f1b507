"""Small files that would become large ones are refused in a line, before they do."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from workloads.errors import InputError
from workloads.files import ALWAYS_BYTES, ALWAYS_VALUES, GZIP_SYSTEM, check_values, pack, unpack
from workloads.importers.read import read
from workloads.load import load_program
from workloads.load_partition import load_partition

MOST_MEMORY = 100 << 20
"""Bytes that refusing a file may take, in Python's own count."""
ZEROS = bytes(1 << 24)
LISTS = b'{"nodes": [' + b"[]," * 1_300_000 + b'[]], "edges": []}'
PROGRAM = b'{"kind": "program", "version": 1, "name": "a", "buffers": ['


def packed_zeros() -> bytes:
    """2 GiB in 2 MiB, as a file of many gzip members."""
    return gzip.compress(ZEROS) * 128


@pytest.mark.parametrize(
    ("name", "content", "load"),
    [
        ("a.onnx.gz", packed_zeros, read),
        ("a.json.gz", packed_zeros, load_partition),
        ("a.json.gz", lambda: gzip.compress(LISTS), load_partition),
        ("a.json.gz", lambda: gzip.compress(LISTS * 8), load_partition),
        ("a.json.xz", lambda: lzma.compress(ZEROS * 6, preset=1), load_program),
        ("a.json.xz", lambda: lzma.compress(PROGRAM + b"[]," * 1_300_000 + b"[]]}", preset=1), load_program),
        ("a.json.xz", lambda: lzma.compress(PROGRAM + b"[" * 2_000_000, preset=1), load_program),
    ],
    ids=[
        "onnx",
        "zeros as json",
        "lists",
        "many lists",
        "zeros in xz",
        "lists in xz",
        "nested in xz",
    ],
)
def test_a_small_file_of_a_large_one_is_refused_in_a_line_and_little_memory(tmp_path, name, content, load):
    content = content()
    assert len(content) < 3 << 20
    file = Path(tmp_path / name)
    file.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            load(str(file))
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.slow
def test_an_xz_file_that_asks_for_much_memory_is_refused():
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 27}]
    data = lzma.compress(b"{}", format=lzma.FORMAT_XZ, filters=filters)
    with pytest.raises(InputError, match=r"a\.json\.xz: expected xz, found: Memory usage limit exceeded"):
        unpack(data, "a.json.xz", 1 << 30)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["gz", pytest.param("xz", marks=pytest.mark.exhaustive)])
def test_what_is_as_large_as_files_are_is_unpacked(ending):
    pack = gzip.compress if ending == "gz" else partial(lzma.compress, preset=1)
    for plain in (b"", b"a", bytes(ALWAYS_BYTES), b"".join(i.to_bytes(4) for i in range(0, 1 << 32, 3571))):
        assert unpack(pack(plain), f"a.{ending.upper()}", 1 << 30) == plain
    assert unpack(b"plain", "a.json", 1) == b"plain"


def test_the_limit_of_who_reads_holds():
    with pytest.raises(InputError, match="at most 100 bytes"):
        unpack(gzip.compress(bytes(101)), "a.gz", 100)


def test_values_are_counted():
    text = b"[" + b"1," * (ALWAYS_VALUES - 2) + b"1]"
    assert check_values(text, 1, "a.json.gz") is text
    with pytest.raises(InputError, match=r"a\.json\.gz: expected at most 1000000 values in 1 packed bytes"):
        check_values(text + b",,", 1, "a.json.gz")


def test_every_python_packs_to_the_same_bytes(monkeypatch):
    packed = pack(b"content")
    real = gzip.compress

    def as_newer_pythons_do(content, level, *, mtime):
        data = bytearray(real(content, level, mtime=mtime))
        data[GZIP_SYSTEM] = 255
        return bytes(data)

    monkeypatch.setattr(gzip, "compress", as_newer_pythons_do)
    assert pack(b"content") == packed
    assert gzip.decompress(packed) == b"content"
