// a * b + c, signed, modulo 2^64, in four stages: a cascade of four DSP48E1 and no other logic. b has two bits more than
// 32, so that 2^32 is one of its values. Bit k of valid: stage k has operands; its result is clocked only then.
module tw_multiply_add #(
    parameter C_BITS = 33
) (
    input wire clk,
    input wire [3:0] valid,
    input wire signed [31:0] a,
    input wire signed [33:0] b,
    input wire signed [C_BITS-1:0] c,
    output wire signed [63:0] total
);
    // low parts are unsigned 17 bit, held as signed 18 bit: the native operand of a DSP48's short port
    wire signed [17:0] a_low = {1'b0, a[16:0]};
    wire signed [17:0] b_low = {1'b0, b[16:0]};
    wire signed [14:0] a_high = a[31:17];
    wire signed [16:0] b_high = b[33:17];

    reg signed [17:0] a_low_1, a_low_2, b_low_1;
    reg signed [14:0] a_high_1, a_high_2, a_high_3;
    reg signed [16:0] b_high_1, b_high_2, b_high_3;
    // each adds to the bits of the one before that are of its weight. No wider than they can be: Yosys 0.70 narrows wider
    // ones, but then feeds zeros for their sign to the next slice
    reg signed [(C_BITS > 35 ? C_BITS : 35):0] low_low;
    reg signed [33:0] high_low;
    reg signed [35:0] low_high;
    reg signed [29:0] high_high;  // what is above is beyond 2^64
    reg [16:0] bottom_2, bottom_3, bottom_4, middle_4;

    always @(posedge clk) begin
        if (valid[0]) begin
            a_low_1 <= a_low;
            a_high_1 <= a_high;
            b_low_1 <= b_low;
            b_high_1 <= b_high;
            low_low <= a_low * b_low + c;
        end
        if (valid[1]) begin
            a_low_2 <= a_low_1;
            a_high_2 <= a_high_1;
            b_high_2 <= b_high_1;
            high_low <= a_high_1 * b_low_1 + (low_low >>> 17);
            bottom_2 <= low_low[16:0];
        end
        if (valid[2]) begin
            a_high_3 <= a_high_2;
            b_high_3 <= b_high_2;
            low_high <= a_low_2 * b_high_2 + high_low;
            bottom_3 <= bottom_2;
        end
        if (valid[3]) begin
            high_high <= a_high_3 * b_high_3 + (low_high >>> 17);
            bottom_4 <= bottom_3;
            middle_4 <= low_high[16:0];
        end
    end

    assign total = {high_high, middle_4, bottom_4};
endmodule
