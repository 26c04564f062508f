# The processing system of Zynq UltraScale+ (PG201, UG1085): names of the core, its ports and the settings they
# need. S_AXI_GP2 is the port that the board side calls HP0; HP ports are AXI4 and not coherent.
set ps_type {
    core           zynq_ultra_ps_e
    rule           xilinx.com:bd_rule:zynq_ultra_ps_e
    automation     {}
    control        M_AXI_HPM0_FPD
    control_clocks maxihpm0_fpd_aclk
    clock          pl_clk0
    reset          pl_resetn0
    interrupt      pl_ps_irq0
    clock_setting  PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ
    achieved       PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ
    ports {
        {name S_AXI_HP0_FPD clock saxihp0_fpd_aclk use PSU__USE__S_AXI_GP2 width PSU__SAXIGP2__DATA_WIDTH}
        {name S_AXI_HP1_FPD clock saxihp1_fpd_aclk use PSU__USE__S_AXI_GP3 width PSU__SAXIGP3__DATA_WIDTH}
        {name S_AXI_HP2_FPD clock saxihp2_fpd_aclk use PSU__USE__S_AXI_GP4 width PSU__SAXIGP4__DATA_WIDTH}
        {name S_AXI_HP3_FPD clock saxihp3_fpd_aclk use PSU__USE__S_AXI_GP5 width PSU__SAXIGP5__DATA_WIDTH}
        {name S_AXI_HPC0_FPD clock saxihpc0_fpd_aclk use PSU__USE__S_AXI_GP0 width PSU__SAXIGP0__DATA_WIDTH}
        {name S_AXI_HPC1_FPD clock saxihpc1_fpd_aclk use PSU__USE__S_AXI_GP1 width PSU__SAXIGP1__DATA_WIDTH}
    }
    settings {
        PSU__USE__M_AXI_GP0 1
        PSU__USE__M_AXI_GP1 0
        PSU__USE__M_AXI_GP2 0
        PSU__MAXIGP0__DATA_WIDTH 32
        PSU__USE__IRQ0 1
        PSU__FPGA_PL0_ENABLE 1
    }
}
