#include "worker/engine/cuda/cudnn/vendor.h"

#include <string>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "worker/engine/cuda/cudnn/shared_library.h"

namespace tern::engine::cuda {

namespace {

constexpr const char* kCublasLtName = "libcublasLt.so.13";
constexpr const char* kCudnnName = "libcudnn.so.9";
constexpr const char* kNvrtcName = "libnvrtc.so.13";

struct Vendor {
  Status status;
  Cudnn cudnn;
  CublasLt cublas_lt;
};

Status LoadCublasLt(const SharedLibrary& library, CublasLt* functions) {
#define TERN_FIND(name) TERN_RETURN_IF_ERROR(library.Find("cublasLt" #name, &functions->name));
  TERN_CUBLASLT_FUNCTIONS(TERN_FIND)
#undef TERN_FIND
  return Ok();
}

Status LoadCudnn(const SharedLibrary& library, Cudnn* functions) {
#define TERN_FIND(name) TERN_RETURN_IF_ERROR(library.Find("cudnn" #name, &functions->name));
  TERN_CUDNN_FUNCTIONS(TERN_FIND)
#undef TERN_FIND
  return Ok();
}

template <typename Functions>
Status Load(const char* name, Status (*load)(const SharedLibrary&, Functions*),
            Functions* functions) {
  const auto library = SharedLibrary::Open(name, NvidiaFolders());
  const Status status = library.ok() ? load(*library, functions) : library.status();
  if (status.ok()) return status;
  return Status(Code::kBadJob,
                Cat("workers.device is cuda, but ", name, " cannot be used (", status.message(),
                    "); install cuDNN 9 and cuBLAS for CUDA 13, or name their folder in "
                    "LD_LIBRARY_PATH, or set workers.device to cpu"));
}

// Opens NVRTC, without which cuDNN has fewer engines, and NVRTC's builtins, without which it
// compiles nothing: it opens them by their name, and the toolkit's does not look in its own folder.
void OpenNvrtc() {
  const auto nvrtc = SharedLibrary::Open(kNvrtcName, NvidiaFolders());
  int (*version)(int* major, int* minor) = nullptr;
  if (!nvrtc.ok() || !nvrtc->Find("nvrtcVersion", &version).ok()) return;
  int major = 0, minor = 0;
  if (version(&major, &minor) != 0) return;
  (void)SharedLibrary::Open(Cat("libnvrtc-builtins.so.", major, ".", minor), {nvrtc->Folder()});
}

Vendor Open() {
  Vendor vendor{Ok(), {}, {}};
  // cuDNN opens cuBLASLt and NVRTC by their names, and so finds those that are open.
  OpenNvrtc();
  vendor.status = Load(kCublasLtName, &LoadCublasLt, &vendor.cublas_lt);
  if (vendor.status.ok()) vendor.status = Load(kCudnnName, &LoadCudnn, &vendor.cudnn);
  return vendor;
}

const Vendor& TheVendor() {
  static const Vendor vendor = Open();
  return vendor;
}

}  // namespace

Status OpenVendorLibraries() { return TheVendor().status; }

const Cudnn& TheCudnn() {
  CHECK(TheVendor().status.ok()) << TheVendor().status.message();
  return TheVendor().cudnn;
}

const CublasLt& TheCublasLt() {
  CHECK(TheVendor().status.ok()) << TheVendor().status.message();
  return TheVendor().cublas_lt;
}

}  // namespace tern::engine::cuda
