// C interface of a Verilated design with Tilewright's ports: clock, AXI-Lite register access, DRAM, events.
// hw/verilated/model.py is its only caller and documents what each function means.
#include <cstdio>
#include <memory>
#include <utility>

#include "Vdesign.h"
#include "core.hpp"
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
constexpr int REGISTER_TIMEOUT = 1000;  // cycles that a register access may take

struct Model {
    VerilatedContext context;
    std::unique_ptr<Vdesign> top;
    Core cores[CORES];
    Limit limit;
    int64_t now = 0;
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
        for_drams([&](Dram& dram) {
            dram.beat_bytes = sizeof(MemoryOf<0, 0>::rdata(*top));  // 4, 8, or whole 32-bit words: the port's width exactly
            dram.clear();
        });
        top->s_axil_bready = top->s_axil_rready = 1;
    }

    // Call `what.operator()<P>(dram)` for each memory port P.
    template <class What> void each_memory(What what) {
        [&]<int... N>(std::integer_sequence<int, N...>) {
            (what.template operator()<MemoryOf<N / PORTS, N % PORTS>>(cores[N / PORTS].drams[N % PORTS]), ...);
        }(std::make_integer_sequence<int, CORES * PORTS>());
    }

    // Call `what.operator()<E>(core)` for each core with its events E.
    template <class What> void each_core(What what) {
        [&]<int... N>(std::integer_sequence<int, N...>) {
            (what.template operator()<EventsOf<N>>(cores[N]), ...);
        }(std::make_integer_sequence<int, CORES>());
    }

    template <class What> void for_drams(What what) {
        for (Core& core : cores)
            for (Dram& dram : core.drams) what(dram);
    }

    void share(bool on) {
        for_drams([&](Dram& dram) { dram.shared = on; });
    }

    void add_channels(std::vector<Limit::Channel>& channels) {
        bool writes[CORES] = {};
        size_t port = 0;
        each_memory([&]<class P>(Dram&) { writes[port++ / PORTS] |= bool(P::wvalid(*top)); });
        for (size_t c = 0; c < CORES; c++) {
            const auto has_read = [&](const Dram& dram) { return dram.has_read(now); };
            const Dram* drams = cores[c].drams;
            channels.push_back({&cores[c], false, std::all_of(drams, drams + PORTS, has_read)});
            channels.push_back({&cores[c], true, writes[c]});
        }
    }

    void step() {
        if (limit.bandwidth) {
            std::vector<Limit::Channel> channels;
            add_channels(channels);
            limit.allow(channels);
        }
        each_memory([&]<class P>(Dram& dram) { Core::drive<P>(dram, *top, now); });
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
        each_memory([&]<class P>(Dram& dram) { Core::sample<P>(dram, *top, now); });
        each_core([&]<class E>(Core& core) { core.template record<E>(*top, now); });
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
        for_drams([](Dram& dram) { dram.clear(); });
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
    m->for_drams([&](Dram& dram) { dram.latency = latency; });
    return m;
}

void tw_delete(void* handle) {
    Model* m = static_cast<Model*>(handle);
    m->top->final();
    delete m;
}

int tw_cores() { return CORES; }

void tw_reset(void* handle, int cycles) { static_cast<Model*>(handle)->reset(cycles); }

void tw_clear_regions(void* handle, int core) {
    for (Dram& dram : static_cast<Model*>(handle)->cores[core].drams) dram.clear_regions();
}

void tw_add_region(void* handle, int core, uint64_t base, uint64_t size, uint8_t* bytes, int writable) {
    for (Dram& dram : static_cast<Model*>(handle)->cores[core].drams)
        dram.add_region({base, size, bytes, writable != 0});
}

// Of a core with several ports the last one answers with the error.
void tw_disturb(void* handle, uint32_t stall, uint64_t seed, int64_t fail_read, int64_t fail_write) {
    Model* m = static_cast<Model*>(handle);
    m->for_drams([&](Dram& dram) {
        dram.stall = stall;
        dram.random.state = seed | 1;
        seed += 0x9E3779B97F4A7C15;  // ports pause independently
    });
    for (Core& core : m->cores) {
        core.drams[PORTS - 1].fail_read = fail_read;
        core.drams[PORTS - 1].fail_write = fail_write;
    }
}

