# vitis_hls -f tcl/hls.tcl                      up to 2024.1
# vitis-run --mode hls --tcl tcl/hls.tcl        since 2024.1
# The five kernels to Verilog, in hls/KERNEL/solution/syn/verilog. Written against UG1399.
set root [file dirname [file dirname [file normalize [info script]]]]
source [file join $root design.tcl]

proc synthesise {root design kernel} {
    open_project -reset $kernel
    set_top tilewright_$kernel
    add_files [file join $root hls kernels $kernel.cpp] -cflags "-std=c++14 -I[file join $root hls]"
    open_solution -reset -flow_target vivado solution
    set_part [dict get $design part]
    create_clock -period [format %.3f [expr {1000.0 / [dict get $design clock_mhz]}]] -name default
    csynth_design
    close_project
}

# the tool stays at its prompt unless the script ends it, after an error too
cd [file join $root hls]
foreach kernel [dict get $design kernels] {
    if {[catch {synthesise $root $design $kernel} message]} {
        puts stderr "ERROR: kernel $kernel: $message"
        exit 1
    }
}
exit 0
