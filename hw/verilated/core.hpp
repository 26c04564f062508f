// One core of a Verilated design, seen from outside: its memory ports, the DRAM behind them, its events; and what limits
// the DRAM of several.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "Vdesign.h"
#include "dram.hpp"

namespace tilewright {

// A memory port, and the events of a core. They have no number where the design has one; how many it has, its ports say.
template <int Number> struct Memory;
template <int Number> struct Seen;
constexpr int UNNUMBERED = -1, MOST = 16;
#define PORT(PREFIX, NAME) \
    template <class Top> static auto NAME(Top& top) -> decltype((top.PREFIX##NAME)) { return top.PREFIX##NAME; }
#define MEMORY(NUMBER, AXI)                                                                                           \
    template <> struct Memory<NUMBER> {                                                                               \
        PORT(AXI, arvalid) PORT(AXI, arready) PORT(AXI, araddr) PORT(AXI, arlen) PORT(AXI, arsize) PORT(AXI, arburst) \
        PORT(AXI, awvalid) PORT(AXI, awready) PORT(AXI, awaddr) PORT(AXI, awlen) PORT(AXI, awsize) PORT(AXI, awburst) \
        PORT(AXI, awid) PORT(AXI, wid) PORT(AXI, wvalid) PORT(AXI, wready) PORT(AXI, wdata) PORT(AXI, wstrb)          \
        PORT(AXI, wlast) PORT(AXI, rvalid) PORT(AXI, rready) PORT(AXI, rdata) PORT(AXI, rresp) PORT(AXI, rlast)       \
        PORT(AXI, bvalid) PORT(AXI, bready) PORT(AXI, bresp)                                                          \
    };
#define SEEN(NUMBER, EV)                                                                                              \
    template <> struct Seen<NUMBER> {                                                                                 \
        PORT(EV, start) PORT(EV, dispatch) PORT(EV, dispatch_engine) PORT(EV, issue) PORT(EV, retire)                 \
    };
MEMORY(UNNUMBERED, m_axi_)
SEEN(UNNUMBERED, ev_)
#define BOTH(NUMBER) MEMORY(NUMBER, m_axi_##NUMBER##_) SEEN(NUMBER, ev_##NUMBER##_)
BOTH(0) BOTH(1) BOTH(2) BOTH(3) BOTH(4) BOTH(5) BOTH(6) BOTH(7)
BOTH(8) BOTH(9) BOTH(10) BOTH(11) BOTH(12) BOTH(13) BOTH(14) BOTH(15)

template <int Number, class Top> constexpr bool HAS_MEMORY = requires(Top& top) { Memory<Number>::arvalid(top); };
template <int Number, class Top> constexpr bool HAS_EVENTS = requires(Top& top) { Seen<Number>::start(top); };
template <class Top, int... N> constexpr int memories(std::integer_sequence<int, N...>) {
    return (0 + ... + int(HAS_MEMORY<N, Top>));
}
template <class Top, int... N> constexpr int cores(std::integer_sequence<int, N...>) {
    return (0 + ... + int(HAS_EVENTS<N, Top>));
}
using Numbers = std::make_integer_sequence<int, MOST>;
constexpr int MEMORIES = memories<Vdesign>(Numbers()), NUMBERED = cores<Vdesign>(Numbers());
constexpr int CORES = std::max(1, NUMBERED), PORTS = std::max(1, MEMORIES) / CORES;  // PORTS: memory ports of a core
template <int Core, int Port> using MemoryOf = Memory<MEMORIES ? Core * PORTS + Port : UNNUMBERED>;
template <int Core> using EventsOf = Seen<NUMBERED ? Core : UNNUMBERED>;

// AXI3 names the burst of each write beat; AXI4 has no such port, and all ids are then taken for 0.
template <class P, class Top> constexpr bool AXI3 = requires(Top& top) { P::wid(top); };

constexpr int ENGINES = 4;

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

struct Core {
    Dram drams[PORTS];  // what is behind its memory ports
    Events events;
    int64_t started = -1;

    template <class P> static void drive(Dram& dram, Vdesign& top, int64_t now) {
        dram.drive(now);
        P::arready(top) = dram.ar_ready;
        P::awready(top) = dram.aw_ready;
        P::wready(top) = dram.w_ready;
        P::rvalid(top) = dram.r_valid;
        P::bvalid(top) = dram.b_valid;
        P::bresp(top) = dram.b_response;
        if (dram.r_valid) {
            P::rlast(top) = dram.r_last;
            P::rresp(top) = dram.r_response;
            std::memcpy(&P::rdata(top), dram.r_data.data(), dram.beat_bytes);
        }
    }

    template <class P> static void sample(Dram& dram, Vdesign& top, int64_t now) {
        const Address read{P::araddr(top), P::arlen(top), P::arsize(top), P::arburst(top)};
        dram.read_address(now, P::arvalid(top), read);
        dram.read_data(P::rready(top));
        uint32_t address_id = 0, data_id = 0;
        ids<P>(top, address_id, data_id);
        const Address write{P::awaddr(top), P::awlen(top), P::awsize(top), P::awburst(top), address_id};
        dram.write_address(P::awvalid(top), write);
        dram.write_data(P::wvalid(top), reinterpret_cast<const uint8_t*>(&P::wdata(top)), P::wstrb(top), P::wlast(top),
                        data_id, now);
        dram.write_response(P::bready(top));
    }

    template <class P> void record(Vdesign& top, int64_t now) {
        if (P::start(top) && started < 0) started = now;
        if (P::dispatch(top)) {
            events.add(events.dispatch, now);
            events.add(events.dispatch_engine, P::dispatch_engine(top));
        }
        if (P::issue(top) | P::retire(top))
            for (int e = 0; e < ENGINES; e++) {
                if (P::issue(top) >> e & 1) events.add(events.issue[e], now);
                if (P::retire(top) >> e & 1) events.add(events.retire[e], now);
            }
    }

private:
    template <class P, class Top> static void ids(Top& top, uint32_t& address, uint32_t& data) {
        if constexpr (AXI3<P, Top>) {
            address = P::awid(top);
            data = P::wid(top);
        }
    }
};

// What the ports of all cores move together, bytes a cycle (docs/timing.md, Several cores); 0: no limit.
struct Limit {
    struct Channel {  // of all ports of a core together, which move their parts of a beat in the same cycle
        Core* core;
        bool write, has;
    };
    uint32_t bandwidth = 0, left = 0;
    size_t turn = 0;

    void rest(uint32_t beat) {
        left = beat - 1;
        turn = 0;
    }

    // Allow channels their beat of this cycle; they are in the order of their numbers.
    void allow(const std::vector<Channel>& channels) {
        const uint32_t beat = PORTS * channels[0].core->drams[0].beat_bytes;
        uint32_t budget = left + bandwidth;
        const size_t first = turn;
        for (size_t k = 0; k < channels.size(); k++) {
            const size_t number = (first + k) % channels.size();
            const Channel& channel = channels[number];
            const bool may = channel.has && budget >= beat;
            for (Dram& dram : channel.core->drams) (channel.write ? dram.may_write : dram.may_read) = may;
            if (!may) continue;
            budget -= beat;
            turn = (number + 1) % channels.size();
        }
        left = std::min(budget, beat - 1);
    }
};

}  // namespace tilewright
