# Compiles for an old glibc, and for either processor, with the compiler in the Python package `ziglang`. zig.sh sets the environment.
set(CMAKE_C_COMPILER $ENV{CREMA_ZIG}/zig-cc)
set(CMAKE_CXX_COMPILER $ENV{CREMA_ZIG}/zig-c++)
set(CMAKE_AR $ENV{CREMA_ZIG}/zig-ar)
set(CMAKE_RANLIB $ENV{CREMA_ZIG}/zig-ranlib)
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# The libraries are our own, and archives: what they need themselves is asked for too.
set(CMAKE_PREFIX_PATH $ENV{CREMA_PREFIX})
set(CMAKE_FIND_ROOT_PATH $ENV{CREMA_PREFIX})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(PKG_CONFIG_ARGN --static)
set(HDF5_USE_STATIC_LIBRARIES ON)
set(CMAKE_C_STANDARD_LIBRARIES "$ENV{CREMA_PREFIX}/lib/libz.a -ldl") # HDF5 does not say that it needs them

# What is asked by running a program (libzmq's fast paths, HDF5's types of numbers) is asked, not guessed: under qemu.
if(NOT "$ENV{CREMA_TARGET}" STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
    set(CMAKE_SYSTEM_NAME Linux)
    set(CMAKE_SYSTEM_PROCESSOR $ENV{CREMA_TARGET})
    set(CMAKE_CROSSCOMPILING_EMULATOR $ENV{CREMA_EMULATOR})
endif()
