// The kernels as a library: memories, streams and a scheduler behind a C interface, one compiled unit.
//
// dispatch_step() hands out one instruction at a time, and the engine it went to runs it at once: programs are
// legal in program order, so this is a valid execution, and the same one every time.
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

enum Result { DONE = 0, SEGMENT_FAULT = 1, TOKEN_MISSING = 2 };

struct Accelerator {
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

    // Empty every stream: what a reset does. Streams report what is left in them when they go.
    void reset() {
        for (int e = 0; e < 4; e++) {
            while (!commands[e].empty()) commands[e].read();
            while (!retired[e].empty()) retired[e].read();
            for (auto &stream : tokens[e])
                while (!stream.empty()) stream.read();
        }
        while (!fetched.empty()) fetched.read();
    }

    // Whether every token that the command pops is there. Natively, a read of an empty stream does not wait.
    bool ready(int engine, const command_t &command) {
        const Header header = decode_Header(command_word(command));
        for (int other = 0, bit = 0; other < 4; other++) {
            if (other == engine) continue;
            if (header.pop[bit++] == 1 && tokens[other][engine].empty()) return false;
        }
        return true;
    }

    void step(int engine, TW_WRITE_DRAM) {
        auto &t = tokens;
        switch (engine) {
        case ENGINE_LOAD:
            tilewright_load(commands[0], retired[0], t[1][0], t[2][0], t[3][0], t[0][1], t[0][2], t[0][3], TW_DRAM, act,
                            wgt, acc, prm, tables, uops_gemm, uops_alu);
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
            tilewright_store(commands[3], retired[3], t[0][3], t[1][3], t[2][3], t[3][0], t[3][1], t[3][2], TW_DRAM, act);
        }
    }
};

}  // namespace

extern "C" {

void *tw_hls_new() { return new Accelerator(); }

void tw_hls_delete(void *handle) {
    static_cast<Accelerator *>(handle)->reset();
    delete static_cast<Accelerator *>(handle);
}

// Run a program once. `dram`: the whole DRAM; addresses, bases and limits count beats. `instruction` gets the
// index of the instruction that ended it, where the result is not DONE.
int tw_hls_run(void *handle, void *dram, uint64_t program, uint32_t instructions, const uint64_t *bases,
               const uint32_t *limits, uint32_t *instruction) {
    Accelerator &accelerator = *static_cast<Accelerator *>(handle);
    dram_writer words = static_cast<dram_writer>(dram);
    accelerator.reset();
    SegmentTable segments;
    for (int k = 0; k < SEGMENTS; k++) {
        segments.base[k] = bases[k];
        segments.limit[k] = limits[k];
    }
    const uint32_t program_beats = (uint64_t(instructions) * INSTRUCTION_BYTES + BEAT_BYTES - 1) / BEAT_BYTES;
    fetch(TW_PORTS, program, program_beats, accelerator.fetched);
    DispatchState state = start_dispatch();
    auto &c = accelerator.commands;
    auto &r = accelerator.retired;
    while (!dispatch_step(state, instructions, segments, accelerator.fetched, c[0], c[1], c[2], c[3], r[0], r[1], r[2],
                          r[3])) {
        const int engine = state.engine;
        if (state.pending || c[engine].empty()) continue;
        if (!accelerator.ready(engine, state.command)) {
            *instruction = unsigned(state.prepared) - 1;
            accelerator.reset();
            return TOKEN_MISSING;
        }
        accelerator.step(engine, TW_PORTS);
    }
    *instruction = state.fault_tag;
    accelerator.reset();
    return state.faulted ? SEGMENT_FAULT : DONE;
}
}
