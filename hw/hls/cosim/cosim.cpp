// The joined Verilog with the C++ kernels in the place of their synthesised Verilog, behind a C interface: registers,
// interrupt and DRAM. Each kernel's module is a shell of two vectors, its inputs and its outputs (fields.hpp).
#include <ucontext.h>

#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/alu.cpp"
#include "kernels/dispatch.cpp"
#include "kernels/gemm.cpp"
#include "kernels/load.cpp"
#include "kernels/store.cpp"

#include "Vjoined.h"
#include "Vjoined___024root.h"
#include "fields.hpp"
#include "verilated.h"

namespace {

const size_t STACK_BYTES = 1 << 20;

struct Kernel {
    const uint32_t *inputs;
    uint32_t *outputs;
    int output_words;
    std::map<std::string, Row> rows;
    void (*body)();
    ucontext_t context;
    std::vector<char> stack;
    bool started = false;
};

Kernel *running;
ucontext_t scheduler;

const Row &row(const std::string &name) {
    const auto found = running->rows.find(name);
    if (found == running->rows.end()) throw std::runtime_error("no port " + name);
    return found->second;
}

void run_body() {
    for (;;) running->body();
}

template <int BITS> ap_uint<BITS> wide(const char *name) {
    ap_uint<BITS> value = 0;
    for (int at = 0; at < BITS; at += 32)
        value.range(at + 31 < BITS ? at + 31 : BITS - 1, at) = uint32_t(cosim::get(name, "", at, 32));
    return value;
}

std::string slice(const cosim::Access &access) {
    std::string name = access.array;
    for (int k = 0; k < access.partitioned; k++) name += "_" + std::to_string(access.index[k]);
    return name;
}

// The side of a slice's ports that has a signal: the tool may give an array one port or two.
std::string side(const std::string &prefix, const char *signal) {
    return running->rows.count(prefix + signal + "0") ? "0" : "1";
}

}  // namespace

namespace cosim {

void cycle() { swapcontext(&running->context, &scheduler); }

uint64_t get(const char *name, const char *suffix, int at, int bits) {
    const Row &port = row(std::string(name) + suffix);
    const uint32_t *words = port.output ? running->outputs : running->inputs;
    uint64_t value = 0;
    for (int k = 0; k < bits && at + k < port.bits; k++) {
        const int place = port.at + at + k;
        value |= uint64_t(words[place / 32] >> (place % 32) & 1) << k;
    }
    return value;
}

void set(const char *name, const char *suffix, uint64_t value, int at, int bits) {
    const Row &port = row(std::string(name) + suffix);
    for (int k = 0; k < bits && at + k < port.bits; k++) {
        const int place = port.at + at + k;
        const uint32_t mask = 1u << (place % 32);
        uint32_t &word = running->outputs[place / 32];
        word = value >> k & 1 ? word | mask : word & ~mask;
    }
}

uint64_t read_element(const Access &access) {
    const std::string prefix = slice(access), port = side(prefix, "_q");
    set(prefix.c_str(), ("_address" + port).c_str(), access.index[access.partitioned]);
    set(prefix.c_str(), ("_ce" + port).c_str(), 1);
    cycle();
    set(prefix.c_str(), ("_ce" + port).c_str(), 0);
    return get(prefix.c_str(), ("_q" + port).c_str(), access.index[access.partitioned + 1] * access.element_bits,
               access.element_bits);
}

void write_element(const Access &access, uint64_t value) {
    const std::string prefix = slice(access), port = side(prefix, "_we");
    const unsigned element = access.index[access.partitioned + 1];
    set(prefix.c_str(), ("_address" + port).c_str(), access.index[access.partitioned]);
    set(prefix.c_str(), ("_d" + port).c_str(), value, element * access.element_bits, access.element_bits);
    set(prefix.c_str(), ("_we" + port).c_str(), 1, element, 1);
    set(prefix.c_str(), ("_ce" + port).c_str(), 1);
    cycle();
    set(prefix.c_str(), ("_we" + port).c_str(), 0, element, 1);
    set(prefix.c_str(), ("_ce" + port).c_str(), 0);
}

static void send(const char *bus, const char *channel) {
    const std::string ready = std::string(channel) + "READY", valid = std::string(channel) + "VALID";
    while (!get(bus, ready.c_str())) cycle();
    set(bus, valid.c_str(), 1);
    cycle();
    set(bus, valid.c_str(), 0);
}

void read_bus(const char *bus, uint64_t address, uint32_t *parts) {
    set(bus, "ARADDR", address);
    send(bus, "AR");
    while (!get(bus, "RVALID")) cycle();
    for (int k = 0; k < PARTS; k++) parts[k] = uint32_t(get(bus, "RDATA", 32 * k, 32));
    set(bus, "RREADY", 1);
    cycle();
    set(bus, "RREADY", 0);
}

void write_bus(const char *bus, uint64_t address, const uint32_t *parts) {
    set(bus, "AWADDR", address);
    send(bus, "AW");
    for (int k = 0; k < PARTS; k++) set(bus, "WDATA", parts[k], 32 * k, 32);
    set(bus, "WSTRB", ~0ull);
    set(bus, "WLAST", 1);
    send(bus, "W");
    while (!get(bus, "BVALID")) cycle();
    set(bus, "BREADY", 1);
    cycle();
    set(bus, "BREADY", 0);
}

}  // namespace cosim

