// y = x · Wᵀ + b over a weight packed in panels of 24 output columns.
//
// A row's result is one chain of fused products in the order of the input features, whatever the
// number of rows: the same row gives the same bits alone, in a batch, and in any chunk.
//
// The panels are [panels][in_features][24], float32 or bfloat16; columns past the end are zero.
// A block of a panel is widened once into the first-level cache and multiplied by all rows.
#include "threads.h"
#include "vectors.h"

namespace {

constexpr long COLUMNS = 3 * LANES, TILE_ROWS = 4;
constexpr long BLOCK_FEATURES = 192, BLOCK_ROWS = 96, FEW_ROWS = 32;
constexpr long UNROLLED = 4, CACHE_LINE = 64;

// One row's sums. Separate variables, since the compiler keeps an array of them in memory.
struct Sums {
    f8 first, second, third;

    void begin(const float* from) {
        first = load(from), second = load(from + LANES), third = load(from + 2 * LANES);
    }
    void add(float activation, f8 a, f8 b, f8 c) {
        f8 factor = broadcast(activation);
        add_product(first, factor, a), add_product(second, factor, b),
            add_product(third, factor, c);
    }
    void end(float* to) const {
        store(to, first), store(to + LANES, second), store(to + 2 * LANES, third);
    }
};

template <int ROWS>
inline void multiply(const float* x, long x_stride, const float* panel, float* y, long y_stride,
                     long features, const float* start, const char* next, long next_bytes) {
    const float *x1 = x + x_stride, *x2 = x1 + x_stride, *x3 = x2 + x_stride;
    float *y1 = y + y_stride, *y2 = y1 + y_stride, *y3 = y2 + y_stride;
    Sums s0, s1, s2, s3;
    s0.begin(start ? start : y);
    if constexpr (ROWS > 1) s1.begin(start ? start : y1);
    if constexpr (ROWS > 2) s2.begin(start ? start : y2);
    if constexpr (ROWS > 3) s3.begin(start ? start : y3);
    long k = 0;
    auto step = [&](long at) __attribute__((always_inline)) {
        const float* weights = panel + at * COLUMNS;
        f8 a = load(weights), b = load(weights + LANES), c = load(weights + 2 * LANES);
        s0.add(x[at], a, b, c);
        if constexpr (ROWS > 1) s1.add(x1[at], a, b, c);
        if constexpr (ROWS > 2) s2.add(x2[at], a, b, c);
        if constexpr (ROWS > 3) s3.add(x3[at], a, b, c);
    };
    // A cache line of what comes next for each few features, spread evenly over the loop.
    for (; k + UNROLLED <= features && next_bytes > 0; k += UNROLLED) {
        __builtin_prefetch(next, 0, 2);
        next += CACHE_LINE, next_bytes -= CACHE_LINE;
        step(k), step(k + 1), step(k + 2), step(k + 3);
    }
    for (; k + UNROLLED <= features; k += UNROLLED) {
        step(k), step(k + 1), step(k + 2), step(k + 3);
    }
    for (; k < features; k++) step(k);
    s0.end(y);
    if constexpr (ROWS > 1) s1.end(y1);
    if constexpr (ROWS > 2) s2.end(y2);
    if constexpr (ROWS > 3) s3.end(y3);
}

struct Block {
    const float* x;
    long x_stride;
    float* y;
    long y_stride, rows, features, columns;
    const float* start;  // what the sums begin with; null where y holds them already
    const char* next;    // the weights needed after this block, brought nearer meanwhile
    long next_bytes;
};

template <int ROWS>
void tile(const Block& block, const float* panel, long row, long tiles) {
    const float* x = block.x + row * block.x_stride;
    float* y = block.y + row * block.y_stride;
    long share = block.next ? pieces(block.next_bytes / CACHE_LINE, tiles) * CACHE_LINE : 0;
    long done = row / TILE_ROWS * share;
    const char* next = block.next + done;
    share = block.next ? least(share, block.next_bytes - done) : 0;
    if (block.columns == COLUMNS) {
        multiply<ROWS>(x, block.x_stride, panel, y, block.y_stride, block.features, block.start,
                       next, share);
        return;
    }
    float whole[ROWS][COLUMNS] = {};
    for (int r = 0; r < ROWS; r++)
        std::memcpy(whole[r], y + r * block.y_stride, block.columns * sizeof(float));
    multiply<ROWS>(x, block.x_stride, panel, whole[0], COLUMNS, block.features, block.start, next,
                   share);
    for (int r = 0; r < ROWS; r++)
        std::memcpy(y + r * block.y_stride, whole[r], block.columns * sizeof(float));
}

void multiply_rows(const Block& block, const float* panel) {
    long row = 0, tiles = pieces(block.rows, TILE_ROWS);
    for (; row + TILE_ROWS <= block.rows; row += TILE_ROWS) tile<4>(block, panel, row, tiles);
    switch (block.rows - row) {
        case 3: tile<3>(block, panel, row, tiles); break;
        case 2: tile<2>(block, panel, row, tiles); break;
        case 1: tile<1>(block, panel, row, tiles); break;
    }
}

const float* widened(const uint16_t* panel, long elements, float* into) {
    for (long i = 0; i < elements; i += LANES) store(into + i, load_bfloat16(panel + i));
    return into;
}

const float* widened(const float* panel, long, float*) { return panel; }

template <typename Weight>
void linear(const float* x, long x_stride, const Weight* weight, const float* bias, float* y,
            long rows, long in_features, long out_features) {
    if (rows == 0) return;
    long panels = pieces(out_features, COLUMNS);
    long block_rows = rows <= FEW_ROWS ? rows : BLOCK_ROWS;
    long row_blocks = pieces(rows, block_rows);
#pragma omp parallel
    {
        // Threads share out panels first: each then reads its own part of the weight.
        long share = pieces(panels, thread_count());
        long row_shares = 1;
        if (panels < thread_count()) share = 1, row_shares = thread_count() / panels;
        long first = thread_number() / row_shares * share, last = least(first + share, panels);
        alignas(64) float scratch[BLOCK_FEATURES * COLUMNS];
        alignas(32) float start[COLUMNS] = {};
        for (long block = thread_number() % row_shares; block < row_blocks; block += row_shares) {
            long row = block * block_rows;
            for (long panel = first; panel < last; panel++) {
                long column = panel * COLUMNS, columns = least(COLUMNS, out_features - column);
                if (bias) std::memcpy(start, bias + column, columns * sizeof(float));
                for (long k = 0; k < in_features; k += BLOCK_FEATURES) {
                    long features = least(BLOCK_FEATURES, in_features - k);
                    const Weight* from = weight + (panel * in_features + k) * COLUMNS;
                    const float* wide = widened(from, features * COLUMNS, scratch);
                    const Weight* next = from + features * COLUMNS;
                    bool is_last = panel + 1 == last && k + features == in_features;
                    multiply_rows({x + row * x_stride + k, x_stride,
                                   y + row * out_features + column, out_features,
                                   least(block_rows, rows - row), features, columns,
                                   k == 0 ? start : nullptr,
                                   is_last ? nullptr : (const char*)next,
                                   features * COLUMNS * (long)sizeof(Weight)},
                                  wide);
                }
            }
        }
    }
}

}  // namespace

extern "C" void loraplex_linear(const float* x, long x_stride, const void* weight, int is_bfloat16,
                                const float* bias, float* y, long rows, long in_features,
                                long out_features) {
    if (is_bfloat16)
        linear(x, x_stride, (const uint16_t*)weight, bias, y, rows, in_features, out_features);
    else
        linear(x, x_stride, (const float*)weight, bias, y, rows, in_features, out_features);
}
