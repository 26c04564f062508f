// DRAM behind the AXI master (3 or 4), as the timing contract has it (docs/timing.md, isa/dram.py): a read burst's first
// beat comes `latency` cycles after its address, later bursts queue behind it, one beat per cycle; a write burst
// is answered `latency` cycles after its last beat, one response per cycle. All in order.
//
// Reads see memory when the beat is delivered and writes change it when they are answered: the latest moments
// that the protocol allows, so that a program or a design that relies on more gives wrong bytes.
//
// Where several cores share the DRAM, `shared` is set, and a beat moves only in a cycle in which `may_read` or
// `may_write` allows it; what has a beat to move is said before.
//
// The disturbed mode (random stalls) keeps the protocol and the order, and nothing of the timing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace tilewright {

constexpr uint64_t PAGE = 4096;  // no AXI burst may cross such a boundary
constexpr uint8_t OKAY = 0, SLVERR = 2, DECERR = 3;

struct Region {
    uint64_t base, size;
    uint8_t* bytes;
    bool writable;
};

struct Random {  // xorshift64*
    uint64_t state = 1;
    uint64_t next() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * 0x2545F4914F6CDD1DULL;
    }
    bool chance(uint32_t per_256) { return (next() >> 40 & 255) < per_256; }
};

struct Address {  // what a master presents on AR or AW
    uint64_t address = 0;
    uint32_t length = 0, size = 0, burst = 0;  // as on the bus: length is beats - 1
    uint32_t id = 0;                           // of a write in AXI3, where each of its beats repeats it
    bool operator==(const Address& o) const = default;
};

class Dram {
public:
    // Set from outside before a run.
    uint32_t beat_bytes = 8, latency = 1, stall = 0;  // stall: chance in 256 that a channel pauses for a cycle
    int64_t fail_read = -1, fail_write = -1;          // number of the burst that is answered with SLVERR
    bool shared = false, may_read = true, may_write = true;
    Random random;

    // Counted since the last `clear`.
    uint64_t read_bursts = 0, write_bursts = 0, read_beats = 0, write_beats = 0;
    std::string violation;  // the first protocol rule that the design broke

    // What the slave drives in this cycle; `drive` sets them.
    bool ar_ready = true, aw_ready = true, w_ready = true, r_valid = false, r_last = false, b_valid = false;
    uint8_t r_response = OKAY, b_response = OKAY;
    std::vector<uint8_t> r_data;

    void clear() {
        reads_.clear();
        write_addresses_.clear();
        writes_.clear();
        write_data_.clear();
        read_bursts = write_bursts = read_beats = write_beats = 0;
        data_end_ = response_end_ = -1;
        r_valid = b_valid = false;
        ar_held_ = aw_held_ = w_held_ = false;
        violation.clear();
        r_data.assign(beat_bytes, 0);
    }

    void add_region(const Region& region) { regions_.push_back(region); }
    void clear_regions() { regions_.clear(); }
    bool idle() const { return reads_.empty() && writes_.empty() && write_addresses_.empty() && write_data_.empty(); }

    // Whether a read beat could be driven in cycle `now`.
    bool has_read(int64_t now) const { return !reads_.empty() && reads_.front().first <= now; }

    // Decide what is driven in cycle `now`.
    void drive(int64_t now) {
        if (stall) {
            ar_ready = !random.chance(stall);
            aw_ready = !random.chance(stall);
            w_ready = !random.chance(stall);
        } else {
            ar_ready = aw_ready = true;
            w_ready = !shared || may_write;
        }
        // A valid that was not accepted stays, with its payload.
        const bool allowed = !shared || may_read;
        if (!r_valid && allowed && has_read(now) && !(stall && random.chance(stall))) {
            const Read& read = reads_.front();
            r_valid = true;
            r_last = read.done == read.request.length;
            r_response = fetch(read);
        }
        if (!b_valid && !writes_.empty() && writes_.front().response <= now && !(stall && random.chance(stall))) {
            b_valid = true;
            b_response = commit(writes_.front());
        }
    }

    // The master's outputs of cycle `now`, after `drive`.
    void read_address(int64_t now, bool valid, const Address& a) {
        stable("AR", ar_held_, ar_last_, valid, a);
        ar_held_ = valid && !ar_ready;
        ar_last_ = a;
        if (!valid || !ar_ready) return;
        check_address("AR", a);
        Read read{a, 0, now + int64_t(latency) + delay(), read_bursts++};
        if (!stall && !shared) {  // else beats follow each other as they may
            read.first = std::max(read.first, data_end_ + 1);
            data_end_ = read.first + int64_t(a.length);
        }
        reads_.push_back(read);
    }

    void read_data(bool ready) {
        if (!r_valid || !ready) return;
        r_valid = false;
        read_beats++;
        Read& read = reads_.front();
        if (read.done++ == read.request.length) reads_.pop_front();
    }

