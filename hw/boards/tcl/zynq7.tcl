# The processing system of Zynq-7000 (PG082, UG585): names of the core, its ports and the settings they need.
# The HP ports are AXI3 and not coherent; ACP would be, but it shares the L2 cache with the CPUs and slows down
# under streams larger than that cache, as weights and activations are. The two GP ports are AXI3: one for the
# accelerator, which speaks it itself, one for the interrupt controller.
set ps_type {
    core           processing_system7
    rule           xilinx.com:bd_rule:processing_system7
    automation     {make_external {FIXED_IO, DDR} Master Disable Slave Disable}
    control        M_AXI_GP0
    second         M_AXI_GP1
    control_clocks {M_AXI_GP0_ACLK M_AXI_GP1_ACLK}
    clock          FCLK_CLK0
    reset          FCLK_RESET0_N
    interrupt      IRQ_F2P
    clock_setting  PCW_FPGA0_PERIPHERAL_FREQMHZ
    achieved       PCW_ACT_FPGA0_PERIPHERAL_FREQMHZ
    ports {
        {name S_AXI_HP0 clock S_AXI_HP0_ACLK use PCW_USE_S_AXI_HP0 width PCW_S_AXI_HP0_DATA_WIDTH}
        {name S_AXI_HP1 clock S_AXI_HP1_ACLK use PCW_USE_S_AXI_HP1 width PCW_S_AXI_HP1_DATA_WIDTH}
        {name S_AXI_HP2 clock S_AXI_HP2_ACLK use PCW_USE_S_AXI_HP2 width PCW_S_AXI_HP2_DATA_WIDTH}
        {name S_AXI_HP3 clock S_AXI_HP3_ACLK use PCW_USE_S_AXI_HP3 width PCW_S_AXI_HP3_DATA_WIDTH}
    }
    settings {
        PCW_USE_M_AXI_GP0 1
        PCW_USE_M_AXI_GP1 1
        PCW_USE_FABRIC_INTERRUPT 1
        PCW_IRQ_F2P_INTR 1
        PCW_EN_CLK0_PORT 1
        PCW_EN_RST0_PORT 1
    }
}
