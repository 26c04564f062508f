// A memory with one write and one synchronous read port; a read in the cycle of a write to the same word gives
// the old word. Written so that synthesis finds block RAM (or LUT RAM, by STYLE) and its output register.
module tw_ram #(
    parameter WIDTH = 8,
    parameter DEPTH = 16,
    parameter ADDRESS_BITS = 4,
    parameter CHUNKS = 1,         // write enables; each covers WIDTH / CHUNKS bits
    parameter OUTPUT_REGISTER = 0,
    parameter STYLE = "block"
) (
    input wire clk,
    input wire [CHUNKS-1:0] write_enable,
    input wire [ADDRESS_BITS-1:0] write_address,
    input wire [WIDTH-1:0] write_data,
    input wire read_enable,
    input wire [ADDRESS_BITS-1:0] read_address,
    output wire [WIDTH-1:0] read_data
);
    localparam CHUNK = WIDTH / CHUNKS;

    (* ram_style = STYLE *)
    reg [WIDTH-1:0] memory [0:DEPTH-1];
    reg [WIDTH-1:0] latch;
    integer i;

    always @(posedge clk) begin
        if (read_enable)
            latch <= memory[read_address];
        for (i = 0; i < CHUNKS; i = i + 1)
            if (write_enable[i])
                memory[write_address][i*CHUNK +: CHUNK] <= write_data[i*CHUNK +: CHUNK];
    end

    generate
        if (OUTPUT_REGISTER != 0) begin : registered
            reg enabled;
            reg [WIDTH-1:0] out;
            always @(posedge clk) begin
                enabled <= read_enable;
                if (enabled)
                    out <= latch;
            end
            assign read_data = out;
        end else begin : direct
            assign read_data = latch;
        end
    endgenerate
endmodule