    void write_address(bool valid, const Address& a) {
        stable("AW", aw_held_, aw_last_, valid, a);
        aw_held_ = valid && !aw_ready;
        aw_last_ = a;
        if (!valid || !aw_ready) return;
        check_address("AW", a);
        write_addresses_.push_back(a);
        match();
    }

    void write_data(bool valid, const uint8_t* data, uint64_t strobe, bool last, uint32_t id, int64_t now) {
        if (!valid && !w_held_) return;
        Beat beat{std::vector<uint8_t>(), strobe, last, id};
        if (valid) beat.bytes.assign(data, data + beat_bytes);
        if (w_held_ && (!valid || !(beat == w_last_))) complain("W: valid or payload changed before ready");
        w_held_ = valid && !w_ready;
        if (w_held_) w_last_ = beat;
        if (!valid || !w_ready) return;
        write_beats++;
        write_data_.push_back(std::move(beat));
        if (last) {
            burst_ends_.push_back(now);
            match();
        }
    }

    void write_response(bool ready) {
        if (!b_valid || !ready) return;
        b_valid = false;
        writes_.pop_front();
    }

private:
    struct Read {
        Address request;
        uint32_t done;
        int64_t first;
        uint64_t number;
    };
    struct Beat {
        std::vector<uint8_t> bytes;
        uint64_t strobe;
        bool last;
        uint32_t id;
        bool operator==(const Beat& o) const = default;
    };
    struct Write {
        Address request;
        std::vector<Beat> beats;
        int64_t response;
        uint64_t number;
    };

    std::vector<Region> regions_;
    std::deque<Read> reads_;
    std::deque<Address> write_addresses_;
    std::deque<Beat> write_data_;
    std::deque<int64_t> burst_ends_;
    std::deque<Write> writes_;
    int64_t data_end_ = -1, response_end_ = -1;
    bool ar_held_ = false, aw_held_ = false, w_held_ = false;
    Address ar_last_, aw_last_;
    Beat w_last_;

    int64_t delay() { return stall ? int64_t(random.next() >> 33) % (2 * int64_t(latency) + 1) : 0; }

    void complain(const std::string& text) {
        if (violation.empty()) violation = text;
    }

    void stable(const char* channel, bool held, const Address& before, bool valid, const Address& a) {
        if (held && (!valid || !(a == before))) complain(std::string(channel) + ": valid or payload changed before ready");
    }

    void check_address(const char* channel, const Address& a) {
        const std::string name(channel);
        const uint64_t bytes = uint64_t(a.length + 1) * beat_bytes;
        if ((1u << a.size) != beat_bytes) complain(name + ": size is not the bus width");
        if (a.burst != 1) complain(name + ": not an INCR burst");
        if (a.address % beat_bytes) complain(name + ": address is not beat-aligned");
        if (a.address / PAGE != (a.address + bytes - 1) / PAGE) complain(name + ": burst crosses a 4 KiB boundary");
    }

    const Region* find(uint64_t address, uint64_t bytes) const {
        for (const Region& r : regions_)
            if (address >= r.base && address - r.base + bytes <= r.size) return &r;
        return nullptr;
    }

    uint8_t fetch(const Read& read) {
        const uint64_t address = read.request.address + uint64_t(read.done) * beat_bytes;
        const Region* region = find(address, beat_bytes);
        if (region && read.number != uint64_t(fail_read)) {
            std::memcpy(r_data.data(), region->bytes + (address - region->base), beat_bytes);
            return OKAY;
        }
        std::memset(r_data.data(), 0xA5, beat_bytes);  // what comes with an error must not be used
        return region ? SLVERR : DECERR;
    }

    uint8_t commit(const Write& write) {
        uint8_t response = write.number == uint64_t(fail_write) ? SLVERR : OKAY;
        uint64_t address = write.request.address;
        for (const Beat& beat : write.beats) {
            const Region* region = find(address, beat_bytes);
            if (!region || !region->writable) response = DECERR;
            if (response == OKAY)
                for (uint32_t i = 0; i < beat_bytes; i++)
                    if (beat.strobe >> i & 1) region->bytes[address - region->base + i] = beat.bytes[i];
            address += beat_bytes;
        }
        return response;
    }

    // Join addresses and data: AXI lets either come first. The contract counts from the data alone.
    void match() {
        while (!write_addresses_.empty() && !burst_ends_.empty()) {
            Write write{write_addresses_.front(), {}, 0, write_bursts++};
            bool last = false;
            while (!last && !write_data_.empty()) {
                last = write_data_.front().last;
                if (write_data_.front().id != write.request.id) complain("W: WID is not the burst's AWID");
                write.beats.push_back(std::move(write_data_.front()));
                write_data_.pop_front();
            }
            if (write.beats.size() != size_t(write.request.length) + 1) complain("W: last does not fit the burst's length");
            write.response = std::max(burst_ends_.front() + int64_t(latency) + delay(), response_end_ + 1);
            response_end_ = write.response;
            writes_.push_back(std::move(write));
            write_addresses_.pop_front();
            burst_ends_.pop_front();
        }
    }
};

}  // namespace tilewright
