// The block RAMs of 7 series, RAMB18E1 and RAMB36E1, after UG473 (Xilinx, 7 Series FPGAs Memory Resources), as Yosys uses
// them in a design of one clock. What has no model here is an error of elaboration.
//
// What UG473 leaves undefined is random: a byte that one port reads in the cycle in which the other writes it, unless the
// writing port is in mode READ_FIRST; a byte that both write; and what a memory holds before it is written. So is an
// output after its reset, which the design does not use.

// Port 0 is A, port 1 is B. ``din`` and ``dout`` are bytes of nine bits, parity above. ``address`` counts bits without
// parity. ``LANES``: bytes that write enables tell apart.
module block_ram #(
    parameter ADDRESS_BITS = 14,
    parameter LANES = 2,
    parameter WRITE_WIDTH_A = 0,
    parameter WRITE_WIDTH_B = 0,
    parameter READ_WIDTH_A = 0,
    parameter READ_WIDTH_B = 0,
    parameter WRITE_MODE_A = "WRITE_FIRST",
    parameter WRITE_MODE_B = "WRITE_FIRST",
    parameter DOA_REG = 0,
    parameter DOB_REG = 0
) (
    input wire clk,
    input wire [ADDRESS_BITS-1:0] address [0:1],
    input wire enable [0:1],
    input wire [7:0] write_enable [0:1],
    input wire [71:0] din [0:1],
    input wire clear [0:1],
    input wire register_enable [0:1],
    output wire [71:0] dout [0:1]
);
    localparam BYTE_BITS = ADDRESS_BITS - 3;  // of a byte's address
    localparam integer WRITTEN [0:1] = '{WRITE_WIDTH_A / 9, WRITE_WIDTH_B / 9};  // bytes
    localparam integer READ [0:1] = '{READ_WIDTH_A / 9, READ_WIDTH_B / 9};
    localparam bit READ_FIRST [0:1] = '{WRITE_MODE_A == "READ_FIRST", WRITE_MODE_B == "READ_FIRST"};
    localparam bit WRITE_FIRST [0:1] = '{WRITE_MODE_A == "WRITE_FIRST", WRITE_MODE_B == "WRITE_FIRST"};

    function automatic bit modelled(input integer width);
        modelled = width == 0 || width == 9 || width == 18 || width == 36 || width == 72;
    endfunction

    generate
        if (!modelled(WRITE_WIDTH_A) || !modelled(WRITE_WIDTH_B) || !modelled(READ_WIDTH_A) || !modelled(READ_WIDTH_B))
            $fatal(1, "a width without a model");
    endgenerate

    reg [8:0] memory [0:(1<<BYTE_BITS)-1];
    reg [71:0] latch [0:1];
    reg [71:0] out [0:1];
    integer p, k;
    reg [BYTE_BITS-1:0] at;

    // the address of the first byte of a port's access to so many, a power of two
    function automatic [BYTE_BITS-1:0] first(input integer port, input integer bytes);
        first = address[port][ADDRESS_BITS-1:3] & ~BYTE_BITS'(bytes - 1);
    endfunction

    // whether a port writes a byte in this cycle
    function automatic bit writes(input integer port, input [BYTE_BITS-1:0] which);
        writes = enable[port] && WRITTEN[port] != 0 && write_enable[port][32'(which) % LANES]
            && (which & ~BYTE_BITS'(WRITTEN[port] - 1)) == first(port, WRITTEN[port]);
    endfunction

    function automatic [8:0] written(input integer port, input [BYTE_BITS-1:0] which);
        written = din[port][9*(32'(which) % WRITTEN[port]) +: 9];
    endfunction

    always @(posedge clk)
        for (p = 0; p < 2; p = p + 1) begin
            if (register_enable[p])
                out[p] <= latch[p];
            for (k = 0; k < READ[p]; k = k + 1) begin
                at = first(p, READ[p]) + BYTE_BITS'(k);
                if (enable[p] && writes(1 - p, at) && !READ_FIRST[1-p])
                    latch[p][9*k +: 9] <= 9'($urandom);
                else if (enable[p] && WRITE_FIRST[p] && writes(p, at))
                    latch[p][9*k +: 9] <= written(p, at);
                else if (enable[p] && (READ_FIRST[p] || WRITE_FIRST[p] || WRITTEN[p] == 0 || write_enable[p] == 0))
                    latch[p][9*k +: 9] <= memory[at];
            end
            if (clear[p]) begin
                latch[p] <= {$urandom, $urandom, 8'($urandom)};
                out[p] <= {$urandom, $urandom, 8'($urandom)};
            end
            for (k = 0; k < WRITTEN[p]; k = k + 1) begin
                at = first(p, WRITTEN[p]) + BYTE_BITS'(k);
                if (writes(p, at))
                    memory[at] <= writes(1 - p, at) ? 9'($urandom) : written(p, at);
            end
        end

    assign dout[0] = DOA_REG != 0 ? out[0] : latch[0];
    assign dout[1] = DOB_REG != 0 ? out[1] : latch[1];
endmodule

module RAMB36E1 #(
    parameter integer DOA_REG = 0,
    parameter integer DOB_REG = 0,
    parameter RAM_EXTENSION_A = "NONE",
    parameter RAM_EXTENSION_B = "NONE",
    parameter RAM_MODE = "TDP",
    parameter integer READ_WIDTH_A = 0,
    parameter integer READ_WIDTH_B = 0,
    parameter WRITE_MODE_A = "WRITE_FIRST",
    parameter WRITE_MODE_B = "WRITE_FIRST",
    parameter integer WRITE_WIDTH_A = 0,
    parameter integer WRITE_WIDTH_B = 0
) (
    input wire CLKARDCLK, CLKBWRCLK,
    input wire ENARDEN, ENBWREN,
    input wire RSTRAMARSTRAM, RSTRAMB,
    input wire RSTREGARSTREG, RSTREGB,
    input wire REGCEAREGCE, REGCEB,
    input wire [15:0] ADDRARDADDR, ADDRBWRADDR,
    input wire [31:0] DIADI, DIBDI,
    input wire [3:0] DIPADIP, DIPBDIP,
    input wire [3:0] WEA,
    input wire [7:0] WEBWE,
    output wire [31:0] DOADO, DOBDO,
    output wire [3:0] DOPADOP, DOPBDOP
);
    localparam SIMPLE = RAM_MODE == "SDP";  // A reads 72 bits and B writes them
    generate
        if (SIMPLE && (READ_WIDTH_A != 72 || READ_WIDTH_B != 0 || WRITE_WIDTH_A != 0 || WRITE_WIDTH_B != 72))
            $fatal(1, "a simple dual-port RAM of other widths");
        if (RAM_EXTENSION_A != "NONE" || RAM_EXTENSION_B != "NONE")
            $fatal(1, "a cascade of block RAMs");
    endgenerate

    function automatic [35:0] joined(input [31:0] data, input [3:0] parity);
        joined = {parity[3], data[31:24], parity[2], data[23:16], parity[1], data[15:8], parity[0], data[7:0]};
    endfunction

    wire [35:0] a = joined(DIADI, DIPADIP);
    wire [35:0] b = joined(DIBDI, DIPBDIP);
    wire [71:0] dout [0:1];
    wire [71:0] read_b = SIMPLE ? dout[0] >> 36 : dout[1];
    block_ram #(
        .ADDRESS_BITS(15), .LANES(SIMPLE ? 8 : 4), .WRITE_WIDTH_A(WRITE_WIDTH_A), .WRITE_WIDTH_B(WRITE_WIDTH_B),
        .READ_WIDTH_A(READ_WIDTH_A), .READ_WIDTH_B(READ_WIDTH_B), .WRITE_MODE_A(WRITE_MODE_A),
        .WRITE_MODE_B(WRITE_MODE_B), .DOA_REG(DOA_REG), .DOB_REG(DOB_REG)
    ) ram (
        .clk(CLKARDCLK), .address('{ADDRARDADDR[14:0], ADDRBWRADDR[14:0]}), .enable('{ENARDEN, ENBWREN}),
        .write_enable('{SIMPLE ? 8'b0 : {4'b0, WEA}, SIMPLE ? WEBWE : {4'b0, WEBWE[3:0]}}),
        .din('{{36'b0, a}, SIMPLE ? {b, a} : {36'b0, b}}),
        .clear('{RSTRAMARSTRAM | RSTREGARSTREG, RSTRAMB | RSTREGB}), .register_enable('{REGCEAREGCE, REGCEB}), .dout(dout)
    );
    assign {DOPADOP[3], DOADO[31:24], DOPADOP[2], DOADO[23:16], DOPADOP[1], DOADO[15:8], DOPADOP[0], DOADO[7:0]} =
        dout[0][35:0];
    assign {DOPBDOP[3], DOBDO[31:24], DOPBDOP[2], DOBDO[23:16], DOPBDOP[1], DOBDO[15:8], DOPBDOP[0], DOBDO[7:0]} =
        read_b[35:0];
endmodule

module RAMB18E1 #(
    parameter integer DOA_REG = 0,
    parameter integer DOB_REG = 0,
    parameter RAM_MODE = "TDP",
    parameter integer READ_WIDTH_A = 0,
    parameter integer READ_WIDTH_B = 0,
    parameter WRITE_MODE_A = "WRITE_FIRST",
    parameter WRITE_MODE_B = "WRITE_FIRST",
    parameter integer WRITE_WIDTH_A = 0,
    parameter integer WRITE_WIDTH_B = 0
) (
    input wire CLKARDCLK, CLKBWRCLK,
    input wire ENARDEN, ENBWREN,
    input wire RSTRAMARSTRAM, RSTRAMB,
    input wire RSTREGARSTREG, RSTREGB,
    input wire REGCEAREGCE, REGCEB,
    input wire [13:0] ADDRARDADDR, ADDRBWRADDR,
    input wire [15:0] DIADI, DIBDI,
    input wire [1:0] DIPADIP, DIPBDIP,
    input wire [1:0] WEA,
    input wire [3:0] WEBWE,
    output wire [15:0] DOADO, DOBDO,
    output wire [1:0] DOPADOP, DOPBDOP
);
    localparam SIMPLE = RAM_MODE == "SDP";  // A reads 36 bits and B writes them
    generate
        if (SIMPLE && (READ_WIDTH_A != 36 || READ_WIDTH_B != 0 || WRITE_WIDTH_A != 0 || WRITE_WIDTH_B != 36))
            $fatal(1, "a simple dual-port RAM of other widths");
    endgenerate

    wire [17:0] a = {DIPADIP[1], DIADI[15:8], DIPADIP[0], DIADI[7:0]};
    wire [17:0] b = {DIPBDIP[1], DIBDI[15:8], DIPBDIP[0], DIBDI[7:0]};
    wire [71:0] dout [0:1];
    wire [71:0] read_b = SIMPLE ? dout[0] >> 18 : dout[1];
    block_ram #(
        .ADDRESS_BITS(14), .LANES(SIMPLE ? 4 : 2), .WRITE_WIDTH_A(WRITE_WIDTH_A), .WRITE_WIDTH_B(WRITE_WIDTH_B),
        .READ_WIDTH_A(READ_WIDTH_A), .READ_WIDTH_B(READ_WIDTH_B), .WRITE_MODE_A(WRITE_MODE_A),
        .WRITE_MODE_B(WRITE_MODE_B), .DOA_REG(DOA_REG), .DOB_REG(DOB_REG)
    ) ram (
        .clk(CLKARDCLK), .address('{ADDRARDADDR, ADDRBWRADDR}), .enable('{ENARDEN, ENBWREN}),
        .write_enable('{SIMPLE ? 8'b0 : {6'b0, WEA}, SIMPLE ? {4'b0, WEBWE} : {6'b0, WEBWE[1:0]}}),
        .din('{{54'b0, a}, SIMPLE ? {36'b0, b, a} : {54'b0, b}}),
        .clear('{RSTRAMARSTRAM | RSTREGARSTREG, RSTRAMB | RSTREGB}), .register_enable('{REGCEAREGCE, REGCEB}), .dout(dout)
    );
    assign {DOPADOP[1], DOADO[15:8], DOPADOP[0], DOADO[7:0]} = dout[0][17:0];
    assign {DOPBDOP[1], DOBDO[15:8], DOPBDOP[0], DOBDO[7:0]} = read_b[17:0];
endmodule
