// y = x · Wᵀ + b over a weight packed in panels of 24 output columns.
//
// A row's result is one chain of fused products in the order of the input features, whatever the
// number of rows: the same row gives the same bits alone, in a batch, and in any chunk.
//
// The panels are [panels][in_features][24] of float32, or [panels][in_features / 2][24][2] of
// bfloat16: two features side by side, so that widening them is one operation each. Columns past
// the end are zero. For more than a few rows a block of a narrow panel is widened once, into the
// first-level cache, and multiplied by all of them. While a few rows are multiplied, the weights that
// come next are brought nearer, and LoRA is done meanwhile (companion.h).
#include "companion.h"
#include "sgmv.h"
#include "threads.h"
#include "vectors.h"

namespace {

constexpr long BLOCK_FEATURES = 192, BLOCK_ROWS = 96, FEW_ROWS = 32;
constexpr long MOST_LINES = BLOCK_FEATURES / 4;  // half a line for two features

struct Block {
    const float* x;
    long x_stride;
    float* y;
    long y_stride, rows, features, columns;
    const float* start;  // what the sums begin with; null where y holds them already
};

template <int ROWS, typename Weight>
void tile(const Block& block, const Weight* panel, long row, const Ahead& ahead) {
    const float* x = block.x + row * block.x_stride;
    float* y = block.y + row * block.y_stride;
    if (block.columns == COLUMNS) {
        multiply<ROWS>(x, block.x_stride, panel, y, block.y_stride, block.features, block.start,
                       ahead);
        return;
    }
    float whole[ROWS][COLUMNS] = {};
    for (int r = 0; r < ROWS; r++)
        std::memcpy(whole[r], y + r * block.y_stride, block.columns * sizeof(float));
    multiply<ROWS>(x, block.x_stride, panel, whole[0], COLUMNS, block.features, block.start, ahead);
    for (int r = 0; r < ROWS; r++)
        std::memcpy(y + r * block.y_stride, whole[r], block.columns * sizeof(float));
}

// The `next` weights and `lora_lines` of tiles are asked for, evenly over rows.
template <typename Weight>
void multiply_rows(const Block& block, const Weight* panel, Lines next, Companion& lora,
                   long lora_lines) {
    long row = 0, tiles = pieces(block.rows, TILE_ROWS);
    auto take_next = [&] {
        Lines run{next.from, least(next.count, MOST_LINES)};
        next.from += run.count * CACHE_LINE, next.count -= run.count;
        return run;
    };
    auto take_lora = [&] {
        Lines run = lora.take(least(lora_lines, MOST_LINES));
        lora_lines -= run.count;
        return run;
    };
    auto take = [&] {
        Lines run = next.count > 0 ? take_next() : take_lora();
        // Without a line to ask for: one that is near.
        return run.count > 0 ? run : Lines{(const char*)panel, 0};
    };
    auto ahead = [&] {
        // Weights come first where there are few rows to ask in.
        bool is_hurried = next.count > MOST_LINES * tiles--;
        Ahead runs{take(), {(const char*)panel, 0}};
        if (Lines run = is_hurried ? take() : take_lora(); run.count > 0) runs.second = run;
        return runs;
    };
    // Four rows and a narrow panel would need more registers than there are.
    if constexpr (std::is_same_v<Weight, float>)
        for (; row + TILE_ROWS <= block.rows; row += TILE_ROWS)
            tile<4>(block, panel, row, ahead());
    switch (block.rows - row) {
        case 3: tile<3>(block, panel, row, ahead()); break;
        case 2: tile<2>(block, panel, row, ahead()); break;
        case 1: tile<1>(block, panel, row, ahead()); break;
    }
}

void widen(const uint16_t* panel, long features, float* into) {
    for (long k = 0; k < features; k += 2, panel += 2 * COLUMNS, into += 2 * COLUMNS)
        for (long v = 0; v < COLUMNS; v += LANES) {
            u8 pairs = *(const u8u*)(panel + 2 * v);
            store(into + v, lower_bfloat16(pairs));
            store(into + COLUMNS + v, upper_bfloat16(pairs));
        }
}

struct Weights {
    const void* panels;
    long is_bfloat16, in_features, out_features;
};

struct Product {
    const Weights& weights;
    const float* x;
    long x_stride, rows;
    const float* bias;
    float* y;
};

// This thread's share of a product.
template <typename Weight>
void linear(const Product& p, Companion& lora, const sgmv::Expansion* expansion) {
    if (p.rows == 0) return;
    const Weight* weight = (const Weight*)p.weights.panels;
    long in_features = p.weights.in_features, out_features = p.weights.out_features;
    long panels = pieces(out_features, COLUMNS);
    bool has_few_rows = p.rows <= FEW_ROWS;
    long block_rows = has_few_rows ? p.rows : BLOCK_ROWS;
    long row_blocks = pieces(p.rows, block_rows);
    // Threads share out panels first: each then reads its own part of the weight.
    long share = pieces(panels, thread_count()), row_shares = 1;
    if (panels < thread_count()) share = 1, row_shares = thread_count() / panels;
    long first = thread_number() / row_shares * share, last = least(first + share, panels);
    long blocks_left = (last - first) * pieces(in_features, BLOCK_FEATURES);
    alignas(64) float scratch[BLOCK_FEATURES * COLUMNS];
    alignas(32) float start[COLUMNS] = {};
    for (long number = thread_number() % row_shares; number < row_blocks; number += row_shares) {
        long row = number * block_rows;
        for (long panel = first; panel < last; panel++) {
            long column = panel * COLUMNS, columns = least(COLUMNS, out_features - column);
            if (p.bias) std::memcpy(start, p.bias + column, columns * sizeof(float));
            for (long k = 0; k < in_features; k += BLOCK_FEATURES, blocks_left--) {
                long features = least(BLOCK_FEATURES, in_features - k);
                const Weight* from = weight + (panel * in_features + k) * COLUMNS;
                bool is_last = panel + 1 == last && k + features == in_features;
                long next_lines = features * COLUMNS * sizeof(Weight) / CACHE_LINE;
                Block block{p.x + row * p.x_stride + k,
                            p.x_stride,
                            p.y + row * out_features + column,
                            out_features,
                            least(block_rows, p.rows - row),
                            features,
                            columns,
                            k == 0 ? start : nullptr};
                Lines next{(const char*)(from + features * COLUMNS), next_lines};
                if (is_last || !has_few_rows) next.count = 0;
                lora.work_off();
                long lora_lines = has_few_rows ? pieces(lora.lines_left(), most(blocks_left, 1)) : 0;
                if (std::is_same_v<Weight, float> || block.rows < TILE_ROWS) {
                    multiply_rows(block, from, next, lora, lora_lines);
                } else {
                    widen((const uint16_t*)from, features, scratch);
                    multiply_rows(block, scratch, next, lora, lora_lines);
                }
            }
            if (expansion) expansion->add(row, least(block_rows, p.rows - row), column, columns);
        }
    }
}

void linear(const Product& product, Companion& lora, const sgmv::Expansion* expansion = nullptr) {
    if (product.weights.is_bfloat16)
        linear<uint16_t>(product, lora, expansion);
    else
        linear<float>(product, lora, expansion);
}

}  // namespace

