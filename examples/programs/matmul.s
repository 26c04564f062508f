.config pynq-z2

.segment constants constant size=528 {
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    .hex 00000000 01000000 00000000 0a000000 00000000 01000000 00000000 0a000000
    ; 32 micro-ops at byte 256
    .uop_gemm dst=0 src=0 wgt=0 accumulate=0
    .uop_gemm dst=0 src=1 wgt=1 accumulate=1
    .uop_gemm dst=0 src=2 wgt=2 accumulate=1
    .uop_gemm dst=0 src=3 wgt=3 accumulate=1
    .uop_gemm dst=0 src=4 wgt=4 accumulate=1
    .uop_gemm dst=0 src=5 wgt=5 accumulate=1
    .uop_gemm dst=0 src=6 wgt=6 accumulate=1
    .uop_gemm dst=0 src=7 wgt=7 accumulate=1
    .uop_gemm dst=0 src=8 wgt=8 accumulate=1
    .uop_gemm dst=0 src=9 wgt=9 accumulate=1
    .uop_gemm dst=0 src=10 wgt=10 accumulate=1
    .uop_gemm dst=0 src=11 wgt=11 accumulate=1
    .uop_gemm dst=0 src=12 wgt=12 accumulate=1
    .uop_gemm dst=0 src=13 wgt=13 accumulate=1
    .uop_gemm dst=0 src=14 wgt=14 accumulate=1
    .uop_gemm dst=0 src=15 wgt=15 accumulate=1
    .uop_gemm dst=1 src=0 wgt=16 accumulate=0
    .uop_gemm dst=1 src=1 wgt=17 accumulate=1
    .uop_gemm dst=1 src=2 wgt=18 accumulate=1
    .uop_gemm dst=1 src=3 wgt=19 accumulate=1
    .uop_gemm dst=1 src=4 wgt=20 accumulate=1
    .uop_gemm dst=1 src=5 wgt=21 accumulate=1
    .uop_gemm dst=1 src=6 wgt=22 accumulate=1
    .uop_gemm dst=1 src=7 wgt=23 accumulate=1
    .uop_gemm dst=1 src=8 wgt=24 accumulate=1
    .uop_gemm dst=1 src=9 wgt=25 accumulate=1
    .uop_gemm dst=1 src=10 wgt=26 accumulate=1
    .uop_gemm dst=1 src=11 wgt=27 accumulate=1
    .uop_gemm dst=1 src=12 wgt=28 accumulate=1
    .uop_gemm dst=1 src=13 wgt=29 accumulate=1
    .uop_gemm dst=1 src=14 wgt=30 accumulate=1
    .uop_gemm dst=1 src=15 wgt=31 accumulate=1
    ; 4 micro-ops at byte 512
    .uop_alu dst=0 src=0 prm=0
    .uop_alu dst=0 src=0 prm=0
    .uop_alu dst=0 src=0 prm=0
    .uop_alu dst=0 src=0 prm=0
}

.segment a input size=65536

.segment b input size=65536

.segment c output size=65536

.meta tensors {"a": {"dtype": "int8", "shape": [256, 256]}, "b": {"dtype": "int8", "shape": [16, 16, 16, 16]}, "c": {"dtype": "int8", "shape": [256, 256]}}
.meta layers [{"name": "matrix multiply"}]

