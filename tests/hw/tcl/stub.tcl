# A checking stand-in for Vivado and Vitis HLS: tclsh stub.tcl (vivado|vitis_hls|vitis-run) ARGUMENTS...
# It knows commands, their options and the objects made so far, and stops at the first that is wrong. It builds
# nothing: reports and results are made up. STUB_MODE in the environment chooses what goes wrong, STUB_VERSION the
# release, STUB_NETLISTS the folder with the kernels' Verilog.
set here [file dirname [file normalize [info script]]]
source [file join $here commands.tcl]
source [file join $here catalog.tcl]

proc fail {message} {
    return -code error -level 2 -errorcode STUB $message
}

proc mode {} {
    return [expr {[info exists ::env(STUB_MODE)] ? $::env(STUB_MODE) : ""}]
}

proc release {} {
    return [expr {[info exists ::env(STUB_VERSION)] ? $::env(STUB_VERSION) : "2023.2"}]
}

# Options and positional arguments of a call, by the table of commands.
proc parse {command arguments} {
    lassign [dict get $::commands $command] flags values least most
    lappend flags -quiet -verbose
    set given [dict create positional {}]
    for {set i 0} {$i < [llength $arguments]} {incr i} {
        set word [lindex $arguments $i]
        if {$word in $flags} {
            dict set given $word 1
        } elseif {$word in $values} {
            incr i
            if {$i >= [llength $arguments]} { fail "$command: option $word has no value" }
            dict set given $word [lindex $arguments $i]
        } elseif {[regexp {^-[a-zA-Z_]} $word]} {
            fail "$command: no option $word"
        } else {
            dict lappend given positional $word
        }
    }
    set count [llength [dict get $given positional]]
    if {$count < $least || $count > $most} {
        fail "$command: $count arguments, $least to $most are taken"
    }
    return $given
}

proc option {given name {default ""}} {
    return [expr {[dict exists $given $name] ? [dict get $given $name] : $default}]
}

proc first {given} {
    return [lindex [dict get $given positional] 0]
}

proc make_commands {table} {
    set ::commands $table
    dict for {name shape} $table {
        set space [namespace qualifiers $name]
        if {$space ne ""} { namespace eval ::$space {} }
        proc ::$name {args} [format {
            set given [parse %1$s $args]
            return [stub::%2$s $given]
        } $name [string map {:: _} $name]]
    }
}

# What neither Tcl nor the table knows. Tcl's own handler would look for a program of that name.
proc unknown {name args} {
    fail "invalid command name \"$name\""
}

proc need_file {path} {
    if {![file exists $path]} { fail "file '$path' does not exist" }
    return $path
}

proc run_script {path arguments} {
    need_file $path
    set ::argv0 $path
    set ::argv $arguments
    set ::argc [llength $arguments]
    if {[catch {uplevel #0 [list source $path]} message options]} {
        puts "ERROR: $message"
        puts [dict get $options -errorinfo]
        puts "INFO: \[Common 17-206\] Exiting Vivado..."
        exit 1
    }
    exit 0
}

namespace eval stub {}
set tool [lindex $argv 0]
set rest [lrange $argv 1 end]
if {$tool eq "vivado"} {
    if {$rest eq "-version"} {
        puts "vivado v[release] (64-bit)\nTool Version Limit: 2023.10\nSW Build 4029153 on Fri Oct 13 20:13:54 MDT 2023"
        exit 0
    }
    source [file join $here vivado.tcl]
    make_commands $vivado_commands
    set script ""
    set arguments {}
    while {[llength $rest]} {
        set rest [lassign $rest word]
        switch -- $word {
            -nojournal - -nolog {}
            -mode { set rest [lassign $rest value]; if {$value ne "batch"} { puts "ERROR: -mode $value"; exit 1 } }
            -log - -journal - -tempDir { set rest [lassign $rest value] }
            -source { set rest [lassign $rest script] }
            -tclargs { set arguments $rest; set rest {} }
            default { puts "ERROR: \[Common 17-165\] Too many or unknown option: $word"; exit 1 }
        }
    }
    run_script $script $arguments
}
source [file join $here hls.tcl]
make_commands $hls_commands
if {$tool eq "vitis_hls" && [lindex $rest 0] eq "-f"} {
    run_script [lindex $rest 1] {}
} elseif {$tool eq "vitis-run" && [lrange $rest 0 2] eq "--mode hls --tcl"} {
    run_script [lindex $rest 3] {}
}
puts "ERROR: $tool: unknown arguments $rest"
exit 1
