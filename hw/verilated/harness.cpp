// C interface of a Verilated design with Tilewright's ports: clock, AXI-Lite register access, DRAM, events.
// hw/verilated/model.py is its only caller and documents what each function means.
#include <cstdio>
#include <memory>

#include "Vdesign.h"
#include "dram.hpp"
#include "verilated.h"
#if defined(TRACE_FST)
#include "verilated_fst_c.h"
using Wave = VerilatedFstC;
#elif defined(TRACE_VCD)
#include "verilated_vcd_c.h"
using Wave = VerilatedVcdC;
#endif

namespace {

using namespace tilewright;
constexpr int ENGINES = 4;
constexpr int REGISTER_TIMEOUT = 1000;  // cycles that a register access may take

// AXI3 names the burst of each write beat; AXI4 has no such port, and all ids are then taken for 0.
template <class Top> constexpr bool AXI3 = requires(Top& top) { top.m_axi_wid; };

template <class Top> uint32_t address_id(const Top& top) {
    if constexpr (AXI3<Top>) return top.m_axi_awid;
    return 0;
}

template <class Top> uint32_t data_id(const Top& top) {
    if constexpr (AXI3<Top>) return top.m_axi_wid;
    return 0;
}

struct Events {
    size_t limit = 0;  // events kept per list; later ones are counted only
    std::vector<int64_t> dispatch, dispatch_engine, issue[ENGINES], retire[ENGINES];

    void clear(size_t keep) {
        limit = keep;
        dispatch.clear();
        dispatch_engine.clear();
        for (int e = 0; e < ENGINES; e++) {
            issue[e].clear();
            retire[e].clear();
        }
    }
    void add(std::vector<int64_t>& list, int64_t value) const {
        if (list.size() < limit) list.push_back(value);
    }
};

struct Model {
    VerilatedContext context;
    std::unique_ptr<Vdesign> top;
    Dram dram;
    Events events;
    int64_t now = 0, started = -1;
    bool irq = false, aw = false, w = false, b = false, ar = false, r = false;  // handshakes of the last cycle
#if defined(TRACE_FST) || defined(TRACE_VCD)
    std::unique_ptr<Wave> wave;
    void dump(int phase) {
        if (wave) wave->dump(uint64_t(2 * now + phase));
    }
#else
    void dump(int) {}
#endif

    explicit Model(uint32_t seed) {
        context.randReset(seed ? 2 : 0);  // 2: registers without reset and memories start with random content
        context.randSeed(int(seed));
#if defined(TRACE_FST) || defined(TRACE_VCD)
        context.traceEverOn(true);
#endif
        top = std::make_unique<Vdesign>(&context, "tilewright");
        dram.beat_bytes = sizeof(top->m_axi_rdata);  // 4, 8, or whole 32-bit words: the bus width exactly
        dram.clear();
        top->s_axil_bready = top->s_axil_rready = 1;
    }

    void step() {
        dram.drive(now);
        top->m_axi_arready = dram.ar_ready;
        top->m_axi_awready = dram.aw_ready;
        top->m_axi_wready = dram.w_ready;
        top->m_axi_rvalid = dram.r_valid;
        top->m_axi_bvalid = dram.b_valid;
        top->m_axi_bresp = dram.b_response;
        if (dram.r_valid) {
            top->m_axi_rlast = dram.r_last;
            top->m_axi_rresp = dram.r_response;
            std::memcpy(&top->m_axi_rdata, dram.r_data.data(), dram.beat_bytes);
        }
        top->clk = 0;
        top->eval();
        dump(0);
        sample();
        top->clk = 1;
        top->eval();
        dump(1);
        now++;
    }

    void sample() {
        irq = top->irq;
        aw = top->s_axil_awvalid && top->s_axil_awready;
        w = top->s_axil_wvalid && top->s_axil_wready;
        b = top->s_axil_bvalid && top->s_axil_bready;
        ar = top->s_axil_arvalid && top->s_axil_arready;
        r = top->s_axil_rvalid && top->s_axil_rready;
        if (top->rst) return;
        const Address read{top->m_axi_araddr, top->m_axi_arlen, top->m_axi_arsize, top->m_axi_arburst};
        dram.read_address(now, top->m_axi_arvalid, read);
        dram.read_data(top->m_axi_rready);
        const Address write{top->m_axi_awaddr, top->m_axi_awlen, top->m_axi_awsize, top->m_axi_awburst,
                            address_id(*top)};
        dram.write_address(top->m_axi_awvalid, write);
        dram.write_data(top->m_axi_wvalid, reinterpret_cast<const uint8_t*>(&top->m_axi_wdata), top->m_axi_wstrb,
                        top->m_axi_wlast, data_id(*top), now);
        dram.write_response(top->m_axi_bready);
        if (top->ev_start && started < 0) started = now;
        if (top->ev_dispatch) {
            events.add(events.dispatch, now);
            events.add(events.dispatch_engine, top->ev_dispatch_engine);
        }
        if (top->ev_issue | top->ev_retire)
            for (int e = 0; e < ENGINES; e++) {
                if (top->ev_issue >> e & 1) events.add(events.issue[e], now);
                if (top->ev_retire >> e & 1) events.add(events.retire[e], now);
            }
    }

