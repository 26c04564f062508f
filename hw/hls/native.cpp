// The kernels as a library: memories, streams and a scheduler behind a C interface, one compiled unit.
//
// dispatch_step() hands out one instruction at a time, and the engine it went to runs it at once: programs are
// legal in program order, so this is a valid execution, and the same one every time. Of several cores each goes on until
// it waits for a doorbell that has not rung: programs that are legal together have an order in which none waits for ever.
#include <memory>

#include "kernels/alu.cpp"
#include "kernels/dispatch.cpp"
#include "kernels/gemm.cpp"
#include "kernels/load.cpp"
#include "kernels/store.cpp"

static_assert(sizeof(word_t) * 8 == AXI_BITS, "DRAM is handed to the kernels as it lies in memory");

// Every port sees the whole DRAM.
#if TW_AXI_PORTS == 1
#define TW_PORTS words
#else
#define TW_PORTS words, words
#endif

namespace {

enum Result { DONE = 0, SEGMENT_FAULT = 1, TOKEN_MISSING = 2, DOORBELL_MISSING = 3 };

// Doorbells that have rung and that nobody has heard: [by][at].
struct Bells {
    unsigned count[CORES][CORES];

    void ring(int by, core_mask at) {
        for (int core = 0; core < CORES; core++) count[by][core] += at[core] == 1;
    }

    // Takes one of each marked core, if all are there. One that the design has not never rings.
    bool hear(int listener, core_mask marked) {
        for (int core = 0; core < CORE_BITS; core++)
            if (marked[core] == 1 && (core >= CORES || count[core][listener] == 0)) return false;
        for (int core = 0; core < CORES; core++) count[core][listener] -= marked[core] == 1;
        return true;
    }
};

struct Core {
    act_memory act;
    wgt_memory wgt;
    acc_memory acc;
    prm_memory prm;
    table_memory tables;
    uop_gemm_memory uops_gemm;
    uop_alu_memory uops_alu;
    command_stream commands[4];
    retire_stream retired[4];
    token_stream tokens[4][4];  // [from][to]
    beat_stream fetched;
    bell_stream hear, ring;
    token_stream heard;
    dram_writer words;
    SegmentTable segments;
    DispatchState state;
    core_mask asked;  // whom the next instruction hears
    ap_uint<TAG_BITS> instructions;
    Result result;

    // Empty every stream: what a reset does. Streams report what is left in them when they go.
    void reset() {
        for (int e = 0; e < 4; e++) {
            empty(commands[e]);
            empty(retired[e]);
            for (auto &stream : tokens[e]) empty(stream);
        }
        empty(fetched);
        empty(hear);
        empty(heard);
        empty(ring);
    }

    template <typename Stream> static void empty(Stream &stream) {
        while (!stream.empty()) stream.read();
    }

    void begin(void *dram, uint64_t program, uint32_t count, const uint64_t *bases, const uint32_t *limits) {
        reset();
        words = static_cast<dram_writer>(dram);
        instructions = count;
        for (int k = 0; k < SEGMENTS; k++) {
            segments.base[k] = bases[k];
            segments.limit[k] = limits[k];
        }
        const uint32_t beats = (uint64_t(count) * INSTRUCTION_BYTES + BEAT_BYTES - 1) / BEAT_BYTES;
        fetch(TW_PORTS, program, beats, fetched);
        state = start_dispatch();
        asked = 0;
    }

    // Go on until the program has ended, or waits for a doorbell that has not rung; whether anything was done.
    bool go_on(Bells &bells, int self) {
        for (bool moved = false;; moved = true) {
            if (state.pending || commands[state.engine].empty()) {
                if (dispatch()) {
                    result = state.faulted ? SEGMENT_FAULT : DONE;
                    return true;
                }
                continue;
            }
            result = missing(bells, self);
            if (result == TOKEN_MISSING) return true;
            if (result == DOORBELL_MISSING) return moved;
            step();
            if (!ring.empty()) bells.ring(self, ring.read());
        }
    }

    bool dispatch() {
        auto &c = commands;
        auto &r = retired;
        return dispatch_step(state, TW_BELLS(hear) instructions, segments, fetched, c[0], c[1], c[2], c[3], r[0], r[1],
                             r[2], r[3]);
    }

    // What the next instruction waits for, if anything. Natively, a read of an empty stream does not wait.
    Result missing(Bells &bells, int self) {
        const int engine = state.engine;
        const Header header = decode_Header(command_word(state.command));
        for (int other = 0, bit = 0; other < 4; other++) {
            if (other == engine) continue;
            if (header.pop[bit++] == 1 && tokens[other][engine].empty()) return TOKEN_MISSING;
        }
        if (!hear.empty()) asked = hear.read();
        if (asked == 0) return DONE;
        if (!bells.hear(self, asked)) return DOORBELL_MISSING;
        asked = 0;
        heard.write(1);
        return DONE;
    }

    // The index of the instruction that ended the run, where the result is not DONE.
    uint32_t instruction() const {
        return result == SEGMENT_FAULT ? unsigned(state.fault_tag) : unsigned(state.prepared) - 1;
    }

    void step() {
        auto &t = tokens;
        switch (int(state.engine)) {
        case ENGINE_LOAD:
            tilewright_load(TW_BELLS(heard) commands[0], retired[0], t[1][0], t[2][0], t[3][0], t[0][1], t[0][2],
                            t[0][3], TW_PORTS, act, wgt, acc, prm, tables, uops_gemm, uops_alu);
            break;
        case ENGINE_GEMM:
            tilewright_gemm(commands[1], retired[1], t[0][1], t[2][1], t[3][1], t[1][0], t[1][2], t[1][3], uops_gemm,
                            act, wgt, acc);
            break;
        case ENGINE_ALU:
            tilewright_alu(commands[2], retired[2], t[0][2], t[1][2], t[3][2], t[2][0], t[2][1], t[2][3], uops_alu, act,
                           acc, prm, tables);
            break;
        default:
            tilewright_store(TW_BELLS(ring) commands[3], retired[3], t[0][3], t[1][3], t[2][3], t[3][0], t[3][1],
                             t[3][2], TW_PORTS, act);
        }
    }
};

struct Design {
    Core cores[CORES];
};

}  // namespace

extern "C" {

void *tw_hls_new() { return new Design(); }

void tw_hls_delete(void *handle) {
    Design *design = static_cast<Design *>(handle);
    for (Core &core : design->cores) core.reset();
    delete design;
}

// What a core is to run. `dram`: the whole DRAM; addresses, bases and limits count beats.
void tw_hls_begin(void *handle, int core, void *dram, uint64_t program, uint32_t instructions, const uint64_t *bases,
                  const uint32_t *limits) {
    static_cast<Design *>(handle)->cores[core].begin(dram, program, instructions, bases, limits);
}

// Run what the first `count` cores have begun, to the end of each: `results` by core, and for a result that is not DONE
// the index of the instruction that ended it.
void tw_hls_run(void *handle, int count, int *results, uint32_t *instructions) {
    Core *cores = static_cast<Design *>(handle)->cores;
    Bells bells = {};
    bool ended[CORES] = {};
    for (bool moved = true; moved;) {
        moved = false;
        for (int k = 0; k < count; k++) {
            if (ended[k]) continue;
            moved |= cores[k].go_on(bells, k);
            ended[k] = cores[k].result != DOORBELL_MISSING;
        }
    }
    for (int k = 0; k < count; k++) {
        results[k] = cores[k].result;
        instructions[k] = cores[k].instruction();
        cores[k].reset();
    }
}
}
