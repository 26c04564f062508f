.config pynq-z2

.segment constants constant size=272 {
    .hex 00000000 01000000 00000000 00000000 00000000 01000000 00000000 00000000
    .hex 00000000 01000000 00000000 00000000 00000000 01000000 00000000 00000000
    .hex 00000000 01000000 00000000 00000000 00000000 01000000 00000000 00000000
    .hex 00000000 01000000 00000000 00000000 00000000 01000000 00000000 00000000
    .hex 00000000 01000000 00000000 00000000 00000000 01000000 00000000 00000000
    .hex 00000000 01000000 00000000 00000000 00000000 01000000 00000000 00000000
    .hex 00000000 01000000 00000000 00000000 00000000 01000000 00000000 00000000
    .hex 00000000 01000000 00000000 00000000 00000000 01000000 00000000 00000000
    ; 4 micro-ops at byte 256
    .uop_alu dst=0 src=0 prm=0
    .uop_alu dst=0 src=0 prm=0
    .uop_alu dst=0 src=0 prm=0
    .uop_alu dst=0 src=0 prm=0
}

.segment a input size=65536

.segment b input size=65536

.segment c output size=65536

.meta tensors {"a": {"dtype": "int8", "shape": [65536]}, "b": {"dtype": "int8", "shape": [65536]}, "c": {"dtype": "int8", "shape": [65536]}}
.meta layers [{"name": "vector add"}]

