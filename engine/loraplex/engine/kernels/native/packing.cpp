// An adapter's rows on their way into its pages, on the calling thread alone.
#include <cstdint>
#include <cstring>

struct Strip {
    long source;  // bytes from the source's start to its first element
    long rows;
    long width;
    long row_step;     // elements between two rows of the source
    long column_step;  // elements between two of a row
    char* target;      // rows side by side
};

// Neither end need be aligned: a file's tensors begin anywhere.
template <typename Word>
static void pack(const char* source, const Strip& strip) {
    const char* from = source + strip.source;
    if (strip.column_step == 1) {
        for (long row = 0; row < strip.rows; ++row)
            std::memcpy(strip.target + row * strip.width * sizeof(Word),
                        from + row * strip.row_step * sizeof(Word), strip.width * sizeof(Word));
        return;
    }
    for (long column = 0; column < strip.width; ++column) {
        for (long row = 0; row < strip.rows; ++row) {
            long element = column * strip.column_step + row * strip.row_step;
            std::memcpy(strip.target + (row * strip.width + column) * sizeof(Word),
                        from + element * sizeof(Word), sizeof(Word));
        }
    }
}

extern "C" void loraplex_pack(const char* source, const Strip* strips, long count, long word) {
    for (long number = 0; number < count; ++number) {
        if (word == 4)
            pack<uint32_t>(source, strips[number]);
        else
            pack<uint16_t>(source, strips[number]);
    }
}
