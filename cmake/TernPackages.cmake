# Every library from outside. All are Debian 12 packages: scripts/install_deps.sh names them.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(gflags REQUIRED)
find_package(glog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(hwy REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenMP REQUIRED)
pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)

# oneDNN's own package file asks for the headers of OpenCL, which Tern does not use.
find_library(TERN_DNNL_LIBRARY dnnl REQUIRED)
find_path(TERN_DNNL_INCLUDE dnnl.hpp REQUIRED)
add_library(DNNL::dnnl SHARED IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${TERN_DNNL_LIBRARY}
                                            INTERFACE_INCLUDE_DIRECTORIES ${TERN_DNNL_INCLUDE})

if(TERN_CUDA)
  # The CUDA side comes with a later issue; today the preset only tells whether its tools are here.
  find_package(CUDAToolkit)
  if(CUDAToolkit_FOUND)
    find_path(TERN_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    message(STATUS "CUDA ${CUDAToolkit_VERSION} found; cuDNN header: ${TERN_CUDNN_INCLUDE}")
  else()
    message(STATUS "CUDA toolkit not found: building the CPU side only")
  endif()
endif()
