# The block design of the stub: cells from the catalogue, their pins and interfaces as their settings make them,
# nets, addresses, and the checks of validate_bd_design.
namespace eval stub {
    variable design ""
    variable cells; variable settings; variable driver; variable partner; variable addresses
    variable catalogue_read 0
    variable automated; variable validated; variable generated; variable wrapped

    proc reset_design {} {
        variable design ""
        variable cells [dict create]
        variable settings [dict create]
        variable driver [dict create]     ;# input pin -> output pin
        variable partner [dict create]    ;# interface -> interface
        variable addresses [dict create]  ;# segment -> {offset size}
        variable catalogue_read 0
        variable automated [dict create]
        variable validated 0
        variable generated 0
    }

    proc part {} {
        variable project
        variable state
        return [dict get $state "project@$project part"]
    }

    proc update_ip_catalog {given} {
        variable catalogue_read
        need_project update_ip_catalog
        set catalogue_read 1
    }

    proc get_ipdefs {given} {
        variable packaged
        need_project get_ipdefs
        set all [dict keys $::catalog]
        if {[string match xc7* [part]]} {
            set all [lsearch -all -inline -not -glob $all *zynq_ultra*]
        } else {
            set all [lsearch -all -inline -not -glob $all *processing_system7*]
        }
        return [lsearch -all -inline -glob [concat $all [dict keys $packaged]] [first $given]]
    }

    proc create_bd_design {given} {
        variable design
        need_project create_bd_design
        if {$design ne ""} { fail "create_bd_design: $design is open" }
        set design [first $given]
    }

    proc need_bd {what} {
        variable design
        if {$design eq ""} { fail "$what: there is no block design" }
    }

    proc create_bd_cell {given} {
        variable cells
        variable settings
        variable packaged
        variable catalogue_read
        need_bd create_bd_cell
        if {[option $given -type] ne "ip"} { fail "create_bd_cell: -type [option $given -type]" }
        set vlnv [option $given -vlnv]
        set name [first $given]
        if {[dict exists $cells $name]} { fail "create_bd_cell: cell $name exists" }
        if {[dict exists $packaged $vlnv]} {
            if {!$catalogue_read} { fail "create_bd_cell: $vlnv is not in the catalogue; update_ip_catalog first" }
        } elseif {![llength [get_ipdefs [dict create positional [list $vlnv]]]]} {
            fail "create_bd_cell: no core $vlnv in the catalogue"
        } else {
            dict set settings $name [dict get $::catalog $vlnv settings]
        }
        dict set cells $name $vlnv
        return cell@$name
    }

    # -- settings --------------------------------------------------------------------------------------

    proc known_setting {key object} {
        variable settings
        set name [name $object]
        if {![regexp {^CONFIG\.(\w+)$} $key all setting]} { fail "cell $name: no property $key" }
        if {![dict exists $settings $name $setting]} { fail "cell $name: no setting $setting" }
        return $setting
    }

    proc set_setting {setting value object} {
        variable settings
        variable cells
        set name [name $object]
        dict set settings $name $setting $value
        set entry [dict get $::catalog [dict get $cells $name]]
        if {[dict exists $entry achieves]} {
            lassign [dict get $entry achieves] asked made
            if {$setting eq $made} { fail "cell $name: $made is read-only" }
            # the PS divides 1500 (or 1000) MHz: what comes out is the next below what was asked for
            if {$setting eq $asked} { dict set settings $name $made [format %.6f [expr {1500.0 / ceil(1500.0 / $value)}]] }
        }
    }

    proc get_setting {key object} {
        variable settings
        return [dict get $settings [name $object] [known_setting $key $object]]
    }

    proc get_bd_cells {given} {
        variable cells
        need_bd get_bd_cells
        set name [string trimleft [first $given] /]
        if {![dict exists $cells $name]} { fail "get_bd_cells: no cell '$name'" }
        return cell@$name
    }

