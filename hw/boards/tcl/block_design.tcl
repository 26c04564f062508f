# The block design: PS, accelerator, one clock, one reset, control through the PS's first master port, DRAM through a
# memory port of the PS for each of a core's, and the interrupt through an AXI interrupt controller, where PYNQ looks
# for it. The controller has a master port of its own where the PS has a second one that is as small.

# The newest version of an AMD core that this Vivado has; so no version stands in the scripts.
proc newest_core {name} {
    set found [lsort -dictionary [get_ipdefs xilinx.com:ip:${name}:*]]
    if {[llength $found] == 0} {
        error "block_design: this Vivado has no core $name; was the device family installed with it?"
    }
    return [lindex $found end]
}

proc core_settings {pairs} {
    set result {}
    foreach {name value} $pairs {
        lappend result CONFIG.$name $value
    }
    return $result
}

proc add_core {name core pairs} {
    set cell [create_bd_cell -type ip -vlnv [newest_core $core] $name]
    if {[llength $pairs]} {
        set_property -dict [core_settings $pairs] $cell
    }
    return $cell
}

proc connect_pins {from to} {
    connect_bd_net [get_bd_pins $from] [get_bd_pins $to]
}

proc connect_bus {from to} {
    connect_bd_intf_net [get_bd_intf_pins $from] [get_bd_intf_pins $to]
}

# Board files, where they are installed, set what the PL does not see (MIO, DDR timing); without them those
# settings stay at their defaults in the .hwh, and the image's boot loader has made them on the board anyway.
proc use_board_files {design} {
    set found [lsort -dictionary [get_board_parts -quiet [dict get $design board_part]]]
    if {[llength $found] == 0} {
        puts "tilewright: no board files for [dict get $design board_part]; going on without"
        return 0
    }
    set_property board_part [lindex $found end] [current_project]
    return 1
}

# The PS's memory ports that the design has masters for, from the first one on.
proc used_ports {design ps_type} {
    return [lrange [dict get $ps_type ports] 0 [expr {[llength [dict get $design ports]] - 1}]]
}

proc add_ps {design ps_type preset} {
    set cell [create_bd_cell -type ip -vlnv [newest_core [dict get $ps_type core]] ps]
    apply_bd_automation -rule [dict get $ps_type rule] \
        -config [concat [dict get $ps_type automation] apply_board_preset $preset] $cell
    set pairs [concat [dict get $ps_type settings] [dict get $design ps_config]]
    foreach port [used_ports $design $ps_type] {
        lappend pairs [dict get $port use] 1 [dict get $port width] [dict get $design memory_bits]
    }
    lappend pairs [dict get $ps_type clock_setting] [dict get $design clock_mhz]
    set_property -dict [core_settings $pairs] $cell
    return $cell
}

# A master whose protocol and width are the port's is connected to it as it is; anything else goes through a
# SmartConnect, which converts and, for several masters, arbitrates. Returns the cells that need a clock.
proc connect_memory {design ps_type} {
    set same [expr {[dict get $design axi_bits] == [dict get $design memory_bits]
        && [dict get $design protocol] eq "AXI[dict get $design memory_axi]"}]
    set buses {}
    foreach masters [dict get $design ports] port [used_ports $design $ps_type] {
        set port ps/[dict get $port name]
        if {$same && [llength $masters] == 1} {
            connect_bus tilewright_0/[lindex $masters 0] $port
            continue
        }
        set bus memory_bus_[llength $buses]
        add_core $bus smartconnect [list NUM_SI [llength $masters] NUM_MI 1]
        set index 0
        foreach master $masters {
            connect_bus tilewright_0/$master $bus/[format S%02d_AXI $index]
            incr index
        }
        connect_bus $bus/M00_AXI $port
        lappend buses $bus
    }
    return $buses
}

# A slave alone on a master port of Zynq-7000, which speaks AXI3; a converter stands before one that is AXI4-Lite.
# Returns the cell that needs a clock, if there is one.
proc connect_slave {port slave protocol name} {
    if {$protocol eq "AXI3"} {
        connect_bus $port $slave
        return {}
    }
    add_core $name axi_protocol_converter {SI_PROTOCOL AXI3 MI_PROTOCOL AXI4LITE TRANSLATION_MODE 2}
    connect_bus $port $name/S_AXI
    connect_bus $name/M_AXI $slave
    return $name
}

