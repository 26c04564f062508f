# Commands that the stub knows: flags, options with a value, least and most positional arguments.
# Sources: UG835 (Vivado Tcl commands), UG1118 (ipx), UG994 (IP integrator), UG1399 (Vitis HLS).
# -quiet and -verbose are options of every Vivado command.

set vivado_commands {
    add_files            {{-norecurse -copy_to -force}            {-fileset -scan_for_includes}          1 1}
    apply_bd_automation  {{}                                      {-rule -config}                        1 1}
    assign_bd_address    {{-force -import_from_file}              {-offset -range -target_address_space} 0 1}
    close_design         {{}                                      {}                                     0 0}
    close_project        {{-delete}                               {}                                     0 0}
    connect_bd_intf_net  {{-boundary_type}                        {-intf_net}                            2 2}
    connect_bd_net       {{}                                      {-net}                                 2 9}
    create_bd_cell       {{}                                      {-type -vlnv -reference}               1 1}
    create_bd_design     {{}                                      {-dir}                                 1 1}
    create_run           {{}                                      {-parent_run -flow -strategy -part -constrset -name} 1 1}
    create_project       {{-force -in_memory -ip -rtl_kernel}     {-part}                                0 2}
    current_fileset      {{-constrset -simset -srcset}            {}                                     0 1}
    current_project      {{}                                      {}                                     0 1}
    generate_target      {{-force}                                {}                                     2 2}
    get_bd_addr_segs     {{-addressed -addressing -excluded -hierarchical -regexp} {-filter -of_objects} 0 1}
    get_bd_addr_spaces   {{-hierarchical -regexp}                 {-filter -of_objects}                  0 1}
    get_bd_cells         {{-hierarchical -regexp}                 {-filter -of_objects}                  0 1}
    get_bd_intf_nets     {{-hierarchical -regexp}                 {-filter -of_objects}                  0 1}
    get_bd_intf_pins     {{-hierarchical -regexp}                 {-filter -of_objects}                  0 1}
    get_bd_pins          {{-hierarchical -regexp}                 {-filter -of_objects}                  0 1}
    get_board_parts      {{-latest_file_version -latest_hw_revision -regexp} {-filter -of_objects}       0 1}
    get_files            {{-all -norecurse -regexp}               {-filter -of_objects}                  0 1}
    get_ipdefs           {{-all -regexp -nocase}                  {-filter -of_objects}                  0 1}
    get_property         {{-min -max}                             {}                                     2 2}
    get_runs             {{-regexp}                               {-filter}                              0 1}
    get_timing_paths     {{-unique_pins}                          {-delay_type -max_paths -nworst -from -to -slack_lesser_than -group} 0 1}
    launch_runs          {{-force -next_step -scripts_only}       {-jobs -to_step -dir -host}            1 1}
    make_wrapper         {{-top -import -testbench}               {-files -fileset}                      0 1}
    open_run             {{}                                      {-name}                                1 1}
    report_timing_summary {{-no_detailed_paths -report_unconstrained -warn_on_violation -return_string} {-file -max_paths -delay_type -nworst -name -rpx} 0 0}
    report_utilization   {{-append -hierarchical -return_string}  {-file -name -cells -pblocks}          0 0}
    save_bd_design       {{}                                      {}                                     0 1}
    set_property         {{}                                      {-dict -name -value -objects}          0 3}
    update_compile_order {{-force_gui}                            {-fileset}                             0 0}
    update_ip_catalog    {{-rebuild}                              {-repo_path -add_ip -delete_ip}        0 0}
    validate_bd_design   {{-force -design_check}                  {}                                     0 1}
    version              {{-short}                                {}                                     0 0}
    write_debug_probes   {{-force -no_partial_ltxfile}            {-cell}                                1 1}
    wait_on_run          {{}                                      {-timeout}                             1 1}
    ipx::add_address_block        {{} {} 2 2}
    ipx::add_bus_parameter        {{} {} 2 2}
    ipx::add_memory_map           {{} {} 2 2}
    ipx::associate_bus_interfaces {{-remove} {-busif -clock -reset} 1 1}
    ipx::check_integrity          {{-xrt} {} 0 1}
    ipx::create_xgui_files        {{} {-logo_file} 0 1}
    ipx::current_core             {{} {} 0 1}
    ipx::get_address_blocks       {{-regexp} {-of_objects -filter} 0 1}
    ipx::get_bus_interfaces       {{-regexp} {-of_objects -filter} 0 1}
    ipx::get_bus_parameters       {{-regexp} {-of_objects -filter} 0 1}
    ipx::get_memory_maps          {{-regexp} {-of_objects -filter} 0 1}
    ipx::infer_bus_interface      {{} {} 3 3}
    ipx::package_project          {{-import_files -force -generated_files -force_update_compile_order} {-root_dir -vendor -library -taxonomy -set_current -module -version -name} 0 1}
    ipx::save_core                {{} {} 0 1}
    ipx::update_checksums         {{} {} 0 1}
}

set hls_commands {
    add_files        {{-tb -blackbox}     {-cflags -csimflags}                1 1}
    close_project    {{}                  {}                                  0 0}
    create_clock     {{}                  {-name -period}                     0 1}
    csynth_design    {{-dump_cfg -dump_post_cfg -synthesis_check} {}          0 0}
    open_project     {{-reset -upgrade}   {-ide}                              1 1}
    open_solution    {{-reset}            {-flow_target}                      1 1}
    set_part         {{}                  {}                                  1 1}
    set_top          {{}                  {}                                  1 1}
}

# Properties that may be read or set, by kind of object; a bus parameter's, a core's and others are lower case in
# UG1118 and not case sensitive.
set properties {
    project  {part board_part ip_repo_paths target_language directory name}
    fileset  {top name}
    run      {strategy status progress directory name flow stats.wns stats.whs
              steps.phys_opt_design.is_enabled steps.post_route_phys_opt_design.is_enabled}
    path     {slack}
    core     {name vendor library version display_name description}
    bus      {name slave_memory_map_ref}
    param    {value name}
    map      {name}
    block    {range usage width base_address access}
}

# Strategies of implementation (UG904).
set strategies {
    {Vivado Implementation Defaults} Performance_Explore Performance_ExplorePostRoutePhysOpt
    Performance_WLBlockPlacement Performance_NetDelay_high Performance_NetDelay_low Performance_Retiming
    Performance_ExtraTimingOpt Performance_RefinePlacement Congestion_SpreadLogic_high Congestion_SpreadLogic_medium
    Congestion_SpreadLogic_low Area_Explore Flow_RunPhysOpt Flow_RunPostRoutePhysOpt
}
