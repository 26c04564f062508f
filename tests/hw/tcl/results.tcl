# Reports and results of the stub, in the format of Vivado 2023.2.
namespace eval stub {
    proc write_file {path text} {
        set channel [open $path w]
        puts -nonewline $channel $text
        close $channel
    }

    proc setup_slack {} { return [expr {[mode] in {slack report_slack} ? -0.512 : 0.412}] }

    proc get_timing_paths {given} {
        variable state
        need_design get_timing_paths
        set type [option $given -delay_type max]
        if {$type ni {max min min_max}} { fail "get_timing_paths: -delay_type $type" }
        if {[mode] eq "no_clock"} { return {} }
        # the script's own check passes in mode report_slack, so that the one of the report is what fails
        set slack [expr {$type eq "min" ? 0.031 : [mode] eq "report_slack" ? 0.1 : [setup_slack]}]
        dict set state "path@$type slack" $slack
        return path@$type
    }

    proc report_timing_summary {given} {
        need_design report_timing_summary
        if {[mode] eq "no_report"} { return }
        set slack [setup_slack]
        set failing [expr {$slack < 0}]
        set verdict [expr {$failing ? "VIOLATED" : "MET"}]
        set rows [format "%11.3f  %11.3f  %21d  %19d  %11.3f  %11.3f  %21d  %19d  %11.3f  %11.3f  %22d  %20d  " \
            $slack [expr {$failing ? $slack : 0}] $failing 90210 0.031 0 0 90210 3.75 0 0 31337]
        write_file [option $given -file] "Copyright 1986-2022 Xilinx, Inc. All Rights Reserved.
| Tool Version : Vivado v.[release] (lin64) Build 4029153

Timing Summary Report

1. checking no_clock (0)
------------------------
 There are 0 register/latch pins with no clock.

------------------------------------------------------------------------------------------------
| Design Timing Summary
| ---------------------
------------------------------------------------------------------------------------------------

    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)      THS(ns)  THS Failing Endpoints  THS Total Endpoints     WPWS(ns)     TPWS(ns)  TPWS Failing Endpoints  TPWS Total Endpoints  
    -------      -------  ---------------------  -------------------      -------      -------  ---------------------  -------------------     --------     --------  ----------------------  --------------------  
$rows

Max Delay Paths
--------------------------------------------------------------------------------------
Slack ($verdict) :        ${slack}ns  (required time - arrival time)
  Source:                 system_i/tilewright_0/inst/gemm/array/product_reg\[3\]/C
                            (rising edge-triggered cell FDRE clocked by clk_fpga_0  {rise@0.000ns fall@5.000ns period=10.000ns})
  Destination:            system_i/tilewright_0/inst/memories/acc/bank_0/memory_reg/DIADI\[4\]
                            (rising edge-triggered cell RAMB36E1 clocked by clk_fpga_0  {rise@0.000ns fall@5.000ns period=10.000ns})
  Path Group:             clk_fpga_0
"
    }

    proc write_debug_probes {given} {
        need_design write_debug_probes
        write_file [first $given] "made-up probes\n"
    }

    proc report_utilization {given} {
        need_design report_utilization
        set rows ""
        set lut [expr {[string match xc7* [part]] ? "Slice" : "CLB"}]
        foreach {name used available} [list "$lut LUTs" 47012 53200 "  LUT as Logic" 40000 53200 "$lut Registers" 35210 106400 \
                "Block RAM Tile" 118.5 140 DSPs 194 220] {
            append rows "+-------------------------+-------+-------+------------+-----------+-------+
|        Site Type        |  Used | Fixed | Prohibited | Available | Util% |
+-------------------------+-------+-------+------------+-----------+-------+
[format "| %-23s | %5s |     0 |          0 | %9s | %5.2f |" $name $used $available [expr {100.0 * $used / $available}]]
+-------------------------+-------+-------+------------+-----------+-------+
"
        }
        write_file [option $given -file] "Utilization Design Information\n\n1. Slice Logic\n--------------\n\n$rows"
    }
}
