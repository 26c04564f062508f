# Vivado commands of the stub: projects, files, properties, runs. Objects are words KIND@NAME.
source [file join $here packager.tcl]
source [file join $here block.tcl]
source [file join $here results.tcl]

namespace eval stub {
    variable project ""      ;# name of the open project
    variable folder ""       ;# its folder
    variable state [dict create]   ;# property -> value of the project's objects: "KIND@NAME property"
    variable files [dict create]   ;# fileset -> paths
    variable opened 0        ;# whether a run's design is in memory

    proc need_project {what} {
        variable project
        if {$project eq ""} { fail "$what: there is no open project" }
    }

    proc kind {object} { return [lindex [split $object @] 0] }
    proc name {object} { return [string range $object [string first @ $object]+1 end] }

    proc create_project {given} {
        variable project
        variable folder
        variable files
        variable state
        if {$project ne ""} { fail "create_project: project $project is still open" }
        lassign [dict get $given positional] project folder
        set part [option $given -part]
        if {![regexp {^xc(7z020clg400-1|zu3eg-sbva484-1-[ei]|zu7ev-ffvc1156-2-e|k26-sfvc784-2LV-c)$} $part]} {
            set project ""
            fail "create_project: no part '$part'"
        }
        if {[file exists $folder] && ![dict exists $given -force]} { fail "create_project: $folder exists" }
        file mkdir $folder
        set files [dict create sources_1 {} constrs_1 {}]
        set state [dict create "project@$project part" $part "project@$project directory" $folder \
            "project@$project name" $project]
        reset_design
        foreach run {synth_1 impl_1} { new_run $run }
    }

    proc close_project {given} {
        variable project
        need_project close_project
        set project ""
    }

    proc current_project {given} {
        variable project
        need_project current_project
        return project@$project
    }

    proc current_fileset {given} { need_project current_fileset; return fileset@sources_1 }
    proc update_compile_order {given} { need_project update_compile_order; known_fileset [option $given -fileset sources_1] }
    proc version {given} { return [release] }

    proc known_fileset {name} {
        variable files
        if {![dict exists $files $name]} { fail "no fileset $name" }
        return $name
    }

    proc add_files {given} {
        variable files
        need_project add_files
        set fileset [known_fileset [option $given -fileset sources_1]]
        foreach path [first $given] {
            dict lappend files $fileset [need_file $path]
        }
    }

    proc get_files {given} {
        variable files
        variable designs
        need_project get_files
        set found {}
        foreach path [concat [dict values $files]] {
            foreach one $path { if {[string match [first $given] [file tail $one]]} { lappend found $one } }
        }
        if {![llength $found] && ![dict exists $given -quiet]} { fail "get_files: no file matches '[first $given]'" }
        return $found
    }

    # -- properties ------------------------------------------------------------------------------------

    proc set_property {given} {
        set words [dict get $given positional]
        if {[dict exists $given -dict]} {
            if {[llength $words] != 1} { fail "set_property -dict: one object is taken, [llength $words] are given" }
            foreach {key value} [dict get $given -dict] { set_one $key $value [lindex $words 0] }
            return
        }
        if {[llength $words] != 3} { fail "set_property: name, value and object are taken, not [llength $words] words" }
        lassign $words key value object
        set_one $key $value $object
    }

    proc known_property {key object} {
        set kind [kind $object]
        if {$kind eq "cell"} { return [known_setting $key $object] }
        if {![dict exists $::properties $kind]} { fail "'$object' is no object with properties" }
        set key [string tolower $key]
        if {$key ni [dict get $::properties $kind]} { fail "a $kind has no property '$key'" }
        return $key
    }

    proc set_one {key value object} {
        variable state
        variable files
        variable repositories
        set key [known_property $key $object]
        if {[kind $object] eq "cell"} { return [set_setting $key $value $object] }
        switch -- "[kind $object] $key" {
            "fileset top" {
                set found 0
                foreach path [dict get $files [name $object]] {
                    if {[file extension $path] eq ".v" && [has_module $path $value]} { set found 1 }
                }
                if {!$found} { fail "set_property top: no module $value in the files of [name $object]" }
            }
            "project ip_repo_paths" { foreach path $value { need_file $path } }
            "project board_part" { if {$value ni [board_parts]} { fail "no board part $value" } }
            "run strategy" { if {$value ni $::strategies} { fail "no strategy $value" } }
            "run flow" - "run stats.wns" - "run stats.whs" -
            "run status" - "run progress" - "run directory" - "project directory" - "path slack" {
                fail "property $key of a [kind $object] is read-only"
            }
            "param value" { packager_check $object $value }
            "block range" { packager_range $object $value }
        }
        dict set state "$object $key" $value
    }

    proc get_property {given} {
        variable state
        lassign [dict get $given positional] key object
        if {$object eq ""} { fail "get_property $key: no object is given" }
        if {[kind $object] eq "cell"} { return [get_setting $key $object] }
        set key [known_property $key $object]
        if {![dict exists $state "$object $key"]} { fail "property $key of $object is not set" }
        return [dict get $state "$object $key"]
    }

