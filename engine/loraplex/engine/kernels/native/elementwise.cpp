// What lies between the linears, each in one pass over its rows.
#include <cmath>

#include "threads.h"
#include "vectors.h"

namespace {

// Below this many elements waking other threads costs more than they save.
constexpr long SHARED_ELEMENTS = 16384;

f8 squares(const float* x, long whole) {
    f8 sum{};
    for (long c = 0; c < whole; c += LANES) add_product(sum, load(x + c), load(x + c));
    return sum;
}

// 1 / sqrt(mean(x²) + epsilon)
float inverse_norm(const float* x, long size, float epsilon) {
    long whole = size / LANES * LANES;
    float sum = sum_of(squares(x, whole));
    for (long c = whole; c < size; c++) sum += x[c] * x[c];
    return 1.0f / std::sqrt(sum / size + epsilon);
}

}  // namespace

extern "C" void loraplex_add_norm(float* hidden, const float* delta, const float* weight,
                                  float epsilon, float* out, long rows, long size) {
#pragma omp parallel for if (rows * size > SHARED_ELEMENTS)
    for (long row = 0; row < rows; row++) {
        float *x = hidden + row * size, *to = out + row * size;
        if (delta)
            for (long c = 0; c < size; c++) x[c] += delta[row * size + c];
        float factor = inverse_norm(x, size, epsilon);
        for (long c = 0; c < size; c++) to[c] = x[c] * factor * weight[c];
    }
}

extern "C" void loraplex_gate(const float* gate_up, float* out, long rows, long size) {
#pragma omp parallel for if (rows * size > SHARED_ELEMENTS)
    for (long row = 0; row < rows; row++) {
        const float *gate = gate_up + row * 2 * size, *up = gate + size;
        float* to = out + row * size;
        long whole = size / LANES * LANES;
        const f8 one = broadcast(1.0f);
        for (long c = 0; c < whole; c += LANES) {
            // silu(g) = g / (1 + e^-g), with the exponent of a number that is not positive.
            f8 g = load(gate + c);
            i8 is_negative = g < f8{};
            f8 e = exponential(is_negative ? g : -g);
            store(to + c, g * (is_negative ? e : one) / (one + e) * load(up + c));
        }
        for (long c = whole; c < size; c++)
            to[c] = gate[c] / (1.0f + std::exp(-gate[c])) * up[c];
    }
}

namespace {

// The first half of a head against the second.
void rotate(const float* from, float* to, const float* cosine, const float* sine, long half) {
    for (long c = 0; c < half; c++) {
        float first = from[c], second = from[half + c];
        to[c] = first * cosine[c] - second * sine[c];
        to[half + c] = second * cosine[c] + first * sine[c];
    }
}

}  // namespace

struct Rotation {
    long heads, kv_heads, head_size, page_row;
    float epsilon;
};

// Rows of qkv: queries go to `query`, keys and values into the pages. `norm` is null, or the
// weights of the query's and key's norms, one row a head.
extern "C" void loraplex_rotate_and_write(const float* qkv, const float* cosine, const float* sine,
                                          const float* norm, const Rotation* rotation,
                                          float* query, float* pages, const int64_t* slots,
                                          long rows) {
    const Rotation& r = *rotation;
    long row_size = (r.heads + 2 * r.kv_heads) * r.head_size, half = r.head_size / 2;
    long kv_size = r.kv_heads * r.head_size;
#pragma omp parallel for if (rows * row_size > SHARED_ELEMENTS)
    for (long row = 0; row < rows; row++) {
        const float* from = qkv + row * row_size;
        float* kv = pages + (slots[row] + r.page_row) * 2 * kv_size;
        float normed[1024];
        for (long head = 0; head < r.heads + r.kv_heads; head++) {
            const float* x = from + head * r.head_size;
            bool is_key = head >= r.heads;
            if (is_key && slots[row] < 0) break;
            if (norm) {
                float factor = inverse_norm(x, r.head_size, r.epsilon);
                const float* weight = norm + head * r.head_size;
                for (long c = 0; c < r.head_size; c++) normed[c] = x[c] * factor * weight[c];
                x = normed;
            }
            float* to = is_key ? kv + (head - r.heads) * r.head_size
                               : query + (row * r.heads + head) * r.head_size;
            rotate(x, to, cosine + row * half, sine + row * half, half);
        }
        if (slots[row] >= 0)
            std::memcpy(kv + kv_size, from + (r.heads + r.kv_heads) * r.head_size,
                        kv_size * sizeof(float));
    }
}
