// How a kernel's work is shared: by OpenMP, whose pool torch has started already.
#pragma once
#if defined(_OPENMP)
#include <omp.h>
static inline long thread_number() { return omp_get_thread_num(); }
static inline long thread_count() { return omp_get_num_threads(); }
#else
static inline long thread_number() { return 0; }
static inline long thread_count() { return 1; }
#endif

static inline long least(long a, long b) { return a < b ? a : b; }
static inline long most(long a, long b) { return a > b ? a : b; }
static inline long pieces(long whole, long piece) { return (whole + piece - 1) / piece; }