    proc apply_bd_automation {given} {
        variable automated
        variable cells
        variable project
        variable state
        set cell [name [first $given]]
        set entry [dict get $::catalog [dict get $cells $cell]]
        if {![dict exists $entry rule]} { fail "apply_bd_automation: no rule for cell $cell" }
        lassign [dict get $entry rule] rule known
        if {[option $given -rule] ne $rule} { fail "apply_bd_automation: no rule [option $given -rule] for cell $cell" }
        foreach {key value} [option $given -config] {
            if {$key ni $known} { fail "apply_bd_automation: $rule has no option $key" }
            if {$key eq "apply_board_preset" && $value && ![dict exists $state "project@$project board_part"]} {
                fail "apply_bd_automation: there is no board preset without a board part"
            }
        }
        dict set automated $cell 1
    }

    # -- pins and interfaces ---------------------------------------------------------------------------

    proc holds {cell condition} {
        variable settings
        foreach {setting value} $condition {
            if {[dict get $settings $cell $setting] != $value} { return 0 }
        }
        return 1
    }

    # name -> {direction kind}
    proc pins_of {cell} {
        variable cells
        variable packaged
        set vlnv [dict get $cells $cell]
        set found [dict create]
        if {[dict exists $packaged $vlnv]} {
            set core [dict get $packaged $vlnv]
            dict for {port kind} [dict get $core signals] {
                set direction [expr {[lindex [dict get $core ports $port] 0] eq "input" ? "in" : "out"}]
                if {$kind eq "reset" && [dict exists $core parameters $port.POLARITY]
                        && [dict get $core parameters $port.POLARITY] eq "ACTIVE_HIGH"} { set kind high }
                dict set found $port [list $direction $kind]
            }
            return $found
        }
        dict for {pin shape} [dict get $::catalog $vlnv pins] {
            lassign $shape direction kind condition
            if {[holds $cell $condition]} { dict set found $pin [list $direction $kind] }
        }
        return $found
    }

    # name -> {mode protocol width}; a SmartConnect takes any protocol and width
    proc interfaces_of {cell} {
        variable cells
        variable settings
        variable packaged
        set vlnv [dict get $cells $cell]
        if {[dict exists $packaged $vlnv]} { return [dict get $packaged $vlnv buses] }
        set entry [dict get $::catalog $vlnv]
        set found [dict create]
        dict for {interface shape} [dict get $entry interfaces] {
            lassign $shape mode protocol width condition
            if {[holds $cell $condition]} {
                if {![string is integer $width]} { set width [dict get $settings $cell $width] }
                if {[dict exists $settings $cell $protocol]} { set protocol [dict get $settings $cell $protocol] }
                dict set found $interface [list $mode $protocol $width]
            }
        }
        if {[dict exists $entry repeated]} {
            dict for {setting shape} [dict get $entry repeated] {
                lassign $shape pattern mode
                for {set i 0} {$i < [dict get $settings $cell $setting]} {incr i} {
                    dict set found [format $pattern $i] [list $mode any any]
                }
            }
        }
        return $found
    }

    proc find_on_cell {command path listing kind} {
        variable cells
        need_bd $command
        lassign [split [string trimleft $path /] /] cell end
        if {![dict exists $cells $cell]} { fail "$command: no cell '$cell'" }
        if {![dict exists [$listing $cell] $end]} {
            fail "$command: cell $cell has no [expr {$kind eq "pin" ? "pin" : "interface"}] '$end' with these settings"
        }
        return $kind@$cell/$end
    }

    proc get_bd_pins {given} { return [find_on_cell get_bd_pins [first $given] pins_of pin] }
    proc get_bd_intf_pins {given} { return [find_on_cell get_bd_intf_pins [first $given] interfaces_of intf] }

    proc shape_of {object} {
        lassign [split [name $object] /] cell end
        return [dict get [expr {[kind $object] eq "pin" ? [pins_of $cell] : [interfaces_of $cell]}] $end]
    }

    proc connect_bd_net {given} {
        variable driver
        set outputs {}
        set inputs {}
        foreach pin [dict get $given positional] {
            if {[kind $pin] ne "pin"} { fail "connect_bd_net: '$pin' is no pin" }
            if {[lindex [shape_of $pin] 0] eq "out"} { lappend outputs $pin } else { lappend inputs $pin }
        }
        if {[llength $outputs] != 1} { fail "connect_bd_net: [llength $outputs] drivers on one net" }
        set kind [lindex [shape_of $outputs] 1]
        foreach input $inputs {
            if {[dict exists $driver $input]} { fail "connect_bd_net: [name $input] is driven already" }
            set wanted [lindex [shape_of $input] 1]
            if {$wanted ne $kind} { fail "connect_bd_net: [name $outputs] is a $kind, [name $input] takes a $wanted" }
            dict set driver $input $outputs
        }
    }

