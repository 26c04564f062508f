# Vitis HLS commands of the stub: a project with a top function and files, a solution with part and clock.
namespace eval stub {
    variable hls [dict create]

    proc want {args} {
        variable hls
        foreach key $args {
            if {![dict exists $hls $key]} { fail "no $key yet" }
        }
    }

    proc open_project {given} {
        variable hls
        if {[dict exists $hls project]} { fail "project [dict get $hls project] is still open" }
        dict set hls project [first $given]
        file mkdir [first $given]
    }

    proc set_top {given} {
        variable hls
        want project
        dict set hls top [first $given]
    }

    proc add_files {given} {
        variable hls
        want project
        set path [need_file [first $given]]
        set folders [list [file dirname $path]]
        foreach {all folder} [regexp -all -inline -- {-I(\S+)} [option $given -cflags]] {
            lappend folders [need_file $folder]
        }
        dict lappend hls files $path
        check_includes $path $folders
    }

    # Every quoted #include must be found beside the file or in a folder given with -I.
    proc check_includes {path folders} {
        variable hls
        if {[dict exists $hls seen $path]} { return }
        dict set hls seen $path 1
        set channel [open $path]
        set text [read $channel]
        close $channel
        dict append hls text $text
        foreach {all name} [regexp -all -inline -line {^#include "([^"]+)"} $text] {
            set found ""
            foreach folder [concat [list [file dirname $path]] $folders] {
                if {$found eq "" && [file exists [file join $folder $name]]} { set found [file join $folder $name] }
            }
            if {$found eq ""} { fail "$path: $name: no such file" }
            check_includes $found $folders
        }
    }

    proc open_solution {given} {
        variable hls
        want project
        if {[option $given -flow_target vivado] ni {vivado vitis}} { fail "open_solution: -flow_target takes vivado or vitis" }
        dict set hls solution [first $given]
    }

    proc set_part {given} {
        variable hls
        want project solution
        if {![regexp -nocase {^xc[7kz]\w+-\w+} [first $given]]} { fail "set_part: no part [first $given]" }
        dict set hls part [first $given]
    }

    proc create_clock {given} {
        variable hls
        want project solution
        if {![string is double -strict [option $given -period]]} { fail "create_clock: no period" }
        dict set hls clock [option $given -period]
    }

    proc csynth_design {given} {
        variable hls
        want project solution top files part clock
        set top [dict get $hls top]
        if {![regexp -line "^void ${top}\\(" [dict get $hls text]]} { fail "csynth_design: no function $top in the files" }
        if {[mode] eq "hls_crash"} { puts "ERROR: \[HLS 200-70\] Synthesizability check failed."; exit 1 }
        set target [file join [dict get $hls project] [dict get $hls solution] syn verilog]
        file mkdir $target
        if {[mode] ne "no_netlist"} {
            file copy -force [need_file [file join $::env(STUB_NETLISTS) $top.v]] $target
        }
    }

    proc close_project {given} {
        variable hls
        want project
        set hls [dict create]
    }
}
