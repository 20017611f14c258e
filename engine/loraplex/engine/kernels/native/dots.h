// Dot products of a few rows with a few others: the inner loop of shrink and of attention's scores.
#pragma once
#include "vectors.h"

// out[i * out_stride + j] = left[i] · right[j]; each sum has one order, whatever ROWS and OTHERS.
template <int ROWS, int OTHERS>
static inline void dots(const float* left, long left_stride, const float* right, long right_stride,
                        long size, float* out, long out_stride) {
    f8 sums[ROWS][OTHERS] = {};
    long whole = size / LANES * LANES;
    for (long k = 0; k < whole; k += LANES) {
        f8 others[OTHERS];
        for (int j = 0; j < OTHERS; j++) others[j] = load(right + j * right_stride + k);
        for (int i = 0; i < ROWS; i++) {
            f8 row = load(left + i * left_stride + k);
            for (int j = 0; j < OTHERS; j++) add_product(sums[i][j], row, others[j]);
        }
    }
    for (int i = 0; i < ROWS; i++) {
        float* to = out + i * out_stride;
        if constexpr (OTHERS == 4) {
            f4 four = sums_of(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
            std::memcpy(to, &four, sizeof four);
        } else {
            for (int j = 0; j < OTHERS; j++) to[j] = sum_of(sums[i][j]);
        }
        for (long k = whole; k < size; k++)
            for (int j = 0; j < OTHERS; j++)
                to[j] += left[i * left_stride + k] * right[j * right_stride + k];
    }
}

template <int ROWS>
static inline void dots_of_rows(const float* left, long left_stride, const float* right,
                                long right_stride, long others, long size, float* out,
                                long out_stride) {
    long j = 0;
    for (; j + 4 <= others; j += 4)
        dots<ROWS, 4>(left, left_stride, right + j * right_stride, right_stride, size, out + j,
                      out_stride);
    for (; j < others; j++)
        dots<ROWS, 1>(left, left_stride, right + j * right_stride, right_stride, size, out + j,
                      out_stride);
}

// All pairs of `rows` left rows and `others` right rows.
static inline void dots_of_all(const float* left, long left_stride, long rows, const float* right,
                               long right_stride, long others, long size, float* out,
                               long out_stride) {
    long i = 0;
    // Three rows would need more registers than there are.
    for (; i + 2 <= rows; i += 2)
        dots_of_rows<2>(left + i * left_stride, left_stride, right, right_stride, others, size,
                        out + i * out_stride, out_stride);
    if (i < rows)
        dots_of_rows<1>(left + i * left_stride, left_stride, right, right_stride, others, size,
                        out + i * out_stride, out_stride);
}

// The same for many rows: features in blocks, so that both sides are read from the first-level
// cache. Unfinished sums wait in `kept`, which changes nothing of their order.
constexpr long DOTS_ROWS = 24, DOTS_OTHERS = 16, DOTS_FEATURES = 96;

static inline void dots_of_many(const float* left, long left_stride, long rows, const float* right,
                                long right_stride, long others, long size, float* out,
                                long out_stride) {
    alignas(32) f8 kept[DOTS_ROWS][DOTS_OTHERS] = {};
    long whole = size / LANES * LANES;
    for (long start = 0; start < whole; start += DOTS_FEATURES) {
        long end = start + DOTS_FEATURES < whole ? start + DOTS_FEATURES : whole;
        for (long i = 0; i < rows; i += 2) {
            // A last row without a partner is computed twice over, to the same end.
            long second = i + 1 < rows ? i + 1 : i;
            const float *x0 = left + i * left_stride, *x1 = left + second * left_stride;
            for (long j = 0; j < others; j += 4) {
                const float *r0 = right + j * right_stride, *r1 = r0 + right_stride,
                            *r2 = r1 + right_stride, *r3 = r2 + right_stride;
                f8 *a = kept[i] + j, *b = kept[second] + j;
                f8 a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
                f8 b0 = b[0], b1 = b[1], b2 = b[2], b3 = b[3];
                for (long k = start; k < end; k += LANES) {
                    f8 x = load(x0 + k), y = load(x1 + k), r = load(r0 + k);
                    add_product(a0, x, r), add_product(b0, y, r);
                    r = load(r1 + k), add_product(a1, x, r), add_product(b1, y, r);
                    r = load(r2 + k), add_product(a2, x, r), add_product(b2, y, r);
                    r = load(r3 + k), add_product(a3, x, r), add_product(b3, y, r);
                }
                a[0] = a0, a[1] = a1, a[2] = a2, a[3] = a3;
                b[0] = b0, b[1] = b1, b[2] = b2, b[3] = b3;
            }
        }
    }
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < others; j += 4) {
            float* to = out + i * out_stride + j;
            f4 four = sums_of(kept[i][j], kept[i][j + 1], kept[i][j + 2], kept[i][j + 3]);
            std::memcpy(to, &four, sizeof four);
            for (long k = whole; k < size; k++)
                for (long other = j; other < j + 4; other++)
                    out[i * out_stride + other] +=
                        left[i * left_stride + k] * right[other * right_stride + k];
        }
}

// out[i] += weights[i][0..COUNT) · others[0..COUNT), `size` columns of each of ROWS rows: to the
// same bits wherever a column stands.
template <int ROWS, int COUNT>
static inline void add_weighted(float* out, long out_stride, const float* weights,
                                long weight_stride, const float* const* others, long size) {
    f8 factors[ROWS][COUNT];
    for (int i = 0; i < ROWS; i++)
        for (int r = 0; r < COUNT; r++) factors[i][r] = broadcast(weights[i * weight_stride + r]);
    long whole = size / LANES * LANES;
    for (long c = 0; c < whole; c += LANES) {
        f8 rows[COUNT];
        for (int r = 0; r < COUNT; r++) rows[r] = load(others[r] + c);
        for (int i = 0; i < ROWS; i++) {
            f8 sum = load(out + i * out_stride + c);
            for (int r = 0; r < COUNT; r++) add_product(sum, factors[i][r], rows[r]);
            store(out + i * out_stride + c, sum);
        }
    }
    for (long c = whole; c < size; c++)
        for (int i = 0; i < ROWS; i++)
            for (int r = 0; r < COUNT; r++)
                add_product(out[i * out_stride + c], weights[i * weight_stride + r], others[r][c]);
}
