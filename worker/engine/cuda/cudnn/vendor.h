// The functions of cuDNN and cuBLASLt that Tern calls. Both libraries are opened when the first net
// for a GPU is made, so that the programs also start where they are missing. Internal to this
// folder.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include "common/base/status.h"

#define TERN_CUDNN_FUNCTIONS(F) \
  F(Create)                     \
  F(Destroy)                    \
  F(SetStream)                  \
  F(GetVersion)                 \
  F(GetErrorString)             \
  F(GetLastErrorString)         \
  F(BackendCreateDescriptor)    \
  F(BackendDestroyDescriptor)   \
  F(BackendSetAttribute)        \
  F(BackendGetAttribute)        \
  F(BackendFinalize)            \
  F(BackendExecute)

#define TERN_CUBLASLT_FUNCTIONS(F) \
  F(Create)                        \
  F(Destroy)                       \
  F(GetStatusString)               \
  F(Matmul)                        \
  F(MatmulAlgoGetHeuristic)        \
  F(MatmulDescCreate)              \
  F(MatmulDescDestroy)             \
  F(MatmulDescSetAttribute)        \
  F(MatmulPreferenceCreate)        \
  F(MatmulPreferenceDestroy)       \
  F(MatmulPreferenceSetAttribute)  \
  F(MatrixLayoutCreate)            \
  F(MatrixLayoutDestroy)

namespace tern::engine::cuda {

// cudnn.Create is cudnnCreate, and so on.
struct Cudnn {
#define TERN_MEMBER(name) decltype(&cudnn##name) name = nullptr;
  TERN_CUDNN_FUNCTIONS(TERN_MEMBER)
#undef TERN_MEMBER
};

struct CublasLt {
#define TERN_MEMBER(name) decltype(&cublasLt##name) name = nullptr;
  TERN_CUBLASLT_FUNCTIONS(TERN_MEMBER)
#undef TERN_MEMBER
};

// Opens both libraries, once a process. kBadJob with a sentence that names the one that is missing.
// Any thread may call it.
Status OpenVendorLibraries();
// REQUIRE that OpenVendorLibraries has returned Ok.
const Cudnn& TheCudnn();
const CublasLt& TheCublasLt();

}  // namespace tern::engine::cuda
