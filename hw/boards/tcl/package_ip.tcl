# The accelerator's Verilog (rtl/*.v, top module tilewright) as an IP core in ip/, for the block design.
# The AXI interfaces are inferred from the port names; clock, reset and interrupt are stated.

proc bus_interface {core name abstraction} {
    if {[llength [ipx::get_bus_interfaces -quiet $name -of_objects $core]] == 0} {
        ipx::infer_bus_interface $name $abstraction $core
    }
    return [ipx::get_bus_interfaces $name -of_objects $core]
}

proc bus_parameter {interface name value} {
    set parameter [ipx::get_bus_parameters -quiet $name -of_objects $interface]
    if {[llength $parameter] == 0} {
        set parameter [ipx::add_bus_parameter $name $interface]
    }
    set_property value $value $parameter
}

proc package_ip {root design} {
    set part [dict get $design part]
    create_project -force package_ip [file join $root work package_ip] -part $part
    set_property target_language Verilog [current_project]
    add_files -norecurse [lsort [glob -directory [file join $root rtl] *.v]]
    set_property top tilewright [current_fileset]
    update_compile_order -fileset sources_1

    ipx::package_project -root_dir [file join $root ip] -vendor tilewright -library accelerator \
        -taxonomy /UserIP -import_files -force
    set core [ipx::current_core]
    set_property name tilewright $core
    set_property version 1.0 $core
    set_property display_name Tilewright $core
    set_property description "Deep-learning accelerator, config [dict get $design fingerprint]" $core

    set clock [bus_interface $core clk xilinx.com:signal:clock_rtl:1.0]
    set reset [bus_interface $core rst xilinx.com:signal:reset_rtl:1.0]
    set interrupt [bus_interface $core irq xilinx.com:signal:interrupt_rtl:1.0]
    bus_parameter $reset POLARITY ACTIVE_HIGH
    bus_parameter $interrupt SENSITIVITY LEVEL_HIGH
    bus_parameter $clock ASSOCIATED_RESET rst

    set control [dict get $design control]
    set masters [concat {*}[dict get $design ports]]
    foreach name [concat $control $masters] {
        set interface [ipx::get_bus_interfaces -quiet $name -of_objects $core]
        if {[llength $interface] != 1} {
            error "package_ip: the ports of rtl/tilewright.v give no AXI interface $name"
        }
        ipx::associate_bus_interfaces -busif $name -clock clk $core
    }
    foreach name $masters {
        bus_parameter [ipx::get_bus_interfaces $name -of_objects $core] PROTOCOL [dict get $design protocol]
    }
    bus_parameter [ipx::get_bus_interfaces $control -of_objects $core] PROTOCOL [dict get $design control_protocol]

    # the registers, one page for each core; the block's name is part of the segment's name in the block design
    set map [ipx::get_memory_maps -quiet $control -of_objects $core]
    if {[llength $map] == 0} {
        set map [ipx::add_memory_map $control $core]
        set_property slave_memory_map_ref $control [ipx::get_bus_interfaces $control -of_objects $core]
    }
    set block [ipx::get_address_blocks -quiet reg0 -of_objects $map]
    if {[llength $block] == 0} {
        set block [ipx::add_address_block reg0 $map]
    }
    set_property range [dict get $design control_bytes] $block
    set_property usage register $block

    ipx::create_xgui_files $core
    ipx::update_checksums $core
    ipx::check_integrity $core
    ipx::save_core $core
    close_project
}