namespace {

#if TW_AXI_PORTS == 1
#define TW_BUSES cosim::Bus{"m_axi_gmem_"}
#else
#define TW_BUSES cosim::Bus{"m_axi_gmem_"}, cosim::Bus{"m_axi_gmem1_"}
#endif

command_stream commands{"commands"};
retire_stream retired{"retired"};
token_stream from_load{"from_load"}, from_gemm{"from_gemm"}, from_alu{"from_alu"}, from_store{"from_store"};
bell_stream hear{"hear"}, ring{"ring"};  // of several cores, as is `heard`
token_stream heard{"heard"};
token_stream to_load{"to_load"}, to_gemm{"to_gemm"}, to_alu{"to_alu"}, to_store{"to_store"};
act_memory act("act");
acc_memory acc("acc");
wgt_memory wgt("wgt");
prm_memory prm("prm");
table_memory tables("tables");

void dispatch_body() {
    while (!cosim::get("ap_start", "")) cosim::cycle();
    command_stream load{"load"}, gemm{"gemm"}, alu{"alu"}, store{"store"};
    retire_stream load_done{"load_retired"}, gemm_done{"gemm_retired"}, alu_done{"alu_retired"}, store_done{"store_retired"};
    ap_uint<1 + TAG_BITS> fault = 0;
    tilewright_dispatch(TW_BUSES, TW_BELLS(hear) wide<DRAM_BEAT_BITS>("program_address"), wide<TAG_BITS>("instructions"),
                        wide<32>("beats"), wide<SEGMENTS * DRAM_BEAT_BITS>("bases"),
                        wide<SEGMENTS * LIMIT_BITS>("limits"), fault, load, gemm, alu, store, load_done, gemm_done,
                        alu_done, store_done);
    cosim::set("fault", "", uint32_t(fault));
    for (const char *name : {"fault_ap_vld", "ap_done", "ap_ready"}) cosim::set(name, "", 1);
    cosim::cycle();
    for (const char *name : {"fault_ap_vld", "ap_done", "ap_ready"}) cosim::set(name, "", 0);
}

void load_body() {
    uop_gemm_memory uops_gemm("uops_gemm");
    uop_alu_memory uops_alu("uops_alu");
    tilewright_load(TW_BELLS(heard) commands, retired, from_gemm, from_alu, from_store, to_gemm, to_alu, to_store, TW_BUSES, act, wgt,
                    acc, prm, tables, uops_gemm, uops_alu);
}

void gemm_body() {
    uop_gemm_memory uops("uops");
    tilewright_gemm(commands, retired, from_load, from_alu, from_store, to_load, to_alu, to_store, uops, act, wgt, acc);
}

void alu_body() {
    uop_alu_memory uops("uops");
    tilewright_alu(commands, retired, from_load, from_gemm, from_store, to_load, to_gemm, to_store, uops, act, acc, prm,
                   tables);
}

void store_body() {
    tilewright_store(TW_BELLS(ring) commands, retired, from_load, from_gemm, from_alu, to_load, to_gemm, to_alu, TW_BUSES, act);
}

// One AXI master's DRAM: single beats, answered after a few cycles; addresses are always taken.
struct Memory {
    uint8_t *dram;
    uint64_t size;
    uint64_t read_at = 0, write_at = 0;
    int read_wait = -1, write_wait = -1;
    bool addressed = false, written = false, outside = false;

    void check(uint64_t address) {
        if (address + AXI_BITS / 8 > size) outside = true;
    }
};

struct Design {
    VerilatedContext context;
    std::unique_ptr<Vjoined> top;
    Kernel kernels[5 * CORES];
    Memory memory[3 * TW_AXI_PORTS * CORES];
    uint32_t random = 1;

    Design(uint8_t *dram, uint64_t size) : top(new Vjoined(&context)) {
        void (*bodies[5])() = {dispatch_body, load_body, gemm_body, alu_body, store_body};
        for (int k = 0; k < 5 * CORES; k++) {
            const Shell shell = shell_of(*top, k);
            kernels[k].inputs = shell.inputs;
            kernels[k].outputs = shell.outputs;
            kernels[k].output_words = shell.output_words;
            for (int r = 0; r < shell.count; r++) kernels[k].rows[shell.rows[r].name] = shell.rows[r];
            kernels[k].body = bodies[k % 5];
            kernels[k].stack.resize(STACK_BYTES);
        }
        for (Memory &m : memory) {
            m.dram = dram;
            m.size = size;
        }
        top->rst = 1;
        for (int k = 0; k < 4; k++) step();
        top->rst = 0;
        for (int k = 0; k < 32; k++) step();
    }

