// Stands in for liblz4's header where that is not installed: the waveform writer needs these two functions. Blocks
// hold literals only, which every LZ4 decoder reads; files are larger than with the real library.
#pragma once
#include <cstring>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char* source, char* target, int size, int room) {
    if (room < LZ4_compressBound(size)) return 0;
    char* out = target;
    *out++ = static_cast<char>((size < 15 ? size : 15) << 4);
    int rest = size - 15;
    for (; rest >= 255; rest -= 255) *out++ = static_cast<char>(255);
    if (size >= 15) *out++ = static_cast<char>(rest);
    std::memcpy(out, source, static_cast<size_t>(size));
    return static_cast<int>(out + size - target);
}
