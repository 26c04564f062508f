// One core of a Verilated design, seen from outside: its ports, the DRAM behind them, its events; and what limits the
// DRAM of several.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "Vdesign.h"
#include "dram.hpp"

namespace tilewright {

// A core's ports. Of a design of one core they have no number; how many cores a design has, its ports say.
template <int Number> struct Ports;
constexpr int UNNUMBERED = -1, MOST_CORES = 8;
#define PORT(PREFIX, NAME) \
    template <class Top> static auto NAME(Top& top) -> decltype((top.PREFIX##NAME)) { return top.PREFIX##NAME; }
#define CORE(NUMBER, AXI, EV)                                                                                         \
    template <> struct Ports<NUMBER> {                                                                                \
        PORT(AXI, arvalid) PORT(AXI, arready) PORT(AXI, araddr) PORT(AXI, arlen) PORT(AXI, arsize) PORT(AXI, arburst) \
        PORT(AXI, awvalid) PORT(AXI, awready) PORT(AXI, awaddr) PORT(AXI, awlen) PORT(AXI, awsize) PORT(AXI, awburst) \
        PORT(AXI, awid) PORT(AXI, wid) PORT(AXI, wvalid) PORT(AXI, wready) PORT(AXI, wdata) PORT(AXI, wstrb)          \
        PORT(AXI, wlast) PORT(AXI, rvalid) PORT(AXI, rready) PORT(AXI, rdata) PORT(AXI, rresp) PORT(AXI, rlast)       \
        PORT(AXI, bvalid) PORT(AXI, bready) PORT(AXI, bresp)                                                          \
        PORT(EV, start) PORT(EV, dispatch) PORT(EV, dispatch_engine) PORT(EV, issue) PORT(EV, retire)                 \
    };
CORE(UNNUMBERED, m_axi_, ev_)
CORE(0, m_axi_0_, ev_0_)
CORE(1, m_axi_1_, ev_1_)
CORE(2, m_axi_2_, ev_2_)
CORE(3, m_axi_3_, ev_3_)
CORE(4, m_axi_4_, ev_4_)
CORE(5, m_axi_5_, ev_5_)
CORE(6, m_axi_6_, ev_6_)
CORE(7, m_axi_7_, ev_7_)

template <int Number, class Top> constexpr bool HAS = requires(Top& top) { Ports<Number>::arvalid(top); };
template <class Top> constexpr int numbered() {
    return [&]<int... N>(std::integer_sequence<int, N...>) {
        return (0 + ... + int(HAS<N, Top>));
    }(std::make_integer_sequence<int, MOST_CORES>());
}
constexpr int CORES = std::max(1, numbered<Vdesign>());
template <int Core> using PortsOf = Ports<numbered<Vdesign>() ? Core : UNNUMBERED>;

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
    Dram dram;  // what is behind its memory port
    Events events;
    int64_t started = -1;

    template <class P> void drive(Vdesign& top, int64_t now) {
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

    template <class P> void sample(Vdesign& top, int64_t now) {
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
    struct Channel {
        Dram* dram;
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
        const uint32_t beat = channels[0].dram->beat_bytes;
        uint32_t budget = left + bandwidth;
        const size_t first = turn;
        for (size_t k = 0; k < channels.size(); k++) {
            const size_t number = (first + k) % channels.size();
            const Channel& channel = channels[number];
            const bool may = channel.has && budget >= beat;
            (channel.write ? channel.dram->may_write : channel.dram->may_read) = may;
            if (!may) continue;
            budget -= beat;
            turn = (number + 1) % channels.size();
        }
        left = std::min(budget, beat - 1);
    }
};

}  // namespace tilewright
