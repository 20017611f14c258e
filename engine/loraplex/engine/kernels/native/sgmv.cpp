// Segmented LoRA: rows of one adapter lie together; weights are found through offset tables.
//
// Schemas and layouts are those of kernels/ops.py. A decode step reads each adapter once and does
// little with it, so it is bound by memory: tiles are read front to back, A rank by rank and B as
// rows that are added, by however many threads there are.
#include "dots.h"
#include "threads.h"

namespace {

constexpr long ITEM_RANKS = 4, ITEM_ROWS = 48, ITEM_COLUMNS = 384;

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
};

struct Segment {
    int32_t start, end, adapter;
};

}  // namespace

extern "C" void loraplex_shrink(const float* x, long x_stride, long in_features,
                                const float* pages, const Tables* tables, const Segment* segments,
                                long segment_count, float* h, long h_row, long h_slice) {
    const Tables& t = *tables;
    long item_ranks = least(ITEM_RANKS, t.tile_rank);  // both are powers of two
#pragma omp parallel
    {
        long item = 0, mine = thread_number(), threads = thread_count();
        for (long s = 0; s < segment_count; s++) {
            Segment segment = segments[s];
            for (long slice = 0; slice < t.slices; slice++) {
                long rank = t.rank(segment.adapter, slice);
                for (long first = 0; first < rank; first += item_ranks) {
                    long within = first % t.tile_rank;
                    long ranks = least(item_ranks, rank - first);
                    const float* a =
                        t.tile(pages, segment.adapter, slice, first / t.tile_rank) +
                        within * in_features;
                    for (long row = segment.start; row < segment.end; row += ITEM_ROWS)
                        if (item++ % threads == mine)
                            dots_of_all(x + row * x_stride, x_stride,
                                        least(ITEM_ROWS, segment.end - row), a, in_features, ranks,
                                        in_features, h + row * h_row + slice * h_slice + first,
                                        h_row);
                }
            }
        }
    }
}

namespace {

// delta[row][column] = the sum over ranks of h · B, in the order of the ranks.
void expand_item(const Tables& t, const float* pages, long adapter, long slice, long width,
                 long column, long columns, const float* h, long h_row, long rows, float* delta) {
    std::memset(delta, 0, rows * columns * sizeof(float));
    long rank = t.rank(adapter, slice);
    for (long first = 0; first < rank; first += ITEM_RANKS) {
        long ranks = least(ITEM_RANKS, rank - first);
        const float* b[ITEM_RANKS];
        for (long r = 0; r < ranks; r++)
            b[r] = t.tile(pages, adapter, slice, (first + r) / t.tile_rank) +
                   (first + r) % t.tile_rank * width + column;
        long row = 0;
        if (ranks == ITEM_RANKS) {
            for (; row + 2 <= rows; row += 2)
                add_weighted<2, 4>(delta + row * columns, columns, h + row * h_row + first, h_row,
                                   b, columns);
            for (; row < rows; row++)
                add_weighted<1, 4>(delta + row * columns, columns, h + row * h_row + first, h_row,
                                   b, columns);
        } else {
            for (; row < rows; row++)
                for (long r = 0; r < ranks; r++)
                    add_weighted<1, 1>(delta + row * columns, columns, h + row * h_row + first + r,
                                       h_row, b + r, columns);
        }
    }
}

void add_scaled(float* y, const float* delta, float scale, long size) {
    long whole = size / LANES * LANES;
    for (long c = 0; c < whole; c += LANES)
        store(y + c, load(y + c) + load(delta + c) * broadcast(scale));
    for (long c = whole; c < size; c++) y[c] += delta[c] * scale;
}

}  // namespace

extern "C" void loraplex_expand(float* y, long y_stride, const float* h, long h_row, long h_slice,
                                const float* pages, const Tables* tables, const float* scales,
                                long scale_adapter, long scale_slice, const Segment* segments,
                                long segment_count, const int64_t* slice_starts) {
    const Tables& t = *tables;
#pragma omp parallel
    {
        long item = 0, mine = thread_number(), threads = thread_count();
        alignas(32) float delta[ITEM_ROWS * ITEM_COLUMNS];
        for (long s = 0; s < segment_count; s++) {
            Segment segment = segments[s];
            for (long slice = 0; slice < t.slices; slice++) {
                if (t.rank(segment.adapter, slice) == 0) continue;
                float scale = scales[segment.adapter * scale_adapter + slice * scale_slice];
                long width = slice_starts[slice + 1] - slice_starts[slice];
                for (long column = 0; column < width; column += ITEM_COLUMNS) {
                    long columns = least(ITEM_COLUMNS, width - column);
                    for (long row = segment.start; row < segment.end; row += ITEM_ROWS) {
                        if (item++ % threads != mine) continue;
                        long rows = least(ITEM_ROWS, segment.end - row);
                        expand_item(t, pages, segment.adapter, slice, width, column, columns,
                                    h + row * h_row + slice * h_slice, h_row, rows, delta);
                        for (long i = 0; i < rows; i++)
                            add_scaled(y + (row + i) * y_stride + slice_starts[slice] + column,
                                       delta + i * columns, scale, columns);
                    }
                }
            }
        }
    }
}