load prm sram_col=1 segment=constants                                                                ; 0
load wgt sram_col=1 cols=32 segment=b                                                                ; 1
load act sram_col=1 cols=512 wrap_size=4096 segment=a                                                ; 2
load uop_gemm sram_col=1 cols=32 segment=constants offset=16 push(gemm)                              ; 3
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load) push(load,alu)          ; 4
load uop_alu sram_col=1 cols=4 segment=constants offset=32 push(alu)                                 ; 5
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(load,gemm) push(gemm,store) ; 6
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c stride=16 pop(alu) push(alu) ; 7
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=512 push(gemm)                ; 8
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load) push(load,alu) ; 9
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm) push(gemm,store) ; 10
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=512 stride=16 pop(alu) push(alu) ; 11
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=1024 pop(gemm) push(gemm)               ; 12
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 13
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 14
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1024 stride=16 pop(alu) push(alu) ; 15
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=1536 pop(gemm) push(gemm)     ; 16
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 17
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 18
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1536 stride=16 pop(alu) push(alu) ; 19
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=2048 pop(gemm) push(gemm)               ; 20
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 21
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 22
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2048 stride=16 pop(alu) push(alu) ; 23
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=2560 pop(gemm) push(gemm)     ; 24
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 25
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 26
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2560 stride=16 pop(alu) push(alu) ; 27
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=3072 pop(gemm) push(gemm)               ; 28
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 29
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 30
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3072 stride=16 pop(alu) push(alu) ; 31
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=3584 pop(gemm) push(gemm)     ; 32
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 33
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 34
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3584 stride=16 pop(alu) push(alu) ; 35
load wgt sram=32 sram_col=1 cols=32 segment=b offset=512                                             ; 36
load act sram_col=1 cols=512 wrap_size=4096 segment=a pop(gemm) push(gemm)                           ; 37
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 38
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 39
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2 stride=16 pop(alu) push(alu) ; 40
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=512 pop(gemm) push(gemm)      ; 41
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 42
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 43
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=514 stride=16 pop(alu) push(alu) ; 44
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=1024 pop(gemm) push(gemm)               ; 45
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 46
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 47
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1026 stride=16 pop(alu) push(alu) ; 48
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=1536 pop(gemm) push(gemm)     ; 49
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 50
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 51
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1538 stride=16 pop(alu) push(alu) ; 52
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=2048 pop(gemm) push(gemm)               ; 53
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 54
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 55
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2050 stride=16 pop(alu) push(alu) ; 56
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=2560 pop(gemm) push(gemm)     ; 57
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 58
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 59
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2562 stride=16 pop(alu) push(alu) ; 60
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=3072 pop(gemm) push(gemm)               ; 61
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 62
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 63
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3074 stride=16 pop(alu) push(alu) ; 64
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=3584 pop(gemm) push(gemm)     ; 65
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 66
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 67
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3586 stride=16 pop(alu) push(alu) ; 68
load wgt sram_col=1 cols=32 segment=b offset=1024                                                    ; 69
load act sram_col=1 cols=512 wrap_size=4096 segment=a pop(gemm) push(gemm)                           ; 70
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 71
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 72
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=4 stride=16 pop(alu) push(alu) ; 73
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=512 pop(gemm) push(gemm)      ; 74
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 75
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 76
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=516 stride=16 pop(alu) push(alu) ; 77
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=1024 pop(gemm) push(gemm)               ; 78
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 79
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 80
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1028 stride=16 pop(alu) push(alu) ; 81
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=1536 pop(gemm) push(gemm)     ; 82
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 83
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 84
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1540 stride=16 pop(alu) push(alu) ; 85
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=2048 pop(gemm) push(gemm)               ; 86
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 87
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 88
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2052 stride=16 pop(alu) push(alu) ; 89
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=2560 pop(gemm) push(gemm)     ; 90
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 91
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 92
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2564 stride=16 pop(alu) push(alu) ; 93
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=3072 pop(gemm) push(gemm)               ; 94
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 95
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 96
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3076 stride=16 pop(alu) push(alu) ; 97
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=3584 pop(gemm) push(gemm)     ; 98
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 99
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 100
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3588 stride=16 pop(alu) push(alu) ; 101
load wgt sram=32 sram_col=1 cols=32 segment=b offset=1536                                            ; 102
load act sram_col=1 cols=512 wrap_size=4096 segment=a pop(gemm) push(gemm)                           ; 103
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 104
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 105
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=6 stride=16 pop(alu) push(alu) ; 106
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=512 pop(gemm) push(gemm)      ; 107
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 108
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 109
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=518 stride=16 pop(alu) push(alu) ; 110
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=1024 pop(gemm) push(gemm)               ; 111
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 112
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 113
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1030 stride=16 pop(alu) push(alu) ; 114
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=1536 pop(gemm) push(gemm)     ; 115
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 116
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 117
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1542 stride=16 pop(alu) push(alu) ; 118
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=2048 pop(gemm) push(gemm)               ; 119
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 120
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 121
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2054 stride=16 pop(alu) push(alu) ; 122
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=2560 pop(gemm) push(gemm)     ; 123
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 124
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 125
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2566 stride=16 pop(alu) push(alu) ; 126
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=3072 pop(gemm) push(gemm)               ; 127
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 128
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 129
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3078 stride=16 pop(alu) push(alu) ; 130
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=3584 pop(gemm) push(gemm)     ; 131
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 132
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 133
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3590 stride=16 pop(alu) push(alu) ; 134
load wgt sram_col=1 cols=32 segment=b offset=2048                                                    ; 135
load act sram_col=1 cols=512 wrap_size=4096 segment=a pop(gemm) push(gemm)                           ; 136
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 137
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 138
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=8 stride=16 pop(alu) push(alu) ; 139
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=512 pop(gemm) push(gemm)      ; 140
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 141
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 142
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=520 stride=16 pop(alu) push(alu) ; 143
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=1024 pop(gemm) push(gemm)               ; 144
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 145
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 146
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1032 stride=16 pop(alu) push(alu) ; 147
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=1536 pop(gemm) push(gemm)     ; 148
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 149
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 150
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1544 stride=16 pop(alu) push(alu) ; 151
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=2048 pop(gemm) push(gemm)               ; 152
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 153
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 154
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2056 stride=16 pop(alu) push(alu) ; 155
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=2560 pop(gemm) push(gemm)     ; 156
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 157
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 158
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2568 stride=16 pop(alu) push(alu) ; 159
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=3072 pop(gemm) push(gemm)               ; 160
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 161
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 162
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3080 stride=16 pop(alu) push(alu) ; 163
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=3584 pop(gemm) push(gemm)     ; 164
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 165
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 166
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3592 stride=16 pop(alu) push(alu) ; 167
load wgt sram=32 sram_col=1 cols=32 segment=b offset=2560                                            ; 168
load act sram_col=1 cols=512 wrap_size=4096 segment=a pop(gemm) push(gemm)                           ; 169
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 170
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 171
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=10 stride=16 pop(alu) push(alu) ; 172
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=512 pop(gemm) push(gemm)      ; 173
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 174
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 175
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=522 stride=16 pop(alu) push(alu) ; 176
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=1024 pop(gemm) push(gemm)               ; 177
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 178
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 179
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1034 stride=16 pop(alu) push(alu) ; 180
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=1536 pop(gemm) push(gemm)     ; 181
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 182
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 183
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1546 stride=16 pop(alu) push(alu) ; 184
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=2048 pop(gemm) push(gemm)               ; 185
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 186
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 187
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2058 stride=16 pop(alu) push(alu) ; 188
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=2560 pop(gemm) push(gemm)     ; 189
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 190
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 191
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2570 stride=16 pop(alu) push(alu) ; 192
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=3072 pop(gemm) push(gemm)               ; 193
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 194
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 195
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3082 stride=16 pop(alu) push(alu) ; 196
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=3584 pop(gemm) push(gemm)     ; 197
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 198
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 199
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3594 stride=16 pop(alu) push(alu) ; 200
load wgt sram_col=1 cols=32 segment=b offset=3072                                                    ; 201
load act sram_col=1 cols=512 wrap_size=4096 segment=a pop(gemm) push(gemm)                           ; 202
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 203
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 204
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=12 stride=16 pop(alu) push(alu) ; 205
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=512 pop(gemm) push(gemm)      ; 206
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 207
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 208
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=524 stride=16 pop(alu) push(alu) ; 209
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=1024 pop(gemm) push(gemm)               ; 210
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 211
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 212
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1036 stride=16 pop(alu) push(alu) ; 213
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=1536 pop(gemm) push(gemm)     ; 214
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 215
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 216
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1548 stride=16 pop(alu) push(alu) ; 217
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=2048 pop(gemm) push(gemm)               ; 218
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 219
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 220
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2060 stride=16 pop(alu) push(alu) ; 221
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=2560 pop(gemm) push(gemm)     ; 222
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 223
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 224
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2572 stride=16 pop(alu) push(alu) ; 225
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=3072 pop(gemm) push(gemm)               ; 226
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu)      ; 227
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 228
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3084 stride=16 pop(alu) push(alu) ; 229
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=3584 pop(gemm) push(gemm)     ; 230
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wrap_size=4096 pop(load,alu) push(load,alu) ; 231
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 232
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3596 stride=16 pop(alu) push(alu) ; 233
load wgt sram=32 sram_col=1 cols=32 segment=b offset=3584                                            ; 234
load act sram_col=1 cols=512 wrap_size=4096 segment=a pop(gemm) push(gemm)                           ; 235
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 236
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 237
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=14 stride=16 pop(alu) push(alu) ; 238
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=512 pop(gemm) push(gemm)      ; 239
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 240
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 241
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=526 stride=16 pop(alu) push(alu) ; 242
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=1024 pop(gemm) push(gemm)               ; 243
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 244
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 245
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1038 stride=16 pop(alu) push(alu) ; 246
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=1536 pop(gemm) push(gemm)     ; 247
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 248
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 249
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=1550 stride=16 pop(alu) push(alu) ; 250
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=2048 pop(gemm) push(gemm)               ; 251
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 252
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 253
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2062 stride=16 pop(alu) push(alu) ; 254
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=2560 pop(gemm) push(gemm)     ; 255
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(load,alu) ; 256
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(gemm,store) ; 257
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=2574 stride=16 pop(alu) push(alu) ; 258
load act sram_col=1 cols=512 wrap_size=4096 segment=a offset=3072 pop(gemm) push(gemm)               ; 259
gemm uop_count=32 inner=32 dst_inner=2 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(alu)    ; 260
requantize inner=64 dst=2048 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(store) ; 261
store sram=2048 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3086 stride=16 pop(alu) ; 262
load act sram=1024 sram_col=1 cols=512 wrap_size=4096 segment=a offset=3584 pop(gemm) push(gemm)     ; 263
gemm uop_count=32 inner=32 dst=512 dst_inner=2 src=1024 src_inner=16 wgt=32 wrap_size=4096 pop(load,alu) push(alu) ; 264
requantize inner=64 dst=3072 dst_inner=1 src=512 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(gemm,store) push(store) ; 265
store sram=3072 sram_row=2 sram_col=1 rows=32 cols=2 wrap_size=4096 segment=c offset=3598 stride=16 pop(alu) ; 266
