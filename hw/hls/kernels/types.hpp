// Streams, memories and the helpers that all kernels share.
//
// Every memory is an array [bank][slice][row][element]: a slice is one AXI beat wide, so that LOAD and STORE
// move whole words, and a row is what an engine reads or writes at once. In every kernel the banks and slices
// are partitioned (each is a RAM of its own) and the elements of a slice reshaped into one word.
#pragma once
#include <cstdint>
#include <hls_stream.h>

#include "tilewright_config.h"

#define TW_PRAGMA_TEXT(text) _Pragma(#text)
#define TW_PRAGMA(text) TW_PRAGMA_TEXT(text)  // a pragma with macros in it, expanded first

static const int OUT_ELEMENTS = OUT_UNITS * UNIT;  // of an ALU vector or a dense GEMM result
static const int IN_ELEMENTS = IN_UNITS * UNIT;    // of a dense GEMM operand
static const int ACT_ROWS = ACT_BANK_UNITS / ACT_SPAN;   // of a bank
static const int ACC_ROWS = ACC_BANK_UNITS / OUT_UNITS;
static const int ENTRY_WEIGHTS = BLOCK_OUT * BLOCK_IN;
static const int COMMAND_BITS = INSTRUCTION_BITS + DRAM_BEAT_BITS + LIMIT_BITS + TAG_BITS;
static const int UOP_GEMM_PER_BEAT = BEAT_BITS > UOP_GEMM_BITS ? BEAT_BITS / UOP_GEMM_BITS : 1;
static const int UOP_ALU_PER_BEAT = BEAT_BITS > UOP_ALU_BITS ? BEAT_BITS / UOP_ALU_BITS : 1;

typedef ap_uint<BEAT_BITS> beat_t;
typedef ap_uint<AXI_BITS> word_t;  // of a memory port: a beat, or of two ports half of one
typedef ap_uint<DRAM_BEAT_BITS> dram_address;  // in beats
typedef ap_uint<ACT_ADDRESS_BITS> act_address;
typedef ap_uint<ACT_ADDRESS_BITS + 1> act_offset;  // within a wrap region, before it wraps
typedef ap_uint<ACC_ADDRESS_BITS> acc_address;
typedef ap_int<WEIGHT_BITS> weight_t;
typedef ap_uint<3> token_mask;
typedef ap_uint<CORE_BITS> core_mask;  // bit c: core c

// An instruction, base and limit of the segment that it names (only dispatch knows the segment table), and
// its index in the program, from the low bits up.
// One plain word, because how tools pack a struct on a stream has changed between versions.
typedef ap_uint<COMMAND_BITS> command_t;
typedef ap_uint<1 + TAG_BITS> retire_t;  // bit 0: a segment fault; above: the instruction's index
typedef hls::stream<beat_t> beat_stream;

#ifdef TW_COSIM  // cosim/ports.hpp: the kernels beside the Verilog that joins them, on its signals
#include TW_COSIM
#else
typedef hls::stream<command_t> command_stream;
typedef hls::stream<ap_uint<1> > token_stream;
typedef hls::stream<retire_t> retire_stream;
typedef hls::stream<core_mask> bell_stream;
typedef const word_t *dram_reader;
typedef word_t *dram_writer;

// act and acc have a spare row at the end of every bank, for reads that are not meant: see memory.hpp.
typedef int8_t act_memory[ACT_BANKS][ACT_SPAN * ACT_PARTS][ACT_ROWS + 1][BEAT_BYTES];
typedef int32_t acc_memory[ACC_BANKS][OUT_UNITS * ACC_PARTS][ACC_ROWS + 1][BEAT_WORDS];
typedef weight_t wgt_memory[WGT_PARTS][WGT_ENTRIES][BEAT_WEIGHTS];
typedef int32_t prm_memory[PRM_PARTS][PRM_ENTRIES][BEAT_WORDS];
typedef int8_t table_memory[OUT_ELEMENTS][TABLE_ROWS][TABLE_ENTRY_VALUES];  // a copy for every element of a vector
typedef ap_uint<UOP_GEMM_BITS> uop_gemm_memory[UOP_GEMM_DEPTH / UOP_GEMM_PER_BEAT][UOP_GEMM_PER_BEAT];
typedef ap_uint<UOP_ALU_BITS> uop_alu_memory[UOP_ALU_DEPTH / UOP_ALU_PER_BEAT][UOP_ALU_PER_BEAT];
#endif

