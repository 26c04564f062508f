// Two int8 products with a common operand on one 25 x 18 multiplier (DSP48E1): p = ((w1 << 16) + w0) * x.
// low = w0 * x. The low product's sign has borrowed from the upper half: high = p[31:16] + p[15] = w1 * x.
module tw_multiply_pair (
    input wire clk,
    input wire signed [7:0] x,
    input wire signed [7:0] w0,
    input wire signed [7:0] w1,
    output wire signed [15:0] low,
    output wire signed [15:0] high,
    output wire carry  // to be added to high; apart, so that the adder tree takes it in
);
    wire signed [24:0] packed_weights = $signed({w1[7], w1, 16'b0}) + $signed({{17{w0[7]}}, w0});
    reg signed [32:0] product;

    always @(posedge clk)
        product <= packed_weights * x;

    assign low = product[15:0];
    assign high = product[31:16];
    assign carry = product[15];

    wire unused = product[32];
endmodule
