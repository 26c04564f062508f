.config pynq-z2

.segment constants constant size=560 {
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    ; 36 micro-ops at byte 256
    .uop_gemm dst=0 src=0 wgt=0 accumulate=0
    .uop_gemm dst=0 src=1 wgt=1 accumulate=1
    .uop_gemm dst=0 src=2 wgt=2 accumulate=1
    .uop_gemm dst=0 src=3 wgt=3 accumulate=1
    .uop_gemm dst=0 src=4 wgt=4 accumulate=1
    .uop_gemm dst=0 src=5 wgt=5 accumulate=1
    .uop_gemm dst=0 src=68 wgt=6 accumulate=1
    .uop_gemm dst=0 src=69 wgt=7 accumulate=1
    .uop_gemm dst=0 src=70 wgt=8 accumulate=1
    .uop_gemm dst=0 src=71 wgt=9 accumulate=1
    .uop_gemm dst=0 src=72 wgt=10 accumulate=1
    .uop_gemm dst=0 src=73 wgt=11 accumulate=1
    .uop_gemm dst=0 src=136 wgt=12 accumulate=1
    .uop_gemm dst=0 src=137 wgt=13 accumulate=1
    .uop_gemm dst=0 src=138 wgt=14 accumulate=1
    .uop_gemm dst=0 src=139 wgt=15 accumulate=1
    .uop_gemm dst=0 src=140 wgt=16 accumulate=1
    .uop_gemm dst=0 src=141 wgt=17 accumulate=1
    .uop_gemm dst=1 src=0 wgt=18 accumulate=0
    .uop_gemm dst=1 src=1 wgt=19 accumulate=1
    .uop_gemm dst=1 src=2 wgt=20 accumulate=1
    .uop_gemm dst=1 src=3 wgt=21 accumulate=1
    .uop_gemm dst=1 src=4 wgt=22 accumulate=1
    .uop_gemm dst=1 src=5 wgt=23 accumulate=1
    .uop_gemm dst=1 src=68 wgt=24 accumulate=1
    .uop_gemm dst=1 src=69 wgt=25 accumulate=1
    .uop_gemm dst=1 src=70 wgt=26 accumulate=1
    .uop_gemm dst=1 src=71 wgt=27 accumulate=1
    .uop_gemm dst=1 src=72 wgt=28 accumulate=1
    .uop_gemm dst=1 src=73 wgt=29 accumulate=1
    .uop_gemm dst=1 src=136 wgt=30 accumulate=1
    .uop_gemm dst=1 src=137 wgt=31 accumulate=1
    .uop_gemm dst=1 src=138 wgt=32 accumulate=1
    .uop_gemm dst=1 src=139 wgt=33 accumulate=1
    .uop_gemm dst=1 src=140 wgt=34 accumulate=1
    .uop_gemm dst=1 src=141 wgt=35 accumulate=1
    ; 4 micro-ops at byte 544
    .uop_alu dst=0 src=0 prm=0
    .uop_alu dst=0 src=0 prm=0
    .uop_alu dst=0 src=0 prm=0
    .uop_alu dst=0 src=0 prm=0
}

.segment x input size=32768

.segment w input size=9216

.segment y output size=32768

.meta tensors {"x": {"dtype": "int8", "shape": [32, 32, 32]}, "w": {"dtype": "int8", "shape": [2, 9, 2, 16, 16]}, "y": {"dtype": "int8", "shape": [32, 32, 32]}}
.meta layers [{"name": "conv2d"}]

