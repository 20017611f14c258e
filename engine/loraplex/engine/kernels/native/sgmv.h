// Segmented LoRA: rows of one adapter lie together; weights are found through offset tables.
//
// Schemas and layouts are those of kernels/ops.py. A decode step reads each adapter once and does
// little with it, so it is bound by memory: tiles are read front to back, A rank by rank and B as
// rows that are added. The functions here are called by every thread of a parallel region, and
// each does its share.
#pragma once
#include "dots.h"
#include "products.h"
#include "threads.h"

namespace sgmv {

constexpr long ITEM_RANKS = 4, ITEM_ROWS = DOTS_ROWS;
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

inline void add_scaled(float* y, const float* delta, float scale, long size) {
    long whole = size / LANES * LANES;
    for (long c = 0; c < whole; c += LANES)
        store(y + c, load(y + c) + load(delta + c) * broadcast(scale));
    for (long c = whole; c < size; c++) y[c] += delta[c] * scale;
}

// What is added to y once h is there: y[row] += scale · h[row] · B of the row's adapter.
struct Expansion {
    Intermediate h;
    const float* pages;
    Tables b;
    Scales scales;
    Rows rows;
    const int64_t* slice_starts;
    float* y;
    long y_stride;

    // For `count` rows and at most COLUMNS columns.
    void add(long row, long count, long column, long columns) const {
        for (long s = 0; s < rows.count; s++) {
            Segment segment = rows.segments[s];
            segment.start = most(segment.start, row);
            segment.end = least(segment.end, row + count);
            if (segment.start >= segment.end) continue;
            for (long slice = 0; slice < b.slices; slice++) {
                long first = most(column, slice_starts[slice]);
                long last = least(column + columns, slice_starts[slice + 1]);
                if (first < last) add_segment(segment, slice, first, last - first);
            }
        }
    }

   private:
    void add_segment(const Segment& segment, long slice, long column, long columns) const {
        long row = segment.start;
        for (; row + TILE_ROWS <= segment.end; row += TILE_ROWS)
            add_tile<4>(segment.adapter, slice, row, column, columns);
        switch (segment.end - row) {
            case 3: add_tile<3>(segment.adapter, slice, row, column, columns); break;
            case 2: add_tile<2>(segment.adapter, slice, row, column, columns); break;
            case 1: add_tile<1>(segment.adapter, slice, row, column, columns); break;
        }
    }

    // The sum over ranks, in their order, has the same bits whether or not a whole panel is wanted.
    template <int ROWS>
    void add_tile(long adapter, long slice, long row, long column, long columns) const {
        long rank = b.rank(adapter, slice), start = slice_starts[slice];
        long width = slice_starts[slice + 1] - start;
        const float* from = h.values + row * h.row + slice * h.slice;
        alignas(32) float delta[ROWS][COLUMNS] = {};
        for (long first = 0; first < rank; first += b.tile_rank) {
            const float* tile = b.row(pages, adapter, slice, first, width) + column - start;
            long ranks = least(b.tile_rank, rank - first);
            if (columns == COLUMNS) {
                Lines nothing{(const char*)tile, 0};
                multiply<ROWS>(from + first, h.row, Cut{tile, width}, delta[0], COLUMNS, ranks,
                               nullptr, {nothing, nothing});
            } else {
                for (long r = 0; r < ranks; r += ITEM_RANKS)
                    add_ranks(delta[0], COLUMNS, from + first + r, h.row, ROWS, tile + r * width,
                              width, least(ITEM_RANKS, ranks - r), columns);
            }
        }
        float scale = scales.values[adapter * scales.adapter + slice * scales.slice];
        for (int i = 0; i < ROWS; i++)
            add_scaled(y + (row + i) * y_stride + column, delta[i], scale, columns);
    }
};

// This thread's share of an expansion.
inline void expand(const Expansion& expansion) {
    const Rows& rows = expansion.rows;
    if (rows.count == 0) return;
    long first = rows.segments[0].start, count = rows.segments[rows.count - 1].end - first;
    long out_features = expansion.slice_starts[expansion.b.slices], item = 0;
    for (long column = 0; column < out_features; column += COLUMNS)
        for (long row = 0; row < count; row += ITEM_ROWS)
            if (item++ % thread_count() == thread_number())
                expansion.add(first + row, least(ITEM_ROWS, count - row), column,
                              least(COLUMNS, out_features - column));
}

}  // namespace sgmv
