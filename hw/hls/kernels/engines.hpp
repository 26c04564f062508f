// The five kernels. LOAD, GEMM, ALU and STORE run free (ap_ctrl_none): one call is one instruction, and the
// hardware starts the next call by itself. Token streams are in Engine order.
#pragma once
#include "bells.hpp"
#include "dram.hpp"

void tilewright_load(TW_BELLS(token_stream &heard) command_stream &commands, retire_stream &retired,
                     token_stream &from_gemm, token_stream &from_alu, token_stream &from_store, token_stream &to_gemm,
                     token_stream &to_alu, token_stream &to_store, dram_reader dram, act_memory act,
                     wgt_memory wgt, acc_memory acc, prm_memory prm, table_memory tables,
                     uop_gemm_memory uops_gemm, uop_alu_memory uops_alu);

void tilewright_gemm(command_stream &commands, retire_stream &retired, token_stream &from_load,
                     token_stream &from_alu, token_stream &from_store, token_stream &to_load,
                     token_stream &to_alu, token_stream &to_store, uop_gemm_memory uops, act_memory act,
                     wgt_memory wgt, acc_memory acc);

void tilewright_alu(command_stream &commands, retire_stream &retired, token_stream &from_load,
                    token_stream &from_gemm, token_stream &from_store, token_stream &to_load,
                    token_stream &to_gemm, token_stream &to_store, uop_alu_memory uops, act_memory act,
                    acc_memory acc, prm_memory prm, table_memory tables);

void tilewright_store(TW_BELLS(bell_stream &ring) command_stream &commands, retire_stream &retired,
                      token_stream &from_load, token_stream &from_gemm, token_stream &from_alu, token_stream &to_load,
                      token_stream &to_gemm, token_stream &to_alu, dram_writer dram, act_memory act);

// What dispatch carries from one step to the next.
struct DispatchState {
    ap_uint<INSTRUCTION_BITS + BEAT_BITS> buffer;  // beats that have come in, the next instruction lowest
    unsigned bits;                                // of them
    ap_uint<TAG_BITS> prepared, retired;          // instructions
    bool pending, faulted;
    ap_uint<2> engine;  // that the pending command is for
    command_t command;
    core_mask hear;  // whom the pending command hears, as long as nobody has been told
    ap_uint<TAG_BITS> fault_tag;  // instruction of the first fault
    ap_uint<32> beats;            // taken from the fetch stream
};

struct SegmentTable {
    ap_uint<DRAM_BEAT_BITS> base[SEGMENTS];
    ap_uint<LIMIT_BITS> limit[SEGMENTS];
};

// The segment table as it comes from the control unit: segment 0 in the low bits.
typedef ap_uint<SEGMENTS * DRAM_BEAT_BITS> segment_bases;
typedef ap_uint<SEGMENTS * LIMIT_BITS> segment_limits;

void fetch(TW_READ_DRAM, dram_address program, ap_uint<32> beats, beat_stream &fetched);

DispatchState start_dispatch();

// One cycle of dispatch: note what has retired, send or prepare one instruction. True when the program has
// ended, which it has with the first fault too.
bool dispatch_step(DispatchState &state, TW_BELLS(bell_stream &hear) ap_uint<TAG_BITS> instructions,
                   const SegmentTable &segments, beat_stream &fetched, command_stream &load, command_stream &gemm,
                   command_stream &alu, command_stream &store, retire_stream &load_retired, retire_stream &gemm_retired,
                   retire_stream &alu_retired, retire_stream &store_retired);
