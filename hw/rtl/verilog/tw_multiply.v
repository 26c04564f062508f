// x * w, signed, with an input register and a product register.
module tw_multiply #(
    parameter WEIGHT_BITS = 8
) (
    input wire clk,
    input wire signed [7:0] x,
    input wire signed [WEIGHT_BITS-1:0] w,
    output reg signed [8+WEIGHT_BITS-1:0] product
);
    reg signed [7:0] x_in;
    reg signed [WEIGHT_BITS-1:0] w_in;

    always @(posedge clk) begin
        x_in <= x;
        w_in <= w;
        product <= x_in * w_in;
    end
endmodule
