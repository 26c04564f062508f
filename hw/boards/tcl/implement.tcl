# From the block design to a bitstream. Reports are written before anything is judged, so that a failed build
# can be looked into.

# A run's status names its last step, as in "route_design Complete, Failed Timing!".
proc finish_run {name step} {
    wait_on_run $name
    set run [get_runs $name]
    set status [get_property STATUS $run]
    if {![string match "$step Complete*" $status]} {
        error "implement: run $name ended with '$status'; its log is\
            [file join [get_property DIRECTORY $run] runme.log]"
    }
}

proc worst_slack {type} {
    set path [get_timing_paths -delay_type $type -max_paths 1]
    if {[llength $path] == 0} {
        error "implement: no constrained path for delay type $type: the clock of the PS is missing"
    }
    return [get_property SLACK $path]
}

proc copy_one {pattern target} {
    set found [glob -nocomplain {*}$pattern]
    if {[llength $found] != 1} {
        error "implement: [llength $found] files match $pattern, 1 is expected"
    }
    file copy -force [lindex $found 0] $target
}

proc implement {root jobs} {
    set out [file join $root out]
    set bd [get_files system.bd]
    generate_target all $bd
    add_files -norecurse [make_wrapper -files $bd -top]
    add_files -fileset constrs_1 -norecurse [file join $root constraints tilewright.xdc]
    set_property top system_wrapper [current_fileset]
    update_compile_order -fileset sources_1

    launch_runs synth_1 -jobs $jobs
    finish_run synth_1 synth_design
    set_property strategy Performance_Explore [get_runs impl_1]
    launch_runs impl_1 -to_step route_design -jobs $jobs
    finish_run impl_1 route_design
    open_run impl_1
    report_timing_summary -max_paths 10 -file [file join $out timing.rpt]
    report_utilization -file [file join $out utilization.rpt]
    foreach type {max min} {
        set slack [worst_slack $type]
        if {$slack < 0} {
            error "implement: timing is not met: slack $slack ns (delay type $type); see out/timing.rpt"
        }
    }
    close_design

    launch_runs impl_1 -to_step write_bitstream -jobs $jobs
    finish_run impl_1 write_bitstream
    set project [get_property DIRECTORY [current_project]]
    copy_one [list [file join $project tilewright.runs impl_1 system_wrapper.bit]] [file join $out tilewright.bit]
    # since 2020.2 generated files stand in .gen
    copy_one [list [file join $project tilewright.gen sources_1 bd system hw_handoff system.hwh]] \
        [file join $out tilewright.hwh]
}