inline ap_uint<INSTRUCTION_BITS> command_word(const command_t &command) {
#pragma HLS INLINE
    return command.range(INSTRUCTION_BITS - 1, 0);
}

inline dram_address command_base(const command_t &command) {
#pragma HLS INLINE
    return command.range(INSTRUCTION_BITS + DRAM_BEAT_BITS - 1, INSTRUCTION_BITS);
}

inline ap_uint<LIMIT_BITS> command_limit(const command_t &command) {
#pragma HLS INLINE
    return command.range(COMMAND_BITS - TAG_BITS - 1, INSTRUCTION_BITS + DRAM_BEAT_BITS);
}

inline command_t make_command(const ap_uint<INSTRUCTION_BITS> &word, dram_address base, ap_uint<LIMIT_BITS> limit,
                              ap_uint<TAG_BITS> tag) {
#pragma HLS INLINE
    command_t command = 0;
    command.range(INSTRUCTION_BITS - 1, 0) = word;
    command.range(INSTRUCTION_BITS + DRAM_BEAT_BITS - 1, INSTRUCTION_BITS) = base;
    command.range(COMMAND_BITS - TAG_BITS - 1, INSTRUCTION_BITS + DRAM_BEAT_BITS) = limit;
    command.range(COMMAND_BITS - 1, COMMAND_BITS - TAG_BITS) = tag;
    return command;
}

inline retire_t retire_entry(const command_t &command, bool fault) {
#pragma HLS INLINE
    retire_t entry = 0;
    entry[0] = fault;
    entry.range(TAG_BITS, 1) = command.range(COMMAND_BITS - 1, COMMAND_BITS - TAG_BITS);
    return entry;
}

// Wait for one token from each marked engine; the streams in Engine order, as the mask's bits are.
inline void pop_tokens(token_mask mask, token_stream &a, token_stream &b, token_stream &c) {
#pragma HLS INLINE off
    if (mask[0]) a.read();
    if (mask[1]) b.read();
    if (mask[2]) c.read();
}

// The start of every instruction: its command, then its tokens.
struct Received {
    command_t command;
    ap_uint<INSTRUCTION_BITS> word;
    Header header;
};

inline Received receive(command_stream &commands, token_stream &a, token_stream &b, token_stream &c) {
#pragma HLS INLINE
    Received now;
    now.command = commands.read();
    now.word = command_word(now.command);
    now.header = decode_Header(now.word);
    pop_tokens(now.header.pop, a, b, c);
    return now;
}

// Send one token to each marked engine. Callers pass the mask that the finished work returned: that
// dependence, and not the order of statements, is what keeps a token behind the writes that it announces.
inline void push_tokens(token_mask mask, token_stream &a, token_stream &b, token_stream &c) {
#pragma HLS INLINE off
    if (mask[0]) a.write(1);
    if (mask[1]) b.write(1);
    if (mask[2]) c.write(1);
}

// The end of every instruction: its tokens, then its entry in the retire stream. One that has faulted sends no
// tokens: what waits for it must not start.
inline void finish(const command_t &command, token_mask push, bool fault, token_stream &a, token_stream &b,
                   token_stream &c, retire_stream &retired) {
#pragma HLS INLINE
    if (!fault) push_tokens(push, a, b, c);
    retired.write(retire_entry(command, fault));
}
