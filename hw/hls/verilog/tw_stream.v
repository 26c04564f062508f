// A queue with AXI4-Stream handshakes on both sides. DEPTH is a power of two; entries stand in LUT RAM.
module tw_stream #(
    parameter WIDTH = 8,
    parameter DEPTH = 16,
    parameter ADDRESS_BITS = 4
) (
    input wire clk,
    input wire rst,
    input wire [WIDTH-1:0] in_data,
    input wire in_valid,
    output wire in_ready,
    output wire [WIDTH-1:0] out_data,
    output wire out_valid,
    input wire out_ready
);
    (* ram_style = "distributed" *)
    reg [WIDTH-1:0] memory [0:DEPTH-1];
    // one bit more than an address: equal is empty, equal but for that bit is full
    reg [ADDRESS_BITS:0] written;
    reg [ADDRESS_BITS:0] taken;

    wire full = written == {~taken[ADDRESS_BITS], taken[ADDRESS_BITS-1:0]};
    wire empty = written == taken;

    assign in_ready = !full;
    assign out_valid = !empty;
    assign out_data = memory[taken[ADDRESS_BITS-1:0]];

    always @(posedge clk) begin
        if (in_valid && !full)
            memory[written[ADDRESS_BITS-1:0]] <= in_data;
        if (rst) begin
            written <= 0;
            taken <= 0;
        end else begin
            written <= written + {{ADDRESS_BITS{1'b0}}, in_valid && !full};
            taken <= taken + {{ADDRESS_BITS{1'b0}}, out_ready && !empty};
        end
    end
endmodule
