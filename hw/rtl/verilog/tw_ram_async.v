// A small memory (LUT RAM) with one write port and one combinational read port.
module tw_ram_async #(
    parameter WIDTH = 8,
    parameter DEPTH = 16,
    parameter ADDRESS_BITS = 4
) (
    input wire clk,
    input wire write_enable,
    input wire [ADDRESS_BITS-1:0] write_address,
    input wire [WIDTH-1:0] write_data,
    input wire [ADDRESS_BITS-1:0] read_address,
    output wire [WIDTH-1:0] read_data
);
    (* ram_style = "distributed" *)
    reg [WIDTH-1:0] memory [0:DEPTH-1];

    always @(posedge clk)
        if (write_enable)
            memory[write_address] <= write_data;

    assign read_data = memory[read_address];
endmodule
