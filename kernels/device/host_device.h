// Functions that CPU and GPU compile from the same lines, so that tests need no GPU.
#pragma once

#ifdef __CUDACC__
#define TERN_HOST_DEVICE __host__ __device__ inline
#else
#define TERN_HOST_DEVICE inline
#endif
