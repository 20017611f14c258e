// The LoRA of a few rows, done bit by bit between the blocks of a base linear.
//
// A decode step reads every adapter once and does little with it, while the base linear beside it
// does much with each weight and leaves memory idle. So each block of the linear asks for the cache
// lines of the tiles that are due next, and those that were asked for during the block before are
// worked off from the second-level cache. A thread takes whole (segment, slice) units, so that only
// adding to the linear's output waits for others.
#pragma once
#include <vector>

#include "sgmv.h"

class Companion {
   public:
    struct Work {
        const float* x;
        long x_stride, in_features;
        const float* pages;
        sgmv::Tables a, b;
        sgmv::Scales scales;
        sgmv::Rows rows;
        const int64_t* slice_starts;
        sgmv::Intermediate h;
        float* delta;  // [rows, out_features]
        long out_features;
    };

    // Whether units are many enough to be shared out fairly.
    static bool is_worth(const Work& work) {
        return work.rows.count * work.a.slices >= 2 * thread_count();
    }

    Companion() = default;

    // This thread's share.
    explicit Companion(const Work& work) : work_(&work) {
        items().clear();
        each_unit([&](const sgmv::Segment& segment, long slice, long rank) {
            long width = work.slice_starts[slice + 1] - work.slice_starts[slice];
            add(segment, slice, rank, work.in_features, work.a, false);
            add(segment, slice, rank, width, work.b, true);
        });
    }

    long lines_left() const { return lines_left_; }

    // The next cache lines to ask for: at most `lines`, all of one tile.
    Lines take(long lines) {
        if (lines <= 0 || lines_left_ == 0) return {};
        const Item& item = items()[asked_];
        const char* from = (const char*)item.tile + offset_;
        lines = least(lines, pieces(item.bytes - offset_, CACHE_LINE));
        offset_ += lines * CACHE_LINE;
        if (offset_ >= item.bytes) asked_++, offset_ = 0;
        lines_left_ -= lines;
        return {from, lines};
    }

    // Works off what has been asked for before.
    void work_off() {
        while (done_ < asked_) run(items()[done_++]);
    }

    void finish() {
        if (!work_) return;
        while (done_ < items().size()) run(items()[done_++]);
    }

    // Adds what the units came to; all threads have finished the linear.
    void add_to(float* y) const {
        if (!work_) return;
        const Work& w = *work_;
        each_unit([&](const sgmv::Segment& segment, long slice, long) {
            long start = w.slice_starts[slice], width = w.slice_starts[slice + 1] - start;
            float scale = w.scales.values[segment.adapter * w.scales.adapter + slice * w.scales.slice];
            for (long row = segment.start; row < segment.end; row++) {
                long at = row * w.out_features + start;
                sgmv::add_scaled(y + at, w.delta + at, scale, width);
            }
        });
    }

   private:
    static constexpr long FETCH_ROWS = 4;

    struct Item {
        sgmv::Segment segment;
        bool is_expand;
        const float* tile;
        long slice, first_rank, ranks, width, bytes;
    };

    // Calls `visit` with each of this thread's units. They are shared out in the order of columns,
    // as the linear's panels are, so that a thread mostly adds to what it multiplied itself.
    template <typename Visit>
    void each_unit(Visit visit) const {
        long whole = 0, before = 0;
        every_unit([&](const sgmv::Segment&, long, long, long cost) { whole += cost; });
        every_unit([&](const sgmv::Segment& segment, long slice, long rank, long cost) {
            long middle = 2 * before + cost;
            before += cost;
            if (middle * thread_count() / (2 * whole) == thread_number())
                visit(segment, slice, rank);
        });
    }

    template <typename Visit>
    void every_unit(Visit visit) const {
        const Work& w = *work_;
        for (long slice = 0; slice < w.a.slices; slice++)
            for (long s = 0; s < w.rows.count; s++) {
                const sgmv::Segment& segment = w.rows.segments[s];
                long rank = w.a.rank(segment.adapter, slice), rows = segment.end - segment.start;
                long width = w.slice_starts[slice + 1] - w.slice_starts[slice];
                // To fetch a tile takes as long as to multiply a few rows by it.
                if (rank > 0 && rows > 0)
                    visit(segment, slice, rank, rank * (w.in_features + width) * (FETCH_ROWS + rows));
            }
    }

    void add(const sgmv::Segment& segment, long slice, long rank, long width,
             const sgmv::Tables& tables, bool is_expand) {
        long step = least(sgmv::ITEM_RANKS, tables.tile_rank);
        for (long first = 0; first < rank; first += step) {
            long ranks = least(step, rank - first), bytes = ranks * width * (long)sizeof(float);
            items().push_back({segment, is_expand,
                               tables.row(work_->pages, segment.adapter, slice, first, width), slice,
                               first, ranks, width, bytes});
            lines_left_ += pieces(bytes, CACHE_LINE);
        }
    }

    void run(const Item& item) {
        const Work& w = *work_;
        long row = item.segment.start, rows = item.segment.end - row;
        float* h = w.h.values + row * w.h.row + item.slice * w.h.slice + item.first_rank;
        if (!item.is_expand) {
            dots_of_all(w.x + row * w.x_stride, w.x_stride, rows, item.tile, item.width, item.ranks,
                        item.width, h, w.h.row);
            return;
        }
        float* delta = w.delta + row * w.out_features + w.slice_starts[item.slice];
        if (item.first_rank == 0)
            for (long i = 0; i < rows; i++)
                std::memset(delta + i * w.out_features, 0, item.width * sizeof(float));
        sgmv::add_ranks(delta, w.out_features, h, w.h.row, rows, item.tile, item.width, item.ranks,
                        item.width);
    }

    // One a thread, kept from step to step: asking for memory would cost more than the list.
    static std::vector<Item>& items() {
        static thread_local std::vector<Item> list;
        return list;
    }

    const Work* work_ = nullptr;
    size_t asked_ = 0, done_ = 0;
    long offset_ = 0, lines_left_ = 0;
};