load prm sram_col=1 segment=constants                                                                ; 0
load acc8 sram=512 sram_col=1 cols=128 segment=b                                                     ; 1
load acc8 sram_col=1 cols=128 segment=a                                                              ; 2
load uop_alu sram_col=1 cols=4 segment=constants offset=16 push(alu)                                 ; 3
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 4
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single push(load,store) ; 5
store sram_col=1 cols=128 wrap_size=4096 segment=c pop(alu) push(alu)                                ; 6
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=128                                         ; 7
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=128 push(alu)                               ; 8
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 9
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single push(load,store) ; 10
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=128 pop(alu) push(alu)           ; 11
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=256 pop(alu)                                 ; 12
load acc8 sram_col=1 cols=128 segment=a offset=256 pop(alu) push(alu)                                ; 13
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 14
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 15
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=256 pop(alu) push(alu)                     ; 16
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=384 pop(alu)                                ; 17
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=384 pop(alu) push(alu)                      ; 18
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 19
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 20
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=384 pop(alu) push(alu)           ; 21
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=512 pop(alu)                                 ; 22
load acc8 sram_col=1 cols=128 segment=a offset=512 pop(alu) push(alu)                                ; 23
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 24
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 25
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=512 pop(alu) push(alu)                     ; 26
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=640 pop(alu)                                ; 27
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=640 pop(alu) push(alu)                      ; 28
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 29
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 30
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=640 pop(alu) push(alu)           ; 31
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=768 pop(alu)                                 ; 32
load acc8 sram_col=1 cols=128 segment=a offset=768 pop(alu) push(alu)                                ; 33
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 34
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 35
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=768 pop(alu) push(alu)                     ; 36
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=896 pop(alu)                                ; 37
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=896 pop(alu) push(alu)                      ; 38
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 39
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 40
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=896 pop(alu) push(alu)           ; 41
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=1024 pop(alu)                                ; 42
load acc8 sram_col=1 cols=128 segment=a offset=1024 pop(alu) push(alu)                               ; 43
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 44
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 45
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=1024 pop(alu) push(alu)                    ; 46
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=1152 pop(alu)                               ; 47
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=1152 pop(alu) push(alu)                     ; 48
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 49
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 50
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=1152 pop(alu) push(alu)          ; 51
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=1280 pop(alu)                                ; 52
load acc8 sram_col=1 cols=128 segment=a offset=1280 pop(alu) push(alu)                               ; 53
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 54
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 55
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=1280 pop(alu) push(alu)                    ; 56
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=1408 pop(alu)                               ; 57
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=1408 pop(alu) push(alu)                     ; 58
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 59
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 60
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=1408 pop(alu) push(alu)          ; 61
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=1536 pop(alu)                                ; 62
load acc8 sram_col=1 cols=128 segment=a offset=1536 pop(alu) push(alu)                               ; 63
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 64
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 65
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=1536 pop(alu) push(alu)                    ; 66
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=1664 pop(alu)                               ; 67
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=1664 pop(alu) push(alu)                     ; 68
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 69
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 70
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=1664 pop(alu) push(alu)          ; 71
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=1792 pop(alu)                                ; 72
load acc8 sram_col=1 cols=128 segment=a offset=1792 pop(alu) push(alu)                               ; 73
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 74
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 75
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=1792 pop(alu) push(alu)                    ; 76
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=1920 pop(alu)                               ; 77
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=1920 pop(alu) push(alu)                     ; 78
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 79
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 80
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=1920 pop(alu) push(alu)          ; 81
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=2048 pop(alu)                                ; 82
load acc8 sram_col=1 cols=128 segment=a offset=2048 pop(alu) push(alu)                               ; 83
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 84
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 85
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=2048 pop(alu) push(alu)                    ; 86
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=2176 pop(alu)                               ; 87
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=2176 pop(alu) push(alu)                     ; 88
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 89
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 90
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=2176 pop(alu) push(alu)          ; 91
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=2304 pop(alu)                                ; 92
load acc8 sram_col=1 cols=128 segment=a offset=2304 pop(alu) push(alu)                               ; 93
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 94
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 95
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=2304 pop(alu) push(alu)                    ; 96
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=2432 pop(alu)                               ; 97
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=2432 pop(alu) push(alu)                     ; 98
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 99
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 100
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=2432 pop(alu) push(alu)          ; 101
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=2560 pop(alu)                                ; 102
load acc8 sram_col=1 cols=128 segment=a offset=2560 pop(alu) push(alu)                               ; 103
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 104
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 105
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=2560 pop(alu) push(alu)                    ; 106
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=2688 pop(alu)                               ; 107
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=2688 pop(alu) push(alu)                     ; 108
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 109
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 110
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=2688 pop(alu) push(alu)          ; 111
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=2816 pop(alu)                                ; 112
load acc8 sram_col=1 cols=128 segment=a offset=2816 pop(alu) push(alu)                               ; 113
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 114
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 115
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=2816 pop(alu) push(alu)                    ; 116
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=2944 pop(alu)                               ; 117
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=2944 pop(alu) push(alu)                     ; 118
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 119
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 120
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=2944 pop(alu) push(alu)          ; 121
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=3072 pop(alu)                                ; 122
load acc8 sram_col=1 cols=128 segment=a offset=3072 pop(alu) push(alu)                               ; 123
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 124
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 125
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=3072 pop(alu) push(alu)                    ; 126
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=3200 pop(alu)                               ; 127
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=3200 pop(alu) push(alu)                     ; 128
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 129
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 130
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=3200 pop(alu) push(alu)          ; 131
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=3328 pop(alu)                                ; 132
load acc8 sram_col=1 cols=128 segment=a offset=3328 pop(alu) push(alu)                               ; 133
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 134
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 135
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=3328 pop(alu) push(alu)                    ; 136
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=3456 pop(alu)                               ; 137
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=3456 pop(alu) push(alu)                     ; 138
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 139
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 140
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=3456 pop(alu) push(alu)          ; 141
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=3584 pop(alu)                                ; 142
load acc8 sram_col=1 cols=128 segment=a offset=3584 pop(alu) push(alu)                               ; 143
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load) push(load)                               ; 144
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 145
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=3584 pop(alu) push(alu)                    ; 146
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=3712 pop(alu)                               ; 147
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=3712 pop(alu) push(alu)                     ; 148
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load) push(load)                     ; 149
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(load,store) ; 150
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=3712 pop(alu) push(alu)          ; 151
load acc8 sram=512 sram_col=1 cols=128 segment=b offset=3840 pop(alu)                                ; 152
load acc8 sram_col=1 cols=128 segment=a offset=3840 pop(alu) push(alu)                               ; 153
alu add inner=128 dst_inner=1 src=512 src_inner=1 pop(load)                                          ; 154
requantize inner=128 dst_inner=1 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(store) ; 155
store sram_col=1 cols=128 wrap_size=4096 segment=c offset=3840 pop(alu)                              ; 156
load acc8 sram=1536 sram_col=1 cols=128 segment=b offset=3968 pop(alu)                               ; 157
load acc8 sram=1024 sram_col=1 cols=128 segment=a offset=3968 pop(alu) push(alu)                     ; 158
alu add inner=128 dst=1024 dst_inner=1 src=1536 src_inner=1 pop(load)                                ; 159
requantize inner=128 dst=1024 dst_inner=1 src=1024 src_inner=1 wrap_size=4096 lo=-128 hi=127 rounding=single pop(store) push(store) ; 160
store sram=1024 sram_col=1 cols=128 wrap_size=4096 segment=c offset=3968 pop(alu)                    ; 161