    proc has_module {path module} {
        set channel [open $path]
        set text [read $channel]
        close $channel
        return [regexp -line "^module ${module}\\M" $text]
    }

    proc board_parts {} {
        return [expr {[mode] eq "board_files" ? {tul.com.tw:pynq-z2:part0:1.0 xilinx.com:zcu104:part0:1.1} : {}}]
    }

    proc get_board_parts {given} {
        set found [lsearch -all -inline -glob [board_parts] [first $given]]
        if {![llength $found] && ![dict exists $given -quiet]} { fail "no board part matches [first $given]" }
        return $found
    }

    # -- runs ------------------------------------------------------------------------------------------

    proc get_runs {given} {
        need_project get_runs
        variable state
        if {![dict exists $state "run@[first $given] status"]} { fail "get_runs: no run '[first $given]'" }
        return run@[first $given]
    }

    proc new_run {run} {
        variable state
        variable project
        variable folder
        dict set state "run@$run status" "Not started"
        dict set state "run@$run progress" "0%"
        dict set state "run@$run flow" [expr {$run eq "synth_1" ? "Vivado Synthesis 2023" : "Vivado Implementation 2023"}]
        dict set state "run@$run directory" [file join $folder $project.runs $run]
    }

    proc create_run {given} {
        variable state
        set run [first $given]
        if {[dict exists $state "run@$run status"]} { fail "create_run: there is a run '$run'" }
        get_runs [dict create positional [option $given -parent_run]]
        if {![string match "Vivado Implementation *" [option $given -flow]]} { fail "create_run: no flow '[option $given -flow]'" }
        new_run $run
    }

    proc launch_runs {given} {
        variable state
        foreach run [first $given] { launch_run $run $given }
    }

    # Without a step to stop at, a run ends with routing, or with physical optimisation after it.
    proc launch_run {run given} {
        variable state
        get_runs [dict create positional $run]
        ready_to_run
        set last [expr {$run eq "synth_1" ? "synth_design" : "route_design"}]
        if {[dict exists $state "run@$run steps.post_route_phys_opt_design.is_enabled"]} {
            set last "phys_opt_design (Post-Route)"
        }
        set step [option $given -to_step $last]
        if {$step ni [list synth_design opt_design place_design route_design write_bitstream $last]} {
            fail "launch_runs: no step $step"
        }
        if {![string is integer -strict [option $given -jobs 1]]} { fail "launch_runs: -jobs takes a number" }
        if {$run ne "synth_1" && ![string match "synth_design Complete*" [dict get $state "run@synth_1 status"]]} {
            fail "launch_runs: $run needs synth_1 to be complete"
        }
        dict set state "run@$run launched" $step
        dict set state "run@$run status" "Running $step..."
    }

    proc wait_on_run {given} {
        variable state
        set run [first $given]
        get_runs [dict create positional $run]
        if {![dict exists $state "run@$run launched"]} { fail "wait_on_run: $run has not been launched" }
        set step [dict get $state "run@$run launched"]
        puts "Starting Synthesize : run $run, step $step"
        if {[mode] eq "crash"} {
            puts "ERROR: \[Common 17-345\] A valid license was not found for feature 'Implementation'"
            exit 1
        }
        if {[mode] eq "killed"} { puts "Abnormal program termination (11)"; exit 139 }
        set end "Complete!"
        if {[mode] eq "$run failed" || ([mode] eq "impl failed" && $run ne "synth_1")} { set end "ERROR" }
        if {$run ne "synth_1"} {
            dict set state "run@$run stats.wns" [slack_of $run]
            dict set state "run@$run stats.whs" [expr {[mode] eq "hold" && $run ne "impl_4" ? -0.020 : 0.031}]
        }
        if {[mode] in {slack report_slack} && $run ne "synth_1"} { set end "Complete, Failed Timing!" }
        dict set state "run@$run status" "$step $end"
        if {$step eq "write_bitstream"} {
            set folder [dict get $state "run@$run directory"]
            file mkdir $folder
            if {[mode] ne "no_bit"} { write_file [file join $folder system_wrapper.bit] "made-up bitstream [pid]\n" }
        }
    }

    proc open_run {given} {
        variable opened
        variable state
        if {![string match "*Complete*" [dict get $state "run@[first $given] status"]]} {
            fail "open_run: run [first $given] is not complete"
        }
        set opened 1
    }

    # The third run is the best, unless timing is to fail; a strategy's slack is made up.
    proc slack_of {run} {
        return [expr {[setup_slack] - 0.1 * abs([string range $run 5 end] - 3)}]
    }

    proc close_design {given} {
        variable opened
        need_design close_design
        set opened 0
    }

    proc need_design {what} {
        variable opened
        if {!$opened} { fail "$what: no open design" }
    }
}
