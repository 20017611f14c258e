"""Every decode step that has room in a graph finds the smallest one."""

from hypothesis import given
from hypothesis import strategies as st

from loraplex.engine.execution.cuda_shapes import GraphShapes


@given(st.integers(1, 600))
def test_buckets_end_with_the_first_that_holds_all(max_rows: int) -> None:
    rows = GraphShapes(max_rows, 8, 16).rows
    assert rows == sorted(set(rows))
    assert rows[-1] >= max_rows
    assert len(rows) == 1 or rows[-2] < max_rows


@given(st.integers(1, 100), st.sampled_from([1, 4, 16]))
def test_shapes_hold_every_number_of_adapters_that_rows_may_have(rows: int, tile_rank: int) -> None:
    shapes = GraphShapes(100, 8, tile_rank)
    with_lora = [shape.lora for shape in shapes.all() if shape.rows >= rows and shape.lora]
    assert max(lora.adapters for lora in with_lora) >= rows
    assert max(lora.tiles for lora in with_lora) * tile_rank >= 128
    assert len(shapes.all()) == len(set(shapes.all()))


def test_a_served_worker_records_few_dozen_graphs() -> None:
    assert len(GraphShapes(64, 8, 16).all()) < 50