    // A register write that goes on while the design is clocked; it is not waited for.
    void ring(uint32_t address, uint32_t data) {
        top->s_axil_awaddr = address;
        top->s_axil_wdata = data;
        top->s_axil_wstrb = 15;
        top->s_axil_awvalid = top->s_axil_wvalid = 1;
    }

    void step_ringing() {
        step();
        if (aw) top->s_axil_awvalid = 0;
        if (w) top->s_axil_wvalid = 0;
    }

    void reset(int cycles) {
        top->rst = 1;
        top->s_axil_awvalid = top->s_axil_wvalid = top->s_axil_arvalid = 0;
        for (int i = 0; i < cycles; i++) step();
        top->rst = 0;
        dram.clear();
    }

    // Both return the response code, or -1 if the design does not answer.
    int write_register(uint32_t address, uint32_t data) {
        top->s_axil_awaddr = address;
        top->s_axil_wdata = data;
        top->s_axil_wstrb = 15;
        top->s_axil_awvalid = top->s_axil_wvalid = 1;
        for (int i = 0; i < REGISTER_TIMEOUT; i++) {
            step_registers();
            if (b) return response_;
        }
        return -1;
    }

    int read_register(uint32_t address, uint32_t* data) {
        top->s_axil_araddr = address;
        top->s_axil_arvalid = 1;
        for (int i = 0; i < REGISTER_TIMEOUT; i++) {
            step_registers();
            if (r) {
                *data = data_;
                return response_;
            }
        }
        return -1;
    }

private:
    uint32_t data_ = 0;
    int response_ = 0;

    // A cycle of a register access: the answer is taken where it is sampled, before the clock edge.
    void step_registers() {
        top->clk = 0;
        top->eval();
        const bool answered_write = top->s_axil_bvalid, answered_read = top->s_axil_rvalid;
        if (answered_write) response_ = top->s_axil_bresp;
        if (answered_read) {
            response_ = top->s_axil_rresp;
            data_ = top->s_axil_rdata;
        }
        step();
        if (aw) top->s_axil_awvalid = 0;
        if (w) top->s_axil_wvalid = 0;
        if (ar) top->s_axil_arvalid = 0;
    }
};

}  // namespace

