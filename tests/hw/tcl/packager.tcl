# The IP packager of the stub: interfaces are inferred from the ports of the real top module.
namespace eval stub {
    variable core [dict create]       ;# the core being packaged: root, buses, clocks of buses, memory maps, blocks
    variable packaged [dict create]   ;# vlnv -> finished core

    # Ports of a module: name -> {direction width}. Declarations stand in the header or below it.
    proc module_ports {path module} {
        set channel [open $path]
        set text [read $channel]
        close $channel
        regexp -indices -line "^module ${module}\\M" $text span
        set body [string range $text [lindex $span 1] [string first endmodule $text [lindex $span 1]]]
        set ports [dict create]
        foreach {all direction high name} [regexp -all -inline -line \
                {^\s*(input|output)\s+(?:wire\s+|reg\s+)?(?:\[\s*(\d+):0\]\s*)?(\w+)\s*[;,]?\s*$} $body] {
            dict set ports $name [list $direction [expr {$high eq "" ? 1 : $high + 1}]]
        }
        return $ports
    }

    # AXI interfaces by the prefix of their ports: {mode protocol width}.
    proc infer_axi {ports} {
        set found [dict create]
        foreach port [dict keys $ports *_arvalid] {
            set prefix [string range $port 0 end-8]
            set lite [expr {![dict exists $ports ${prefix}_arlen]}]
            set need {arready araddr rvalid rready rdata rresp awvalid awready awaddr wvalid wready wdata wstrb bvalid bready bresp}
            set protocol AXI4LITE
            if {!$lite} {
                lappend need arlen arsize arburst awlen awsize awburst wlast rlast
                set protocol [expr {[lindex [dict get $ports ${prefix}_arlen] 1] == 4 ? "AXI3" : "AXI4"}]
                if {$protocol eq "AXI3"} { lappend need wid }
            }
            set complete 1
            foreach signal $need { if {![dict exists $ports ${prefix}_$signal]} { set complete 0 } }
            if {$complete} {
                set mode [expr {[lindex [dict get $ports $port] 0] eq "output" ? "master" : "slave"}]
                dict set found $prefix [list $mode $protocol [lindex [dict get $ports ${prefix}_rdata] 1]]
            }
        }
        return $found
    }

    # Bytes that a slave's address ports tell apart.
    proc window {ports bus} { return [expr {1 << [lindex [dict get $ports ${bus}_araddr] 1]}] }

    proc packager_range {object value} {
        variable core
        set real [dict get $core blocks [name $object]]
        if {$value != $real} { fail "range of [name $object] is $value, its address ports tell $real bytes apart" }
    }

    proc ipx_package_project {given} {
        variable core
        variable state
        variable files
        need_project ipx::package_project
        foreach name {-root_dir -vendor -library -taxonomy} {
            if {![dict exists $given $name]} { fail "ipx::package_project: $name is missing" }
        }
        if {![dict exists $state "fileset@sources_1 top"]} { fail "ipx::package_project: no top module is set" }
        set top [dict get $state "fileset@sources_1 top"]
        foreach path [dict get $files sources_1] {
            if {[has_module $path $top]} { set ports [module_ports $path $top] }
        }
        set core [dict create root [option $given -root_dir] ports $ports buses [infer_axi $ports] signals {} clocks {} \
            vendor [option $given -vendor] library [option $given -library] maps {} blocks {}]
        dict for {bus shape} [dict get $core buses] {
            # a slave's memory map comes with it
            if {[lindex $shape 0] eq "slave"} {
                dict set core maps $bus 1
                dict set core blocks $bus/reg0 [window $ports $bus]
            }
        }
        dict set state "core@current name" $top
        dict set state "core@current version" 1.0
    }

    proc ipx_current_core {given} {
        variable core
        if {![dict size $core]} { fail "ipx::current_core: nothing has been packaged" }
        return core@current
    }

    proc need_core {object what} {
        if {$object ne "core@current"} { fail "$what: '$object' is no core" }
    }

    proc ipx_infer_bus_interface {given} {
        variable core
        lassign [dict get $given positional] port abstraction object
        need_core $object ipx::infer_bus_interface
        if {$abstraction ni {xilinx.com:signal:clock_rtl:1.0 xilinx.com:signal:reset_rtl:1.0 xilinx.com:signal:interrupt_rtl:1.0}} {
            fail "ipx::infer_bus_interface: no abstraction $abstraction"
        }
        if {![dict exists $core ports $port]} { fail "ipx::infer_bus_interface: no port $port" }
        dict set core signals $port [regsub {^.*:(\w+)_rtl:.*$} $abstraction {\1}]
    }