// All ports together move so many bytes a cycle from here on; 0: each what it asks for.
void tw_limit(void* handle, uint32_t bandwidth) {
    Model* m = static_cast<Model*>(handle);
    m->limit.bandwidth = bandwidth;
    m->limit.rest(PORTS * m->cores[0].drams[0].beat_bytes);
    m->share(bandwidth != 0);
}

int tw_write(void* handle, uint32_t address, uint32_t data) {
    return static_cast<Model*>(handle)->write_register(address, data);
}

int tw_read(void* handle, uint32_t address, uint32_t* data) {
    return static_cast<Model*>(handle)->read_register(address, data);
}

// Begin to record: what was counted and recorded of a core is forgotten.
void tw_record(void* handle, int core, uint64_t keep) {
    Core& c = static_cast<Model*>(handle)->cores[core];
    c.events.clear(keep);
    c.started = -1;
    for (Dram& dram : c.drams) {
        dram.read_bursts = dram.write_bursts = dram.read_beats = dram.write_beats = 0;
        dram.violation.clear();
    }
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

// Clock several designs in step before one DRAM, which moves `bandwidth` bytes a cycle for all. Design k is told to
// start in cycle delays[k]. Returns 1 once all have raised their interrupts, 0 after `limit` cycles.
int tw_run_together(void** handles, int count, uint32_t bandwidth, uint32_t address, uint32_t data,
                    const int64_t* delays, int64_t limit) {
    std::vector<Model*> models;
    for (int k = 0; k < count; k++) models.push_back(static_cast<Model*>(handles[k]));
    for (Model* m : models) m->share(true);
    Limit together{bandwidth};
    together.rest(PORTS * models[0]->cores[0].drams[0].beat_bytes);
    int done = 0;
    std::vector<bool> ended(count, false);
    for (int64_t t = 0; t < limit && done < count; t++) {
        std::vector<Limit::Channel> channels;
        for (Model* m : models) m->add_channels(channels);
        together.allow(channels);
        for (int k = 0; k < count; k++) {
            if (t == delays[k]) models[k]->ring(address, data);
            models[k]->step_ringing();
            if (models[k]->irq && !ended[k]) {
                ended[k] = true;
                done++;
            }
        }
    }
    for (Model* m : models) m->share(m->limit.bandwidth != 0);
    return done == count;
}

// values: now, start; of the first port, to which others are equal: read bursts, write bursts, read beats, write beats;
// DRAM idle
void tw_status(void* handle, int core, int64_t* values) {
    const Model* m = static_cast<Model*>(handle);
    const Core& c = m->cores[core];
    const Dram& d = c.drams[0];
    const bool idle = std::all_of(c.drams, c.drams + PORTS, [](const Dram& dram) { return dram.idle(); });
    const int64_t status[] = {m->now, c.started, int64_t(d.read_bursts), int64_t(d.write_bursts),
                              int64_t(d.read_beats), int64_t(d.write_beats), idle};
    std::copy(std::begin(status), std::end(status), values);
}

const char* tw_violation(void* handle, int core) {
    const Core& c = static_cast<Model*>(handle)->cores[core];
    const auto broken = [](const Dram& dram) { return !dram.violation.empty(); };
    const Dram* found = std::find_if(c.drams, c.drams + PORTS, broken);
    return (found == c.drams + PORTS ? c.drams : found)->violation.c_str();
}

// list: 0 dispatch cycles, 1 dispatch engines, 2..5 issue by engine, 6..9 retire by engine. Copies at most
// `room` values and returns how many there are.
int64_t tw_events(void* handle, int core, int list, int64_t* values, int64_t room) {
    const Events& e = static_cast<Model*>(handle)->cores[core].events;
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
