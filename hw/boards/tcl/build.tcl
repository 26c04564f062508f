# vivado -mode batch -source tcl/build.tcl [-tclargs JOBS]
# Everything from the Verilog in rtl/ to out/tilewright.bit and .hwh. Written against UG835, UG994 and UG1118,
# for Vivado 2022.2 to 2024.2.
set root [file dirname [file dirname [file normalize [info script]]]]
foreach name {package_ip block_design implement} {
    source [file join $root tcl $name.tcl]
}
source [file join $root design.tcl]
source [file join $root tcl [dict get $design ps].tcl]
set jobs [expr {$argc > 0 ? [lindex $argv 0] : 2}]

file mkdir [file join $root out]
package_ip $root $design
set achieved [block_design $root $design $ps_type]
set facts [open [file join $root out facts.txt] w]
puts $facts "vivado [version -short]"
puts $facts "clock_mhz $achieved"
close $facts
puts "tilewright: [dict get $design clock_mhz] MHz asked for, $achieved MHz made by the PS"
implement $root $jobs $design
close_project