    proc connect_bd_intf_net {given} {
        variable partner
        lassign [dict get $given positional] a b
        if {[dict exists $given -intf_net]} { return [monitor [dict get $given -intf_net] $a $b] }
        foreach end [list $a $b] {
            if {[kind $end] ne "intf"} { fail "connect_bd_intf_net: '$end' is no interface" }
            if {[dict exists $partner $end]} { fail "connect_bd_intf_net: [name $end] is connected already" }
        }
        if {[lindex [shape_of $a] 0] eq [lindex [shape_of $b] 0]} {
            fail "connect_bd_intf_net: [name $a] and [name $b] are both [lindex [shape_of $a] 0]s"
        }
        dict set partner $a $b
        dict set partner $b $a
    }

    # A connection is known by one of its ends; a monitor that joins it takes no part in it.
    proc get_bd_intf_nets {given} {
        variable partner
        set end [option $given -of_objects]
        if {![dict exists $partner $end]} { fail "get_bd_intf_nets: nothing is connected to '$end'" }
        return intfnet@[name $end]
    }

    proc monitor {net end watcher} {
        variable partner
        if {$net ne "intfnet@[name $end]"} { fail "connect_bd_intf_net: [name $end] is not of '$net'" }
        if {[lindex [shape_of $watcher] 0] ne "monitor"} { fail "connect_bd_intf_net: [name $watcher] is no monitor" }
        dict set partner $watcher $end
    }

    # -- addresses -------------------------------------------------------------------------------------

    proc segments {} {
        variable cells
        variable packaged
        set found [dict create]
        dict for {cell vlnv} $cells {
            if {[dict exists $packaged $vlnv]} {
                dict for {block size} [dict get $packaged $vlnv blocks] { dict set found $cell/$block $size }
            } elseif {[dict exists $::catalog $vlnv segments]} {
                dict for {segment shape} [dict get $::catalog $vlnv segments] { dict set found $cell/$segment [lindex $shape 1] }
            }
        }
        return $found
    }

    proc get_bd_addr_segs {given} {
        set name [string trimleft [first $given] /]
        if {![dict exists [segments] $name]} { fail "get_bd_addr_segs: no segment '$name'" }
        return segment@$name
    }

    proc get_bd_addr_spaces {given} {
        variable cells
        set name [string trimleft [first $given] /]
        lassign [split $name /] cell space
        if {![dict exists $cells $cell] || $space ne "Data"} { fail "get_bd_addr_spaces: no address space '$name'" }
        return space@$name
    }

    proc bytes {text} {
        if {[regexp {^(\d+)K$} $text all number]} { return [expr {$number * 1024}] }
        if {![string is integer -strict $text]} { fail "assign_bd_address: size '$text'" }
        return $text
    }

    # The master port, of a cell with an address space, that leads to a segment: through the buses between them.
    proc master_of {segment} {
        variable cells
        variable partner
        set cell [lindex [split $segment /] 0]
        dict for {end other} $partner {
            lassign [split [name $end] /] at interface
            if {$at ne $cell || [lindex [shape_of $end] 0] ne "slave"} { continue }
            set master [name $other]
            set vlnv [dict get $cells [lindex [split $master /] 0]]
            if {[dict exists $::catalog $vlnv windows]} { return $master }
            return [master_of $master]
        }
        fail "assign_bd_address: no master reaches $segment"
    }

