"""Bytes that arrays take in tiles, each count worked out by hand beside its shape."""

from __future__ import annotations

import pytest

from egrl_hlo.scan import Line, leaves
from egrl_hlo.scan import parse as shape_of


def array_of(text):
    (leaf,) = leaves(shape_of(Line(text)))
    return leaf


@pytest.mark.parametrize(
    ("text", "size"),
    [
        # Rank 0: a tile of 128 numbers has one of them.
        ("f32[]{:T(128)}", 128 * 4),
        ("s32[]{:T(128)S(6)}", 128 * 4),
        ("bf16[]{:T(256)}", 256 * 2),
        ("pred[]{:T(512)}", 512),
        # Rank 1.
        ("f32[100]{0:T(128)}", 128 * 4),
        ("f32[129]{0:T(128)}", 2 * 128 * 4),
        ("bf16[300]{0:T(256)}", 2 * 256 * 2),
        ("bf16[3]{0:T(256)(128)(2,1)}", 256 * 2),
        ("u8[513]{0:T(512)}", 1024),
        # Rank 2: rows of 8, columns of 128.
        ("f32[5,100]{1,0:T(8,128)}", 8 * 128 * 4),
        ("f32[9,129]{1,0:T(8,128)}", 16 * 256 * 4),
        ("f32[5,100]{0,1:T(8,128)}", 104 * 128 * 4),
        ("f32[3,300]{1,0:T(2,128)}", 4 * 384 * 4),
        ("f32[3,300]{1,0:T(1,128)}", 3 * 384 * 4),
        ("bf16[5,100]{1,0:T(8,128)(2,1)}", 8 * 128 * 2),
        ("bf16[9,100]{1,0:T(16,128)(2,1)}", 16 * 128 * 2),
        ("bf16[3,100]{1,0:T(1,128)(2,1)}", 3 * 2 * 128 * 2),
        ("s8[40,100]{1,0:T(8,128)(4,1)}", 40 * 128),
        ("s8[40,100]{1,0:T(32,128)(4,1)}", 64 * 128),
        ("pred[16,33]{0,1:T(8,128)(4,1)}", 40 * 128),
        ("u16[8,14]{1,0:T(8,128)(2,1)}", 8 * 128 * 2),
        ("s4[9,100]{1,0:T(8,128)(8,1)E(4)}", 16 * 128 // 2),
        ("u4[64,128]{1,0:T(64,128)(8,1)E(4)S(1)}", 64 * 128 // 2),
        ("f8e4m3fn[9,100]{1,0:T(8,128)(4,1)}", 16 * 128),
        ("f8e5m2[32,128]{1,0:T(32,128)(4,1)}", 32 * 128),
        ("f4e2m1fn[8,128]{1,0:T(8,128)(8,1)E(4)}", 8 * 128 // 2),
        ("c64[5,100]{1,0:T(8,128)}", 8 * 128 * 8),
        ("f64[5,100]{1,0:T(8,128)}", 8 * 128 * 8),
        # Rank 3 and 4: the two minor dimensions are filled up, the others are not.
        ("bf16[8,128,768]{2,1,0:T(8,128)(2,1)}", 8 * 128 * 768 * 2),
        ("u32[8,28,100]{2,0,1:T(8,128)}", 28 * 8 * 128 * 4),
        ("bf16[7,7,3,64]{3,1,2,0:T(8,128)(2,1)}", 7 * 3 * 8 * 128 * 2),
        ("bf16[8,224,224,3]{0,3,2,1:T(4,128)(2,1)}", 224 * 224 * 4 * 128 * 2),
        ("f32[8,12,128,64]{2,3,1,0:T(8,128)}", 8 * 12 * 64 * 128 * 4),
        # Rank 5 and 6.
        ("bf16[256,2,8,33,64]{4,2,1,3,0:T(8,128)(2,1)S(1)}", 256 * 33 * 2 * 8 * 128 * 2),
        ("bf16[2,64,32,2,512]{4,1,3,2,0:T(8,128)(2,1)}", 2 * 32 * 2 * 64 * 512 * 2),
        ("f32[2,1,1,1,3,5]{5,4,3,2,1,0:T(8,128)}", 2 * 8 * 128 * 4),
        # A dimension that is joined to the next, a filled-up end, the sizes of a dynamic one, and no tile at all.
        ("f32[4,5,6]{2,1,0:T(*,8,128)}", 24 * 128 * 4),
        ("f32[100]{0:L(64)}", 128 * 4),
        ("s32[<=10]{0:T(128)M(32)}", 128 * 4 + 32),
        ("f32[5,100]{1,0}", 2000),
        ("f32[0,5]{1,0:T(8,128)}", 0),
        ("token[]", 0),
    ],
)
def test_tiles_give_the_bytes_that_are_taken(text, size):
    assert array_of(text).size_bytes == size


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("f32[8]{0}", "hbm"),
        ("f32[8]{0:S(1)}", "vmem"),
        ("bf16[8,128]{1,0:T(8,128)(2,1)S(1)}", "vmem"),
        ("u32[]{:S(2)}", "semaphores"),
        ("f32[8]{0:T(128)S(5)}", "host"),
        ("s32[]{:T(128)S(6)}", "smem"),
        ("f32[8]{0:T(128)E(16)SC(0:1)S(9)}", "memory space 9"),
        ("f32[8]{0:T(128)SC(1)}", "hbm"),
    ],
)
def test_memory_spaces_have_names(text, where):
    assert array_of(text).layout.where == where


def test_a_layout_that_contradicts_its_shape_still_has_a_size():
    assert array_of("f32[5,100]{7,0:T(8,128)}").size_bytes == 8 * 128 * 4
    assert array_of("f32[5,100]{1,0:T(0,128)}").size_bytes == 5 * 128 * 4
