// Dispatch: fetches a program, sends each instruction to its engine, counts what retires.
#include "engines.hpp"

// Beats of the program into a stream; it shares the memory port with LOAD.
void fetch(TW_READ_DRAM, dram_address program, ap_uint<32> beats, beat_stream &fetched) {
#pragma HLS INLINE off
    read_beats(TW_DRAM, program, beats, fetched);
}

static void note_retired(DispatchState &state, retire_stream &retired) {
#pragma HLS INLINE
    retire_t entry;
    if (!retired.read_nb(entry)) return;
    state.retired = state.retired + 1;
    if (entry[0] == 1 && !state.faulted) {
        state.faulted = true;
        state.fault_tag = entry.range(TAG_BITS, 1);
    }
}

static ap_uint<2> engine_of(const ap_uint<INSTRUCTION_BITS> &word) {
#pragma HLS INLINE
    const Header header = decode_Header(word);
    switch (int(header.opcode)) {
    case OPCODE_LOAD:
    case OPCODE_FILL: return ENGINE_LOAD;
    case OPCODE_STORE: return ENGINE_STORE;
    case OPCODE_GEMM: return ENGINE_GEMM;
    case OPCODE_WAIT: return decode_WaitFields(word).engine;
    default: return ENGINE_ALU;
    }
}

static void prepare(DispatchState &state, const SegmentTable &segments) {
#pragma HLS INLINE
    const ap_uint<INSTRUCTION_BITS> word = state.buffer.range(INSTRUCTION_BITS - 1, 0);
    state.buffer = state.buffer >> INSTRUCTION_BITS;
    state.bits -= INSTRUCTION_BITS;
    state.engine = engine_of(word);
    const bool load = decode_Header(word).opcode == OPCODE_LOAD;
    const unsigned segment = load ? unsigned(decode_LoadFields(word).segment) : unsigned(decode_StoreFields(word).segment);
    state.command = make_command(word, segments.base[segment % SEGMENTS], segments.limit[segment % SEGMENTS], state.prepared);
    state.prepared = state.prepared + 1;
    state.pending = true;
#if TW_CORES > 1
    const bool waits = state.engine == ENGINE_LOAD && decode_Header(word).opcode == OPCODE_WAIT;
    state.hear = waits ? decode_WaitFields(word).hear : core_mask(0);
#endif
}

DispatchState start_dispatch() {
#pragma HLS INLINE
    DispatchState state;
    state.buffer = 0;
    state.bits = 0;
    state.prepared = state.retired = state.fault_tag = 0;
    state.pending = state.faulted = false;
    state.engine = 0;
    state.command = 0;
    state.hear = 0;
    state.beats = 0;
    return state;
}

bool dispatch_step(DispatchState &state, TW_BELLS(bell_stream &hear) ap_uint<TAG_BITS> instructions,
                   const SegmentTable &segments, beat_stream &fetched, command_stream &load, command_stream &gemm,
                   command_stream &alu, command_stream &store, retire_stream &load_retired, retire_stream &gemm_retired,
                   retire_stream &alu_retired, retire_stream &store_retired) {
#pragma HLS INLINE
    // Nothing here blocks: were dispatch to wait for a full queue, nobody would empty the retire streams.
    note_retired(state, load_retired);
    note_retired(state, gemm_retired);
    note_retired(state, alu_retired);
    note_retired(state, store_retired);
#if TW_CORES > 1
    if (state.hear != 0) {  // told ahead of the WAIT itself
        if (hear.write_nb(state.hear)) state.hear = 0;
        return state.faulted;
    }
#endif
    if (state.pending) {
        bool sent;
        switch (int(state.engine)) {
        case ENGINE_LOAD: sent = load.write_nb(state.command); break;
        case ENGINE_GEMM: sent = gemm.write_nb(state.command); break;
        case ENGINE_ALU: sent = alu.write_nb(state.command); break;
        default: sent = store.write_nb(state.command); break;
        }
        state.pending = !sent;
    } else if (state.prepared < instructions) {
        beat_t beat;
        if (state.bits >= unsigned(INSTRUCTION_BITS)) {
            prepare(state, segments);
        } else if (fetched.read_nb(beat)) {
            ap_uint<INSTRUCTION_BITS + BEAT_BITS> wide = beat;
            state.buffer = state.buffer | (wide << state.bits);
            state.bits += BEAT_BITS;
            state.beats = state.beats + 1;
        }
    }
    return state.faulted || state.retired == instructions;
}

