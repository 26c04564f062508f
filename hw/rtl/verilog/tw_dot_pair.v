// Two dot products with common activations, each less one, on one DSP48E1 per tap: ((w1 << 16) + w0) * x fits its
// 25 x 18 multiplier, and a cascade adds two taps. Their sum of w0 * x, from -32512 to 32768, plus 32767 is the
// unsigned lower half of the result, so nothing is borrowed from the sum of w1 * x above. With its highest bit
// inverted the lower half is that sum less one; the upper half gets -1 as well, and so has 16 bits.
//
// Adders take a carry in, so a sum of terms less one each is less one too.
//
// The weights come a cycle before x: two of them are joined by the slice's own adder, into its register.
//
// Stages: sums of two taps, of more, of all, then a wait. With ``late`` (stage of the sums) the second result belongs to
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
    localparam signed [47:0] START = 32767 - 65536;
    localparam KEPT = $clog2(TAPS / 2) / 2 + 1;  // level of the tree with registers; the root is 1
    localparam WIDTH = 16 + $clog2(TAPS / 2);

    function signed [24:0] pack(input signed [WEIGHT_BITS-1:0] upper, input signed [WEIGHT_BITS-1:0] lower);
        pack = (25'sd65536 * upper) + lower;
    endfunction

    reg signed [47:0] taps [0:TAPS/2-1];
    // a tree: node n adds nodes 2n and 2n + 1; the leaves, from TAPS / 2 on, are the sums of two taps
    wire signed [WIDTH-1:0] node0 [1:TAPS-1];
    wire signed [WIDTH-1:0] node1 [1:TAPS-1];
    genvar i, n;
    generate
        for (i = 0; i < TAPS / 2; i = i + 1) begin : pairs
            reg signed [24:0] even, odd;
            wire signed [47:0] first = START + even * $signed(x[16*i +: 8]);
            always @(posedge clk) begin
                even <= pack(w1[WEIGHT_BITS*2*i +: WEIGHT_BITS], w0[WEIGHT_BITS*2*i +: WEIGHT_BITS]);
                odd <= pack(w1[WEIGHT_BITS*(2*i+1) +: WEIGHT_BITS], w0[WEIGHT_BITS*(2*i+1) +: WEIGHT_BITS]);
                taps[i] <= first + odd * $signed(x[16*i+8 +: 8]);
            end
            wire [15:0] low = {~taps[i][15], taps[i][14:0]};
            wire [15:0] high = taps[i][31:16];
            assign node0[TAPS/2+i] = $signed(low);
            assign node1[TAPS/2+i] = $signed(high);
        end
        for (n = 1; n < TAPS / 2; n = n + 1) begin : tree
            wire signed [WIDTH:0] total0 = $signed({node0[2*n], 1'b1}) + $signed({node0[2*n+1], 1'b1});
            wire signed [WIDTH:0] total1 = $signed({node1[2*n], 1'b1}) + $signed({node1[2*n+1], 1'b1});
            if ($clog2(n + 1) == KEPT) begin : registered
                reg signed [WIDTH-1:0] kept0;
                reg signed [WIDTH-1:0] kept1;
                always @(posedge clk) begin
                    kept0 <= total0[WIDTH:1];
                    kept1 <= total1[WIDTH:1];
                end
                assign node0[n] = kept0;
                assign node1[n] = kept1;
            end else begin : direct
                assign node0[n] = total0[WIDTH:1];
                assign node1[n] = total1[WIDTH:1];
            end
        end
    endgenerate

    reg signed [WIDTH-1:0] early0;
    reg signed [WIDTH-1:0] early1;
    reg signed [WIDTH-1:0] before1;

    always @(posedge clk) begin
        early0 <= node0[1];
        early1 <= node1[1];
        before1 <= early1;
        sum0 <= seconds ? before1 : early0;
        sum1 <= firsts ? node0[1] : late ? node1[1] : early1;
    end
endmodule
