// Two dot products with common activations on one DSP48E1 per tap: p = ((w1 << 16) + w0) * x fits its 25 x 18
// multiplier. Below, w0 * x = p[15:0]; its sign has borrowed from above, so w1 * x = p[31:16] + p[15].
//
// Stages: products, sums of four, sums, then a wait. With ``late`` (stage of the sums) the second result belongs to
// the operands that came a cycle later and skips the wait: so the two rows may have activations of their own. With
// ``firsts`` the results are the first products of these operands and of the next, and with ``seconds`` a cycle later their
// second products: so each row may have two pairs of weights.
module tw_dot_pair #(
    parameter TAPS = 16,
    parameter WEIGHT_BITS = 8
) (
    input wire clk,
    input wire [8*TAPS-1:0] x,
    input wire [WEIGHT_BITS*TAPS-1:0] w0,
    input wire [WEIGHT_BITS*TAPS-1:0] w1,
    input wire late,
    input wire firsts,
    input wire seconds,
    output reg signed [31:0] sum0,
    output reg signed [31:0] sum1
);
    /* verilator no_inline_module */
    reg signed [31:0] product [0:TAPS-1];
    reg signed [17:0] partial0 [0:TAPS/4-1];
    reg signed [17:0] partial1 [0:TAPS/4-1];
    reg signed [31:0] tree0 [0:TAPS/4-1];
    reg signed [31:0] tree1 [0:TAPS/4-1];
    reg signed [31:0] early0;
    reg signed [31:0] early1;
    reg signed [31:0] before1;
    integer i, k, n;

    function signed [17:0] low(input [31:0] p);
        low = {{2{p[15]}}, p[15:0]};
    endfunction

    function signed [17:0] high(input [31:0] p);
        high = {{2{p[31]}}, p[31:16]} + {17'b0, p[15]};
    endfunction

    function signed [24:0] pack(input signed [WEIGHT_BITS-1:0] upper, input signed [WEIGHT_BITS-1:0] lower);
        pack = (25'sd65536 * upper) + lower;
    endfunction

    always @* begin
        for (i = 0; i < TAPS / 4; i = i + 1) begin
            tree0[i] = partial0[i];
            tree1[i] = partial1[i];
        end
        for (n = TAPS / 8; n > 0; n = n / 2)
            for (i = 0; i < n; i = i + 1) begin
                tree0[i] = tree0[2*i] + tree0[2*i+1];
                tree1[i] = tree1[2*i] + tree1[2*i+1];
            end
    end

    always @(posedge clk) begin
        for (k = 0; k < TAPS; k = k + 1)
            product[k] <= pack(w1[WEIGHT_BITS*k +: WEIGHT_BITS], w0[WEIGHT_BITS*k +: WEIGHT_BITS])
                * $signed(x[8*k +: 8]);
        for (k = 0; k < TAPS / 4; k = k + 1) begin
            partial0[k] <= (low(product[4*k]) + low(product[4*k+1])) + (low(product[4*k+2]) + low(product[4*k+3]));
            partial1[k] <= (high(product[4*k]) + high(product[4*k+1])) + (high(product[4*k+2]) + high(product[4*k+3]));
        end
        early0 <= tree0[0];
        early1 <= tree1[0];
        before1 <= early1;
        sum0 <= seconds ? before1 : early0;
        sum1 <= firsts ? tree0[0] : late ? tree1[0] : early1;
    end
endmodule