static void run(TW_BELLS(bell_stream &hear) ap_uint<TAG_BITS> instructions, ap_uint<32> beats,
                segment_bases bases, segment_limits limits, beat_stream &fetched, command_stream &load,
                command_stream &gemm, command_stream &alu, command_stream &store, retire_stream &load_retired,
                retire_stream &gemm_retired, retire_stream &alu_retired, retire_stream &store_retired,
                ap_uint<1 + TAG_BITS> &fault) {
#pragma HLS INLINE off
    SegmentTable segments;
// In registers: looked up in the cycle in which an instruction is prepared.
#pragma HLS ARRAY_PARTITION variable=segments.base complete
#pragma HLS ARRAY_PARTITION variable=segments.limit complete
    for (int k = 0; k < SEGMENTS; k++) {
#pragma HLS UNROLL
        segments.base[k] = bases.range(DRAM_BEAT_BITS * (k + 1) - 1, DRAM_BEAT_BITS * k);
        segments.limit[k] = limits.range(LIMIT_BITS * (k + 1) - 1, LIMIT_BITS * k);
    }
    DispatchState state = start_dispatch();
    while (!dispatch_step(state, TW_BELLS(hear) instructions, segments, fetched, load, gemm, alu, store,
                          load_retired, gemm_retired, alu_retired, store_retired)) {
// No II is asked for: the wide shift of the buffer may take the cycles that the clock wants.
#pragma HLS PIPELINE
    }
    for (ap_uint<32> k = state.beats; k < beats; k++) fetched.read();  // so that fetch ends after a fault
    fault = 0;
    fault[0] = state.faulted;
    fault.range(TAG_BITS, 1) = state.fault_tag;
}

// Started once per inference by the control unit, which holds the registers (hls/control.py) and keeps all
// arguments stable until ap_done; `fault` holds bit 0: ended with a segment fault, above it the instruction's
// index. After a fault engines may hang in a wait for tokens: the control unit resets all kernels.
void tilewright_dispatch(TW_READ_DRAM, TW_BELLS(bell_stream &hear) dram_address program_address,
                         ap_uint<TAG_BITS> instructions, ap_uint<32> beats, segment_bases bases,
                         segment_limits limits, ap_uint<1 + TAG_BITS> &fault, command_stream &load, command_stream &gemm,
                         command_stream &alu, command_stream &store, retire_stream &load_retired,
                         retire_stream &gemm_retired, retire_stream &alu_retired, retire_stream &store_retired) {
// offset=off: addresses are absolute, and so are those of LOAD and STORE.
#pragma HLS INTERFACE m_axi port=dram offset=off bundle=gmem
#if TW_AXI_PORTS == 2
#pragma HLS INTERFACE m_axi port=dram_odd offset=off bundle=gmem1
#endif
#pragma HLS INTERFACE ap_none port=program_address
#pragma HLS INTERFACE ap_none port=instructions
#pragma HLS INTERFACE ap_none port=beats
#pragma HLS INTERFACE ap_none port=bases
#pragma HLS INTERFACE ap_none port=limits
#pragma HLS INTERFACE ap_vld port=fault
#pragma HLS INTERFACE ap_ctrl_hs port=return
#if TW_CORES > 1
#pragma HLS INTERFACE axis port=hear
#endif
#pragma HLS INTERFACE axis port=load
#pragma HLS INTERFACE axis port=gemm
#pragma HLS INTERFACE axis port=alu
#pragma HLS INTERFACE axis port=store
#pragma HLS INTERFACE axis port=load_retired
#pragma HLS INTERFACE axis port=gemm_retired
#pragma HLS INTERFACE axis port=alu_retired
#pragma HLS INTERFACE axis port=store_retired
#pragma HLS DATAFLOW
    beat_stream fetched("fetched");
// As deep as the Config's fetch FIFO: instructions are there before the engines ask for them.
TW_PRAGMA(HLS STREAM variable=fetched depth=TW_FETCH_BEATS)
    fetch(TW_DRAM, program_address, beats, fetched);
    run(TW_BELLS(hear) instructions, beats, bases, limits, fetched, load, gemm, alu, store, load_retired, gemm_retired,
        alu_retired, store_retired, fault);
}