extern "C" {

void* tw_new(uint32_t latency, uint32_t seed) {
    Model* m = new Model(seed);
    m->dram.latency = latency;
    return m;
}

void tw_delete(void* handle) {
    Model* m = static_cast<Model*>(handle);
    m->top->final();
    delete m;
}

void tw_reset(void* handle, int cycles) { static_cast<Model*>(handle)->reset(cycles); }

void tw_clear_regions(void* handle) { static_cast<Model*>(handle)->dram.clear_regions(); }

void tw_add_region(void* handle, uint64_t base, uint64_t size, uint8_t* bytes, int writable) {
    static_cast<Model*>(handle)->dram.add_region({base, size, bytes, writable != 0});
}

void tw_disturb(void* handle, uint32_t stall, uint64_t seed, int64_t fail_read, int64_t fail_write) {
    Dram& dram = static_cast<Model*>(handle)->dram;
    dram.stall = stall;
    dram.random.state = seed | 1;
    dram.fail_read = fail_read;
    dram.fail_write = fail_write;
}

int tw_write(void* handle, uint32_t address, uint32_t data) {
    return static_cast<Model*>(handle)->write_register(address, data);
}

int tw_read(void* handle, uint32_t address, uint32_t* data) {
    return static_cast<Model*>(handle)->read_register(address, data);
}

// Begin to record: what was counted and recorded is forgotten.
void tw_record(void* handle, uint64_t keep) {
    Model* m = static_cast<Model*>(handle);
    m->events.clear(keep);
    m->started = -1;
    Dram& dram = m->dram;
    dram.read_bursts = dram.write_bursts = dram.read_beats = dram.write_beats = 0;
    dram.violation.clear();
}

// Run until the interrupt or for `limit` cycles; returns 1 on the interrupt, 0 otherwise.
int tw_run(void* handle, int64_t limit) {
    Model* m = static_cast<Model*>(handle);
    for (int64_t i = 0; i < limit; i++) {
        m->step();
        if (m->irq) return 1;
    }
    return 0;
}

// Clock several designs in step before one DRAM, which moves `bandwidth` bytes a cycle (docs/timing.md, Several cores).
// Core c is told to start in cycle delays[c]. Returns 1 once all have raised their interrupts, 0 after `limit` cycles.
int tw_run_together(void** handles, int cores, uint32_t bandwidth, uint32_t address, uint32_t data,
                    const int64_t* delays, int64_t limit) {
    std::vector<Model*> models;
    for (int c = 0; c < cores; c++) models.push_back(static_cast<Model*>(handles[c]));
    const uint32_t beat = models[0]->dram.beat_bytes;
    for (Model* m : models) m->dram.shared = true;
    uint32_t left = beat - 1;
    int turn = 0, done = 0;
    std::vector<bool> ended(cores, false);
    for (int64_t t = 0; t < limit && done < cores; t++) {
        uint32_t budget = left + bandwidth;
        const int first = turn;
        for (int k = 0; k < 2 * cores; k++) {
            const int channel = (first + k) % (2 * cores);
            Model* m = models[channel / 2];
            const bool has = channel % 2 ? m->top->m_axi_wvalid : m->dram.has_read(m->now);
            const bool may = has && budget >= beat;
            (channel % 2 ? m->dram.may_write : m->dram.may_read) = may;
            if (!may) continue;
            budget -= beat;
            turn = (channel + 1) % (2 * cores);
        }
        left = std::min(budget, beat - 1);
        for (int c = 0; c < cores; c++) {
            if (t == delays[c]) models[c]->ring(address, data);
            models[c]->step_ringing();
            if (models[c]->irq && !ended[c]) {
                ended[c] = true;
                done++;
            }
        }
    }
    for (Model* m : models) m->dram.shared = false;
    return done == cores;
}

// values: now, start, read bursts, write bursts, read beats, write beats, DRAM idle
void tw_status(void* handle, int64_t* values) {
    const Model* m = static_cast<Model*>(handle);
    const Dram& d = m->dram;
    const int64_t status[] = {m->now, m->started, int64_t(d.read_bursts), int64_t(d.write_bursts),
                              int64_t(d.read_beats), int64_t(d.write_beats), d.idle()};
    std::copy(std::begin(status), std::end(status), values);
}

const char* tw_violation(void* handle) { return static_cast<Model*>(handle)->dram.violation.c_str(); }

// list: 0 dispatch cycles, 1 dispatch engines, 2..5 issue by engine, 6..9 retire by engine. Copies at most
// `room` values and returns how many there are.
int64_t tw_events(void* handle, int list, int64_t* values, int64_t room) {
    const Events& e = static_cast<Model*>(handle)->events;
    const std::vector<int64_t>& from = list == 0   ? e.dispatch
                                       : list == 1 ? e.dispatch_engine
                                       : list < 6  ? e.issue[list - 2]
                                                   : e.retire[list - 6];
    std::copy_n(from.begin(), std::min<int64_t>(room, int64_t(from.size())), values);
    return int64_t(from.size());
}

// Opens a waveform file; returns 0 if this library was built without that, or the file cannot be written.
int tw_wave_open(void* handle, const char* path) {
#if defined(TRACE_FST) || defined(TRACE_VCD)
    if (FILE* probe = std::fopen(path, "wb")) {
        std::fclose(probe);
        Model* m = static_cast<Model*>(handle);
        m->wave = std::make_unique<Wave>();
        m->top->trace(m->wave.get(), 99);
        m->wave->open(path);
        return m->wave->isOpen();
    }
#endif
    (void)handle;
    (void)path;
    return 0;
}

void tw_wave_close(void* handle) {
#if defined(TRACE_FST) || defined(TRACE_VCD)
    Model* m = static_cast<Model*>(handle);
    if (m->wave) m->wave->close();
    m->wave.reset();
#else
    (void)handle;
#endif
}

}  // extern "C"
