// What doorbells ask of the kernels where there are several cores: ports of dispatch, LOAD and STORE.
//
// Dispatch tells whom a WAIT hears ahead of the WAIT itself (`hear`). Whoever stands between the cores answers in that
// order, once a doorbell of each is there (`heard`), and LOAD waits for the answer. STORE tells whom it rings at
// (`ring`). LOAD does not ask itself: a tool may do a write and the read behind it in one state, where neither goes
// without the other.
#pragma once
#include "types.hpp"

// A kernel's ports are parameters of its own: with one core this one is not there, nor the argument.
#if TW_CORES == 1
#define TW_BELLS(stream)
#else
#define TW_BELLS(stream) stream,
#endif
