// Beats in DRAM, behind one memory port or two.
//
// A kernel's ports are arguments of its own, so their number is that of its parameters: lists stand in macros. Of two
// ports the first carries a beat's even word, the second its odd one. DRAM is cut into blocks as long as the longest
// burst, in each all even words before all odd ones (isa/dram_order.py): within a block a port's words lie together.
#pragma once
#include "types.hpp"

#if TW_AXI_PORTS == 1
#define TW_READ_DRAM dram_reader dram
#define TW_WRITE_DRAM dram_writer dram
#define TW_DRAM dram
#else
#define TW_READ_DRAM dram_reader dram, dram_reader dram_odd
#define TW_WRITE_DRAM dram_writer dram, dram_writer dram_odd
#define TW_DRAM dram, dram_odd
#endif

// Of `left` beats from one on, how many lie together: to the end of their block; through one port all do.
inline unsigned beats_together(uint64_t beat, unsigned left) {
#pragma HLS INLINE
    if (TW_AXI_PORTS == 1) return left;
    const unsigned here = BURST_BEATS - unsigned(beat % BURST_BEATS);
    return here < left ? here : left;
}

// The place of a beat's first word, in words.
inline uint64_t first_word(uint64_t beat) {
#pragma HLS INLINE
    return TW_AXI_PORTS == 1 ? beat : beat / BURST_BEATS * (2 * BURST_BEATS) + beat % BURST_BEATS;
}

// Consecutive beats of DRAM into a stream. The bus gives a beat a cycle; what lies together is contiguous, so that the
// tool infers bursts along the inner loop.
inline void read_beats(TW_READ_DRAM, uint64_t beat, unsigned beats, beat_stream &data) {
#pragma HLS INLINE
    for (unsigned together; beats > 0; beat += together, beats -= together) {
        together = beats_together(beat, beats);
        const uint64_t at = first_word(beat);
        for (unsigned k = 0; k < together; k++) {
#pragma HLS PIPELINE II=1
            const word_t even = dram[at + k];
            beat_t whole = even;
#if TW_AXI_PORTS == 2
            const word_t odd = dram_odd[at + BURST_BEATS + k];
            whole.range(BEAT_BITS - 1, AXI_BITS) = odd;
#endif
            data.write(whole);
        }
    }
}

// A stream into consecutive beats of DRAM, in the same way.
inline void write_beats(TW_WRITE_DRAM, uint64_t beat, unsigned beats, beat_stream &data) {
#pragma HLS INLINE
    for (unsigned together; beats > 0; beat += together, beats -= together) {
        together = beats_together(beat, beats);
        const uint64_t at = first_word(beat);
        for (unsigned k = 0; k < together; k++) {
#pragma HLS PIPELINE II=1
            const beat_t whole = data.read();
            dram[at + k] = word_t(whole.range(AXI_BITS - 1, 0));
#if TW_AXI_PORTS == 2
            dram_odd[at + BURST_BEATS + k] = word_t(whole.range(BEAT_BITS - 1, AXI_BITS));
#endif
        }
    }
}