# Registers and interrupt controller. Returns the cells that need a clock.
proc connect_control {design ps_type} {
    set port ps/[dict get $ps_type control]
    set registers tilewright_0/[dict get $design control]
    if {[dict exists $ps_type second]} {
        set protocol [dict get $design control_protocol]
        return [concat [connect_slave $port $registers $protocol control_bus] \
            [connect_slave ps/[dict get $ps_type second] interrupts/s_axi AXI4LITE interrupt_bus]]
    }
    add_core control_bus smartconnect {NUM_SI 1 NUM_MI 2}
    connect_bus $port control_bus/S00_AXI
    connect_bus control_bus/M00_AXI $registers
    connect_bus control_bus/M01_AXI interrupts/s_axi
    return control_bus
}

# A logic analyser at the accelerator's buses, seen over JTAG. A monitor joins a connection that is there already.
proc add_ila {design} {
    set buses [concat [dict get $design control] {*}[dict get $design ports]]
    set pairs [list C_MON_TYPE INTERFACE C_NUM_MONITOR_SLOTS [llength $buses] C_DATA_DEPTH 4096]
    set slot 0
    foreach bus $buses {
        lappend pairs C_SLOT_${slot}_INTF_ID xilinx.com:interface:aximm_rtl:1.0
        incr slot
    }
    add_core ila system_ila $pairs
    set slot 0
    foreach bus $buses {
        set pin [get_bd_intf_pins tilewright_0/$bus]
        connect_bd_intf_net -intf_net [get_bd_intf_nets -of_objects $pin] $pin [get_bd_intf_pins ila/SLOT_${slot}_AXI]
        incr slot
    }
}

proc block_design {root design ps_type} {
    create_project -force tilewright [file join $root work project] -part [dict get $design part]
    set preset [use_board_files $design]
    set_property ip_repo_paths [file join $root ip] [current_project]
    update_ip_catalog
    create_bd_design system

    add_ps $design $ps_type $preset
    create_bd_cell -type ip -vlnv tilewright:accelerator:tilewright:1.0 tilewright_0
    add_core reset proc_sys_reset {}
    # C_IRQ_CONNECTION 1: a single wire, as PS ports take it, and no bus
    add_core interrupts axi_intc {C_IRQ_CONNECTION 1}

    set buses [concat [connect_control $design $ps_type] [connect_memory $design $ps_type]]

    set clock ps/[dict get $ps_type clock]
    foreach pin [dict get $ps_type control_clocks] {
        connect_pins $clock ps/$pin
    }
    foreach pin {reset/slowest_sync_clk tilewright_0/clk interrupts/s_axi_aclk} {
        connect_pins $clock $pin
    }
    foreach port [used_ports $design $ps_type] {
        connect_pins $clock ps/[dict get $port clock]
    }
    connect_pins ps/[dict get $ps_type reset] reset/ext_reset_in
    connect_pins reset/peripheral_reset tilewright_0/rst
    connect_pins reset/peripheral_aresetn interrupts/s_axi_aresetn
    foreach bus $buses {
        connect_pins $clock $bus/aclk
        connect_pins reset/peripheral_aresetn $bus/aresetn
    }
    if {[dict get $design ila]} {
        add_ila $design
        connect_pins $clock ila/clk
        connect_pins reset/peripheral_aresetn ila/resetn
    }
    connect_pins tilewright_0/irq interrupts/intr
    connect_pins interrupts/irq ps/[dict get $ps_type interrupt]

    set space [get_bd_addr_spaces ps/Data]
    assign_bd_address -offset [dict get $design control_address] -range [expr {[dict get $design control_bytes] / 1024}]K \
        -target_address_space $space [get_bd_addr_segs tilewright_0/[dict get $design control]/reg0] -force
    assign_bd_address -offset [dict get $design interrupt_address] -range 64K \
        -target_address_space $space [get_bd_addr_segs interrupts/S_AXI/Reg] -force
    assign_bd_address

    validate_bd_design
    save_bd_design
    return [get_property CONFIG.[dict get $ps_type achieved] [get_bd_cells ps]]
}
