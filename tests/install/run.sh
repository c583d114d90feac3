#!/bin/sh
# run.sh BUILD: installs into a folder of its own and builds a program against it, once by pkg-config and once by
# CMake, and one in C++. Proves that the shared library, the headers and both descriptions fit together.
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" > "$work/log" || { cat "$work/log"; exit 1; }
"$work/prefix/bin/sereno" --version

# The files were configured for another prefix; pkg-config can be told.
export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig:$(ls -d "$work"/prefix/lib/*/pkgconfig 2> /dev/null || true)"
library=$(dirname "$(ls "$work"/prefix/lib/libsereno.so "$work"/prefix/lib/*/libsereno.so 2> /dev/null | head -n 1)")
export LD_LIBRARY_PATH="$library"

flags=$(pkg-config --define-variable=prefix="$work/prefix" --cflags --libs sereno)
# shellcheck disable=SC2086 # the flags are words
cc -std=c17 -Wall -Wextra -pedantic -Werror "$here/consumer.c" -o "$work/by-pkg-config" $flags
"$work/by-pkg-config"

# Only public symbols are visible, and each is one that a public header declares.
symbols=$(nm -D --defined-only "$library/libsereno.so" | awk '$2 ~ /[TDBR]/ {print $3}')
if echo "$symbols" | grep -v '^sereno_'; then
    echo "these symbols should be hidden" >&2
    exit 1
fi
for symbol in $symbols; do
    echo "reinterpret_cast<any_function>($symbol),"
done > "$work/symbols.inc"
# shellcheck disable=SC2086 # the flags are words
c++ -std=c++17 -Wall -Wextra -pedantic -Werror -I"$work" "$here/consumer.cc" -o "$work/in-c++" $flags -pthread
"$work/in-c++"

# The examples. Those of the governor alone, in engines of others, need nothing but the language's own libraries.
flags() { pkg-config --define-variable=prefix="$work/prefix" --cflags --libs "$1"; }
examples=$here/../../examples
# shellcheck disable=SC2046
cc -std=c17 -Wall -Wextra -Werror "$examples/govern_yours.c" -o "$work/govern_yours" $(flags sereno-governor)
# shellcheck disable=SC2046
c++ -std=c++17 -Wall -Wextra -Werror "$examples/govern_yours.cpp" -o "$work/govern_yours_cpp" $(flags sereno-governor)
# shellcheck disable=SC2046
cc -std=c17 -Wall -Wextra -Werror "$examples/frame_hints.c" -o "$work/frame_hints" $(flags sereno)
for example in govern_yours govern_yours_cpp frame_hints; do "$work/$example"; done
# shellcheck disable=SC2046
cc -std=c17 -Wall -Wextra -Werror "$examples/embed.c" -o "$work/embed" $(flags sereno)
"$build/make-random-model" tiny q4_0 "$work/tiny.gguf"
[ -n "$("$work/embed" "$work/tiny.gguf" "Why?")" ]
interface=$(sed -n '/Its interface is/,/^$/p' "$here/../../docs/ARCHITECTURE.md" | grep -o '[a-z]*\.h')
# shellcheck disable=SC2046
for header in $(cc -std=c17 -M "$examples/govern_yours.c" $(flags sereno-governor) | grep -o 'sereno/[a-z_]*\.h'); do
    if ! echo "$interface" | grep -qxF "${header#sereno/}"; then
        echo "the governor needs $header, which is not said to belong to it" >&2
        exit 1
    fi
done
for example in govern_yours govern_yours_cpp; do
    if readelf -d "$work/$example" | grep NEEDED | grep -vE '\[lib(c|m|stdc\+\+|gcc_s)\.'; then
        echo "the governor needs more than libc and libm" >&2
        exit 1
    fi
done

cat > "$work/CMakeLists.txt" << EOF
cmake_minimum_required(VERSION 3.20)
project(consumer C)
find_package(sereno 0.1 REQUIRED)
add_executable(consumer "$here/consumer.c")
target_link_libraries(consumer PRIVATE sereno::sereno)
add_executable(govern_yours "$here/../../examples/govern_yours.c")
target_link_libraries(govern_yours PRIVATE sereno::governor)
EOF
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/log" 2>&1 &&
    cmake --build "$work/build" >> "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/build/consumer"
"$work/build/govern_yours"
