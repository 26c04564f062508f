// The dot product of TAPS int8 activations and as many weights, one multiplier each.
// Stages: operands, products, sums of four, sum.
module tw_dot #(
    parameter TAPS = 16,
    parameter WEIGHT_BITS = 8
) (
    input wire clk,
    input wire [8*TAPS-1:0] x,
    input wire [WEIGHT_BITS*TAPS-1:0] w,
    output reg signed [31:0] sum
);
    /* verilator no_inline_module */
    reg [8*TAPS-1:0] x_in;
    reg [WEIGHT_BITS*TAPS-1:0] w_in;
    reg signed [15:0] product [0:TAPS-1];
    reg signed [17:0] partial [0:TAPS/4-1];
    reg signed [31:0] tree [0:TAPS/4-1];
    integer i, k, n;

    always @* begin
        for (i = 0; i < TAPS / 4; i = i + 1)
            tree[i] = partial[i];
        for (n = TAPS / 8; n > 0; n = n / 2)
            for (i = 0; i < n; i = i + 1)
                tree[i] = tree[2*i] + tree[2*i+1];
    end

    always @(posedge clk) begin
        x_in <= x;
        w_in <= w;
        for (k = 0; k < TAPS; k = k + 1)
            product[k] <= $signed(x_in[8*k +: 8]) * $signed(w_in[WEIGHT_BITS*k +: WEIGHT_BITS]);
        for (k = 0; k < TAPS / 4; k = k + 1)
            partial[k] <= (product[4*k] + product[4*k+1]) + (product[4*k+2] + product[4*k+3]);
        sum <= tree[0];
    end
endmodule
