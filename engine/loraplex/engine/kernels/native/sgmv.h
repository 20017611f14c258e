// Segmented LoRA: rows of one adapter lie together; weights are found through offset tables.
//
// Schemas and layouts are those of kernels/ops.py. A decode step reads each adapter once and does
// little with it, so it is bound by memory: tiles are read front to back, A rank by rank and B as
// rows that are added. The functions here are called by every thread of a parallel region, and
// each does its share.
#pragma once
#include "dots.h"
#include "threads.h"

namespace sgmv {

constexpr long ITEM_RANKS = 4, ITEM_ROWS = DOTS_ROWS, ITEM_COLUMNS = 192, DELTA_ROWS = 8;
constexpr long MANY_ROWS = 16;

// Tables are views of larger ones, so their strides come with them.
struct Tables {
    const int64_t* offsets;
    long offset_adapter, offset_slice;
    const int32_t* ranks;
    long rank_adapter, rank_slice;
    long slices, tile_rank;

    long rank(long adapter, long slice) const {
        return ranks[adapter * rank_adapter + slice * rank_slice];
    }
    const float* tile(const float* pages, long adapter, long slice, long number) const {
        return pages + offsets[adapter * offset_adapter + slice * offset_slice + number];
    }
    // Where a rank's row of `width` elements lies.
    const float* row(const float* pages, long adapter, long slice, long rank, long width) const {
        return tile(pages, adapter, slice, rank / tile_rank) + rank % tile_rank * width;
    }
};

struct Scales {
    const float* values;
    long adapter, slice;
};

struct Segment {
    int32_t start, end, adapter;
};

struct Rows {
    const Segment* segments;
    long count;
};

struct Intermediate {
    float* values;
    long row, slice;
};

// A few ranks of one adapter's A for some of its rows.
struct ShrinkItem {
    const float* a;
    long slice, first_rank, ranks, row, rows;
};

// Some columns of one adapter's B for some of its rows.
struct ExpandItem {
    long adapter, slice, width, column, columns, row, rows;
};

// Calls `visit` with each of this thread's items, in the order in which all threads agree.
template <typename Visit>
void shrink_items(const float* pages, const Tables& t, Rows rows, long in_features, Visit visit) {
    long item = 0, mine = thread_number(), threads = thread_count();
    long ranks_an_item = least(ITEM_RANKS, t.tile_rank);  // both are powers of two
    for (long s = 0; s < rows.count; s++) {
        Segment segment = rows.segments[s];
        for (long slice = 0; slice < t.slices; slice++) {
            long rank = t.rank(segment.adapter, slice);
            // Many rows read A again and again: then whole tiles, from the first-level cache.
            long step = segment.end - segment.start < MANY_ROWS ? ranks_an_item : t.tile_rank;
            for (long first = 0; first < rank; first += step)
                for (long row = segment.start; row < segment.end; row += ITEM_ROWS)
                    if (item++ % threads == mine)
                        visit(ShrinkItem{
                            t.row(pages, segment.adapter, slice, first, in_features), slice, first,
                            least(step, rank - first), row,
                            least(ITEM_ROWS, segment.end - row)});
        }
    }
}

template <typename Visit>
void expand_items(const Tables& t, Rows rows, const int64_t* slice_starts, Visit visit) {
    long item = 0, mine = thread_number(), threads = thread_count();
    for (long s = 0; s < rows.count; s++) {
        Segment segment = rows.segments[s];
        for (long slice = 0; slice < t.slices; slice++) {
            if (t.rank(segment.adapter, slice) == 0) continue;
            long width = slice_starts[slice + 1] - slice_starts[slice];
            for (long column = 0; column < width; column += ITEM_COLUMNS)
                for (long row = segment.start; row < segment.end; row += ITEM_ROWS)
                    if (item++ % threads == mine)
                        visit(ExpandItem{segment.adapter, slice, width, column,
                                         least(ITEM_COLUMNS, width - column), row,
                                         least(ITEM_ROWS, segment.end - row)});
        }
    }
}

inline void shrink(const float* x, long x_stride, long in_features, const float* pages,
                   const Tables& tables, Rows rows, Intermediate h) {
    shrink_items(pages, tables, rows, in_features, [&](const ShrinkItem& item) {
        float* to = h.values + item.row * h.row + item.slice * h.slice + item.first_rank;
        bool is_whole = item.rows >= 2 && item.ranks % 4 == 0 && item.ranks <= DOTS_OTHERS;
        (is_whole ? dots_of_many : dots_of_all)(x + item.row * x_stride, x_stride, item.rows,
                                                item.a, in_features, item.ranks, in_features, to,
                                                h.row);
    });
}

// delta[row] += the sum over up to four ranks of h · B, in their order. B's rows lie `b_stride`
// apart; `columns` of them are read.
inline void add_ranks(float* delta, long delta_stride, const float* h, long h_row, long rows,
                      const float* b, long b_stride, long ranks, long columns) {
    const float* b_rows[ITEM_RANKS];
    for (long r = 0; r < ranks; r++) b_rows[r] = b + r * b_stride;
    long row = 0;
    if (ranks < ITEM_RANKS) {
        for (; row < rows; row++)
            for (long r = 0; r < ranks; r++)
                add_weighted<1, 1>(delta + row * delta_stride, delta_stride, h + row * h_row + r,
                                   h_row, b_rows + r, columns);
        return;
    }
    for (; row + 2 <= rows; row += 2)
        add_weighted<2, 4>(delta + row * delta_stride, delta_stride, h + row * h_row, h_row, b_rows,
                           columns);
    if (row < rows)
        add_weighted<1, 4>(delta + row * delta_stride, delta_stride, h + row * h_row, h_row, b_rows,
                           columns);
}

// delta[row][column] = the sum over ranks of h · B, in the order of the ranks.
inline void expand_item(const Tables& t, const float* pages, const ExpandItem& item,
                        const float* h, long h_row, float* delta) {
    long rank = t.rank(item.adapter, item.slice), step = least(ITEM_RANKS, t.tile_rank);
    std::memset(delta, 0, item.rows * item.columns * sizeof(float));
    for (long first = 0; first < rank; first += step)
        add_ranks(delta, item.columns, h + first, h_row, item.rows,
                  t.row(pages, item.adapter, item.slice, first, item.width) + item.column,
                  item.width, least(step, rank - first), item.columns);
}

inline void add_scaled(float* y, const float* delta, float scale, long size) {
    long whole = size / LANES * LANES;
    for (long c = 0; c < whole; c += LANES)
        store(y + c, load(y + c) + load(delta + c) * broadcast(scale));
    for (long c = whole; c < size; c++) y[c] += delta[c] * scale;
}

inline void expand(float* y, long y_stride, Intermediate h, const float* pages,
                   const Tables& tables, Scales scales, Rows rows, const int64_t* slice_starts) {
    alignas(32) float delta[DELTA_ROWS * ITEM_COLUMNS];
    expand_items(tables, rows, slice_starts, [&](ExpandItem item) {
        float scale = scales.values[item.adapter * scales.adapter + item.slice * scales.slice];
        long end = item.row + item.rows;
        for (; item.row < end; item.row += DELTA_ROWS) {
            item.rows = least(DELTA_ROWS, end - item.row);
            expand_item(tables, pages, item, h.values + item.row * h.row + item.slice * h.slice,
                        h.row, delta);
            float* to = y + item.row * y_stride + slice_starts[item.slice] + item.column;
            for (long i = 0; i < item.rows; i++)
                add_scaled(to + i * y_stride, delta + i * item.columns, scale, item.columns);
        }
    });
}

}  // namespace sgmv
