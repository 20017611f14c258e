// Eight floats at a time, in the compiler's own vector types: AVX2, AVX-512 and NEON alike.
#pragma once
#include <cstdint>
#include <cstring>

typedef float f8 __attribute__((vector_size(32)));
typedef float f8u __attribute__((vector_size(32), aligned(4)));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef uint32_t u8 __attribute__((vector_size(32)));
typedef uint32_t u8u __attribute__((vector_size(32), aligned(4)));

constexpr long LANES = 8;

static inline f8 load(const float* from) { return *(const f8u*)from; }
static inline void store(float* to, f8 value) { *(f8u*)to = value; }
static inline f8 broadcast(float value) {
    return f8{value, value, value, value, value, value, value, value};
}

// sum + a * b, rounded once. The compiler spills accumulators when it may choose the operand that
// is overwritten, so on x86 the choice is made here.
static inline void add_product(f8& sum, f8 a, f8 b) {
#if defined(__FMA__)
    asm("vfmadd231ps %1, %2, %0" : "+x"(sum) : "x"(a), "x"(b));
#else
    sum += a * b;
#endif
}

// The same of one number.
static inline void add_product(float& sum, float a, float b) {
#if defined(__FMA__)
    sum = __builtin_fmaf(a, b, sum);
#else
    sum += a * b;
#endif
}

// bfloat16 is the upper half of a float32: two of them in a word are widened by an operation each.
static inline f8 lower_bfloat16(u8 pairs) { return (f8)(pairs << 16); }
static inline f8 upper_bfloat16(u8 pairs) { return (f8)(pairs & 0xffff0000u); }

// In a fixed order, so that a row's sum does not depend on what is computed beside it.
static inline float sum_of(f8 v) {
    float a = (v[0] + v[4]) + (v[2] + v[6]);
    float b = (v[1] + v[5]) + (v[3] + v[7]);
    return a + b;
}

typedef float f4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));

// GCC before 12 knows its own name for it only.
#if defined(__clang__)
#define SHUFFLED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLED(a, b, ...) __builtin_shuffle(a, b, i4{__VA_ARGS__})
#endif

static inline f4 halves(f8 v) {
    f4 both[2];
    std::memcpy(both, &v, sizeof v);
    return both[0] + both[1];
}

// Four of those sums, in the same order of additions.
static inline f4 sums_of(f8 a, f8 b, f8 c, f8 d) {
    f4 p = halves(a), q = halves(b), r = halves(c), s = halves(d);
    f4 pq = SHUFFLED(p, q, 0, 1, 4, 5) + SHUFFLED(p, q, 2, 3, 6, 7);
    f4 rs = SHUFFLED(r, s, 0, 1, 4, 5) + SHUFFLED(r, s, 2, 3, 6, 7);
    return SHUFFLED(pq, rs, 0, 2, 4, 6) + SHUFFLED(pq, rs, 1, 3, 5, 7);
}

static inline float largest_of(f8 v) {
    float largest = v[0];
    for (int lane = 1; lane < LANES; lane++) largest = v[lane] > largest ? v[lane] : largest;
    return largest;
}

// e^x for x <= 0, to about one unit in the last place; 0 below -87. Cephes' polynomial.
static inline f8 exponential(f8 x) {
    const f8 lowest = broadcast(-87.0f);
    i8 vanishes = x < lowest;
    x = vanishes ? lowest : x;
    f8 scaled = x * broadcast(1.44269504088896341f);
    i8 whole = __builtin_convertvector(scaled - broadcast(0.5f), i8);
    f8 power = __builtin_convertvector(whole, f8);
    x = x - power * broadcast(0.693359375f) - power * broadcast(-2.12194440e-4f);
    f8 y = broadcast(1.9875691500e-4f);
    y = y * x + broadcast(1.3981999507e-3f);
    y = y * x + broadcast(8.3334519073e-3f);
    y = y * x + broadcast(4.1665795894e-2f);
    y = y * x + broadcast(1.6666665459e-1f);
    y = y * x + broadcast(5.0000001201e-1f);
    y = y * x * x + x + broadcast(1.0f);
    f8 result = y * (f8)((whole + 127) << 23);
    return vanishes ? f8{} : result;
}
