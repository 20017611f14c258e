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

// out[i] += weights[i][0..COUNT) · others[0..COUNT), `size` columns of each of ROWS rows.
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
                out[i * out_stride + c] += weights[i * weight_stride + r] * others[r][c];
}
