// Arguments of the kernels as signals of the joined Verilog: each access of a memory, a stream or the bus is made on
// the kernel's ports and takes cycles there. A kernel runs as a coroutine that gives way in every cycle.
#pragma once
#include <cstdint>

namespace cosim {

struct Access {  // a RAM port's access: array, indices of bank and slice, row, element
    const char *array;
    unsigned index[4];
    int partitioned;  // indices ahead of the row
    int element_bits;
};

void cycle();
uint64_t read_element(const Access &access);
void write_element(const Access &access, uint64_t value);
uint64_t get(const char *name, const char *suffix, int at = 0, int bits = 64);
void set(const char *name, const char *suffix, uint64_t value, int at = 0, int bits = 64);
const int PARTS = AXI_BITS / 32;  // of a bus's word
void read_bus(const char *bus, uint64_t address, uint32_t *parts);
void write_bus(const char *bus, uint64_t address, const uint32_t *parts);

template <typename T, int BITS, int PARTITIONED, int LEFT> struct Place {
    Access access;
    Place<T, BITS, PARTITIONED, LEFT - 1> operator[](unsigned index) const {
        Place<T, BITS, PARTITIONED, LEFT - 1> next = {access};
        next.access.index[PARTITIONED + 2 - LEFT] = index;
        return next;
    }
};

template <typename T, int BITS, int PARTITIONED> struct Place<T, BITS, PARTITIONED, 0> {
    Access access;
    operator T() const { return T(int64_t(read_element(access) << (64 - BITS)) >> (64 - BITS)); }
    const Place &operator=(T value) const {
        write_element(access, uint64_t(int64_t(value)));
        return *this;
    }
};

template <typename T, int BITS, int PARTITIONED> struct Memory : Place<T, BITS, PARTITIONED, PARTITIONED + 2> {
    explicit Memory(const char *array) { this->access = {array, {0, 0, 0, 0}, PARTITIONED, BITS}; }
};

// A ready or valid that is seen at the start of a cycle holds in it: queues answer from their registers.
template <int BITS> struct Stream {
    const char *name;
    typedef ap_uint<BITS> value_t;

    bool read_nb(value_t &value) {
        const bool there = get(name, "_TVALID");
        if (there) {
            for (int at = 0; at < BITS; at += 32)
                value.range(at + 31 < BITS ? at + 31 : BITS - 1, at) = uint32_t(get(name, "_TDATA", at, 32));
            set(name, "_TREADY", 1);
        }
        cycle();
        set(name, "_TREADY", 0);
        return there;
    }
    bool write_nb(const value_t &value) {
        const bool room = get(name, "_TREADY");
        if (room) {
            for (int at = 0; at < BITS; at += 32)
                set(name, "_TDATA", uint32_t(value.range(at + 31 < BITS ? at + 31 : BITS - 1, at)), at, 32);
            set(name, "_TVALID", 1);
        }
        cycle();
        set(name, "_TVALID", 0);
        return room;
    }
    value_t read() {
        value_t value;
        while (!read_nb(value)) {}
        return value;
    }
    void write(const value_t &value) {
        while (!write_nb(value)) {}
    }
};

struct Word {
    const char *bus;
    uint64_t index;
    operator word_t() const {
        uint32_t parts[PARTS];
        read_bus(bus, index * (AXI_BITS / 8), parts);
        word_t word = 0;
        for (int k = 0; k < PARTS; k++) word.range(32 * k + 31, 32 * k) = parts[k];
        return word;
    }
    const Word &operator=(const word_t &word) const {
        uint32_t parts[PARTS];
        for (int k = 0; k < PARTS; k++) parts[k] = uint32_t(ap_uint<32>(word.range(32 * k + 31, 32 * k)));
        write_bus(bus, index * (AXI_BITS / 8), parts);
        return *this;
    }
};

struct Bus {
    const char *name;
    Word operator[](uint64_t index) const { return Word{name, index}; }
};

}  // namespace cosim

typedef cosim::Memory<int8_t, 8, 2> act_memory;
typedef cosim::Memory<int32_t, 32, 2> acc_memory;
typedef cosim::Memory<int, WEIGHT_BITS, 1> wgt_memory;
typedef cosim::Memory<int32_t, 32, 1> prm_memory;
typedef cosim::Memory<int8_t, 8, 1> table_memory;
typedef cosim::Memory<ap_uint<UOP_GEMM_BITS>, UOP_GEMM_BITS, 0> uop_gemm_memory;
typedef cosim::Memory<ap_uint<UOP_ALU_BITS>, UOP_ALU_BITS, 0> uop_alu_memory;
typedef cosim::Stream<COMMAND_BITS> command_stream;
typedef cosim::Stream<1> token_stream;
typedef cosim::Stream<1 + TAG_BITS> retire_stream;
typedef cosim::Stream<CORE_BITS> bell_stream;
typedef cosim::Bus dram_reader;
typedef cosim::Bus dram_writer;
