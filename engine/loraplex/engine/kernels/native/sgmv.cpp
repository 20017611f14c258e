// The punica ops on a CPU.
#include "sgmv.h"

using namespace sgmv;

extern "C" void loraplex_shrink(const float* x, long x_stride, long in_features,
                                const float* pages, const Tables* tables, const Segment* segments,
                                long segment_count, float* h, long h_row, long h_slice) {
#pragma omp parallel
    shrink(x, x_stride, in_features, pages, *tables, {segments, segment_count},
           {h, h_row, h_slice});
}

extern "C" void loraplex_expand(float* y, long y_stride, float* h, long h_row, long h_slice,
                                const float* pages, const Tables* tables, const float* scales,
                                long scale_adapter, long scale_slice, const Segment* segments,
                                long segment_count, const int64_t* slice_starts) {
    Expansion expansion{{h, h_row, h_slice},
                        pages,
                        *tables,
                        {scales, scale_adapter, scale_slice},
                        {segments, segment_count},
                        slice_starts,
                        y,
                        y_stride};
#pragma omp parallel
    expand(expansion);
}
