// TERN_HOST_DEVICE marks functions that are compiled for the CPU and, in .cu files, also for the
// GPU. So tests can run the code of a GPU kernel without a GPU.
#pragma once

#ifdef __CUDACC__
#define TERN_HOST_DEVICE __host__ __device__ inline
#else
#define TERN_HOST_DEVICE inline
#endif
