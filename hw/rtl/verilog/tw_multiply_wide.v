// 32 x 32 -> 64 bit signed multiply in three stages: four partial products, two sums, the total.
module tw_multiply_wide (
    input wire clk,
    input wire signed [31:0] a,
    input wire signed [31:0] b,
    output reg signed [63:0] product
);
    // low parts are unsigned 17 bit, held as signed 18 bit: the native operand of a DSP48's short port
    wire signed [17:0] a_low = {1'b0, a[16:0]};
    wire signed [17:0] b_low = {1'b0, b[16:0]};
    wire signed [14:0] a_high = a[31:17];
    wire signed [14:0] b_high = b[31:17];

    reg signed [35:0] low_low;
    reg signed [32:0] low_high;
    reg signed [32:0] high_low;
    reg signed [29:0] high_high;
    reg signed [63:0] outer;
    reg signed [33:0] inner;

    always @(posedge clk) begin
        low_low <= a_low * b_low;
        low_high <= a_low * b_high;
        high_low <= a_high * b_low;
        high_high <= a_high * b_high;
        // low_low is less than 2^34, so it and high_high << 34 do not overlap
        outer <= {high_high, low_low[33:0]};
        inner <= low_high + high_low;
        product <= outer + {{13{inner[33]}}, inner, 17'b0};
    end

    wire unused = &low_low[35:34];
endmodule
