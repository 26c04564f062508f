# The cores that the stub knows: settings (CONFIG.*), pins {direction kind condition} and interfaces
# {mode protocol width condition}. A condition is settings that must have the values given; a width or count may
# be a setting, as a protocol may. Sources: PG082 and PG201 (processing systems), PG247 (SmartConnect), PG164 (resets),
# PG099 (axi_intc), PG059 (protocol converter), PG261 (System ILA). The windows are those of UG585 and UG1085.
set catalog {
    xilinx.com:ip:processing_system7:5.5 {
        settings {
            PCW_USE_M_AXI_GP0 1 PCW_USE_M_AXI_GP1 0 PCW_USE_S_AXI_HP0 0 PCW_USE_S_AXI_HP1 0 PCW_USE_S_AXI_HP2 0
            PCW_USE_S_AXI_HP3 0 PCW_USE_S_AXI_ACP 0 PCW_S_AXI_HP0_DATA_WIDTH 64 PCW_S_AXI_HP1_DATA_WIDTH 64
            PCW_S_AXI_HP2_DATA_WIDTH 64 PCW_S_AXI_HP3_DATA_WIDTH 64 PCW_USE_FABRIC_INTERRUPT 0 PCW_IRQ_F2P_INTR 0 PCW_EN_CLK0_PORT 1
            PCW_EN_RST0_PORT 1 PCW_FPGA0_PERIPHERAL_FREQMHZ 50 PCW_ACT_FPGA0_PERIPHERAL_FREQMHZ 50.000000
            PCW_CRYSTAL_PERIPHERAL_FREQMHZ 33.333333 {PCW_UIPARAM_DDR_PARTNO} {MT41J256M8 HX-15E}
            {PCW_UIPARAM_DDR_BUS_WIDTH} {32 Bit}
        }
        pins {
            FCLK_CLK0       {out clock {PCW_EN_CLK0_PORT 1}}
            FCLK_RESET0_N   {out reset {PCW_EN_RST0_PORT 1}}
            M_AXI_GP0_ACLK  {in clock {PCW_USE_M_AXI_GP0 1}}
            M_AXI_GP1_ACLK  {in clock {PCW_USE_M_AXI_GP1 1}}
            S_AXI_HP0_ACLK  {in clock {PCW_USE_S_AXI_HP0 1}}
            S_AXI_HP1_ACLK  {in clock {PCW_USE_S_AXI_HP1 1}}
            S_AXI_HP2_ACLK  {in clock {PCW_USE_S_AXI_HP2 1}}
            S_AXI_HP3_ACLK  {in clock {PCW_USE_S_AXI_HP3 1}}
            IRQ_F2P         {in interrupt {PCW_USE_FABRIC_INTERRUPT 1 PCW_IRQ_F2P_INTR 1}}
        }
        interfaces {
            M_AXI_GP0 {master AXI3 32 {PCW_USE_M_AXI_GP0 1}}
            M_AXI_GP1 {master AXI3 32 {PCW_USE_M_AXI_GP1 1}}
            S_AXI_HP0 {slave AXI3 PCW_S_AXI_HP0_DATA_WIDTH {PCW_USE_S_AXI_HP0 1}}
            S_AXI_HP1 {slave AXI3 PCW_S_AXI_HP1_DATA_WIDTH {PCW_USE_S_AXI_HP1 1}}
            S_AXI_HP2 {slave AXI3 PCW_S_AXI_HP2_DATA_WIDTH {PCW_USE_S_AXI_HP2 1}}
            S_AXI_HP3 {slave AXI3 PCW_S_AXI_HP3_DATA_WIDTH {PCW_USE_S_AXI_HP3 1}}
        }
        rule        {xilinx.com:bd_rule:processing_system7 {make_external apply_board_preset Master Slave}}
        achieves    {PCW_FPGA0_PERIPHERAL_FREQMHZ PCW_ACT_FPGA0_PERIPHERAL_FREQMHZ}
        windows     {M_AXI_GP0 {0x40000000 0x7FFFFFFF} M_AXI_GP1 {0x80000000 0xBFFFFFFF}}
    }
    xilinx.com:ip:zynq_ultra_ps_e:3.5 {
        settings {
            PSU__USE__M_AXI_GP0 1 PSU__USE__M_AXI_GP1 1 PSU__USE__M_AXI_GP2 0 PSU__MAXIGP0__DATA_WIDTH 128
            PSU__USE__S_AXI_GP0 0 PSU__USE__S_AXI_GP1 0 PSU__USE__S_AXI_GP2 0 PSU__USE__S_AXI_GP3 0
            PSU__USE__S_AXI_GP4 0 PSU__USE__S_AXI_GP5 0 PSU__SAXIGP0__DATA_WIDTH 128 PSU__SAXIGP1__DATA_WIDTH 128
            PSU__SAXIGP2__DATA_WIDTH 128 PSU__SAXIGP3__DATA_WIDTH 128 PSU__SAXIGP4__DATA_WIDTH 128
            PSU__SAXIGP5__DATA_WIDTH 128 PSU__USE__IRQ0 0
            PSU__FPGA_PL0_ENABLE 1 PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ 100
            PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ 99.999001 PSU__PSS_REF_CLK__FREQMHZ 33.333
            PSU__HIGH_ADDRESS__ENABLE 0 PSU__DDR_HIGH_ADDRESS_GUI_ENABLE 0
        }
        pins {
            pl_clk0           {out clock {PSU__FPGA_PL0_ENABLE 1}}
            pl_resetn0        {out reset {}}
            maxihpm0_fpd_aclk {in clock {PSU__USE__M_AXI_GP0 1}}
            maxihpm1_fpd_aclk {in clock {PSU__USE__M_AXI_GP1 1}}
            saxihpc0_fpd_aclk {in clock {PSU__USE__S_AXI_GP0 1}}
            saxihpc1_fpd_aclk {in clock {PSU__USE__S_AXI_GP1 1}}
            saxihp0_fpd_aclk  {in clock {PSU__USE__S_AXI_GP2 1}}
            saxihp1_fpd_aclk  {in clock {PSU__USE__S_AXI_GP3 1}}
            saxihp2_fpd_aclk  {in clock {PSU__USE__S_AXI_GP4 1}}
            saxihp3_fpd_aclk  {in clock {PSU__USE__S_AXI_GP5 1}}
            pl_ps_irq0        {in interrupt {PSU__USE__IRQ0 1}}
        }
        interfaces {
            M_AXI_HPM0_FPD {master AXI4 PSU__MAXIGP0__DATA_WIDTH {PSU__USE__M_AXI_GP0 1}}
            M_AXI_HPM1_FPD {master AXI4 128 {PSU__USE__M_AXI_GP1 1}}
            S_AXI_HPC0_FPD {slave AXI4 PSU__SAXIGP0__DATA_WIDTH {PSU__USE__S_AXI_GP0 1}}
            S_AXI_HPC1_FPD {slave AXI4 PSU__SAXIGP1__DATA_WIDTH {PSU__USE__S_AXI_GP1 1}}
            S_AXI_HP0_FPD  {slave AXI4 PSU__SAXIGP2__DATA_WIDTH {PSU__USE__S_AXI_GP2 1}}
            S_AXI_HP1_FPD  {slave AXI4 PSU__SAXIGP3__DATA_WIDTH {PSU__USE__S_AXI_GP3 1}}
            S_AXI_HP2_FPD  {slave AXI4 PSU__SAXIGP4__DATA_WIDTH {PSU__USE__S_AXI_GP4 1}}
            S_AXI_HP3_FPD  {slave AXI4 PSU__SAXIGP5__DATA_WIDTH {PSU__USE__S_AXI_GP5 1}}
        }
        rule        {xilinx.com:bd_rule:zynq_ultra_ps_e {apply_board_preset}}
        achieves    {PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ}
        windows     {M_AXI_HPM0_FPD {0xA0000000 0xAFFFFFFF} M_AXI_HPM1_FPD {0xB0000000 0xBFFFFFFF}}
    }
    xilinx.com:ip:smartconnect:1.0 {
        settings   {NUM_SI 1 NUM_MI 1 NUM_CLKS 1 HAS_ARESETN 1}
        pins       {aclk {in clock {}} aresetn {in reset {}}}
        interfaces {}
        repeated   {NUM_SI {S%02d_AXI slave} NUM_MI {M%02d_AXI master}}
    }
    xilinx.com:ip:axi_protocol_converter:2.1 {
        settings   {SI_PROTOCOL AXI4 MI_PROTOCOL AXI3 TRANSLATION_MODE 2 DATA_WIDTH 32}
        pins       {aclk {in clock {}} aresetn {in reset {}}}
        interfaces {S_AXI {slave SI_PROTOCOL DATA_WIDTH {}} M_AXI {master MI_PROTOCOL DATA_WIDTH {}}}
    }
    xilinx.com:ip:proc_sys_reset:5.0 {
        settings   {C_EXT_RESET_HIGH 0 C_AUX_RESET_HIGH 0}
        pins       {
            slowest_sync_clk {in clock {}} ext_reset_in {in reset {}} aux_reset_in {in optional {}}
            mb_debug_sys_rst {in optional {}} dcm_locked {in optional {}} mb_reset {out reset {}}
            bus_struct_reset {out reset {}} peripheral_reset {out high {}} interconnect_aresetn {out reset {}}
            peripheral_aresetn {out reset {}}
        }
        interfaces {}
    }
    xilinx.com:ip:system_ila:1.1 {
        settings   {
            C_MON_TYPE INTERFACE C_NUM_MONITOR_SLOTS 1 C_DATA_DEPTH 1024
            C_SLOT_0_INTF_ID xilinx.com:interface:aximm_rtl:1.0 C_SLOT_1_INTF_ID xilinx.com:interface:aximm_rtl:1.0
            C_SLOT_2_INTF_ID xilinx.com:interface:aximm_rtl:1.0 C_SLOT_3_INTF_ID xilinx.com:interface:aximm_rtl:1.0
            C_SLOT_4_INTF_ID xilinx.com:interface:aximm_rtl:1.0 C_SLOT_5_INTF_ID xilinx.com:interface:aximm_rtl:1.0
            C_SLOT_6_INTF_ID xilinx.com:interface:aximm_rtl:1.0
        }
        pins       {clk {in clock {}} resetn {in reset {}}}
        interfaces {}
        repeated   {C_NUM_MONITOR_SLOTS {SLOT_%d_AXI monitor}}
    }
    xilinx.com:ip:axi_intc:4.1 {
        settings   {C_IRQ_CONNECTION 0 C_IRQ_IS_LEVEL 1 C_KIND_OF_INTR 0xFFFFFFFF C_NUM_INTR_INPUTS 1 C_HAS_FAST 0}
        pins       {
            s_axi_aclk {in clock {}} s_axi_aresetn {in reset {}} intr {in interrupt {}}
            irq {out interrupt {C_IRQ_CONNECTION 1}}
        }
        interfaces {s_axi {slave AXI4LITE 32 {}}}
        segments   {S_AXI/Reg {s_axi 65536}}
    }
}
