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

# One run for each strategy, all of them with physical optimisation after placement and after routing. They end at
# routing or after it; only the one that is kept goes on to a bitstream. Returns the runs that came to their end.
proc implementation_runs {strategies jobs} {
    set runs {}
    set ended {}
    foreach strategy $strategies {
        set name impl_[expr {[llength $runs] + 1}]
        if {[llength $runs]} {
            create_run $name -parent_run synth_1 -flow [get_property FLOW [get_runs impl_1]]
        }
        set run [get_runs $name]
        set_property STRATEGY $strategy $run
        set_property STEPS.PHYS_OPT_DESIGN.IS_ENABLED true $run
        set_property STEPS.POST_ROUTE_PHYS_OPT_DESIGN.IS_ENABLED true $run
        lappend runs $name
    }
    launch_runs $runs -jobs $jobs
    foreach name $runs {
        wait_on_run $name
        set status [get_property STATUS [get_runs $name]]
        if {[string match "*Complete*" $status]} {
            lappend ended $name
        } else {
            puts "tilewright: run $name ended with '$status'; its log is\
                [file join [get_property DIRECTORY [get_runs $name]] runme.log]"
        }
    }
    if {[llength $ended] == 0} {
        error "implement: none of the runs [join $runs {, }] came to its end; the last ended with '$status'"
    }
    return $ended
}

# The run with the most setup slack of those that meet hold; of all, if none does. out/strategies.txt tells all.
proc best_run {runs out} {
    set table [open [file join $out strategies.txt] w]
    foreach name $runs {
        set run [get_runs $name]
        set setup [get_property STATS.WNS $run]
        set hold [get_property STATS.WHS $run]
        set strategy [get_property STRATEGY $run]
        puts $table "$name $strategy setup $setup hold $hold"
        set met [expr {$hold >= 0}]
        if {![info exists best] || $met > $best_met || ($met == $best_met && $setup > $most)} {
            lassign [list $met $setup $name $strategy] best_met most best chosen
        }
    }
    close $table
    set facts [open [file join $out facts.txt] a]
    puts $facts "strategy $chosen"
    close $facts
    return $best
}

proc implement {root jobs design} {
    set out [file join $root out]
    set bd [get_files system.bd]
    generate_target all $bd
    add_files -norecurse [make_wrapper -files $bd -top]
    add_files -fileset constrs_1 -norecurse [file join $root constraints tilewright.xdc]
    set_property top system_wrapper [current_fileset]
    update_compile_order -fileset sources_1

    launch_runs synth_1 -jobs $jobs
    finish_run synth_1 synth_design
    set run [best_run [implementation_runs [dict get $design strategies] $jobs] $out]
    open_run $run
    report_timing_summary -max_paths 10 -file [file join $out timing.rpt]
    report_utilization -file [file join $out utilization.rpt]
    foreach type {max min} {
        set slack [worst_slack $type]
        if {$slack < 0} {
            error "implement: timing is not met: slack $slack ns (delay type $type); see out/timing.rpt"
        }
    }
    if {[dict get $design ila]} {
        write_debug_probes -force [file join $out tilewright.ltx]
    }
    close_design

    launch_runs $run -to_step write_bitstream -jobs $jobs
    finish_run $run write_bitstream
    set project [get_property DIRECTORY [current_project]]
    copy_one [list [file join $project tilewright.runs $run system_wrapper.bit]] [file join $out tilewright.bit]
    # since 2020.2 generated files stand in .gen
    copy_one [list [file join $project tilewright.gen sources_1 bd system hw_handoff system.hwh]] \
        [file join $out tilewright.hwh]
}