    proc assign_bd_address {given} {
        variable addresses
        variable cells
        need_bd assign_bd_address
        if {[dict get $given positional] eq ""} { return }
        set segment [first $given]
        if {[kind $segment] ne "segment"} { fail "assign_bd_address: '$segment' is no segment" }
        set space [option $given -target_address_space]
        if {[kind $space] ne "space"} { fail "assign_bd_address: '$space' is no address space" }
        set offset [expr {[option $given -offset]}]
        set size [bytes [option $given -range]]
        set needed [dict get [segments] [name $segment]]
        if {$size < $needed} { fail "assign_bd_address: [name $segment] has $needed bytes, its range $size" }
        if {$offset % $size} { fail "assign_bd_address: [name $segment]: offset [option $given -offset] is no multiple of its range" }
        set windows [dict get $::catalog [dict get $cells [lindex [split [name $space] /] 0]] windows]
        lassign [dict get $windows [lindex [split [master_of [name $segment]] /] 1]] low high
        if {$offset < $low || $offset + $size - 1 > $high} {
            fail "assign_bd_address: [name $segment]: [option $given -offset] is outside $low to $high"
        }
        dict for {other place} $addresses {
            lassign $place other_offset other_size
            if {$offset < $other_offset + $other_size && $other_offset < $offset + $size} {
                fail "assign_bd_address: [name $segment] overlaps $other"
            }
        }
        dict set addresses [name $segment] [list $offset $size]
    }

    # -- validation and output -------------------------------------------------------------------------

    proc validate_bd_design {given} {
        variable cells; variable driver; variable partner; variable automated; variable addresses; variable validated
        need_bd validate_bd_design
        dict for {cell vlnv} $cells {
            dict for {pin shape} [pins_of $cell] {
                lassign $shape direction kind
                if {$direction eq "in" && $kind ne "optional" && ![dict exists $driver pin@$cell/$pin]} {
                    fail "validate_bd_design: $kind $cell/$pin is not connected"
                }
                if {$direction eq "out" && $kind eq "interrupt" && "pin@$cell/$pin" ni [dict values $driver]} {
                    fail "validate_bd_design: interrupt $cell/$pin goes nowhere"
                }
            }
            dict for {interface shape} [interfaces_of $cell] {
                set this intf@$cell/$interface
                if {![dict exists $partner $this]} { fail "validate_bd_design: interface $cell/$interface is not connected" }
                set other [shape_of [dict get $partner $this]]
                foreach k {1 2} what {protocol width} {
                    set mine [lindex $shape $k]
                    set theirs [lindex $other $k]
                    if {$mine ne "any" && $theirs ne "any" && $mine ne $theirs} {
                        fail "validate_bd_design: $what of $cell/$interface is $mine, of [name [dict get $partner $this]] $theirs"
                    }
                }
            }
            if {[dict exists $::catalog $vlnv] && [dict exists $::catalog $vlnv rule] && ![dict exists $automated $cell]} {
                fail "validate_bd_design: DDR and fixed pins of $cell are not external; apply_bd_automation"
            }
        }
        dict for {segment size} [segments] {
            if {![dict exists $addresses $segment]} { fail "validate_bd_design: segment $segment has no address" }
        }
        set validated 1
    }

    proc save_bd_design {given} {
        variable design
        variable folder
        variable files
        need_bd save_bd_design
        set path [file join $folder tilewright.srcs sources_1 bd $design $design.bd]
        file mkdir [file dirname $path]
        write_file $path "{}\n"
        dict lappend files sources_1 $path
    }

    proc generate_target {given} {
        variable design
        variable folder
        variable validated
        variable generated
        if {!$validated} { fail "generate_target: the block design has not been validated" }
        need_file [lindex [dict get $given positional] 1]
        set target [file join $folder tilewright.gen sources_1 bd $design hw_handoff]
        file mkdir $target
        write_file [file join $target $design.hwh] "<?xml version=\"1.0\"?><EDKSYSTEM/>\n"
        set generated 1
    }

    proc make_wrapper {given} {
        variable design
        variable folder
        if {![dict exists $given -top]} { fail "make_wrapper: -top is missing" }
        need_file [option $given -files]
        set path [file join $folder tilewright.gen sources_1 bd $design hdl ${design}_wrapper.v]
        file mkdir [file dirname $path]
        write_file $path "module ${design}_wrapper;\nendmodule\n"
        return $path
    }

    proc ready_to_run {} {
        variable generated
        variable project
        variable state
        if {!$generated} { fail "launch_runs: the block design's outputs have not been generated" }
        if {![dict exists $state "fileset@sources_1 top"]} { fail "launch_runs: no top module is set" }
    }
}