    proc ipx_get_bus_interfaces {given} {
        variable core
        need_core [option $given -of_objects core@current] ipx::get_bus_interfaces
        set name [first $given]
        if {[dict exists $core buses $name] || [dict exists $core signals $name]} { return bus@$name }
        return {}
    }

    proc ipx_get_bus_parameters {given} {
        variable core
        set bus [option $given -of_objects]
        if {[kind $bus] ne "bus"} { fail "ipx::get_bus_parameters: '$bus' is no bus interface" }
        if {[dict exists $core parameters [name $bus].[first $given]]} { return param@[name $bus].[first $given] }
        return {}
    }

    proc ipx_add_bus_parameter {given} {
        variable core
        lassign [dict get $given positional] parameter bus
        if {[kind $bus] ne "bus"} { fail "ipx::add_bus_parameter: '$bus' is no bus interface" }
        if {$parameter ni {POLARITY SENSITIVITY PROTOCOL ASSOCIATED_RESET ASSOCIATED_BUSIF FREQ_HZ}} {
            fail "ipx::add_bus_parameter: no parameter $parameter"
        }
        dict set core parameters [name $bus].$parameter ""
        return param@[name $bus].$parameter
    }

    # A value that the ports contradict, or that is none of the known ones.
    proc packager_check {object value} {
        variable core
        lassign [split [name $object] .] bus parameter
        switch -- $parameter {
            PROTOCOL {
                set real [lindex [dict get $core buses $bus] 1]
                if {$value ne $real} { fail "PROTOCOL of $bus is $value, its ports are those of $real" }
            }
            POLARITY { if {$value ni {ACTIVE_HIGH ACTIVE_LOW}} { fail "POLARITY $value" } }
            SENSITIVITY { if {$value ni {LEVEL_HIGH LEVEL_LOW EDGE_RISING EDGE_FALLING}} { fail "SENSITIVITY $value" } }
            ASSOCIATED_RESET { if {![dict exists $core signals $value]} { fail "ASSOCIATED_RESET: no reset $value" } }
        }
        dict set core parameters $bus.$parameter $value
    }

    proc ipx_associate_bus_interfaces {given} {
        variable core
        need_core [first $given] ipx::associate_bus_interfaces
        set bus [option $given -busif]
        if {![dict exists $core buses $bus]} { fail "ipx::associate_bus_interfaces: no bus interface $bus" }
        set clock [option $given -clock]
        if {![dict exists $core signals $clock] || [dict get $core signals $clock] ne "clock"} {
            fail "ipx::associate_bus_interfaces: no clock $clock"
        }
        dict set core clocks $bus $clock
    }

    proc ipx_get_memory_maps {given} {
        variable core
        return [expr {[dict exists $core maps [first $given]] ? "map@[first $given]" : ""}]
    }

    proc ipx_add_memory_map {given} {
        variable core
        lassign [dict get $given positional] name object
        need_core $object ipx::add_memory_map
        dict set core maps $name 1
        return map@$name
    }

    proc ipx_get_address_blocks {given} {
        variable core
        set map [option $given -of_objects]
        if {[kind $map] ne "map"} { fail "ipx::get_address_blocks: '$map' is no memory map" }
        return [expr {[dict exists $core blocks [name $map]/[first $given]] ? "block@[name $map]/[first $given]" : ""}]
    }

    proc ipx_add_address_block {given} {
        variable core
        lassign [dict get $given positional] name map
        if {[kind $map] ne "map"} { fail "ipx::add_address_block: '$map' is no memory map" }
        dict set core blocks [name $map]/$name [window [dict get $core ports] [name $map]]
        return block@[name $map]/$name
    }

    proc ipx_create_xgui_files {given} { need_core [option $given positional core@current] ipx::create_xgui_files }
    proc ipx_update_checksums {given} { need_core [option $given positional core@current] ipx::update_checksums }

    proc ipx_check_integrity {given} {
        variable core
        dict for {bus shape} [dict get $core buses] {
            if {![dict exists $core clocks $bus]} { fail "ipx::check_integrity: bus interface $bus has no clock" }
        }
    }

    proc ipx_save_core {given} {
        variable core
        variable packaged
        variable state
        file mkdir [dict get $core root]
        write_file [file join [dict get $core root] component.xml] "<component/>\n"
        set vlnv [join [list [dict get $core vendor] [dict get $core library] [dict get $state "core@current name"] \
            [dict get $state "core@current version"]] :]
        dict set packaged $vlnv $core
    }
}