// y = x · Wᵀ + b.
extern "C" void loraplex_linear(const Weights* weights, const float* x, long x_stride, long rows,
                                const float* bias, float* y) {
    Product product{*weights, x, x_stride, rows, bias, y};
#pragma omp parallel
    {
        Companion nothing;
        linear(product, nothing);
    }
}

// The adapters of a step, over all modules of the model; a group's modules begin at `module`.
struct Adapters {
    const float* pages;
    const int64_t *a_offsets, *b_offsets;
    const int32_t* ranks;
    const float* scales;
    const sgmv::Segment* segments;
    long segment_count, modules, tiles, tile_rank;

    sgmv::Tables tables(const int64_t* offsets, long module, long slices) const {
        return {offsets + module * tiles, modules * tiles, tiles, ranks + module,
                modules,                  1,               slices, tile_rank};
    }
};

// The same, plus the LoRA of each row's adapter, for `slices` linears side by side.
extern "C" void loraplex_adapted_linear(const Weights* weights, const float* x, long x_stride,
                                        long rows, const float* bias, float* y,
                                        const Adapters* adapters, long module, long slices,
                                        const int64_t* slice_starts) {
    Product product{*weights, x, x_stride, rows, bias, y};
    long slice_ranks = adapters->tiles * adapters->tile_rank;
    long h_row = slices * slice_ranks, out_features = weights->out_features;
    Companion::Work work{x,
                         x_stride,
                         weights->in_features,
                         adapters->pages,
                         adapters->tables(adapters->a_offsets, module, slices),
                         adapters->tables(adapters->b_offsets, module, slices),
                         {adapters->scales + module, adapters->modules, 1},
                         {adapters->segments, adapters->segment_count},
                         slice_starts,
                         {nullptr, h_row, slice_ranks},
                         nullptr,
                         out_features};
    bool has_few_rows = rows <= FEW_ROWS;
    // Kept from step to step: asking for memory would cost more than small products do.
    static thread_local std::vector<float> scratch;
    size_t h_size = rows * h_row, size = h_size + (has_few_rows ? rows * out_features : 0);
    if (scratch.size() < size) scratch.resize(size);
    work.h.values = scratch.data();
    work.delta = scratch.data() + h_size;
#pragma omp parallel
    if (has_few_rows && Companion::is_worth(work)) {
        Companion companion(work);
        linear(product, companion);
        companion.finish();
#pragma omp barrier
        companion.add_to(y);
    } else {
        // Many rows by few adapters: each part of y is finished while it is near.
        sgmv::shrink(x, x_stride, work.in_features, work.pages, work.a, work.rows, work.h);
#pragma omp barrier
        sgmv::Expansion expansion{work.h,    work.pages,   work.b, work.scales,
                                  work.rows, slice_starts, y,      out_features};
        Companion nothing;
        linear(product, nothing, &expansion);
    }
}
