// Products of a few rows with 24 columns, in as many registers as there are.
#pragma once
#include <type_traits>

#include "vectors.h"

constexpr long COLUMNS = 3 * LANES, TILE_ROWS = 4, CACHE_LINE = 64;

// Cache lines that follow each other.
struct Lines {
    const char* from = nullptr;
    long count = 0;
};

// What to bring nearer meanwhile: two runs of cache lines, as long as the product or shorter. They
// are runs, since to write a list of addresses takes longer than the products leave time for.
struct Ahead {
    Lines first, second;
};


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

// The weights of two features, from `k` on, widened when they are used.
template <typename Panel>
struct Pair;

template <>
struct Pair<const float*> {
    const float* at;
    Pair(const float* panel, long k) : at(panel + k * COLUMNS) {}
    f8 first(int v) const { return load(at + v * LANES); }
    f8 second(int v) const { return load(at + COLUMNS + v * LANES); }
};

template <>
struct Pair<const uint16_t*> {
    const u8u* at;
    Pair(const uint16_t* panel, long k) : at((const u8u*)(panel + k * COLUMNS)) {}
    f8 first(int v) const { return lower_bfloat16(at[v]); }
    f8 second(int v) const { return upper_bfloat16(at[v]); }
};

// Columns of longer rows, one a feature.
struct Cut {
    const float* rows;
    long stride;
};

template <>
struct Pair<Cut> {
    const float* at;
    long stride;
    Pair(Cut cut, long k) : at(cut.rows + k * cut.stride), stride(cut.stride) {}
    f8 first(int v) const { return load(at + v * LANES); }
    f8 second(int v) const { return load(at + stride + v * LANES); }
};

// y[row] = x[row] · panel for the panel's 24 columns, on top of `start`, or of y where that is null.
template <int ROWS, typename Panel>
inline void multiply(const float* x, long x_stride, Panel panel, float* y, long y_stride,
                     long features, const float* start, const Ahead& ahead) {
    const float *x1 = x + x_stride, *x2 = x1 + x_stride, *x3 = x2 + x_stride;
    float *y1 = y + y_stride, *y2 = y1 + y_stride, *y3 = y2 + y_stride;
    Sums s0, s1, s2, s3;
    s0.begin(start ? start : y);
    if constexpr (ROWS > 1) s1.begin(start ? start : y1);
    if constexpr (ROWS > 2) s2.begin(start ? start : y2);
    if constexpr (ROWS > 3) s3.begin(start ? start : y3);
    long k = 0;
    // Not nested: the compiler keeps in memory what a lambda within a lambda changes.
    auto add = [&](long at, f8 a, f8 b, f8 c) __attribute__((always_inline)) {
        s0.add(x[at], a, b, c);
        if constexpr (ROWS > 1) s1.add(x1[at], a, b, c);
        if constexpr (ROWS > 2) s2.add(x2[at], a, b, c);
        if constexpr (ROWS > 3) s3.add(x3[at], a, b, c);
    };
    // Half a line at a time: a run that is asked for twice costs less than a loop of its own.
    const char *first = ahead.first.from, *second = ahead.second.from;
    long first_step = ahead.first.count ? CACHE_LINE / 2 : 0;
    long second_step = ahead.second.count ? CACHE_LINE / 2 : 0;
    for (; k + 2 <= features; k += 2, first += first_step, second += second_step) {
        __builtin_prefetch(first, 0, 2), __builtin_prefetch(second, 0, 2);
        Pair<Panel> w(panel, k);
        add(k, w.first(0), w.first(1), w.first(2));
        add(k + 1, w.second(0), w.second(1), w.second(2));
    }
    if constexpr (!std::is_same_v<Panel, const uint16_t*>)
        if (k < features) {
            Pair<Panel> w(panel, k);
            add(k, w.first(0), w.first(1), w.first(2));
        }
    s0.end(y);
    if constexpr (ROWS > 1) s1.end(y1);
    if constexpr (ROWS > 2) s2.end(y2);
    if constexpr (ROWS > 3) s3.end(y3);
}