load prm sram_col=1 segment=constants                                                                ; 0
load wgt sram_col=1 cols=36 segment=w                                                                ; 1
fill act sram_col=1 cols=68 wrap_size=4096                                                           ; 2
fill act sram=2244 sram_col=1 cols=68 wrap_size=4096                                                 ; 3
fill act sram=66 sram_row=68 sram_col=1 rows=33 cols=4 wrap_size=4096                                ; 4
load act sram=70 sram_row=68 sram_col=1 rows=5 cols=64 wrap_size=4096 segment=x stride=64            ; 5
load uop_gemm sram_col=1 cols=36 segment=constants offset=16 push(gemm)                              ; 6
gemm uop_count=36 outer=4 inner=32 dst_outer=64 dst_inner=2 src_outer=68 src_inner=2 wrap_size=4096 pop(load) push(alu) ; 7
load uop_alu sram_col=1 cols=4 segment=constants offset=34 push(alu)                                 ; 8
requantize inner=256 dst=3072 dst_inner=1 src_inner=1 wrap_size=4096 hi=127 rounding=single pop(load,gemm) push(gemm,store) ; 9
store sram=3072 sram_col=1 cols=256 wrap_size=4096 segment=y pop(alu) push(alu)                      ; 10
load act sram=410 sram_row=68 sram_col=1 rows=4 cols=64 wrap_size=4096 segment=x offset=320 stride=64 push(gemm) ; 11
gemm uop_count=36 outer=4 inner=32 dst=512 dst_outer=64 dst_inner=2 src=272 src_outer=68 src_inner=2 wrap_size=4096 pop(load) push(alu) ; 12
requantize inner=256 dst=3328 dst_inner=1 src=512 src_inner=1 wrap_size=4096 hi=127 rounding=single pop(gemm) push(gemm,store) ; 13
store sram=3328 sram_col=1 cols=256 wrap_size=4096 segment=y offset=256 pop(alu) push(alu)           ; 14
load act sram=682 sram_row=68 sram_col=1 rows=4 cols=64 wrap_size=4096 segment=x offset=576 stride=64 push(gemm) ; 15
gemm uop_count=36 outer=4 inner=32 dst_outer=64 dst_inner=2 src=544 src_outer=68 src_inner=2 wrap_size=4096 pop(load,alu) push(alu) ; 16
requantize inner=256 dst=3072 dst_inner=1 src_inner=1 wrap_size=4096 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 17
store sram=3072 sram_col=1 cols=256 wrap_size=4096 segment=y offset=512 pop(alu) push(alu)           ; 18
load act sram=954 sram_row=68 sram_col=1 rows=4 cols=64 wrap_size=4096 segment=x offset=832 stride=64 push(gemm) ; 19
gemm uop_count=36 outer=4 inner=32 dst=512 dst_outer=64 dst_inner=2 src=816 src_outer=68 src_inner=2 wrap_size=4096 pop(load,alu) push(alu) ; 20
requantize inner=256 dst=3328 dst_inner=1 src=512 src_inner=1 wrap_size=4096 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 21
store sram=3328 sram_col=1 cols=256 wrap_size=4096 segment=y offset=768 pop(alu) push(alu)           ; 22
load act sram=1226 sram_row=68 sram_col=1 rows=4 cols=64 wrap_size=4096 segment=x offset=1088 stride=64 push(gemm) ; 23
gemm uop_count=36 outer=4 inner=32 dst_outer=64 dst_inner=2 src=1088 src_outer=68 src_inner=2 wrap_size=4096 pop(load,alu) push(alu) ; 24
requantize inner=256 dst=3072 dst_inner=1 src_inner=1 wrap_size=4096 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 25
store sram=3072 sram_col=1 cols=256 wrap_size=4096 segment=y offset=1024 pop(alu) push(alu)          ; 26
load act sram=1498 sram_row=68 sram_col=1 rows=4 cols=64 wrap_size=4096 segment=x offset=1344 stride=64 push(gemm) ; 27
gemm uop_count=36 outer=4 inner=32 dst=512 dst_outer=64 dst_inner=2 src=1360 src_outer=68 src_inner=2 wrap_size=4096 pop(load,alu) push(alu) ; 28
requantize inner=256 dst=3328 dst_inner=1 src=512 src_inner=1 wrap_size=4096 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 29
store sram=3328 sram_col=1 cols=256 wrap_size=4096 segment=y offset=1280 pop(alu) push(alu)          ; 30
load act sram=1770 sram_row=68 sram_col=1 rows=4 cols=64 wrap_size=4096 segment=x offset=1600 stride=64 push(gemm) ; 31
gemm uop_count=36 outer=4 inner=32 dst_outer=64 dst_inner=2 src=1632 src_outer=68 src_inner=2 wrap_size=4096 pop(load,alu) push(alu) ; 32
requantize inner=256 dst=3072 dst_inner=1 src_inner=1 wrap_size=4096 hi=127 rounding=single pop(gemm,store) push(store) ; 33
store sram=3072 sram_col=1 cols=256 wrap_size=4096 segment=y offset=1536 pop(alu)                    ; 34
load act sram=2042 sram_row=68 sram_col=1 rows=3 cols=64 wrap_size=4096 segment=x offset=1856 stride=64 push(gemm) ; 35
gemm uop_count=36 outer=4 inner=32 dst=512 dst_outer=64 dst_inner=2 src=1904 src_outer=68 src_inner=2 wrap_size=4096 pop(load,alu) push(alu) ; 36
requantize inner=256 dst=3328 dst_inner=1 src=512 src_inner=1 wrap_size=4096 hi=127 rounding=single pop(gemm,store) push(store) ; 37
store sram=3328 sram_col=1 cols=256 wrap_size=4096 segment=y offset=1792 pop(alu)                    ; 38
