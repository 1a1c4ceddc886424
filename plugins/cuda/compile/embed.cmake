# Writes OUTPUT, a C++ file that holds the texts of FILES as compile/source.h declares them:
#   cmake -D "FILES=a.cu;b.cuh" -D OUTPUT=embedded.cpp -P embed.cmake
set(literals "")
set(table "")
list(LENGTH FILES count)
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  string(MAKE_C_IDENTIFIER "${name}" identifier)
  file(READ "${file}" hex HEX)
  # As escaped bytes, 32 to a line: no text can end the literal early.
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${hex}")
  string(REPEAT "...." 32 line)
  string(REGEX REPLACE "(${line})" "\"\\1\"\n" bytes "${bytes}")
  string(REGEX REPLACE "([^\"\n]+)$" "\"\\1\"" bytes "${bytes}")
  string(APPEND literals "constexpr char ${identifier}[] =\n\"\"\n${bytes};\n")
  file(SHA256 "${file}" digest)
  string(APPEND table "    {\"${name}\", {${identifier}, sizeof ${identifier} - 1},\n     \"${digest}\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by plugins/cuda/compile/embed.cmake.
#include \"plugins/cuda/compile/source.h\"

namespace bonsai::cuda {
namespace {
${literals}
constexpr KernelFile kFiles[] = {
${table}};
}  // namespace

std::span<const KernelFile> kernel_files() { return kFiles; }

}  // namespace bonsai::cuda
")
