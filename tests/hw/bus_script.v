// Tilewright's ports with a small bus script behind them instead of the accelerator: it tests the harness alone.
// Read burst i is requested at cycle READ[i] with LENGTH[i] + 1 beats, one-beat write i at cycle WRITE[i], its data
// the last beat of read burst i. Registers hold when data and responses came, in cycles since the start.
module tilewright #(
    parameter DATA_BITS = 64,
    parameter BROKEN = 0  // 1: AR gives up without having been accepted; 2: bursts cross 4 KiB; 3: WID is not AWID
) (
    input clk, input rst,
    output [39:0] m_axi_araddr, output [7:0] m_axi_arlen, output [2:0] m_axi_arsize, output [1:0] m_axi_arburst,
    output m_axi_arvalid, input m_axi_arready,
    input [DATA_BITS-1:0] m_axi_rdata, input [1:0] m_axi_rresp, input m_axi_rlast, input m_axi_rvalid, output m_axi_rready,
    output [39:0] m_axi_awaddr, output [7:0] m_axi_awlen, output [2:0] m_axi_awsize, output [1:0] m_axi_awburst,
    output m_axi_awid, output m_axi_wid, output m_axi_awvalid, input m_axi_awready,
    output [DATA_BITS-1:0] m_axi_wdata, output [DATA_BITS/8-1:0] m_axi_wstrb, output m_axi_wlast, output m_axi_wvalid,
    input m_axi_wready, input [1:0] m_axi_bresp, input m_axi_bvalid, output m_axi_bready,
    input [11:0] s_axil_awaddr, input s_axil_awvalid, output s_axil_awready,
    input [31:0] s_axil_wdata, input [3:0] s_axil_wstrb, input s_axil_wvalid, output s_axil_wready,
    output [1:0] s_axil_bresp, output reg s_axil_bvalid, input s_axil_bready,
    input [11:0] s_axil_araddr, input s_axil_arvalid, output s_axil_arready,
    output reg [31:0] s_axil_rdata, output [1:0] s_axil_rresp, output reg s_axil_rvalid, input s_axil_rready,
    output irq, output ev_start, output ev_dispatch, output [1:0] ev_dispatch_engine, output [3:0] ev_issue, output [3:0] ev_retire
);
    localparam SIZE = $clog2(DATA_BITS / 8);
    // words 0..15 counts and control, then blocks of 16: READ, LENGTH, WRITE, FIRST, LAST, RESPONSE, ERRORS
    reg [31:0] script [0:127];
    reg running;
    reg [31:0] cycle;
    reg [4:0] asked, answered, addressed, written, acknowledged;
    reg in_burst;
    reg [DATA_BITS-1:0] last_data [0:15];
    wire [4:0] reads = script[2][4:0], writes = script[3][4:0];

    assign m_axi_arvalid = running && asked < reads && cycle >= script[16 + asked[3:0]]
                           && !(BROKEN == 1 && cycle[0]);
    assign m_axi_araddr = 40'h100000 + {23'b0, asked, 12'b0} + (BROKEN == 2 ? 40'hff8 : 40'h0);
    assign m_axi_arlen = script[32 + asked[3:0]][7:0];
    assign m_axi_arsize = SIZE;
    assign m_axi_arburst = 2'b01;
    assign m_axi_rready = 1'b1;
    assign m_axi_awvalid = running && addressed < writes && cycle >= script[48 + addressed[3:0]];
    assign m_axi_awaddr = 40'h200000 + {23'b0, addressed, 12'b0};
    assign m_axi_awlen = 8'd0;
    assign m_axi_awid = 1'b0;
    assign m_axi_wid = BROKEN == 3;
    assign m_axi_awsize = SIZE;
    assign m_axi_awburst = 2'b01;
    assign m_axi_wvalid = running && written < writes && cycle >= script[48 + written[3:0]];
    assign m_axi_wdata = last_data[written[3:0]];
    assign m_axi_wstrb = {DATA_BITS / 8{1'b1}};
    assign m_axi_wlast = 1'b1;
    assign m_axi_bready = 1'b1;
    assign irq = running && answered == reads && acknowledged == writes;
    assign ev_start = running && cycle == 0;
    assign ev_dispatch = m_axi_arvalid && m_axi_arready;
    assign ev_dispatch_engine = asked[1:0];
    assign ev_issue = m_axi_rvalid && !in_burst ? 4'b0001 << answered[1:0] : 4'b0;
    assign ev_retire = m_axi_rvalid && m_axi_rlast ? 4'b0001 << answered[1:0] : 4'b0;

    assign s_axil_awready = s_axil_awvalid && s_axil_wvalid && !s_axil_bvalid;
    assign s_axil_wready = s_axil_awready;
    assign s_axil_bresp = 2'b00;
    assign s_axil_arready = !s_axil_rvalid;
    assign s_axil_rresp = 2'b00;

    always @(posedge clk) begin
        if (s_axil_bready) s_axil_bvalid <= 1'b0;
        if (s_axil_awready) begin
            s_axil_bvalid <= 1'b1;
            script[s_axil_awaddr[8:2]] <= s_axil_wdata;
            if (s_axil_awaddr == 12'h010) running <= s_axil_wdata[0];
        end
        if (s_axil_rready) s_axil_rvalid <= 1'b0;
        if (s_axil_arvalid && s_axil_arready) begin
            s_axil_rvalid <= 1'b1;
            s_axil_rdata <= script[s_axil_araddr[8:2]];
        end
        if (running) begin
            cycle <= cycle + 1;
            if (m_axi_arvalid && m_axi_arready) asked <= asked + 1;
            if (m_axi_rvalid) begin
                in_burst <= !m_axi_rlast;
                if (!in_burst) script[64 + answered[3:0]] <= cycle;
                if (m_axi_rresp != 0) script[112 + answered[3:0]] <= {30'b0, m_axi_rresp};
                if (m_axi_rlast) begin
                    script[80 + answered[3:0]] <= cycle;
                    last_data[answered[3:0]] <= m_axi_rdata;
                    answered <= answered + 1;
                end
            end
            if (m_axi_awvalid && m_axi_awready) addressed <= addressed + 1;
            if (m_axi_wvalid && m_axi_wready) written <= written + 1;
            if (m_axi_bvalid) begin
                script[96 + acknowledged[3:0]] <= cycle;
                if (m_axi_bresp != 0) script[112 + acknowledged[3:0]] <= {30'b0, m_axi_bresp};
                acknowledged <= acknowledged + 1;
            end
        end else begin
            cycle <= 0;
            asked <= 0;
            answered <= 0;
            addressed <= 0;
            written <= 0;
            acknowledged <= 0;
            in_burst <= 1'b0;
        end
        if (rst) begin
            running <= 1'b0;
            s_axil_bvalid <= 1'b0;
            s_axil_rvalid <= 1'b0;
        end
    end
endmodule