    void resume(Kernel &kernel) {
        running = &kernel;
        if (!cosim::get("ap_rst_n", "")) {
            kernel.started = false;
            std::memset(kernel.outputs, 0, 4 * kernel.output_words);
            return;
        }
        if (!kernel.started) {
            getcontext(&kernel.context);
            kernel.context.uc_stack.ss_sp = kernel.stack.data();
            kernel.context.uc_stack.ss_size = kernel.stack.size();
            kernel.context.uc_link = nullptr;
            makecontext(&kernel.context, run_body, 0);
            kernel.started = true;
        }
        swapcontext(&scheduler, &kernel.context);
    }

    // One master's channels: what is handed over in this cycle, then what is offered in the next.
#define TW_MASTER(number, bus)                                                                  \
    void before_##bus() {                                                                       \
        Memory &m = memory[number];                                                             \
        if (top->bus##_arvalid && top->bus##_arready) {                                         \
            m.read_at = top->bus##_araddr;                                                      \
            m.check(m.read_at);                                                                 \
            m.read_wait = delay();                                                              \
        }                                                                                       \
        if (top->bus##_rvalid && top->bus##_rready) m.read_wait = -1;                           \
        if (top->bus##_awvalid && top->bus##_awready) {                                         \
            m.write_at = top->bus##_awaddr;                                                     \
            m.check(m.write_at);                                                                \
            m.addressed = true;                                                                 \
        }                                                                                       \
        if (top->bus##_wvalid && top->bus##_wready && !m.outside) {                             \
            std::memcpy(m.dram + m.write_at, &top->bus##_wdata, AXI_BITS / 8);                  \
            m.written = true;                                                                   \
        }                                                                                       \
        if (top->bus##_bvalid && top->bus##_bready) m.write_wait = -1;                          \
        if (m.addressed && m.written) {                                                         \
            m.addressed = m.written = false;                                                    \
            m.write_wait = delay();                                                             \
        }                                                                                       \
    }                                                                                           \
    void after_##bus() {                                                                        \
        Memory &m = memory[number];                                                             \
        top->bus##_arready = top->bus##_awready = top->bus##_wready = 1;                        \
        top->bus##_rlast = 1;                                                                   \
        if (m.read_wait > 0) m.read_wait--;                                                     \
        top->bus##_rvalid = m.read_wait == 0;                                                   \
        if (m.read_wait == 0 && !m.outside) std::memcpy(&top->bus##_rdata, m.dram + m.read_at, AXI_BITS / 8); \
        if (m.write_wait > 0) m.write_wait--;                                                   \
        top->bus##_bvalid = m.write_wait == 0;                                                  \
    }
    TW_MASTERS(TW_MASTER)
#define TW_BEFORE(m, bus) before_##bus();
#define TW_AFTER(m, bus) after_##bus();

    int delay() {
        random = random * 1664525u + 1013904223u;
        return 1 + (random >> 29);
    }

    void step() {
        for (Kernel &kernel : kernels) resume(kernel);
        top->eval();
        TW_MASTERS(TW_BEFORE)
        top->clk = 1;
        top->eval();
        top->clk = 0;
        TW_MASTERS(TW_AFTER)
        top->eval();
    }
};

}  // namespace

extern "C" {

void *cosim_new(uint8_t *dram, uint64_t size) { return new Design(dram, size); }

void cosim_delete(void *handle) { delete static_cast<Design *>(handle); }

void cosim_write(void *handle, uint32_t offset, uint32_t value) {
    Design &d = *static_cast<Design *>(handle);
    d.top->s_axil_awaddr = offset;
    d.top->s_axil_wdata = value;
    d.top->s_axil_wstrb = 15;
    d.top->s_axil_awvalid = d.top->s_axil_wvalid = d.top->s_axil_bready = 1;
    d.top->eval();
    while (!d.top->s_axil_awready) d.step();
    d.step();
    d.top->s_axil_awvalid = d.top->s_axil_wvalid = 0;
    d.step();
    d.step();
}

uint32_t cosim_read(void *handle, uint32_t offset) {
    Design &d = *static_cast<Design *>(handle);
    d.top->s_axil_araddr = offset;
    d.top->s_axil_arvalid = d.top->s_axil_rready = 1;
    d.top->eval();
    while (!d.top->s_axil_arready) d.step();
    d.step();
    d.top->s_axil_arvalid = 0;
    d.top->eval();
    while (!d.top->s_axil_rvalid) d.step();
    const uint32_t value = d.top->s_axil_rdata;
    d.step();
    return value;
}

// Cycles until the interrupt, or -1 if it has not come after `limit`.
int64_t cosim_wait(void *handle, int64_t limit) {
    Design &d = *static_cast<Design *>(handle);
    for (int64_t cycle = 0; cycle < limit; cycle++) {
        if (d.top->irq) return cycle;
        d.step();
    }
    return -1;
}

// Whether any master has asked for an address beyond the DRAM.
int cosim_outside(void *handle) {
    Design &d = *static_cast<Design *>(handle);
    for (const auto &m : d.memory)
        if (m.outside) return 1;
    return 0;
}
}
